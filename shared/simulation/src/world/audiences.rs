//! Messages to a tag: they are sent, the tag's bearers change, and what becomes of their runs is noted.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::FutureExt as _;
use rand::RngExt;
use redial_core::audience::{Progress, RecipientRef, Run, RunKey, SHARDS};
use redial_core::endpoint::Endpoint;
use redial_core::identity::{DeliveryId, DeliveryKey, RunId, SubscriptionId, Tenant};
use redial_core::lane::Lane;
use redial_core::ledger::{self, Entry};
use redial_core::page::{PageKey, PageMessage, Position};
use redial_core::push_target::{PushKeys, PushTarget};
use redial_core::recipient::Recipient;
use redial_core::subscription::Subscription;
use redial_core::tag::{Tag, Tags};
use redial_core::time::Timestamp;
use redial_engine::known::{self, Known};
use redial_memory::{Row, State};
use serde_json::{Value, json};

use super::browsers::{AUTH, P256DH};
use super::producers::delivery;
use super::{SETTLING, World};
use crate::audience::{HandedOn, Part, Sent, Walk};
use crate::promises::{tags_of, traceparent_of};
use crate::release;
use crate::scenario::audiences::{Change, Member, Sending, TAG};
use crate::situations::Situation;
use crate::sqs::Source;
use crate::timeline::Event;
use crate::watch::Memo;

/// After this nothing is sent or changed, until ids are used again.
const FIRST_TIME: Duration = Duration::from_secs(6 * 3600);

impl World {
    /// Stores the subscriptions, and plans what is sent and what changes.
    pub(super) fn plan_audiences(&mut self) {
        let audiences = self.stage.scenario.audiences.clone();
        for (number, member) in audiences.members.iter().enumerate() {
            self.store(number, 0, member.bears);
        }
        for (number, sending) in audiences.sendings.iter().enumerate() {
            self.planned += 1;
            self.stage.timeline.at(self.stage.begin.plus(sending.at), Event::SendToTag(number));
        }
        if let Some(after) = audiences.too_long_at {
            self.planned += 1;
            let number = audiences.sendings.len();
            self.stage.timeline.at(self.stage.begin.plus(after), Event::SendToTag(number));
        }
        if let Some(later) = audiences.later {
            for _ in 0..12 {
                let before = self.stage.rng().random_range(0..3600);
                let after = later.from + Duration::from_secs(before) - Duration::from_secs(1800);
                self.stage.timeline.at(self.stage.begin.plus(after), Event::Expiry);
            }
        }
        for (number, (after, _)) in audiences.changes.iter().enumerate() {
            self.stage.timeline.at(self.stage.begin.plus(*after), Event::Membership(number));
        }
    }

    /// Deletes some of the rows that have expired, as DynamoDB does: late, one by one, in any order.
    pub(super) fn delete_expired(&self) {
        let Some(later) = self.stage.scenario.audiences.later else { return };
        let mut state = self.memory.state();
        let mut rng = self.stage.rng();
        let mut memo = self.stage.watch.memo();
        for row in state.expired() {
            if !rng.random_bool(later.deleted) {
                continue;
            }
            memo.loses_acks(&row, state.now);
            match &row {
                Row::Entry(key) => {
                    // What its batch made of it may be known already.
                    let is_news =
                        |it: &Entry| it.state != ledger::State::Sending || !memo.forgotten.contains_key(key);
                    let entry = state.ledger.get(key).filter(is_news);
                    memo.forgotten.extend(entry.map(|entry| (key.clone(), entry)));
                }
                Row::Batch(token) => {
                    // What was recorded by itself does not need it.
                    let is_listed = |key: &DeliveryKey| {
                        state.ledger.own(key).is_some_and(|own| own.state == ledger::State::Sending)
                    };
                    let sent = state.ledger.values().filter(|entry| entry.lease_token == *token);
                    let sent = sent.filter(|entry| entry.state == ledger::State::Sent);
                    let sent: Vec<_> = sent.filter(|entry| is_listed(&entry.key)).collect();
                    if let Some(early) = sent.iter().find(|entry| !entry.is_forgotten(state.now)) {
                        memo.violated(format!(
                            "{} was sent, and its batch is forgotten before it",
                            early.key
                        ));
                    }
                    memo.forgotten.extend(sent.into_iter().map(|entry| (entry.key.clone(), entry)));
                }
                Row::Page(key) => {
                    let page = state.pages.get(key).map(|stored| stored.page.clone());
                    let recipients = page
                        .iter()
                        .flat_map(|page| page.places().iter().filter_map(|place| page.recipient(place)));
                    let tenant = &key.run.tenant;
                    let keys = recipients.map(|it| DeliveryKey { tenant: tenant.clone(), id: it.id });
                    let known = keys.filter_map(|key| Some((key.clone(), state.known(&key)?)));
                    memo.forgotten.extend(known.filter(|(key, _)| !state.ledger.contains_key(key)));
                }
                Row::Run(_) | Row::Part(..) | Row::Members(_) | Row::Acks(_) => {}
            }
            state.delete(&row);
            memo.situations.saw(Situation::RowsDeleted);
        }
    }

