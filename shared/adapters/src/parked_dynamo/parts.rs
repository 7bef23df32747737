//! Bodies that are longer than a DynamoDB item: cut into parts when they are put, and joined when a page is read.
//!
//! | sk | what |
//! |---|---|
//! | `<sort>` | a message, with its body, or with the first part of a long one, the number of parts and their token |
//! | `<sort>!<token>.001` and on | the other parts of a long body |
//!
//! What it keeps true:
//!
//! - The other parts are stored before the first: where there is a first part, there are all of them.
//! - Each put has a token of its own, so that parts of two puts of a message never mix.
//! - A message's parts follow it in the order of the sort keys: `!` comes before every character that a sort key can go on with.
//! - Parts without a message, which a worker left when it died, are removed once they are [`ABANDONED`].
//! - The first part is not called `body`: a release that knows no parts refuses the message instead of sending a part of it.

use std::time::Duration;

use redial_core::identity::Tenant;
use redial_core::time::Timestamp;
use redial_core::wait::Shard;
use redial_engine::ports::{ParkedItem, ParkedKey};

use crate::table::attributes::{Item, Read, b, key as row_key, ms, n, s};

/// The longest body that is stored whole: DynamoDB takes items of up to 400 KB, keys and names included.
const WHOLE_BYTES: usize = 380_000;

/// The bytes of a longer body in one item.
const PART_BYTES: usize = 300_000;

/// After this time, parts without a message can get none: Lambda ends every invocation within 15 minutes.
const ABANDONED: Duration = Duration::from_secs(900);

pub(super) struct Cut {
    /// The item that makes it a message.
    pub(super) first: Item,
    /// The other parts of a long body, which are stored first.
    pub(super) others: Vec<Item>,
}

/// Cuts a message that is put at `now`. Each put has its own `token`.
pub(super) fn cut(parked: ParkedItem, token: &str, now: Timestamp) -> Cut {
    let ParkedItem { key, tenant, not_before, body } = parked;
    let mut first = item_key(key.shard, &key.sort);
    first.insert("tenant".to_owned(), s(tenant.as_str()));
    first.insert("not_before".to_owned(), ms(not_before));
    if body.len() <= WHOLE_BYTES {
        first.insert("body".to_owned(), b(body));
        return Cut { first, others: Vec::new() };
    }
    let mut parts = body.as_bytes().chunks(PART_BYTES);
    first.insert("first_part".to_owned(), b(parts.next().unwrap_or_default()));
    let other = |(number, part): (usize, &[u8])| {
        let mut item = item_key(key.shard, &part_sort(&key.sort, token, number));
        item.insert("part".to_owned(), b(part));
        item.insert("put_at".to_owned(), ms(now));
        item
    };
    let others: Vec<Item> = (1..).zip(parts).map(other).collect();
    first.insert("parts".to_owned(), n(others.len() + 1));
    first.insert("token".to_owned(), s(token));
    Cut { first, others }
}

/// The keys of a message's items, from the key that a page returned for it: the first, and the others.
pub(super) fn keys(key: &ParkedKey) -> (Item, Vec<Item>) {
    let (sort, parts, token) = read_sort(&key.sort).unwrap_or((&key.sort, 1, ""));
    let others = (1..parts).map(|number| item_key(key.shard, &part_sort(sort, token, number)));
    (item_key(key.shard, sort), others.collect())
}

/// Reads what [`Open::key`] wrote.
fn read_sort(text: &str) -> Option<(&str, usize, &str)> {
    let (sort, rest) = text.rsplit_once('!')?;
    let (parts, token) = rest.split_once('.')?;
    Some((sort, parts.parse().ok()?, token))
}

fn item_key(shard: Shard, sort: &str) -> Item {
    row_key(shard.to_string(), sort)
}

fn part_sort(sort: &str, token: &str, number: usize) -> String {
    format!("{sort}!{token}.{number:03}")
}

/// A shard, read in the order of its sort keys.
pub(super) struct Reading {
    shard: Shard,
    now: Timestamp,
    /// Complete messages.
    pub(super) whole: Vec<ParkedItem>,
    /// A message of which parts are still to be read.
    open: Option<Open>,
    /// The keys of abandoned parts.
    pub(super) abandoned: Vec<Item>,
}

/// A long body, as far as it has been read.
struct Open {
    sort: String,
    tenant: Tenant,
    not_before: Timestamp,
    token: String,
    parts: usize,
    read: usize,
    body: Vec<u8>,
}

impl Reading {
    pub(super) fn new(shard: Shard, now: Timestamp) -> Self {
        Self { shard, now, whole: Vec::new(), open: None, abandoned: Vec::new() }
    }

    /// Whether the message that was read last is incomplete.
    pub(super) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Reads the next item; `None` if this version did not write it, or the message before it lacks a part.
    pub(super) fn read(&mut self, item: &Item) -> Option<()> {
        if let Some(part) = item.bytes("part") {
            return self.read_part(item, part);
        }
        if self.is_open() {
            return None;
        }
        let sort = item.text("sk")?.to_owned();
        let tenant = Tenant::parse(item.text("tenant")?)?;
        let not_before = item.time("not_before")?;
        if let Some(body) = item.bytes("body") {
            let body = String::from_utf8(body.to_vec()).ok()?;
            let key = ParkedKey { shard: self.shard, sort };
            self.whole.push(ParkedItem { key, tenant, not_before, body });
        } else {
            self.open = Some(Open {
                sort,
                tenant,
                not_before,
                token: item.text("token")?.to_owned(),
                parts: item.number("parts")?,
                read: 1,
                body: item.bytes("first_part")?.to_vec(),
            });
        }
        Some(())
    }

    fn read_part(&mut self, item: &Item, part: &[u8]) -> Option<()> {
        let sort = item.text("sk")?;
        if let Some(open) = self.open.as_mut().filter(|open| open.next_part() == sort) {
            open.body.extend_from_slice(part);
            open.read += 1;
            if open.read == open.parts {
                self.whole.push(self.open.take()?.close(self.shard)?);
            }
        } else if self.now.since(item.time("put_at")?) > ABANDONED {
            self.abandoned.push(item_key(self.shard, sort));
        }
        Some(())
    }
}

impl Open {
    fn next_part(&self) -> String {
        part_sort(&self.sort, &self.token, self.read)
    }

    /// The key names the parts, so that they are deleted with the message.
    fn key(&self, shard: Shard) -> ParkedKey {
        ParkedKey { shard, sort: format!("{}!{}.{}", self.sort, self.parts, self.token) }
    }

    fn close(self, shard: Shard) -> Option<ParkedItem> {
        let key = self.key(shard);
        let body = String::from_utf8(self.body).ok()?;
        Some(ParkedItem { key, tenant: self.tenant, not_before: self.not_before, body })
    }
}
