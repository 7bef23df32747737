//! Whose breaker an operator means: an origin's, or that of one recipient there.

use clap::Args;
use redial_core::{
    endpoint::Origin,
    identity::Tenant,
    protection::{AtOrigin, Circuit},
};

use crate::{
    arguments, endpoint_hash,
    failure::Failure,
    origin,
    stack::{OnStack, Target},
};

#[derive(Debug, Args)]
pub(super) struct Which {
    /// Scheme, host and port: https://fcm.googleapis.com
    #[arg(value_name = "ORIGIN")]
    origin: String,
    /// The tenant of one recipient at that origin; with --endpoint
    #[arg(long, value_name = "TENANT", value_parser = arguments::tenant, requires = "endpoint")]
    tenant: Option<Tenant>,
    /// The hash of that recipient's endpoint, or its first eight digits, as `breakers list` shows them; with --tenant
    #[arg(long, alias = "endpoint-hash", value_name = "HASH", requires = "tenant")]
    endpoint: Option<String>,
    #[command(flatten)]
    pub(super) on: OnStack,
}

impl Which {
    /// The breaker that is meant. A recipient's must have a state: only workers that saw the recipient fail read one.
    pub(super) async fn circuit(&self) -> Result<(Circuit, Target), Failure> {
        let origin = origin::parse("ORIGIN", &self.origin)?;
        let endpoint =
            self.endpoint.as_deref().map(|text| endpoint_hash::parse("--endpoint", text)).transpose()?;
        let target = self.on.target().await?;
        let Some((tenant, endpoint)) = self.tenant.as_ref().zip(endpoint) else {
            return Ok((Circuit::Origin(origin), target));
        };
        let known = target.protection().circuits().await?.into_iter().map(|(circuit, _)| circuit);
        Ok((meant(known, &origin, tenant, endpoint)?, target))
    }
}

/// The one recipient with this hash among the circuits that have a state.
fn meant(
    circuits: impl Iterator<Item = Circuit>,
    origin: &Origin,
    tenant: &Tenant,
    endpoint: &str,
) -> Result<Circuit, Failure> {
    let mut found = circuits.filter(|circuit| match circuit {
        Circuit::Origin(_) => false,
        Circuit::Recipient(AtOrigin { origin: at, tenant: of, endpoint: hash }) => {
            (at, of) == (origin, tenant) && endpoint_hash::names(endpoint, hash)
        }
    });
    match (found.next(), found.next()) {
        (Some(circuit), None) => Ok(circuit),
        (Some(_), Some(_)) => Err(Failure::input(
            "--endpoint: expected a whole hash, as `breakers list --all --json` shows it, found digits that several recipients share",
        )),
        (None, _) => Err(Failure::reported(
            "no data about that recipient of that tenant: its breaker never opened, or not within the last day; `breakers list --all` shows those that can be named",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: &str = "https://hooks.example";

    fn recipient(digits: &str) -> Circuit {
        let text = format!("{HOST}#acme#hmac:k1:{digits:0<64}");
        Circuit::parse(&text).expect("a recipient")
    }

    fn found(circuits: &[Circuit], at: &str, of: &str, hash: &str) -> Result<Circuit, Failure> {
        let origin = Origin::parse(at).expect("an origin");
        let tenant = Tenant::parse(of).expect("a tenant");
        meant(circuits.iter().cloned(), &origin, &tenant, hash)
    }

    #[test]
    fn a_recipient_is_found_by_its_origin_tenant_and_hash() {
        let origin = Circuit::parse(HOST).expect("an origin");
        let circuits = [origin, recipient("0a3fc1d2"), recipient("0a3fc1d3")];
        let whole = format!("hmac:k1:{:0<64}", "0a3fc1d2");
        for hash in ["0a3fc1d2", &whole] {
            assert_eq!(found(&circuits, HOST, "acme", hash).ok(), Some(recipient("0a3fc1d2")), "{hash}");
        }
        for (at, of, hash) in [
            (HOST, "globex", "0a3fc1d2"),
            ("https://hooks.example:8443", "acme", "0a3fc1d2"),
            (HOST, "acme", "0a3fc1d4"),
        ] {
            assert!(matches!(found(&circuits, at, of, hash), Err(Failure::Reported)), "{at} {of} {hash}");
        }
    }

    #[test]
    fn digits_that_two_recipients_share_are_refused() {
        let circuits = [recipient("0a3fc1d20"), recipient("0a3fc1d21")];
        let Err(Failure::Input(lines)) = found(&circuits, HOST, "acme", "0a3fc1d2") else {
            panic!("it is refused")
        };
        assert!(lines[0].starts_with("--endpoint: expected a whole hash"), "{lines:?}");
        let whole = format!("hmac:k1:{:0<64}", "0a3fc1d21");
        assert_eq!(found(&circuits, HOST, "acme", &whole).ok(), Some(recipient("0a3fc1d21")));
    }
}