    /// When the second time of faults begins, while nothing is under way before it: sweeps would find nothing.
    pub(super) fn rests_until(&self) -> Option<Timestamp> {
        let later = self.stage.begin.plus(self.stage.scenario.audiences.later?.from);
        let state = self.memory.state();
        let is_idle = self.now() < later && self.is_idle_with(&state);
        let first_time = FIRST_TIME.max(self.stage.scenario.storage.lasts);
        (is_idle && self.stage.since_begin() > first_time).then_some(later)
    }

    /// Stores a subscription with the tag or without it, at its endpoint of that number.
    fn store(&mut self, number: usize, incarnation: usize, bears: bool) {
        let key = self.stage.scenario.audiences.members[number].key();
        let endpoint =
            Endpoint::parse(&Member::endpoint(number, incarnation)).expect("invariant: an address");
        let keys = PushKeys::parse(P256DH, AUTH).expect("invariant: a browser's keys");
        let recipient = Recipient::WebPush(PushTarget { endpoint, keys, vapid_key_id: None });
        let subscription =
            Subscription { tags: tags_with(bears), ..Subscription::new(key.clone(), recipient) };
        self.memory.state().subscriptions.insert(key.clone(), subscription);
        let now = self.now();
        let mut memo = self.stage.watch.memo();
        memo.facts.stored_at.insert(key.clone(), now);
        memo.audiences.bears(&key, now, bears);
    }

    pub(super) fn change_membership(&mut self, at: usize) {
        let (_, change) = self.stage.scenario.audiences.changes[at].clone();
        self.trace("user", format_args!("{change:?}"));
        let is_under_way = self.stage.watch.memo().audiences.walks.values().any(is_under_way);
        let (number, situation) = match change {
            Change::Cancels(sending) => return self.cancel(sending),
            Change::Joins(number) => (number, Situation::JoinedMeanwhile),
            Change::Leaves(number) => (number, Situation::LeftMeanwhile),
            Change::Erased(number) => (number, Situation::ErasedMeanwhile),
        };
        let key = self.stage.scenario.audiences.members[number].key();
        let bears = matches!(change, Change::Joins(_));
        let is_stored = self.memory.state().subscriptions.contains_key(&key);
        match change {
            // A browser that subscribes again has another endpoint.
            Change::Joins(_) if !is_stored => self.store(number, at + 1, true),
            Change::Erased(_) => drop(self.memory.state().subscriptions.remove(&key)),
            Change::Joins(_) | Change::Leaves(_) | Change::Cancels(_) => {
                if let Some(stored) = self.memory.state().subscriptions.get_mut(&key) {
                    stored.tags = tags_with(bears);
                }
            }
        }
        if self.stage.scenario.storage.is_watched {
            self.knows(&key);
        }
        let mut memo = self.stage.watch.memo();
        if memo.audiences.bears(&key, self.now(), bears) && is_under_way {
            memo.situations.saw(situation);
        }
    }

