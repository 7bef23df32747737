use super::*;
use crate::fixtures::at;

const MANY: Voters = Voters { tenants: 16, recipients: 8 };
const TWO_TENANTS: Voters = Voters { tenants: 2, recipients: 8 };
const TWO_RECIPIENTS: Voters = Voters { tenants: 1, recipients: 2 };
const ONE: Voters = Voters { tenants: 1, recipients: 1 };

fn whose(tenant: usize, recipient: u64) -> Whose {
    Whose::numbered(Place::numbered(tenant), recipient)
}

/// The tenants and recipients of those that are chosen, of these.
fn chosen(votes: &Votes, of: &[(usize, u64)], left: u32, voters: Voters, now: u64) -> Vec<(usize, u64)> {
    let candidates: Vec<Whose> = of.iter().map(|(tenant, recipient)| whose(*tenant, *recipient)).collect();
    votes.choose(&candidates, left, voters, at(now)).into_iter().map(|at| of[at]).collect()
}

/// What follows from these answers `now` seconds after the first probe.
fn verdict(of: &[(usize, u64, bool)], voters: Voters, now: u64) -> Option<Verdict> {
    let mut votes = Votes::default();
    votes.send(of.iter().map(|(tenant, recipient, _)| whose(*tenant, *recipient)), at(0));
    of.iter().for_each(|(tenant, recipient, succeeded)| votes.answer(whose(*tenant, *recipient), *succeeded));
    let succeeded = of.iter().filter(|(.., succeeded)| *succeeded).count() as u32;
    votes.verdict(succeeded, voters, at(now))
}

#[test]
fn probes_go_to_recipients_and_tenants_that_have_none_yet() {
    let flood: Vec<(usize, u64)> = vec![(1, 1); 20];
    let mixed: Vec<(usize, u64)> = [&flood[..], &[(1, 2), (2, 3), (3, 4), (4, 5), (5, 6)]].concat();
    let none = Votes::default();
    assert_eq!(chosen(&none, &flood, 5, MANY, 0), [(1, 1)]);
    assert_eq!(chosen(&none, &mixed, 5, MANY, 0), [(1, 1), (2, 3), (3, 4), (4, 5), (5, 6)]);
    assert_eq!(chosen(&none, &mixed, 2, MANY, 0), [(1, 1), (2, 3)]);
    // A tenant's share is half of them, rounded up, where two were there.
    let of_two: Vec<(usize, u64)> = [(1, 1), (1, 2), (1, 3), (1, 4), (2, 5), (2, 6)].into();
    assert_eq!(chosen(&none, &of_two, 5, TWO_TENANTS, 0), [(1, 1), (2, 5), (1, 2), (1, 3), (2, 6)]);
    assert_eq!(chosen(&none, &of_two[..4], 5, TWO_TENANTS, 0), [(1, 1), (1, 2), (1, 3)]);
    // An origin with one recipient gets all of them at once.
    assert_eq!(chosen(&none, &flood, 5, ONE, 0).len(), 5);
    assert_eq!(chosen(&none, &flood, 5, Voters::default(), 0).len(), 5);
    assert_eq!(chosen(&none, &flood, 5, TWO_RECIPIENTS, 0).len(), 3);
}

#[test]
fn where_no_others_come_the_same_recipient_gets_further_probes() {
    let mut votes = Votes::default();
    votes.send([whose(1, 1)].into_iter(), at(0));
    let same = [(1, 1); 9];
    assert_eq!(chosen(&votes, &same, 4, MANY, 19), []);
    assert_eq!(chosen(&votes, &same, 4, MANY, 20).len(), 4);
    let others = [&same[..], &[(2, 2)]].concat();
    assert_eq!(chosen(&votes, &others, 2, MANY, 20), [(2, 2), (1, 1)]);
}

#[test]
fn a_majority_of_distinct_recipients_decides() {
    use Verdict::{Closes, Opens};
    let all = |succeed: &[bool]| -> Vec<(usize, u64, bool)> {
        succeed.iter().enumerate().map(|(n, succeeded)| (n, n as u64, *succeeded)).collect()
    };
    for (case, of, voters, expected) in [
        ("three succeed", all(&[true, true, true]), MANY, Some(Closes)),
        ("three fail", all(&[false, false, false]), MANY, Some(Opens)),
        ("one hostile recipient fails", all(&[false, true, true, true]), MANY, Some(Closes)),
        ("two dead ones", all(&[false, false, true, true, true]), MANY, Some(Closes)),
        ("one hostile recipient answers 200", all(&[true, false, false, false]), MANY, Some(Opens)),
        ("two fail", all(&[false, false]), MANY, None),
        ("nothing is answered", all(&[]), MANY, None),
        ("a tenant's own three", vec![(1, 1, false), (1, 2, false), (1, 3, false)], TWO_TENANTS, None),
        (
            "a tenant's own three, and another's succeed",
            vec![(1, 1, false), (1, 2, false), (1, 3, false), (2, 4, true), (2, 5, true)],
            TWO_TENANTS,
            Some(Closes),
        ),
        ("two tenants' three", vec![(1, 1, false), (1, 2, false), (2, 3, false)], TWO_TENANTS, Some(Opens)),
        ("one recipient's three successes", vec![(1, 1, true); 3], MANY, None),
        ("the only recipient fails", vec![(1, 1, false)], ONE, Some(Opens)),
        ("the only recipient succeeds three times", vec![(1, 1, true); 3], ONE, Some(Closes)),
        ("one of two recipients", vec![(1, 1, false); 3], TWO_RECIPIENTS, None),
        (
            "one of two recipients, and the other succeeds",
            vec![(1, 1, false), (1, 1, false), (1, 1, false), (1, 2, true), (1, 2, true)],
            TWO_RECIPIENTS,
            Some(Closes),
        ),
        ("both of two recipients", vec![(1, 1, false), (1, 2, false)], TWO_RECIPIENTS, Some(Opens)),
        ("all of one recipient fail, and there were others", vec![(1, 1, false); 5], MANY, Some(Opens)),
    ] {
        assert_eq!(verdict(&of, voters, 1), expected, "{case}");
    }
}

#[test]
fn where_no_others_came_those_who_are_there_decide() {
    for (case, of, expected) in [
        ("one fails", vec![(1, 1, false)], Some(Verdict::Opens)),
        ("one succeeds three times", vec![(1, 1, true); 3], Some(Verdict::Closes)),
        ("one succeeds twice", vec![(1, 1, true); 2], None),
        ("one fails twice, another succeeds", vec![(1, 1, false), (1, 1, false), (2, 2, true)], None),
    ] {
        assert_eq!(verdict(&of, MANY, 19), None, "{case}");
        assert_eq!(verdict(&of, MANY, 20), expected, "{case}");
    }
}

#[test]
fn a_late_answer_counts_and_others_have_gone_in_its_place() {
    let mut votes = Votes::default();
    votes.send([whose(1, 1), whose(2, 2)].into_iter(), at(0));
    votes.answer(whose(2, 2), true);
    votes.forget_unanswered();
    assert_eq!(chosen(&votes, &[(2, 2), (1, 1)], 5, MANY, 1), [(1, 1)]);
    votes.answer(whose(1, 1), false);
    assert_eq!(votes.failed(), 1);
    (0..100).for_each(|n| votes.answer(whose(3, n), false));
    assert!(votes.ballots.len() <= 10, "{votes:?}");
    let text = serde_json::to_string(&votes).expect("JSON");
    assert_eq!(serde_json::from_str::<Votes>(&text).expect("its own JSON"), votes);
}
