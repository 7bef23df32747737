use rand::rngs::StdRng;

use super::*;
use crate::fixtures::{at, rng};

/// The shared counters, as one worker after the other adds to them and looks.
struct History {
    state: OriginState,
    sum: Count,
    rng: StdRng,
}

impl History {
    fn begin() -> Self {
        Self { state: OriginState::default(), sum: Count::default(), rng: rng() }
    }

    fn see(&mut self, count: Count, retry_after: Option<u64>, now: u64) -> Phase {
        self.sum = self.sum.plus(count);
        let retry_after = retry_after.map(Duration::from_secs);
        self.state.look(self.sum, retry_after, at(now), &Cooldowns::default(), &mut self.rng);
        self.state.breaker().phase(at(now))
    }
}

fn counted(attempts: u64, failures: u64, limited: u64) -> Count {
    Count { attempts, failures, limited, ..Count::default() }
}

#[test]
fn an_outage_opens_the_breaker_and_the_pace_grows_afterwards() {
    let mut history = History::begin();
    (0..20).for_each(|second| assert_eq!(history.see(counted(1000, 0, 0), None, second), Phase::Closed));
    history.see(counted(1000, 1000, 0), None, 20);
    let mut now = 21;
    while matches!(history.see(counted(1000, 1000, 0), None, now), Phase::Closed) {
        now += 1;
    }
    assert!(now <= 27, "half of ten seconds at the latest: {now}");
    let Phase::Open { until } = history.state.breaker().phase(at(now)) else { panic!("{:?}", history.state) };
    let back = until.since(at(0)).as_secs() + 1;
    let probes: Vec<Whose> = (0..5).map(|n| Whose::numbered(Place::numbered(n), n as u64)).collect();
    assert_eq!(history.state.send_probes(&probes, at(back)).len(), 5);
    let answers: Vec<_> = probes.into_iter().map(|whose| (whose, true)).collect();
    history.state.probed(&answers, at(back), &Cooldowns::default(), &mut history.rng);
    let took = history.state.pace.took.expect("it is known");
    assert!((600.0..=1100.0).contains(&took), "{took}");
    assert!(history.state.limit(at(back)).is_some_and(|limit| limit < 120.0));
    // What was counted before it closed is no news.
    assert!(matches!(history.see(counted(0, 0, 0), None, back + 1), Phase::Ramping { .. }));
    (back + 2..back + 90).for_each(|second| {
        history.see(Count { held: 100, ..counted(500, 0, 0) }, None, second);
    });
    assert!(history.state.limit(at(back + 90)).is_some_and(|limit| limit >= took));
}

#[test]
fn many_429_with_a_retry_after_pause_the_origin_for_at_most_15_minutes() {
    let mut history = History::begin();
    assert_eq!(history.see(counted(100, 0, 40), Some(60), 1), Phase::Closed, "no storm: a slower pace");
    assert!(history.state.limit(at(1)).is_some());
    for now in [2, 3] {
        assert_eq!(history.see(counted(100, 0, 100), Some(60), now), Phase::Paused { until: at(62) });
    }
    assert_eq!(history.state.breaker().phase(at(62)), Phase::Ramping { since: at(62) });
    let long = History::begin().see(counted(100, 0, 100), Some(86_400), 0);
    assert_eq!(long, Phase::Paused { until: at(900) });
}

#[test]
fn an_origin_is_watched_and_limited_for_five_minutes_after_a_failure() {
    let mut history = History::begin();
    assert!(!history.state.is_watched(at(0)));
    history.see(counted(100, 1, 0), None, 0);
    assert_eq!([280, 320].map(|now| history.state.is_watched(at(now))), [true, false]);

    let mut history = History::begin();
    history.see(counted(100, 0, 100), None, 0);
    assert_eq!([299, 300].map(|now| history.state.limit(at(now)).is_some()), [true, false]);
}

#[test]
fn counters_that_were_reset_open_nothing() {
    let mut history = History::begin();
    history.see(counted(1000, 10, 0), None, 0);
    history.sum = Count::default();
    assert_eq!(history.see(counted(100, 100, 0), None, 1), Phase::Closed);
    assert!(matches!(history.see(counted(10_000, 10_000, 0), None, 2), Phase::Open { .. }));
}

