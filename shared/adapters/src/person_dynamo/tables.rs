//! Of each table: which items are about a person, and what goes with them.

use redial_core::audience::RunKey;
use redial_core::erasure::{Kind, Person, Place};
use redial_core::identity::{DeliveryId, DeliveryKey, RunId};
use redial_core::message::ProducerRef;
use redial_core::page::PageKey;
use redial_core::shape;
use redial_engine::ports::PortError;
use serde_json::Value;

use super::items::to_json;
use super::{Change, DynamoPersons, Found};
use crate::acks_dynamo;
use crate::retries::Patience;
use crate::subscriptions_dynamo::{HOLDER, REMOVED};
use crate::table::all;
use crate::table::attributes::{Item, Read as _, item, key, s};

/// What begins the number of a part of a dead letter's body.
const BODY: &str = "#body.";

impl DynamoPersons {
    /// Adds what an item shows about the person.
    pub(super) async fn look(
        &self,
        person: &Person,
        place: Place,
        item: Item,
        found: &mut Vec<Found>,
    ) -> Result<(), PortError> {
        match place {
            Place::Subscriptions => found.extend(subscription(person, &item)),
            Place::Deliveries => found.extend(delivery(person, &item)),
            Place::DeadLetters => self.dead_letter(person, &item, found).await?,
            Place::Parked => self.parked(person, &item, found).await?,
            Place::Audiences => self.audience(person, &item, found).await?,
            Place::Control => found.extend(control(person, &item)),
        }
        Ok(())
    }

    /// A description by what it says, a body by what is in it; all of the letter goes together.
    async fn dead_letter(
        &self,
        person: &Person,
        item: &Item,
        found: &mut Vec<Found>,
    ) -> Result<(), PortError> {
        let (Some(pk), Some(sk)) = (item.text("pk"), item.text("sk")) else { return Ok(()) };
        let (letter, part) = sk.split_once(BODY).map_or((sk, None), |(letter, part)| (letter, Some(part)));
        let is_about = match part {
            None => describes(person, item),
            // The first part stands for all.
            Some(part) if part.bytes().all(|digit| digit == b'0') => {
                person.is_in_body(&self.body(pk, letter).await?)
            }
            Some(_) => false,
        };
        if !is_about {
            return Ok(());
        }
        let values = [(":pk", s(pk)), (":letter", s(letter))];
        let items =
            all(self.table(Place::DeadLetters).query("pk = :pk AND begins_with(sk, :letter)", values))
                .await?;
        let is_of_letter = |of: &&Item| {
            of.text("sk").is_some_and(|sk| sk == letter || sk.starts_with(&format!("{letter}{BODY}")))
        };
        let items: Vec<&Item> = items.iter().filter(is_of_letter).collect();
        let Some(described) = items.iter().find(|of| of.text("sk") == Some(letter)).or(items.first()) else {
            return Ok(());
        };
        if part.is_some() && describes(person, described) {
            // It was found by its description.
            return Ok(());
        }
        let mut shown = to_json(described, &["body"]);
        shown.insert("body".to_owned(), self.body(pk, letter).await?.into());
        let keys = items.iter().filter_map(|item| both(item)).collect();
        found.push(Found {
            place: Place::DeadLetters,
            kind: Kind::DeadLetter,
            shown: Value::Object(shown),
            change: Change::Delete(keys),
        });
        // A conflict is about another content of the id.
        if part.is_some() && letter.starts_with("lineage-") {
            self.of_delivery(person, pk, found).await?;
        }
        Ok(())
    }

    async fn body(&self, pk: &str, letter: &str) -> Result<String, PortError> {
        let values = [(":pk", s(pk)), (":body", s(format!("{letter}{BODY}")))];
        let parts =
            all(self.table(Place::DeadLetters).query("pk = :pk AND begins_with(sk, :body)", values)).await?;
        Ok(parts.iter().filter_map(|item| item.text("body")).collect())
    }

