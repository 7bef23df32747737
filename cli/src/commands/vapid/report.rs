//! A stack's VAPID keys and what stands on each, as they are shown.

use redial_adapters::vapid::VapidKeys;
use serde_json::{Value, json};

use crate::{
    rotation::standing::{Count, Standing},
    table::{Column, Table},
};

/// A key, or an id that subscriptions name and that no key has.
struct Row<'a> {
    id: &'a str,
    public_key: Option<&'a str>,
    is_current: bool,
    is_default: bool,
    count: Count,
}

/// All keys in the order of their ids, then the ids that no key has.
pub(super) struct Report<'a> {
    rows: Vec<Row<'a>>,
}

impl<'a> Report<'a> {
    pub(super) fn of(keys: &'a VapidKeys, standing: &'a Standing) -> Self {
        let known = keys.published().map(|key| Row {
            id: key.id.as_str(),
            public_key: Some(key.public_base64url),
            is_current: key.is_current,
            is_default: key.is_default,
            count: standing.on(key.id.as_str(), key.is_default),
        });
        let is_unknown = |id: &str| !keys.ids().any(|it| it.as_str() == id);
        let unknown = standing.named.iter().filter(|(id, _)| is_unknown(id)).map(|(id, count)| Row {
            id,
            public_key: None,
            is_current: false,
            is_default: false,
            count: *count,
        });
        Self { rows: known.chain(unknown).collect() }
    }

    /// Active subscriptions of ids that no key has: none of them can be sent to.
    pub(super) fn stranded(&self) -> u64 {
        self.rows.iter().filter(|row| row.public_key.is_none()).map(|row| row.count.active).sum()
    }

    /// Active subscriptions that are not on the current key.
    pub(super) fn left(&self) -> u64 {
        self.rows.iter().filter(|row| !row.is_current).map(|row| row.count.active).sum()
    }

    /// A table, its heading first.
    pub(super) fn lines(&self) -> Vec<String> {
        let columns = [Column::text("ID"), Column::text("USE")];
        let numbers = ["ACTIVE", "FLAGGED", "OFF"].map(Column::number);
        let columns = columns.into_iter().chain(numbers).chain([Column::text("PUBLIC KEY")]);
        Table::new(columns).with(self.rows.iter().map(Row::cells)).lines()
    }

    /// One object for each row.
    pub(super) fn json(&self) -> Vec<Value> {
        let json = |row: &Row<'_>| {
            json!({
                "id": row.id,
                "public_key": row.public_key,
                "current": row.is_current,
                "default": row.is_default,
                "active": row.count.active,
                "flagged": row.count.flagged,
                "off": row.count.off,
            })
        };
        self.rows.iter().map(json).collect()
    }
}

impl Row<'_> {
    fn cells(&self) -> [String; 6] {
        let Count { active, flagged, off } = self.count;
        let [active, flagged, off] = [active, flagged, off].map(|count| count.to_string());
        let key = self.public_key.unwrap_or("-").to_owned();
        [self.id.to_owned(), self.uses().to_owned(), active, flagged, off, key]
    }

    fn uses(&self) -> &'static str {
        match (self.public_key.is_some(), self.is_current, self.is_default) {
            (false, ..) => "NOT CONFIGURED",
            (true, true, true) => "current, default",
            (true, true, false) => "current",
            (true, false, true) => "default",
            (true, false, false) => "former",
        }
    }
}

#[cfg(test)]
mod tests {
    use redial_adapters::vapid::VapidDocument;
    use redial_core::identity::VapidKeyId;

    use super::*;
    use crate::rotation::new_key::NewKey;

    #[test]
    fn every_key_is_shown_with_what_stands_on_it_and_so_is_an_id_without_one() {
        let (first, second) = (NewKey::generate(), NewKey::generate());
        let id = VapidKeyId::parse("k2").expect("an id");
        let document = VapidDocument::parse(first.private().expose()).expect("a key");
        let document = document.with_current(id, second.private()).expect("it is new");
        let keys = document.keys().expect("keys");
        let on = |active| Count { active, flagged: 1, off: 2 };
        let standing = Standing {
            named: [("default".to_owned(), on(3)), ("k2".to_owned(), on(4)), ("k0".to_owned(), on(5))].into(),
            unnamed: on(10),
        };
        let report = Report::of(&keys, &standing);
        assert_eq!((report.stranded(), report.left()), (5, 18));
        let lines = report.lines();
        assert_eq!(lines[0], "ID       USE             ACTIVE  FLAGGED  OFF  PUBLIC KEY");
        let ends = |at: usize, end: &str| assert!(lines[at].ends_with(end), "{}", lines[at]);
        ends(1, &format!("13        2    4  {}", first.public()));
        ends(2, &format!("4        1    2  {}", second.public()));
        ends(3, "5        1    2  -");
        assert!(lines[3].starts_with("k0       NOT CONFIGURED "), "{}", lines[3]);
        let json = report.json();
        assert_eq!((&json[0]["default"], &json[0]["active"]), (&Value::Bool(true), &json!(13)));
        assert_eq!((&json[1]["current"], &json[2]["public_key"]), (&Value::Bool(true), &Value::Null));
    }
}