#[test]
fn an_operator_s_command_holds_and_closing_resets() {
    let mut history = History::begin();
    history.state.open(Duration::from_secs(3600), at(0), &Cooldowns::default(), &mut history.rng);
    assert_eq!(history.see(counted(1000, 0, 0), None, 10), Phase::Open { until: at(3600) });
    history.state.close(at(20));
    assert_eq!(history.see(counted(1000, 1000, 0), None, 21), Phase::Closed, "counting begins here");
    assert!(matches!(history.see(counted(1000, 1000, 0), None, 22), Phase::Open { .. }));
}

#[test]
fn closed_gently_it_follows_a_pace_and_one_that_lets_pass_keeps_its_own() {
    let mut history = History::begin();
    (0..20).for_each(|second| _ = history.see(counted(100, 0, 0), None, second));
    history.state.open(Duration::from_secs(3600), at(20), &Cooldowns::default(), &mut history.rng);
    history.state.close_gently(at(620));
    assert_eq!(history.state.breaker().phase(at(620)), Phase::Ramping { since: at(620) });
    assert!(history.state.limit(at(620)).is_some_and(|limit| (10.0..=20.0).contains(&limit)));
    let ramping = history.state.clone();
    history.state.close_gently(at(625));
    assert_eq!(history.state, ramping);
}

#[test]
fn while_attempts_fail_retries_are_limited() {
    for (failures, retries, limit) in [
        (0, 5000, None),
        // 6.7 % fail.
        (100, 500, None),
        (500, 500, Some(30.0)),
        // One a second is far below the limit.
        (500, 10, None),
    ] {
        let count = Count { retries, ..counted(1000 + retries, failures, 0) };
        assert_eq!(retries_per_second(count, 0, 10.0), limit, "{failures} failures, {retries} retries");
    }
}

#[test]
fn it_reads_back_and_is_small() {
    let mut history = History::begin();
    (0..400).for_each(|second| {
        history.see(counted(10_000, 100, 200), None, second);
    });
    let text = serde_json::to_string(&history.state).expect("JSON");
    assert!(text.len() < 2048, "two write units: {}", text.len());
    assert_eq!(serde_json::from_str::<OriginState>(&text).expect("its own JSON"), history.state);
}

#[test]
fn what_a_webhook_refuses_counts_in_the_retry_budget_and_opens_no_breaker() {
    let refusing = Count { attempts: 100, retries: 80, refused: 100, ..Count::default() };
    let mut history = History::begin();
    let before = serde_json::to_value(&history.state).expect("JSON");
    for second in 0..20 {
        assert_eq!(history.see(refusing, None, second), Phase::Closed);
    }
    // Of 20 first attempts a second a fifth, and the floor.
    let limit = history.state.retry_limit(at(19)).expect("there is one");
    assert!((13.0..=15.0).contains(&limit), "{limit}");
    assert!(history.state.is_watched(at(19)) && !history.state.is_watched(at(31)));
    let accepted = Count { refused: 0, ..refusing };
    (20..31).for_each(|second| assert_eq!(history.see(accepted, None, second), Phase::Closed));
    assert_eq!(history.state.retry_limit(at(30)), None);
    // An earlier release reads and writes all but the refusals.
    let text = serde_json::to_string(&history.state).expect("JSON");
    let mut stored: serde_json::Value = serde_json::from_str(&text).expect("its own JSON");
    let fields = stored.as_object_mut().expect("an object");
    assert_eq!(fields.remove("counted_refused"), Some(2_000.into()));
    fields.remove("refused");
    let names =
        |value: &serde_json::Value| value.as_object().expect("an object").keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&stored), names(&before));
    history.state = serde_json::from_value(stored).expect("an earlier release's state");
    assert_eq!(history.see(refusing, None, 31), Phase::Closed);
    assert_eq!(history.state.retry_limit(at(31)), None, "counting begins with this look");
}

#[test]
fn an_answer_is_news_once_a_day_and_an_earlier_release_may_drop_it() {
    let mut history = History::begin();
    let before = serde_json::to_string(&history.state).expect("JSON");
    assert!(!before.contains("answered"), "{before}");
    for (secs, is_news) in [(0, true), (1, false), (86_399, false), (86_400, true)] {
        assert_eq!(history.state.note_answer(at(secs)), is_news, "{secs}");
    }
    assert_eq!(history.state.answered(), Some(at(86_400)));
    let text = serde_json::to_string(&history.state).expect("JSON");
    assert_eq!(serde_json::from_str::<OriginState>(&text).expect("its own JSON"), history.state);
    assert_eq!(serde_json::from_str::<OriginState>(&before).expect("an earlier one").answered(), None);
}
