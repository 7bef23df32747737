//! What a stack in another region takes over from this one, and how it takes it: subscriptions, and what operators set for tenants and
//! origins. Deliveries, waiting messages, dead letters and the state of origins are each stack's own.
//!
//! | file | concept |
//! |---|---|
//! | `row` | a row, of which kind it is, and its line of JSON |
//! | `typed` | a value with its type |
//!
//! | kind | which copy is kept |
//! |---|---|
//! | subscription | [`redial_core::subscription::replica`] decides |
//! | policies, limit, quota, callback | the other stack's: they have no time. One that only this stack has stays |
//! | API key | both; one that either has revoked is revoked in both |
//! | principal | this stack's grant while it holds, else the other's |
//! | erased ref | the later mark |

mod row;
mod typed;

pub use row::{Kind, Row};

use redial_core::time::Timestamp;
use redial_engine::ports::PortError;
use serde::{Deserialize, Serialize};

use crate::access_dynamo::DynamoAccess;
use crate::subscriptions_dynamo::{DynamoSubscriptions, Taken};
use crate::table::Table;
use crate::table::attributes::{Item, Read as _, key};
use crate::write_units::MeteredClient;

/// Where a reading has come to: settings first, because the marks of erasures are among them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum At {
    /// After the row of this key, if one was read.
    Settings(Option<(String, String)>),
    Subscriptions(Option<String>),
}

impl At {
    pub fn start() -> Self {
        Self::Settings(None)
    }
}

/// A page of rows, and where the next one begins.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Page {
    pub rows: Vec<Row>,
    /// How many items were read.
    pub read: u64,
    pub next: Option<At>,
}

/// The tables `subscriptions` (with `audiences` beside it) and `control` of a stack.
#[derive(Clone, Debug)]
pub struct DynamoReplica {
    subscriptions: DynamoSubscriptions,
    control: Table,
    access: DynamoAccess,
}

impl DynamoReplica {
    pub fn new(
        subscriptions: DynamoSubscriptions,
        client: impl Into<MeteredClient>,
        control: String,
    ) -> Self {
        let client = client.into();
        let access = DynamoAccess::new(client.clone(), control.clone());
        Self { subscriptions, control: Table::new(client, control), access }
    }

    /// About how many subscriptions and tombstones there are: DynamoDB counts them every six hours.
    pub async fn items(&self) -> Result<u64, PortError> {
        self.subscriptions.about_how_many().await
    }

    /// The next page, of at most `most` items.
    pub async fn page(&self, at: &At, most: u16) -> Result<Page, PortError> {
        let (items, next) = match at {
            At::Settings(after) => {
                let after = after.as_ref().map(|(pk, sk)| key(pk, sk));
                let (items, last) = self.control.scan_page(after, i32::from(most)).await?;
                let both = |last: Item| Some((last.text("pk")?.to_owned(), last.text("sk")?.to_owned()));
                let next = match last.and_then(both) {
                    Some(last) => At::Settings(Some(last)),
                    None => At::Subscriptions(None),
                };
                (items, Some(next))
            }
            At::Subscriptions(after) => {
                let (items, last) = self.subscriptions.copies(after.as_deref(), most).await?;
                (items, last.map(|last| At::Subscriptions(Some(last))))
            }
        };
        let read = items.len() as u64;
        Ok(Page { rows: items.into_iter().filter_map(Row::of).collect(), read, next })
    }

    /// Those of these rows that may have to be taken; the others are here as they are, or newer.
    pub async fn news(&self, rows: Vec<Row>) -> Result<Vec<Row>, PortError> {
        let (subscriptions, mut news): (Vec<Row>, Vec<Row>) =
            rows.into_iter().partition(|row| row.kind == Kind::Subscription);
        let items: Vec<&Item> = subscriptions.iter().map(|row| &row.item).collect();
        let newer = self.subscriptions.newer(&items).await?;
        news.extend(
            subscriptions.into_iter().zip(newer).filter_map(|(row, is_newer)| is_newer.then_some(row)),
        );
        Ok(news)
    }

    /// Takes a row over, unless this stack's is kept.
    pub async fn take(&self, row: &Row, now: Timestamp) -> Result<Taken, PortError> {
        let is_written = match row.kind {
            Kind::Subscription => return self.subscriptions.take(&row.item, now).await,
            Kind::ApiKey => self.access.take_key(&row.item).await?,
            Kind::Principal => self.access.take_principal(&row.item, now).await?,
            Kind::Policies | Kind::Limit | Kind::Quota | Kind::Callback => {
                self.put_unless(&row.item, |ours| *ours == row.item).await?
            }
            Kind::ErasedRef => {
                let theirs = row.item.time("erased_at");
                self.put_unless(&row.item, |ours| ours.time("erased_at") >= theirs).await?
            }
        };
        Ok(if is_written { Taken::Changed } else { Taken::Kept })
    }

    async fn put_unless(&self, item: &Item, keeps: impl Fn(&Item) -> bool) -> Result<bool, PortError> {
        let (Some(pk), Some(sk)) = (item.text("pk"), item.text("sk")) else { return Ok(false) };
        if self.control.get(key(pk, sk)).await?.is_some_and(|ours| keeps(&ours)) {
            return Ok(false);
        }
        self.control.put(item.clone()).await.map(|()| true)
    }
}
