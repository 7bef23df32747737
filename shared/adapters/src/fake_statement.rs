//! Statements of PartiQL as the adapters write them, carried out on the items of a test's table.

use serde_json::{Map, Value};

use crate::real_table::Items;

type Attributes = Map<String, Value>;

/// The attributes of an index: DynamoDB refuses NULL for them.
const INDEXED: [&str; 2] = ["found_by", "found_at"];

/// A statement with its values.
pub(crate) enum Statement {
    Insert(Attributes),
    Update { sets: Attributes, removes: Vec<String>, conditions: Attributes },
}

/// The names that stand in a text between `before` and a quotation mark.
fn names(text: &str, before: &str, quotation: char) -> Vec<String> {
    text.split(before).skip(1).filter_map(|rest| Some(rest.split_once(quotation)?.0.to_owned())).collect()
}

impl Statement {
    /// Reads one of a call's statements.
    pub(crate) fn read(statement: &Value) -> Self {
        let text = statement["Statement"].as_str().expect("a text");
        let mut values = statement["Parameters"].as_array().expect("values").iter().cloned();
        let mut of = |names: Vec<String>| -> Attributes { names.into_iter().zip(values.by_ref()).collect() };
        if let Some((_, fields)) = text.split_once(" VALUE {") {
            let quoted = fields.split('\'').skip(1).step_by(2);
            return Self::Insert(of(quoted.map(str::to_owned).collect()));
        }
        let (writes, wanted) = text.split_once(" WHERE ").expect("a condition");
        let sets = of(names(writes, " SET \"", '"'));
        let conditions = of(wanted.split('"').skip(1).step_by(2).map(str::to_owned).collect());
        Self::Update { sets, removes: names(writes, " REMOVE \"", '"'), conditions }
    }

    /// The item's attributes, or the conditions, which name its key.
    pub(crate) fn keys(&self) -> Value {
        let (Self::Insert(named) | Self::Update { conditions: named, .. }) = self;
        named.clone().into()
    }

    /// `Err` with the code of its error.
    pub(crate) fn carry_out(self, items: &mut Items, key: (String, String)) -> Result<(), &'static str> {
        let (Self::Insert(sets) | Self::Update { sets, .. }) = &self;
        if INDEXED.iter().any(|name| sets.get(*name).is_some_and(|value| value["NULL"] == true)) {
            return Err("ValidationError");
        }
        match self {
            Self::Insert(_) if items.contains_key(&key) => Err("DuplicateItem"),
            Self::Insert(item) => {
                items.insert(key, item);
                Ok(())
            }
            Self::Update { sets, removes, conditions } => {
                let holds = |item: &&mut Attributes| {
                    conditions.iter().all(|(name, value)| item.get(name) == Some(value))
                };
                let item = items.get_mut(&key).filter(holds).ok_or("ConditionalCheckFailed")?;
                item.extend(sets);
                item.retain(|name, _| !removes.contains(name));
                Ok(())
            }
        }
    }
}