    fn cancel(&self, sending: usize) {
        let Sending { tenant, id, .. } = &self.stage.scenario.audiences.sendings[sending];
        let message = delivery(tenant, id);
        let now = self.now();
        let mut state = self.memory.state();
        let of_message = |key: &RunKey, run: &Run| key.tenant == message.tenant && run.message == message.id;
        let runs = state.runs.iter_mut().filter(|(key, run)| of_message(key, run));
        let Some((key, run)) = runs.max_by_key(|(_, run)| run.opened_at) else { return };
        run.cancelled_at.get_or_insert(now);
        let mut memo = self.stage.watch.memo();
        let Some(walk) = memo.audiences.walks.get_mut(key) else { return };
        let situation = is_under_way(walk).then_some(Situation::CancelledMeanwhile);
        walk.cancelled_at.get_or_insert(now);
        situation.into_iter().for_each(|situation| memo.situations.saw(situation));
    }

    pub(super) fn send_to_tag(&mut self, at: usize) {
        self.planned -= 1;
        let Some(sending) = self.stage.scenario.audiences.sendings.get(at).cloned() else {
            return self.send_long_to_tag();
        };
        let now = self.now();
        let Sending { tenant, id, content, .. } = &sending;
        let mut to = json!({"tag": TAG});
        if let Some(rate) = sending.rate {
            to["rate"] = rate.into();
        }
        let has_acks = self.stage.scenario.audiences.has_acks;
        let to = json!({"audience": to});
        let payload = format!("{tenant}/{id}/{content}");
        let mut body = json!({"tenant": tenant, "id": id, "to": to, "payload": payload, "tags": tags_of(tenant),
                "traceparent": traceparent_of(tenant)});
        let deliver_at = sending.deliver_at.map(|after| self.stage.begin.plus(after));
        let more = [
            ("ttl", sending.ttl.map(Value::from)),
            ("class", sending.class.map(Value::from)),
            ("retry", sending.retry.map(Value::from)),
            ("deliver_at", deliver_at.map(|at| at.to_rfc3339().into())),
            ("acks", has_acks.then_some(Value::from(true))),
        ];
        for (name, value) in more.into_iter().filter_map(|(name, value)| Some((name, value?))) {
            body[name] = value;
        }
        let key = delivery(tenant, id);
        let sent = promised(&sending, now, deliver_at);
        self.stage.watch.memo().audiences.sent.entry(key.clone()).or_default().push(sent);
        let lane = if sending.class == Some("campaign") { Lane::Bulk } else { Lane::Transactional };
        self.trace("producer", format_args!("sends {key} content {content} to the tag"));
        self.enqueue(Source::Ingest(lane), body.to_string(), Duration::ZERO);
    }

    /// A message that is longer than an item of DynamoDB's takes, as it is written. It has to be refused, because no run could hold it.
    fn send_long_to_tag(&mut self) {
        let space = " ".repeat(420_000);
        let body = format!(
            "{{\"tenant\":\"acme\",\"to\":{{\"audience\":{space}{{\"tag\":\"{TAG}\"}}}},\"payload\":\"acme/long/0\"}}"
        );
        self.stage.watch.saw(Situation::TooLongForARun);
        self.too_long += 1;
        self.enqueue(Source::Ingest(Lane::Transactional), body, Duration::ZERO);
    }

