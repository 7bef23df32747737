//! `GET /v1/messages?state=…`: a tenant's deliveries by their state, the latest first.

use std::time::Duration;

use axum::extract::{Request, State};
use http::StatusCode;
use redial_core::access::Scope;
use redial_core::ledger::listing::{Filter, Listing, MOST, Position};
use redial_core::shape::ShapeError;
use redial_core::tag::MessageTag;
use redial_core::time::Timestamp;
use redial_engine::ports::{Clock, Deliveries, HttpApi, Listed};
use serde_json::json;

use super::messages::of_entry;
use super::{Answered, Worker};
use crate::authorize::Need;
use crate::problem::Problem;
use crate::respond;

/// Without `since`, this much of the past.
const A_DAY: Duration = Duration::from_secs(86_400);

/// Without `limit`, how many.
const USUAL: usize = 50;

const STATES: &str = "one of retrying, parked, deferred, gone, expired, failed, failed_no_retries, cancelled";

/// What is asked for, without its tenant.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Wanted {
    filter: Filter,
    since: Timestamp,
    tags: Vec<MessageTag>,
    after: Option<Position>,
    limit: usize,
}

pub async fn list<E: HttpApi + 'static>(State(app): Worker<E>, request: Request) -> Answered {
    let (parts, _) = request.into_parts();
    let grant = app.grant_for(&parts, Need::Tenant(Scope::Read)).await?;
    app.admit(&grant, 1).await?;
    let now = app.env.clock().now();
    let wanted = wanted(parts.uri.query().unwrap_or_default(), now).map_err(Problem::invalid)?;
    let Wanted { filter, since, tags, after, limit } = wanted;
    let listing = Listing { tenant: grant.tenant, filter, since, tags, after, limit };
    let listed = app.env.ledger().list(&listing).await;
    let Listed { records, next } = listed.map_err(|error| app.failed(&error))?;
    let items: Vec<_> = records.iter().map(of_entry).collect();
    let next = next.map(|position| position.to_string());
    Ok(respond::json(StatusCode::OK, &json!({"items": items, "next": next})))
}

/// Reads a query string. Other parameters are ignored.
fn wanted(query: &str, now: Timestamp) -> Result<Wanted, Vec<ShapeError>> {
    let mut errors = Vec::new();
    let mut error = |path: &str, expected: &str, found: &str| {
        let (path, expected, found) = (path.to_owned(), expected.to_owned().into(), found.to_owned().into());
        errors.push(ShapeError { path, expected, found });
    };
    let (mut has_state, mut filter, mut since, mut after, mut limit) = (false, None, None, None, USUAL);
    let mut tags = Vec::new();
    for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
        match &*name {
            "state" => {
                has_state = true;
                match Filter::from_label(&value) {
                    Some(found) => filter = Some(found),
                    None => error("state", STATES, "another text"),
                }
            }
            "since" => match Timestamp::parse_rfc3339(&value) {
                Some(found) => since = Some(found),
                None => error("since", "an RFC 3339 time", "another text"),
            },
            "tag" => match MessageTag::parse(&value) {
                Some(found) => tags.push(found),
                None => error("tag", MessageTag::FORM, "another text"),
            },
            "after" => match Position::parse(&value) {
                Some(found) => after = Some(found),
                None => error("after", "`next` of the page before", "another text"),
            },
            "limit" => match value.parse().ok().filter(|limit| (1..=MOST).contains(limit)) {
                Some(found) => limit = found,
                None => error("limit", "a whole number from 1 to 100", "another text"),
            },
            _ => {}
        }
    }
    if !has_state {
        error("state", STATES, "nothing");
    }
    match filter.filter(|_| errors.is_empty()) {
        Some(filter) => Ok(Wanted { filter, since: since.unwrap_or(now.minus(A_DAY)), tags, after, limit }),
        None => Err(errors),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        Timestamp::from_secs(1_800_000_000)
    }

    fn read(query: &str) -> Result<Wanted, Vec<String>> {
        wanted(query, now()).map_err(|errors| errors.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn a_query_has_a_state_and_defaults_for_the_rest() {
        let usual = Wanted {
            filter: Filter::Retrying,
            since: now().minus(A_DAY),
            tags: Vec::new(),
            after: None,
            limit: 50,
        };
        assert_eq!(read("state=retrying"), Ok(usual.clone()));
        assert_eq!(read("q=x&state=retrying&"), Ok(usual));
        let after = Position::parse("2027-01-15T07:30:00.000Z/order-17");
        let wanted = read(
            "state=failed_no_retries&since=2027-01-15T07%3A00%3A00Z&after=2027-01-15T07:30:00.000Z%2Forder-17&limit=100&tag=region%3Aeu&tag=order",
        );
        let since = Timestamp::parse_rfc3339("2027-01-15T07:00:00Z").expect("valid");
        let tags = ["region:eu", "order"].map(|tag| MessageTag::parse(tag).expect("a tag")).to_vec();
        assert_eq!(wanted, Ok(Wanted { filter: Filter::FailedNoRetries, since, tags, after, limit: 100 }));
    }

    #[test]
    fn what_is_no_query_is_refused_parameter_by_parameter_without_its_values() {
        for (query, expected) in [
            ("", "state: expected one of retrying, parked, deferred"),
            ("state=s3cret", "state: expected one of retrying"),
            ("substate=parked", "state: expected one of retrying"),
            ("state=sent", "state: expected one of retrying"),
            ("state=retrying&since=s3cret", "since: expected an RFC 3339 time"),
            ("state=retrying&after=s3cret", "after: expected `next` of the page before"),
            ("state=retrying&tag=s3cret*", "tag: expected ^[a-z0-9][a-z0-9_.:-]{0,31}$"),
            ("state=retrying&limit=0", "limit: expected a whole number from 1 to 100"),
            ("state=retrying&limit=101", "limit: expected a whole number from 1 to 100"),
        ] {
            let errors = read(query).expect_err("it is refused");
            assert_eq!(errors.len(), 1, "{errors:?}");
            assert!(errors[0].starts_with(expected) && !errors[0].contains("s3cret"), "{errors:?}");
        }
        assert_eq!(read("state=x&since=x&limit=x").expect_err("it is refused").len(), 3);
    }

    #[test]
    fn the_error_names_every_state() {
        let listed = STATES.trim_start_matches("one of ").split(", ").map(Filter::from_label);
        assert_eq!(listed.collect::<Option<Vec<_>>>(), Some(Filter::ALL.to_vec()));
    }
}
