//! What workers share, in memory: the port to it, on the virtual clock.
//!
//! It is late where the real one is. What is added to a counter can be looked at only a while later, and what is read for
//! the cache is as old; exchanges and leases are exact, because they are conditional writes there.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use redial_core::{
    protection::{Circuit, Counted, OriginState, token_bucket},
    rate::Rate,
    time::Timestamp,
};
use redial_engine::ports::{Allowed, Limited, PortError, Protection, StoredOrigin};

#[derive(Debug)]
pub(super) struct Store {
    limit: Option<Rate>,
    lag: Duration,
    shared: Mutex<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    now: Timestamp,
    circuits: HashMap<Circuit, Shelf>,
    free_from: HashMap<String, Timestamp>,
}

#[derive(Debug, Default)]
struct Shelf {
    /// States by the moment at which they were written; of those that everyone can read, only the last.
    states: VecDeque<(Timestamp, StoredOrigin)>,
    /// The sum of what can be looked at.
    counted: Counted,
    /// What was added and cannot be looked at yet, by the moment at which it was.
    added: VecDeque<(Timestamp, Counted)>,
}

impl Store {
    /// A store in which every origin has this limit, and which is so late.
    pub(super) fn new(limit: Option<Rate>, lag: Duration) -> Self {
        Self { limit, lag, shared: Mutex::default() }
    }

    pub(super) fn is_at(&self, now: Timestamp) {
        self.shared().now = now;
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shelf {
    fn newest(&self) -> StoredOrigin {
        self.states.back().map(|(_, stored)| stored.clone()).unwrap_or_default()
    }

    /// The newest that was written by then.
    fn as_of(&self, then: Timestamp) -> StoredOrigin {
        let written = self.states.iter().rev().find(|(at, _)| *at <= then);
        written.map(|(_, stored)| stored.clone()).unwrap_or_default()
    }

    fn write(&mut self, stored: StoredOrigin, now: Timestamp, lag: Duration) {
        self.states.push_back((now, stored));
        let everyone_reads = now.minus(lag);
        while self.states.get(1).is_some_and(|(at, _)| *at <= everyone_reads) {
            self.states.pop_front();
        }
    }

    /// The sum of what was added by then.
    fn sum(&mut self, then: Timestamp) -> Counted {
        while let Some((_, count)) = self.added.pop_front_if(|(at, _)| *at <= then) {
            self.counted = self.counted.plus(&count);
        }
        self.counted.clone()
    }
}

impl Protection for Store {
    async fn read(
        &self,
        circuits: Vec<Circuit>,
        limits: Vec<Limited>,
    ) -> Result<(Vec<StoredOrigin>, Vec<Allowed>), PortError> {
        let shared = self.shared();
        let then = shared.now.minus(self.lag);
        let stored = |circuit| shared.circuits.get(circuit).map(|it| it.as_of(then)).unwrap_or_default();
        let limit = |limited: &Limited| match limited {
            Limited::Origin(_) => self.limit.map(Allowed::from).unwrap_or_default(),
            Limited::Tenant(_) => Allowed::default(),
        };
        Ok((circuits.iter().map(stored).collect(), limits.iter().map(limit).collect()))
    }

    async fn look(&self, circuit: &Circuit) -> Result<(StoredOrigin, Counted), PortError> {
        let mut shared = self.shared();
        let then = shared.now.minus(self.lag);
        let shelf = shared.circuits.entry(circuit.clone()).or_default();
        Ok((shelf.newest(), shelf.sum(then)))
    }

    async fn exchange(
        &self,
        circuit: &Circuit,
        version: u64,
        state: OriginState,
        now: Timestamp,
    ) -> Result<bool, PortError> {
        let mut shared = self.shared();
        let shelf = shared.circuits.entry(circuit.clone()).or_default();
        let ours = shelf.states.back().map_or(0, |(_, stored)| stored.version) == version;
        if ours {
            shelf.write(StoredOrigin { state, version: version + 1 }, now, self.lag);
        }
        Ok(ours)
    }

    async fn add(
        &self,
        _counter: u16,
        counts: Vec<(Circuit, Counted)>,
        now: Timestamp,
    ) -> Vec<Result<(), PortError>> {
        let mut shared = self.shared();
        let add = |(circuit, count): (Circuit, Counted)| {
            shared.circuits.entry(circuit).or_default().added.push_back((now, count));
            Ok(())
        };
        counts.into_iter().map(add).collect()
    }

    async fn lease(&self, request: token_bucket::Request) -> Result<token_bucket::Answer, PortError> {
        let mut shared = self.shared();
        let answer = request.judge(shared.free_from.get(&request.key).copied());
        if let token_bucket::Answer::Leased { begin } = answer {
            shared.free_from.insert(request.key.clone(), begin.plus(request.span));
        }
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use redial_core::protection::Count;

    use super::*;

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_secs(1_000_000 + secs)
    }

    fn circuit() -> Circuit {
        Circuit::parse("https://push.example").expect("an origin")
    }

    /// Two seconds late.
    fn store() -> Store {
        Store::new(Rate::parse("50/s").ok(), Duration::from_secs(2))
    }

    fn ready<T>(answer: impl Future<Output = Result<T, PortError>>) -> T {
        answer.now_or_never().expect("ready").expect("no error")
    }

    fn read(store: &Store, now: i64) -> u64 {
        store.is_at(at(now));
        let (states, limits) =
            ready(store.read(vec![circuit()], vec![Limited::Origin(circuit().origin().clone())]));
        assert_eq!(limits, [Rate::parse("50/s").expect("valid").into()]);
        states[0].version
    }

    fn exchange(store: &Store, version: u64, now: i64) -> bool {
        ready(store.exchange(&circuit(), version, OriginState::default(), at(now)))
    }

    #[test]
    fn what_is_added_can_be_looked_at_only_after_a_while() {
        let store = store();
        let count = |attempts| Counted::from(Count { attempts, ..Count::default() });
        for (counter, now) in [(0, 0), (1, 1)] {
            store.add(counter, vec![(circuit(), count(7))], at(now)).now_or_never().expect("ready");
        }
        for (now, sum) in [(0, 0), (1, 0), (2, 7), (3, 14), (4, 14)] {
            store.is_at(at(now));
            assert_eq!(ready(store.look(&circuit())).1, count(sum), "{now}");
        }
    }

    #[test]
    fn what_is_written_is_read_late_and_exchanged_at_once() {
        let store = store();
        assert!(exchange(&store, 0, 0));
        assert!(!exchange(&store, 0, 0), "another stands there");
        assert!(exchange(&store, 1, 1));
        assert_eq!([0, 1, 2, 3, 4].map(|now| read(&store, now)), [0, 0, 1, 2, 2]);
        assert_eq!(ready(store.look(&circuit())).0.version, 2);
        assert!(exchange(&store, 2, 4));
        assert_eq!([5, 6].map(|now| read(&store, now)), [2, 3], "only what no reader can see is forgotten");
    }

    #[test]
    fn a_lease_is_never_given_twice() {
        use token_bucket::{
            Answer::{Empty, Leased},
            Request,
        };
        let store = store();
        for (key, answer) in [
            ("a", Leased { begin: at(0) }),
            ("a", Leased { begin: at(1) }),
            ("a", Empty { free_from: at(2) }),
            ("b", Leased { begin: at(0) }),
        ] {
            let request = Request::new(key.to_owned(), 5, 5.0, Some(at(1)), at(0));
            assert_eq!(ready(store.lease(request)), answer, "{key}");
        }
    }
}
