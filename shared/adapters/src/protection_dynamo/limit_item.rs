//! An item of the partition `limits`: what an operator allows an origin or a tenant.
//!
//! A worker reads an item whole, so a tenant's weight and most concurrent attempts cost no read besides that of its rate. Each attribute is
//! judged for itself: an invalid one is logged and ignored, and the others hold.

use redial_core::endpoint::Origin;
use redial_core::identity::Tenant;
use redial_core::rate::Rate;
use redial_core::share::{Concurrency, Share, Weight};
use redial_engine::ports::{Allowed, Limited};

use crate::table::attributes::{Item, Read as _, key};
use crate::telemetry;

/// The partition of limits.
pub(super) const LIMITS: &str = "limits";

/// An attribute of a limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Attribute {
    Rate,
    Weight,
    Concurrency,
}

impl Attribute {
    pub(super) const ALL: [Self; 3] = [Self::Rate, Self::Weight, Self::Concurrency];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::Weight => "weight",
            Self::Concurrency => "concurrency",
        }
    }

    /// As a log names it, of an origin or a tenant.
    const fn of(self, is_origin: bool) -> &'static str {
        match (self, is_origin) {
            (Self::Rate, true) => "an origin's",
            (Self::Rate, false) => "a tenant's",
            (Self::Weight, _) => "weight",
            (Self::Concurrency, _) => "concurrency",
        }
    }
}

/// An attribute that is ignored, because it is invalid, and what would do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Ignored {
    attribute: Attribute,
    expected: String,
}

pub(super) fn limit_key(limited: &Limited) -> Item {
    match limited {
        Limited::Origin(origin) => key(LIMITS, format!("origin#{}", origin.as_str())),
        Limited::Tenant(tenant) => key(LIMITS, format!("tenant#{tenant}")),
    }
}

/// The origin or tenant in a limit's sort key.
pub(super) fn limited(item: &Item) -> Option<Limited> {
    match item.text("sk")?.split_once('#')? {
        ("origin", origin) => Origin::parse(origin).map(Limited::Origin),
        ("tenant", tenant) => Tenant::parse(tenant).map(Limited::Tenant),
        _ => None,
    }
}

/// What an item allows. What is invalid of it is logged and ignored.
pub(super) fn read_and_log(limited: &Limited, item: &Item) -> Allowed {
    let (allowed, ignored) = read(limited, item);
    for Ignored { attribute, expected } in ignored {
        match limited {
            Limited::Origin(_) => telemetry::limit_ignored(None, attribute.of(true), &expected),
            Limited::Tenant(tenant) => {
                telemetry::limit_ignored(Some(tenant), attribute.of(false), &expected);
            }
        }
    }
    allowed
}

fn read(limited: &Limited, item: &Item) -> (Allowed, Vec<Ignored>) {
    let mut ignored = Vec::new();
    let share = match limited {
        Limited::Origin(_) => Share::default(),
        Limited::Tenant(_) => Share {
            weight: parsed(item, Attribute::Weight, Weight::parse)
                .unwrap_or_else(|it| it.noted(&mut ignored)),
            concurrency: parsed(item, Attribute::Concurrency, Concurrency::parse)
                .unwrap_or_else(|it| it.noted(&mut ignored)),
        },
    };
    let mut rate = parsed(item, Attribute::Rate, Rate::parse);
    let has_share = Attribute::ALL[1..].iter().any(|it| item.contains_key(it.name()));
    if rate == Ok(None) && !(has_share && matches!(limited, Limited::Tenant(_))) {
        // An item that limits nothing was written by hand.
        rate = Rate::parse("").map(Some).map_err(|expected| Ignored { attribute: Attribute::Rate, expected });
    }
    let rate = rate.unwrap_or_else(|it| it.noted(&mut ignored));
    (Allowed { rate, share }, ignored)
}

impl Ignored {
    fn noted<T>(self, ignored: &mut Vec<Self>) -> Option<T> {
        ignored.push(self);
        None
    }
}

pub(super) fn share_of(item: &Item) -> Share {
    Share {
        weight: parsed(item, Attribute::Weight, Weight::parse).ok().flatten(),
        concurrency: parsed(item, Attribute::Concurrency, Concurrency::parse).ok().flatten(),
    }
}

/// An attribute's value; `None`: it has none.
pub(super) fn parsed<T>(
    item: &Item,
    attribute: Attribute,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Result<Option<T>, Ignored> {
    if !item.contains_key(attribute.name()) {
        return Ok(None);
    }
    // An attribute of another type counts as an empty text: invalid.
    let read = parse(item.text(attribute.name()).unwrap_or_default());
    read.map(Some).map_err(|expected| Ignored { attribute, expected })
}

/// What is invalid of an item, in words.
pub(super) fn described(item: &Item) -> Vec<String> {
    let sort = item.text("sk").unwrap_or_default().replacen('#', " ", 1);
    let Some(limited) = limited(item) else { return vec![format!("limit of {sort}")] };
    let noun = |attribute| match attribute {
        Attribute::Rate => "limit",
        Attribute::Weight => "weight",
        Attribute::Concurrency => "concurrency",
    };
    read(&limited, item).1.iter().map(|it| format!("{} of {sort}", noun(it.attribute))).collect()
}