    /// Notes the message of a part, or to a recipient.
    pub(super) fn note_message_of_run(&self, body: &str) {
        if self.stage.scenario.audiences.sendings.is_empty() {
            return;
        }
        let body = release::read(body);
        if !["recipient", "expand", "page"].iter().any(|name| body.contains(&format!("\"{name}\":"))) {
            return;
        }
        let Ok(body) = serde_json::from_str::<Value>(&body) else { return };
        let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
        let named = ["expand", "page"].into_iter().find(|name| body[*name].is_string());
        let id = text(named.unwrap_or("audience"));
        let run = Tenant::parse(&text("tenant")).zip(RunId::parse(&id));
        let Some(run) = run.map(|(tenant, id)| RunKey { tenant, id }) else { return };
        let mut memo = self.stage.watch.memo();
        let Some(walk) = memo.audiences.walks.get_mut(&run) else { return };
        if let Some(shard) = body["shard"].as_u64().and_then(|shard| u8::try_from(shard).ok()) {
            walk.begun.insert(shard);
        }
        let is_page = named == Some("page");
        let is_first = is_page || (body["retry_count"] == 0 && body.get("deferred_from").is_none());
        let page = if is_page { page_in(&run, &body) } else { None };
        let on_page = page.iter().flat_map(|page| page.places().iter().filter_map(|at| page.recipient(at)));
        let own = DeliveryId::parse(&text("id")).zip(SubscriptionId::parse(&text("recipient")));
        let own = own.map(|(id, subscription)| RecipientRef { run: run.clone(), id, subscription });
        let mut again = false;
        for to in on_page.chain(own) {
            let new = HandedOn { delivery: to.id, first: self.now(), times: 0 };
            let handed_on = walk.handed_on.entry(to.subscription).or_insert(new);
            handed_on.times += u32::from(is_first);
            again |= handed_on.times > 1 && is_first;
        }
        if again {
            memo.situations.saw(Situation::PageSentAgain);
        }
    }

    /// Looks up each recipient of a page by its delivery's id, as the API does, while its page is stored.
    pub(super) fn look_recipients_up(&self) {
        let recipients = |(run, walk): (&RunKey, &Walk)| {
            let key = |id: &DeliveryId| DeliveryKey { tenant: run.tenant.clone(), id: id.clone() };
            walk.handed_on.values().map(|it| key(&it.delivery)).collect::<Vec<_>>()
        };
        let keys: Vec<_> = self.stage.watch.memo().audiences.walks.iter().flat_map(recipients).collect();
        for key in keys {
            let now = self.now();
            let stored = self.memory.state().known(&key).filter(|entry| !entry.is_forgotten(now));
            let Some(stored) = Position::of(&key).and(stored) else { continue };
            let found = known::find(&self.memory, &key, now).now_or_never();
            let found = found.and_then(Result::ok).flatten();
            let state = found.as_ref().map(|known| match known {
                Known::Entry(record) => record.entry.state,
                Known::OnPage { on_page, .. } => on_page.state(),
            });
            let shown: BTreeMap<_, _> =
                found.iter().flat_map(|known| known.acknowledged().iter().copied()).collect();
            let kept = self.memory.state().acks_apart.get(&key).filter(|(until, _)| now < *until).cloned();
            let kept = kept.map(|(_, first)| first).unwrap_or_default();
            let mut memo = self.stage.watch.memo();
            memo.situations.saw(Situation::FoundByItsId);
            if state != Some(stored.state) {
                memo.violated(format!("{key} is {}, and is found as {state:?}", stored.state.label()));
            }
            if shown != kept {
                memo.violated(format!("{key} was acknowledged {kept:?}, and {shown:?} is found"));
            }
        }
    }

    /// Notes the runs that were opened, the parts that moved, and the subscriptions that were pruned.
    pub(super) fn look_at_audiences(&mut self) {
        if self.stage.scenario.audiences.sendings.is_empty() {
            return;
        }
        let now = self.now();
        let state = self.memory.state();
        let mut memo = self.stage.watch.memo();
        let is_moved = std::mem::replace(&mut self.looked_after, state.moves) != state.moves;
        if memo.audiences.subscriptions != state.subscriptions.len() {
            self.note_pruned(&state, &mut memo);
        }
        if !is_moved {
            return;
        }
        for (key, run) in &state.runs {
            if !memo.audiences.walks.contains_key(key) {
                let walk = walk_of(key, run, now);
                self.trace("runs", format_args!("{key} of {} is open", walk.message));
                memo.audiences.walks.insert(key.clone(), walk);
            }
        }
        for ((run, shard), progress) in &state.progress {
            let known = memo.audiences.walks.get(run).and_then(|walk| walk.parts.get(shard));
            if known.map_or(*progress != Progress::default(), |part| part.progress != *progress) {
                self.trace("runs", format_args!("{run} part {shard}: {progress:?}"));
                let bounds = state.bounds.get(&(run.clone(), *shard)).map(|(_, bounds)| bounds);
                let bounds = bounds.filter(|bounds| progress.after.as_ref() == Some(&bounds.through));
                let recorded = bounds.map_or(0, |bounds| bounds.recipients.into());
                memo.part_moves(now, run, *shard, progress, recorded);
            }
        }
    }

