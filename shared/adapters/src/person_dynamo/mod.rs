//! Everything that the tables hold about a person: about a subscription, or about deliveries whose messages have a `ref`.
//!
//! No key leads from a person to what is kept of it, because no success pays for one. So every table is read whole, a page at a time, and
//! each item is judged by itself (`matching`). What follows from a body, the entry of its delivery, is found by its key.
//!
//! | file | concept |
//! |---|---|
//! | `matching` | whether an item, or a body in it, is about the person |
//! | `items` | items as JSON, and bodies that are stored in parts |
//! | `tables` | of each table what is looked at, and what is removed with it |

mod items;
mod matching;
mod tables;

use aws_sdk_dynamodb::Client;
use redial_engine::ports::PortError;
use serde_json::Value;

pub use self::matching::Person;

use crate::config::Tables;
use crate::table::attributes::{Item, Read as _, key};
use crate::table::{Table, scan_page};

redial_core::labels! {
    /// A table, in the order in which they are read.
    pub enum Place {
        Subscriptions = "subscriptions",
        Deliveries = "deliveries",
        DeadLetters = "dead_letters",
        Parked = "parked",
        Audiences = "audiences",
        Control = "control",
    }
}

redial_core::labels! {
    /// What was found.
    pub enum Kind {
        Subscription = "subscription",
        /// What a deletion or an erasure leaves: kept for half a year.
        Tombstone = "tombstone",
        Delivery = "delivery",
        Acknowledgements = "acknowledgements",
        DeadLetter = "dead_letter",
        Parked = "parked_message",
        Tag = "tag",
        /// A message to an audience with the `ref`: the `ref` alone is removed.
        AudienceMessage = "audience_message",
        /// The id of the subscription in the list of those whom a message to an audience was sent to.
        Recipient = "recipient",
        /// That it had an endpoint, by a digest: so that no one who has the endpoint next gets a message to an audience twice.
        HeldEndpoint = "held_endpoint",
        Pruning = "pruning",
        /// What protects its receiver.
        Protection = "protection",
    }
}

impl Kind {
    /// Whether an erasure removes it. A list of recipients is needed until its message is forgotten: places in it are names.
    pub const fn is_removed(self) -> bool {
        !matches!(self, Self::Tombstone | Self::Recipient | Self::HeldEndpoint)
    }
}

/// Something that is kept about the person.
#[derive(Clone, Debug)]
pub struct Found {
    pub place: Place,
    pub kind: Kind,
    /// Its attributes, as JSON; a body as text. Never log it.
    pub shown: Value,
    change: Change,
}

#[derive(Clone, Debug)]
enum Change {
    Delete(Vec<Item>),
    /// Its body is replaced by this.
    Redact(Item, String),
    /// This is put in its place.
    Put(Item),
}

/// Where a search goes on: a table, and the key of the last item that was read.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct At {
    place: String,
    after: Option<(String, Option<String>)>,
}

impl At {
    pub fn start() -> Self {
        Self::of(Place::Subscriptions)
    }

    fn of(place: Place) -> Self {
        Self { place: place.label().to_owned(), after: None }
    }

    /// `None` if another version wrote it.
    pub fn place(&self) -> Option<Place> {
        Place::from_label(&self.place)
    }
}

/// A page of a search.
#[derive(Clone, Debug, Default)]
pub struct Page {
    pub found: Vec<Found>,
    /// How many items were read.
    pub read: u64,
    /// Where to go on; `None` at the end.
    pub next: Option<At>,
}

/// The tables of a stack, searched for a person.
#[derive(Clone, Debug)]
pub struct DynamoPersons {
    tables: [Table; 6],
}

impl DynamoPersons {
    pub fn new(client: &Client, names: &Tables) -> Self {
        let table = |name: &String| Table::new(client.clone(), name.clone());
        let Tables { deliveries, subscriptions, audiences, parked, dead_letters, control } = names;
        Self { tables: [subscriptions, deliveries, dead_letters, parked, audiences, control].map(table) }
    }

    fn table(&self, place: Place) -> &Table {
        &self.tables[place as usize]
    }

    /// About how many items the tables have: DynamoDB counts them every six hours.
    pub async fn items(&self) -> Result<u64, PortError> {
        let mut sum = 0;
        for table in &self.tables {
            let described = table.client().describe_table().table_name(table.name()).send().await;
            let described = described.map_err(|error| crate::aws_error::of_call("DescribeTable", &error))?;
            let count = described.table.and_then(|table| table.item_count).unwrap_or_default();
            sum += u64::try_from(count).unwrap_or_default();
        }
        Ok(sum)
    }

    /// The next page of a search, of so many items at most.
    pub async fn page(&self, person: &Person, at: &At, limit: u16) -> Result<Page, PortError> {
        let Some(place) = at.place() else { return Ok(Page::default()) };
        let after = at.after.as_ref().map(|(pk, sk)| match sk {
            Some(sk) => key(pk, sk),
            None => crate::table::attributes::item([("pk", crate::table::attributes::s(pk))]),
        });
        let scan = self.table(place).scan().limit(i32::from(limit)).set_exclusive_start_key(after);
        let read = scan_page(scan).await?;
        let items = read.items.unwrap_or_default();
        let mut page = Page { read: items.len() as u64, ..Page::default() };
        for item in items {
            self.look(person, place, item, &mut page.found).await?;
        }
        page.next = match read.last_evaluated_key {
            Some(last) => {
                let pk = last.text("pk").unwrap_or_default().to_owned();
                let after = Some((pk, last.text("sk").map(str::to_owned)));
                Some(At { after, ..At::of(place) })
            }
            None => Place::ALL.get(place as usize + 1).copied().map(At::of),
        };
        Ok(page)
    }

    /// Removes what was found, where an erasure removes it. Removing it twice is no error.
    pub async fn remove(&self, found: &Found) -> Result<(), PortError> {
        let table = self.table(found.place);
        match &found.change {
            Change::Delete(keys) => table.delete_all(keys.clone()).await,
            Change::Put(item) => table.put(item.clone()).await,
            Change::Redact(key, body) => {
                let values = [(":body", crate::table::attributes::b(body.as_bytes()))];
                let expression = "SET body = :body";
                table.update_if(key.clone(), expression, "attribute_exists(pk)", values).await.map(|_| ())
            }
        }
    }
}
