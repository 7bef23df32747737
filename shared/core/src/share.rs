//! A tenant's share of the workers, as an operator sets it: its weight where tenants take turns, and how many of its attempts may be under
//! way together.

use std::fmt;

/// How many turns a tenant has for each turn of one that has the weight 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Weight(u32);

impl Weight {
    pub const MOST: u32 = 100;

    /// Reads a whole number from 1 to 100; the error says what would do.
    pub fn parse(text: &str) -> Result<Self, String> {
        whole(text, Self::MOST).map(Self)
    }

    pub const fn get(self) -> u32 {
        self.0
    }
}

impl Default for Weight {
    fn default() -> Self {
        Self(1)
    }
}

impl fmt::Display for Weight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The most attempts of a tenant that may be under way together, of all workers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Concurrency(u32);

impl Concurrency {
    pub const MOST: u32 = 10_000;

    /// Reads a whole number from 1 to 10000; the error says what would do.
    pub fn parse(text: &str) -> Result<Self, String> {
        whole(text, Self::MOST).map(Self)
    }

    pub const fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Display for Concurrency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What an operator has set for a tenant.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Share {
    /// `None`: 1.
    pub weight: Option<Weight>,
    /// `None`: any number.
    pub concurrency: Option<Concurrency>,
}

impl Share {
    pub fn is_set(&self) -> bool {
        *self != Self::default()
    }
}

fn whole(text: &str, most: u32) -> Result<u32, String> {
    // `parse` would take a sign, too.
    let digits = Some(text).filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let number = digits.and_then(|text| text.parse().ok()).filter(|number| (1..=most).contains(number));
    number.ok_or_else(|| format!("expected a whole number from 1 to {most}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_weight_is_a_whole_number_from_1_to_100() {
        for (text, number) in [("1", 1), ("7", 7), ("100", 100), ("007", 7)] {
            assert_eq!(Weight::parse(text).map(Weight::get), Ok(number));
        }
        for text in ["", "0", "101", "-1", "+1", " 1", "1.5", "1e1", "heavy", "99999999999999999999"] {
            let error = Weight::parse(text).expect_err(text);
            assert_eq!(error, "expected a whole number from 1 to 100");
        }
        assert_eq!((Weight::default().get(), Weight(4).to_string()), (1, "4".to_owned()));
    }

    #[test]
    fn a_concurrency_is_a_whole_number_from_1_to_10000() {
        for (text, number) in [("1", 1), ("50", 50), ("10000", 10_000)] {
            assert_eq!(Concurrency::parse(text).map(Concurrency::get), Ok(number));
        }
        for text in ["", "0", "10001", "-1", "many"] {
            let error = Concurrency::parse(text).expect_err(text);
            assert_eq!(error, "expected a whole number from 1 to 10000");
        }
    }
}