    /// A long body is joined from its parts, which follow it.
    async fn parked(&self, person: &Person, item: &Item, found: &mut Vec<Found>) -> Result<(), PortError> {
        let (Some(pk), Some(sk)) = (item.text("pk"), item.text("sk")) else { return Ok(()) };
        let mut keys = vec![key(pk, sk)];
        let mut bytes = match (item.bytes("body"), item.bytes("first_part")) {
            (Some(body), _) => body.to_vec(),
            (None, Some(first)) => first.to_vec(),
            (None, None) => return Ok(()),
        };
        if let Some(token) = item.text("token") {
            let values = [(":pk", s(pk)), (":parts", s(format!("{sk}!{token}.")))];
            let query = self.table(Place::Parked).query("pk = :pk AND begins_with(sk, :parts)", values);
            for part in all(query).await? {
                bytes.extend_from_slice(part.bytes("part").unwrap_or_default());
                keys.extend(both(&part));
            }
        }
        let body = String::from_utf8_lossy(&bytes);
        if !person.is_tenant(item.text("tenant")) || !person.is_in_body(&body) {
            return Ok(());
        }
        let mut shown = to_json(item, &["body", "first_part"]);
        shown.insert("body".to_owned(), body.as_ref().into());
        found.push(Found {
            place: Place::Parked,
            kind: Kind::Parked,
            shown: Value::Object(shown),
            change: Change::Delete(keys),
        });
        let id = serde_json::from_str::<Value>(&body).ok();
        if let Some(id) = id.as_ref().and_then(|body| body["id"].as_str()).and_then(DeliveryId::parse) {
            let delivery = DeliveryKey { tenant: person.tenant.clone(), id };
            self.of_delivery(person, &delivery.to_string(), found).await?;
        }
        Ok(())
    }

    async fn audience(&self, person: &Person, item: &Item, found: &mut Vec<Found>) -> Result<(), PortError> {
        let (Some(pk), Some(sk)) = (item.text("pk"), item.text("sk")) else { return Ok(()) };
        let of = |kind, change| Found {
            place: Place::Audiences,
            kind,
            shown: Value::Object(to_json(item, &[])),
            change,
        };
        let tenant = &person.tenant;
        let of_holder = pk.strip_prefix("endpoint#").and_then(|rest| rest.rsplit_once('#'));
        if let Some((holder_tenant, _)) = of_holder.filter(|_| sk == HOLDER) {
            if holder_tenant == tenant.as_str() && person.is_subscription(item.text("id")) {
                found.push(of(Kind::HeldEndpoint, Change::Delete(Vec::new())));
            }
            return Ok(());
        }
        let is_run = pk.starts_with("run#") && !pk.starts_with("run##");
        if !is_run {
            let own = if tenant.as_str() == "run" { "run##".to_owned() } else { format!("{tenant}#") };
            let tag = pk.strip_prefix(&own).and_then(|rest| rest.rsplit_once('#')).map(|(tag, _part)| tag);
            if let (Some(tag), Some(subscription)) = (tag, person.key())
                && person.is_subscription(Some(sk))
            {
                let change = Change::DeleteTag { row: key(pk, sk), subscription, tag: tag.to_owned() };
                found.push(of(Kind::Tag, change));
            }
            return Ok(());
        }
        let Some(rest) = pk.strip_prefix("run#").and_then(|rest| rest.strip_prefix(tenant.as_str())) else {
            return Ok(());
        };
        let Some(rest) = rest.strip_prefix('#') else { return Ok(()) };
        if sk == "run" {
            let body = item.bytes("body").and_then(|bytes| std::str::from_utf8(bytes).ok());
            if let Some(redacted) = body.and_then(|body| without_ref(person, body)) {
                found.push(of(Kind::AudienceMessage, Change::Redact(key(pk, sk), redacted)));
            }
        } else if let Some(first) = sk.strip_prefix("members#").and_then(|first| first.parse().ok()) {
            let mut ids = item.text("ids").unwrap_or_default().split(' ');
            let Some(place) = ids.position(|id| person.is_subscription(Some(id))) else { return Ok(()) };
            let page = rest.rsplit_once('#').and_then(|(run, shard)| {
                let run = RunKey { tenant: tenant.clone(), id: RunId::parse(run)? };
                Some(PageKey { run, shard: shard.parse().ok()?, first })
            });
            if let Some(page) = page {
                let delivery = DeliveryKey { tenant: tenant.clone(), id: page.position(place).delivery() };
                self.of_delivery(person, &delivery.to_string(), found).await?;
                // What its browser acknowledges later is not kept.
                let mut mark = acks_dynamo::erased(&delivery);
                mark.extend(item.get("expires_at").map(|at| ("expires_at".to_owned(), at.clone())));
                let shown = of(Kind::Recipient, Change::Delete(Vec::new())).shown;
                let (place, kind) = (Place::Deliveries, Kind::Recipient);
                found.push(Found { place, kind, shown, change: Change::Put(mark) });
            }
        }
        Ok(())
    }

