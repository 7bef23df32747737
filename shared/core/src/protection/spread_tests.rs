use super::super::breaker::FAST;
use super::super::count::Window;
use super::*;
use crate::endpoint::Origin;
use crate::fixtures::at;
use crate::identity::Tenant;

fn whose(tenant: u8, recipient: u64) -> Whose {
    Whose::numbered(Place::numbered(tenant.into()), recipient)
}

fn failing(attempts: u64, failures: u64) -> Count {
    Count { attempts, failures, ..Count::default() }
}

/// Attempts and failures by tenant and recipient.
fn spread(of: &[(u8, u64, u64, u64)]) -> Spread {
    let mut spread = Spread::default();
    for (tenant, recipient, attempts, failures) in of {
        spread.add(whose(*tenant, *recipient), failing(*attempts, *failures));
    }
    spread
}

#[test]
fn failures_concern_those_who_have_them() {
    let everywhere: Vec<(u8, u64, u64, u64)> = (0..16).map(|n| (n, n.into(), 10, 10)).collect();
    let here_and_there: Vec<(u8, u64, u64, u64)> = (0..16).map(|n| (n, n.into(), 10, 3)).collect();
    for (case, of, concerned) in [
        ("all fail", everywhere.as_slice(), Concerned::Everyone),
        ("a third fails", &here_and_there, Concerned::Everyone),
        ("nothing is known", &[], Concerned::Everyone),
        ("a tenant's only recipient", &[(3, 0, 40, 40)], Concerned::Tenant(Place::numbered(3))),
        (
            "a tenant's many recipients",
            &[(3, 0, 9, 9), (3, 1, 9, 9), (3, 2, 9, 9)],
            Concerned::Tenant(Place::numbered(3)),
        ),
        ("two tenants, both fail", &[(3, 0, 40, 40), (4, 1, 9, 9)], Concerned::Everyone),
        (
            "one of two tenants",
            &[(3, 0, 20, 20), (3, 1, 20, 20), (3, 2, 20, 20), (4, 3, 20, 0)],
            Concerned::Tenant(Place::numbered(3)),
        ),
        ("too few of another to say", &[(3, 0, 40, 40), (4, 1, 4, 4)], Concerned::Tenant(Place::numbered(3))),
        ("one recipient of three", &[(3, 0, 40, 40), (3, 1, 9, 0), (4, 2, 9, 0)], Concerned::Recipients),
        (
            "one recipient, and another is hardly used, and well",
            &[(3, 0, 40, 40), (3, 1, 4, 0)],
            Concerned::Recipients,
        ),
        (
            "one recipient, and another is hardly used, and fails, too",
            &[(3, 0, 40, 40), (3, 1, 4, 1)],
            Concerned::Tenant(Place::numbered(3)),
        ),
        (
            "two recipients, and others succeed",
            &[(3, 0, 40, 40), (4, 1, 40, 40), (4, 2, 9, 0)],
            Concerned::Recipients,
        ),
        (
            "three recipients of two tenants",
            &[(3, 0, 40, 40), (4, 1, 40, 40), (4, 2, 9, 9)],
            Concerned::Everyone,
        ),
    ] {
        assert_eq!(spread(of).concerned(Trouble::Failures, 20), concerned, "{case}");
    }
}

#[test]
fn what_is_limited_and_what_fails_are_judged_apart() {
    let mut spread = spread(&[(1, 0, 40, 0), (2, 1, 40, 0), (2, 2, 40, 0)]);
    let limited = Count { attempts: 40, limited: 40, ..Count::default() };
    (3..6).for_each(|recipient| spread.add(whose(5, recipient), limited));
    assert_eq!(spread.concerned(Trouble::Limited, 1), Concerned::Tenant(Place::numbered(5)));
    assert_eq!(spread.concerned(Trouble::Failures, 20), Concerned::Recipients, "nothing fails");
}

#[test]
fn a_tenant_has_one_place_at_an_origin_and_another_elsewhere() {
    let origin = |host: u32| Origin::parse(&format!("https://push{host}.example")).expect("an origin");
    let tenant = |n: u32| Tenant::parse(&format!("tenant-{n}")).expect("a tenant");
    assert_eq!(Place::of(&origin(1), &tenant(1)), Place::of(&origin(1), &tenant(1)));
    let places = |pairs: Vec<(u32, u32)>| {
        let places = pairs.iter().map(|(host, n)| Place::of(&origin(*host), &tenant(*n)));
        places.collect::<std::collections::BTreeSet<_>>().len()
    };
    assert_eq!(places((0..200).map(|n| (1, n)).collect()), TENANTS, "tenants use all places");
    assert!(
        places((0..200).map(|n| (n, 1)).collect()) > TENANTS / 2,
        "at other origins it shares with others"
    );
}

#[test]
fn what_is_recent_is_seconds_where_there_is_much_and_minutes_where_there_is_little() {
    let new = spread(&[(0, 0, 30, 30)]);
    let mut busy = Recent::default();
    (0..20).for_each(|second| busy.note(&new, at(second)));
    let recent = busy.sum(at(20)).attempts();
    assert!((5 * 30..=11 * 30).contains(&recent), "{recent}");
    let mut quiet = Recent::default();
    (0..10).for_each(|n| quiet.note(&spread(&[(0, 0, 1, 1)]), at(n * 20)));
    assert_eq!(quiet.sum(at(180)).attempts(), 10);
    assert_eq!(quiet.sum(at(700)), Spread::default());
    assert_eq!(quiet.take(at(180)).attempts(), 10);
    assert!(quiet.sum(at(180)).is_empty());
}

#[test]
fn numbers_have_names_and_read_back() {
    let mut spread = spread(&[(15, 7, 3, 2)]);
    let named: Vec<(String, u64)> =
        spread.named().map(|(name, n)| (name, *n)).filter(|(_, n)| *n > 0).collect();
    let expected = [("t15a", 3), ("t15f", 2), ("r7a", 3), ("r7f", 2)].map(|(name, n)| (name.to_owned(), n));
    assert_eq!(named, expected);
    assert_eq!(spread.clone().named().count(), 3 * (TENANTS + RECIPIENTS));
    let text = serde_json::to_string(&spread).expect("JSON");
    assert_eq!(serde_json::from_str::<Spread>(&text).expect("its own JSON"), spread);
    let twice = spread.plus(&spread);
    assert_eq!((twice.since(&spread), spread.since(&twice)), (spread, Spread::default()));
}

#[test]
fn whose_failures_a_worker_counts_is_known_for_as_long() {
    let (failing_tenant, other) = (whose(3, 0), |n: u64| whose(4, n));
    let at_ms = |ms: i64| Timestamp::from_ms(1_000_000_000 + ms);
    let mut own = Window::new(FAST_FROM_SECS, FAST.bucket_secs);
    let mut recent = Recent::default();
    let mut note = |whose, count: Count, now| {
        own.note(count, now);
        recent.note_own(whose, count, now);
        (own.sum(now).failures, recent.sum(now))
    };
    note(other(0), failing(4, 0), at_ms(0));
    note(failing_tenant, failing(30, 30), at_ms(2_040));
    for ms in (2_050..8_000).step_by(100) {
        let (failures, sum) = note(other(ms as u64 % 5), failing(1, 0), at_ms(ms));
        let concerned = sum.concerned(Trouble::Failures, 10);
        assert!(failures == 0 || concerned != Concerned::Everyone, "after {ms} ms");
    }
}