    fn note_pruned(&self, state: &State, memo: &mut Memo) {
        memo.audiences.subscriptions = state.subscriptions.len();
        for key in self.stage.scenario.audiences.members.iter().map(Member::key) {
            if !state.subscriptions.contains_key(&key) {
                memo.audiences.bears(&key, self.now(), false);
            }
        }
    }
}

impl Memo {
    fn part_moves(&mut self, now: Timestamp, run: &RunKey, shard: u8, progress: &Progress, recorded: u64) {
        let Some(walk) = self.audiences.walks.get(run) else { return };
        let before = walk.parts.get(&shard).cloned();
        let recipients = before.as_ref().map_or(0, |before| before.progress.recipients);
        let page = progress.recipients.saturating_sub(recipients);
        let after = before.as_ref().and_then(|before| before.progress.after.as_ref());
        let mut sent = walk.handed_on_between(shard, after, progress.after.as_ref());
        sent.sort();
        // A copy may have sent to one who joined since.
        let sent_at = sent.into_iter().take(usize::try_from(page).unwrap_or(usize::MAX)).next_back();
        let part =
            Part { progress: progress.clone(), moved_at: now, page, recorded: recorded.max(page), sent_at };
        self.judge_move(run, shard, before.as_ref(), &part);
        if let Some(walk) = self.audiences.walks.get_mut(run) {
            walk.parts.insert(shard, part);
        }
    }
}

fn walk_of(key: &RunKey, run: &Run, now: Timestamp) -> Walk {
    let (_, audience, _) = run.read().expect("invariant: this version wrote it");
    Walk {
        message: delivery(key.tenant.as_str(), run.message.as_str()),
        opened_at: run.opened_at,
        stored_at: now,
        audience,
        cancelled_at: run.cancelled_at,
        parts: BTreeMap::new(),
        begun: BTreeSet::new(),
        handed_on: BTreeMap::new(),
    }
}

/// The page in the body of its message.
fn page_in(run: &RunKey, body: &Value) -> Option<PageMessage> {
    let number = |name: &str| body[name].as_u64();
    let shard = u8::try_from(number("shard")?).ok()?;
    let first = u32::try_from(number("first")?).ok()?;
    let members = body["members"].as_array()?.iter().filter_map(|id| SubscriptionId::parse(id.as_str()?));
    let key = PageKey { run: run.clone(), shard, first };
    Some(PageMessage { key, members: members.collect(), apart: false })
}

fn is_under_way(walk: &Walk) -> bool {
    walk.parts.values().filter(|part| part.progress.done).count() < usize::from(SHARDS)
}

/// What is promised of each recipient's delivery.
fn promised(sending: &Sending, now: Timestamp, deliver_at: Option<Timestamp>) -> Sent {
    let from = deliver_at.unwrap_or(now).max(now);
    let usual = match sending.class {
        Some("otp") => 60,
        Some("campaign") => 86_400,
        _ => 14_400,
    };
    // A TTL of 0 is one attempt, whenever it can be made.
    let ttl = match sending.ttl {
        Some(0) => SETTLING * 2,
        ttl => Duration::from_secs(ttl.map_or(usual, u64::from)),
    };
    let attempts = match sending.retry {
        Some("none") => 1,
        Some("schedule-standard") => 4,
        Some("fixed-jitter") => 6,
        _ => 8,
    };
    let attempts = if sending.ttl == Some(0) { 1 } else { attempts };
    Sent { at: now, content: sending.content, from, until: from.plus(ttl), attempts }
}

fn tags_with(bears: bool) -> Tags {
    let tags = if bears { Tag::parse(TAG).into_iter().collect() } else { Vec::new() };
    Tags::new(tags).expect("invariant: at most one tag")
}