    /// The entry of a delivery, and what was acknowledged apart from it.
    async fn of_delivery(&self, person: &Person, id: &str, found: &mut Vec<Found>) -> Result<(), PortError> {
        let keys = [id.to_owned(), format!("ack#{id}")].map(|pk| item([("pk", s(pk))]));
        let kinds = [Kind::Delivery, Kind::Acknowledgements];
        let read = self.table(Place::Deliveries).get_each(keys.to_vec(), Patience::brief()).await;
        for ((key, kind), item) in keys.into_iter().zip(kinds).zip(read) {
            // What names the person itself is found by itself.
            let apart =
                |item: &Item| !item.contains_key(acks_dynamo::ERASED) && delivery(person, item).is_none();
            if let Some(item) = item?.filter(apart) {
                let shown = Value::Object(to_json(&item, &[]));
                found.push(Found {
                    place: Place::Deliveries,
                    kind,
                    shown,
                    change: Change::Delete(vec![key]),
                });
            }
        }
        Ok(())
    }
}

fn describes(person: &Person, item: &Item) -> bool {
    person.is_tenant(item.text("tenant"))
        && (person.is_subscription(item.text("subscription")) || person.is_hash(item.text("endpoint_hash")))
}

fn both(item: &Item) -> Option<Item> {
    Some(key(item.text("pk")?, item.text("sk")?))
}

fn subscription(person: &Person, found: &Item) -> Option<Found> {
    let key = person.key()?.to_string();
    let kind = if found.contains_key("endpoint") { Kind::Subscription } else { Kind::Tombstone };
    (found.text("pk") == Some(&key)).then(|| Found {
        place: Place::Subscriptions,
        kind,
        shown: Value::Object(to_json(found, &[])),
        // The mark of the erasure has replaced it.
        change: Change::Delete(Vec::new()),
    })
}

fn delivery(person: &Person, found: &Item) -> Option<Found> {
    describes(person, found).then(|| Found {
        place: Place::Deliveries,
        kind: Kind::Delivery,
        shown: Value::Object(to_json(found, &[])),
        change: Change::Delete(vec![item([("pk", s(found.text("pk").unwrap_or_default()))])]),
    })
}

fn control(person: &Person, found: &Item) -> Option<Found> {
    let (pk, sk) = (found.text("pk")?, found.text("sk")?);
    let is_candidate = pk.starts_with("prune#") && person.key().is_some_and(|key| sk == key.to_string());
    let is_removed = pk == REMOVED && person.key().is_some_and(|key| sk.starts_with(&format!("{key}#")));
    let kind = if is_candidate || is_removed { Kind::Pruning } else { Kind::Protection };
    // Of its own limit, and of the turns of those that found it empty: parts of it follow.
    let is_bucket = person.key().is_some_and(|key| {
        pk.starts_with("bucket#")
            && (pk.contains(&format!("#endpoint#{key}#")) || pk.ends_with(&format!("#endpoint#{key}")))
    });
    let is_about =
        is_candidate || is_removed || is_bucket || person.is_in_key(Some(pk)) || person.is_in_key(Some(sk));
    is_about.then(|| Found {
        place: Place::Control,
        kind,
        shown: Value::Object(to_json(found, &[])),
        change: Change::Delete(vec![key(pk, sk)]),
    })
}

/// The body without its `ref`, byte for byte besides; `None` if it has another or none.
fn without_ref(person: &Person, body: &str) -> Option<String> {
    let parsed: Value = serde_json::from_str(body).ok()?;
    if person.producer_ref.as_ref().map(ProducerRef::expose).is_none() || !person.has_ref(&parsed) {
        return None;
    }
    let fields = shape::raw_fields(body).ok()?;
    let kept = fields.iter().filter(|(name, _)| *name != "ref");
    let kept = kept.map(|(name, value)| format!("{}:{}", Value::from(name.to_string()), value.get()));
    Some(format!("{{{}}}", kept.collect::<Vec<_>>().join(",")))
}
