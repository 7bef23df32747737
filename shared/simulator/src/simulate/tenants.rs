//! Whose messages come: one tenant's after the other's, so that who comes last can be seen to wait for the others, or not.

use redial_core::identity::Tenant;

/// How tenants are written, for errors.
const FORMS: &str = "expected each tenant once, with the number of its messages, in the order in which they come: \
acme:1000,other:10 (names of a-z, 0-9, - and _; 1 to 10000000 messages in all)";

/// The most messages of all of them.
const MOST: u32 = 10_000_000;

/// Tenants and how many messages each of them has, in the order in which their messages come.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Tenants(Vec<Share>);

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Share {
    pub(super) tenant: Tenant,
    pub(super) messages: u32,
    /// The number of the first message that is not its own, nor of one before it.
    until: u32,
}

impl Tenants {
    /// Reads `acme:1000,other:10`; the error says what would do.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut shares: Vec<Share> = Vec::new();
        for part in text.split(',') {
            let (name, messages) = part.split_once(':').ok_or(FORMS)?;
            let tenant = Tenant::parse(name).ok_or(FORMS)?;
            let is_number = messages.bytes().all(|b| b.is_ascii_digit());
            let messages: u32 = messages.parse().ok().filter(|n| is_number && *n > 0).ok_or(FORMS)?;
            let before = shares.last().map_or(0, |it| it.until);
            let until = before.checked_add(messages).filter(|until| *until <= MOST).ok_or(FORMS)?;
            if shares.iter().any(|it| it.tenant == tenant) {
                return Err(FORMS.to_owned());
            }
            shares.push(Share { tenant, messages, until });
        }
        Ok(Self(shares))
    }

    /// One, whose messages are all.
    pub(crate) fn one(messages: u32) -> Self {
        let tenant = Tenant::parse("all").expect("invariant: three letters are a tenant's name");
        Self(vec![Share { tenant, messages, until: messages }])
    }

    pub(super) fn shares(&self) -> &[Share] {
        &self.0
    }

    pub(super) fn messages(&self) -> u32 {
        self.0.last().map_or(0, |it| it.until)
    }

    /// Whose message `number` (from 0) is: a place among [`Self::shares`].
    pub(super) fn of(&self, number: u32) -> usize {
        self.0.partition_point(|it| it.until <= number).min(self.0.len().saturating_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_message_is_of_the_tenant_whose_turn_it_is() {
        let tenants = Tenants::parse("acme:3,other:1").expect("tenants");
        assert_eq!((0..4).map(|number| tenants.of(number)).collect::<Vec<_>>(), [0, 0, 0, 1]);
        assert_eq!(tenants.messages(), 4);
        let names: Vec<&str> = tenants.shares().iter().map(|it| it.tenant.as_str()).collect();
        assert_eq!(names, ["acme", "other"]);
        assert_eq!((Tenants::one(7).messages(), Tenants::one(7).of(6)), (7, 0));
    }

    #[test]
    fn what_is_no_list_of_tenants_is_refused_with_what_would_do() {
        for text in
            ["", "acme", "acme:", "acme:0", "acme:+1", "Acme:1", ":1", "a:1,", "a:1,a:2", "a:9999999,b:2"]
        {
            assert!(Tenants::parse(text).expect_err(text).contains("acme:1000,other:10"), "{text}");
        }
    }
}
