//! The lines of origins: what an open breaker holds back waits in one until the origin may be sent to again ([`redial_core::line`]).
//!
//! No message is forgotten in a line. It is registered before anything lies in it, and once the messages are there the origin's state is
//! read consistently: if the origin lets messages go by then, the worker that put them releases the line, because the worker
//! that closed the breaker may have released it before. Who closes a breaker releases its lines, and a sweep each minute looks after all that are
//! registered: it is the net under every release that is lost, and the only one to notice what time alone changes.
//!
//! A release reads the origin's state for each page. While the origin holds messages back it sends none but those whose time is over, and
//! a few as probes if nothing else comes; while its pace is limited, as many as the pace has room for in the next ten seconds. What several
//! releases send together is limited, too: they take places in one shared bucket, and the tenants of a page take them in turn, by their weights. A page is deleted only after it was sent: a worker that
//! dies between the two sends it twice, and the claim drops the second.

use std::collections::BTreeSet;
use std::time::Duration;

use rand::RngExt as _;

use super::acknowledgements::{Acknowledgement, Acknowledgements};
use super::shards::Ask;
use super::waits::PAGE;
use super::worker::{Invocation, Ports, Worker};
use crate::ports::{
    Clock, LineRegistry, Outbox, ParkedItem, ParkedKey, Parking, Partition, PortError, Protection,
    Randomness, Telemetry,
};
use crate::protection::Transition;
use redial_core::identity::{DeliveryKey, Turn};
use redial_core::lane::Lane;
use redial_core::line::{Line, LineRelease, LineShard, RANKS, REMEMBERED};
use redial_core::metric::Metric;
use redial_core::protection::breaker::Phase;
use redial_core::protection::line::{LOT, LetsGo};
use redial_core::protection::token_bucket::{Answer, Request, TokenBucket};
use redial_core::protection::{Circuit, Rank};
use redial_core::queue::{Outgoing, Queue};
use redial_core::route::DelaySeconds;
use redial_core::setback::Setback;
use redial_core::time::Timestamp;
use redial_core::wait::Release;

/// The number of shards with messages in which those of different tenants are looked for to become probes.
const PROBED_SHARDS: usize = 16;

/// The number of messages of each that are read for that.
const OF_A_PROBED_SHARD: u16 = 25;

/// A shard is looked after no more often than this: of many releases that come together, two are enough.
const TURN: Duration = Duration::from_secs(5);

/// A turn that comes this soon is taken at once, and is none to come.
const SOON: Duration = Duration::from_secs(1);

/// As far as two workers' clocks are apart. A turn that the slower one takes for one to come may be over.
const CLOCKS_DIFFER: Duration = Duration::from_secs(3);

/// A message leaves its line this long before the end of its time, so that the end is noticed in time.
const LEAVES_BEFORE: Duration = Duration::from_secs(60);

/// A message that is to wait in a line.
pub(super) struct InLine {
    pub(super) place: usize,
    pub(super) line: Line,
    pub(super) rank: Rank,
    /// The latest end of its wait.
    pub(super) until: Timestamp,
    pub(super) delivery: DeliveryKey,
    pub(super) turn: Turn,
    /// The SQS message in whose place it waits: those of one place are copies.
    pub(super) in_place_of: String,
    /// The SQS message that it is. What has left a line and joins it again is another: its former place may still be deleted.
    pub(super) message_id: String,
    /// When it looks again if the line cannot take it.
    pub(super) or_at: Timestamp,
    /// Whether it was received before: it may have been sent on, and another one sent on would multiply it.
    pub(super) came_before: bool,
    /// The travelling body. Never log it.
    pub(super) body: String,
}

impl InLine {
    fn shard(&self, shards: u16) -> LineShard {
        self.line.shard_of(&self.delivery, self.rank, shards)
    }

    fn item(&self, shards: u16, now: Timestamp) -> ParkedItem {
        let Self { delivery, turn, in_place_of, message_id, .. } = self;
        ParkedItem {
            key: ParkedKey::in_line(
                self.shard(shards),
                self.until,
                delivery,
                *turn,
                (in_place_of, message_id),
            ),
            tenant: delivery.tenant.clone(),
            not_before: now,
            body: self.body.clone(),
        }
    }

    /// The same message on its retry queue.
    fn queued(&self, now: Timestamp) -> Outgoing {
        Outgoing {
            queue: Queue::Retry(self.line.lane),
            body: self.body.clone(),
            delay: DelaySeconds::floor(self.or_at.since(now), DelaySeconds::MOST),
            tenant: Some(self.delivery.tenant.clone()),
            attribute: None,
        }
    }
}

impl<P: Ports> Worker<P> {
    pub(super) async fn line_up(&self, mut waiting: Vec<InLine>) -> Acknowledgements {
        let Self { system, telemetry, .. } = self;
        let mut acknowledgements = Acknowledgements::default();
        let mut refused = Vec::new();
        waiting.sort_unstable_by(|one, other| one.line.cmp(&other.line).then(one.place.cmp(&other.place)));
        for own in waiting.chunk_by(|one, other| one.line == other.line) {
            let line = &own[0].line;
            let put = self.put_in_line(line, own, system.now()).await;
            let (mut stored, mut shards) = (Vec::new(), BTreeSet::new());
            for (it, put) in own.iter().zip(put) {
                match put {
                    Ok(shard) => {
                        stored.push(it.place);
                        shards.insert(shard);
                    }
                    Err(error) if !error.throttled => acknowledgements.failed(it.place, error, telemetry),
                    Err(_) => refused.push(it),
                }
            }
            if stored.is_empty() {
                continue;
            }
            telemetry.count(Metric::Parked, stored.len() as u64);
            let released = self.release_if_it_lets_go(line, shards).await;
            acknowledgements.extend(
                stored.into_iter().map(|place| (place, Acknowledgement::of(released.clone(), telemetry))),
            );
        }
        let now = system.now();
        let mut queued = Vec::new();
        for it in refused {
            if it.came_before {
                acknowledgements.comes_back(it.place, Setback::HeldBack { until: it.or_at });
            } else {
                queued.push((it.place, it.queued(now)));
            }
        }
        acknowledgements.extend(self.send(queued).await);
        acknowledgements
    }

    /// Returns in which shard of the line each of them lies.
    async fn put_in_line(&self, line: &Line, own: &[InLine], now: Timestamp) -> Vec<Result<u16, PortError>> {
        let shards = match self.shards_for_line(line, own.len() as u64, now).await {
            Ok(shards) => shards,
            Err(error) => return vec![Err(error); own.len()],
        };
        let put = self.parking.put(own.iter().map(|it| it.item(shards, now)).collect()).await;
        own.iter().zip(put).map(|(it, put)| put.map(|()| it.shard(shards).number)).collect()
    }

    /// Over how many shards messages are spread that are about to be put in this line. It is registered with them.
    async fn shards_for_line(&self, line: &Line, messages: u64, now: Timestamp) -> Result<u16, PortError> {
        let waits = &self.settings.waits;
        let messages = match self.known_lines.ask(line, messages, waits.shards, now) {
            Ask::Known(shards) => return Ok(shards),
            Ask::Report(messages) => messages,
        };
        let registered = self.wait_registry.register_line(line.clone(), messages, now).await?;
        let wanted = waits.shards_for(registered.messages).max(registered.shards);
        if wanted > registered.shards {
            self.wait_registry.divide_line(line.clone(), wanted).await?;
        }
        self.known_lines.learn(line.clone(), wanted, now.plus(REMEMBERED), now);
        Ok(wanted)
    }

    /// The worker that closed the breaker may have released the line before these messages lay in it. If the state cannot be read, the sweep
    /// looks after the line. Only these shards are released: while an origin recovers, many a batch joins its line, which has many.
    async fn release_if_it_lets_go(&self, line: &Line, shards: BTreeSet<u16>) -> Result<(), PortError> {
        match self.lets_go(line).await {
            Ok(LetsGo::None | LetsGo::Probes(_)) => Ok(()),
            Ok(LetsGo::PerSecond(_) | LetsGo::All) => self.send_all(releases_of(line, shards)).await,
            Err(error) => {
                self.telemetry.infrastructure(&error);
                Ok(())
            }
        }
    }

    /// What the origin's state lets go as it is now.
    async fn lets_go(&self, line: &Line) -> Result<LetsGo, PortError> {
        if !self.guard.judges() {
            return Ok(LetsGo::All);
        }
        let (stored, _) = self.protection.look(&Circuit::Origin(line.origin.clone())).await?;
        Ok(stored.state.lets_go(self.system.now()))
    }

    /// Releases the lines of origins whose breakers let messages go from now on. A release that is lost is made up for by the sweep.
    pub(super) async fn release_lines(&self, transitions: &[Transition]) {
        let lets_go = |transition: &&Transition| {
            matches!(transition.circuit, Circuit::Origin(_))
                && matches!(transition.to, Phase::Ramping { .. } | Phase::Closed)
        };
        let lines = transitions.iter().filter(lets_go).flat_map(|transition| {
            Lane::ALL.map(|lane| Line { lane, origin: transition.circuit.origin().clone() })
        });
        let releases: Vec<Outgoing> =
            lines.map(|line| Outgoing::release(Release::Line(line.into()))).collect();
        if releases.is_empty() {
            return;
        }
        for sent in self.outbox.send(releases).await {
            if let Err(error) = sent {
                self.telemetry.infrastructure(&error);
            }
        }
    }

    /// Looks after a line, or after one of its shards.
    pub(super) async fn release_line(
        &self,
        invocation: &Invocation,
        release: LineRelease,
    ) -> Result<(), PortError> {
        match release.shard {
            Some(number) => self.release_shard(invocation, release, number).await,
            None => self.look_after(invocation, release.line).await,
        }
    }

    async fn look_after(&self, invocation: &Invocation, line: Line) -> Result<(), PortError> {
        let Some(registered) = self.wait_registry.line(line.clone()).await? else { return Ok(()) };
        match self.lets_go(&line).await? {
            LetsGo::None => self.end_those_over(invocation, &line, registered.shards).await,
            LetsGo::Probes(number) => {
                self.end_those_over(invocation, &line, registered.shards).await?;
                self.send_as_probes(&line, registered.shards, number).await
            }
            LetsGo::PerSecond(_) | LetsGo::All => {
                self.send_all(releases_of(&line, 0..registered.shards)).await
            }
        }
    }

    /// Sends on what has waited for as long as it may: it ends, or waits on. The next sweep goes on where the invocation has no time left.
    async fn end_those_over(
        &self,
        invocation: &Invocation,
        line: &Line,
        shards: u16,
    ) -> Result<(), PortError> {
        let over = self.system.now().plus(LEAVES_BEFORE);
        for shard in line.shards(shards) {
            loop {
                if invocation.is_ending(self.system.now()) {
                    return Ok(());
                }
                let mut page = self.parking.page(Partition::Line(shard.clone()), PAGE).await?;
                let all = page.len();
                page.retain(|item| item.key.until().is_none_or(|until| until <= over));
                let leave = page.len();
                self.send_on(page, |_, _| Duration::ZERO).await?;
                // A page ends after a megabyte: what is over may be on the next one.
                if leave == 0 || leave < all {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Sends a few to become probes: of different tenants, as far as the line has them. A tenant's messages lie in some of the shards, so
    /// several are looked at, and not the same ones each time.
    async fn send_as_probes(&self, line: &Line, shards: u16, number: u32) -> Result<(), PortError> {
        let number = number as usize;
        let first = self.system.rng().random_range(0..shards.max(1));
        let (mut others, mut same): (Vec<ParkedItem>, Vec<_>) = (Vec::new(), Vec::new());
        let mut looked_at = 0;
        for shard in line.shards_from(first, shards) {
            let found = others.len() + same.len();
            if others.len() >= number || (found >= number && looked_at >= PROBED_SHARDS) {
                break;
            }
            let page = self.parking.page(Partition::Line(shard), OF_A_PROBED_SHARD).await?;
            looked_at += usize::from(!page.is_empty());
            for item in page {
                let is_new = others.iter().all(|other| other.tenant != item.tenant);
                if is_new { others.push(item) } else { same.push(item) }
            }
        }
        let chosen = others.into_iter().chain(same).take(number).collect();
        self.send_on(chosen, |_, _| Duration::ZERO).await
    }

    async fn release_shard(
        &self,
        invocation: &Invocation,
        release: LineRelease,
        number: u16,
    ) -> Result<(), PortError> {
        let Self { system, .. } = self;
        let line = &release.line;
        if release.turn.is_none() {
            match self.take_turn(line, number).await? {
                Some(turn) if turn > system.now().plus(SOON) => {
                    let delay = DelaySeconds::floor(turn.since(system.now()), DelaySeconds::MOST);
                    let later = Release::Line(LineRelease { turn: Some(turn), ..release.clone() });
                    return self.send_all(vec![Outgoing { delay, ..Outgoing::release(later) }]).await;
                }
                Some(_) => {}
                // Another release of this shard is to come, and finds all that lies there now.
                None => return Ok(()),
            }
        }
        let again = |after: Duration| {
            let delay = DelaySeconds::floor(after, DelaySeconds::MOST);
            Outgoing {
                delay,
                ..Outgoing::release(Release::Line(LineRelease { turn: None, ..release.clone() }))
            }
        };
        for rank in RANKS {
            let partition = LineShard { line: line.clone(), rank, number };
            loop {
                if invocation.is_ending(system.now()) {
                    return self.send_all(vec![again(Duration::ZERO)]).await;
                }
                let page = self.parking.page(partition.clone().into(), PAGE).await?;
                if page.is_empty() {
                    break;
                }
                match self.places(line, page.len()).await? {
                    Places::None => return Ok(()),
                    Places::Full => return self.send_all(vec![again(LOT / 2)]).await,
                    Places::From { begin, per_second } => {
                        let page = self.in_turn(page).await;
                        let now = system.now();
                        let after = |nth: usize, _: &ParkedItem| {
                            begin.since(now) + Duration::from_secs_f64(nth as f64 / per_second)
                        };
                        self.send_on(page, after).await?;
                    }
                    Places::Any => self.send_on(page, |_, _| Duration::ZERO).await?,
                }
            }
        }
        Ok(())
    }

    /// A page in the order in which its tenants' messages leave.
    async fn in_turn(&self, page: Vec<ParkedItem>) -> Vec<ParkedItem> {
        if page.iter().any(|item| item.tenant != page[0].tenant) {
            let tenants = page.iter().map(|item| &item.tenant);
            let error = self.guard.follow(&self.protection, tenants, self.system.now()).await;
            error.iter().for_each(|error| self.telemetry.infrastructure(error));
        }
        self.guard.in_turn(page, |item| (Rank::Last, &item.tenant))
    }

    /// When a release looks after a shard; `None` if another is to come.
    async fn take_turn(&self, line: &Line, number: u16) -> Result<Option<Timestamp>, PortError> {
        Ok(match self.protection.lease(next_turn(line, number, self.system.now())).await? {
            Answer::Leased { begin } => Some(begin),
            Answer::Empty { .. } => None,
        })
    }

    /// Places for `number` messages among those that leave a line.
    async fn places(&self, line: &Line, number: usize) -> Result<Places, PortError> {
        let per_second = match self.lets_go(line).await? {
            LetsGo::None | LetsGo::Probes(_) => return Ok(Places::None),
            LetsGo::All => return Ok(Places::Any),
            LetsGo::PerSecond(per_second) => per_second,
        };
        let now = self.system.now();
        let key = TokenBucket::Line(line.to_string()).key();
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        let request = Request::new(key, number, per_second, Some(now.plus(LOT)), now);
        Ok(match self.protection.lease(request).await? {
            Answer::Leased { begin } => Places::From { begin, per_second },
            Answer::Empty { .. } => Places::Full,
        })
    }
}

fn releases_of(line: &Line, shards: impl IntoIterator<Item = u16>) -> Vec<Outgoing> {
    let of = |number| LineRelease { line: line.clone(), shard: Some(number), turn: None };
    shards.into_iter().map(|number| Outgoing::release(Release::Line(of(number)))).collect()
}

/// A turn at a shard; refused if another release has one to come.
fn next_turn(line: &Line, number: u16, now: Timestamp) -> Request {
    let key = TokenBucket::Turn(line.to_string(), number).key();
    Request::new(key, 1, 1.0 / TURN.as_secs_f64(), Some(now.plus(TURN + SOON + CLOCKS_DIFFER)), now)
}

/// Places for a page of messages that leave a line.
enum Places {
    /// The origin holds messages back.
    None,
    /// The next ten seconds' are taken.
    Full,
    From {
        begin: Timestamp,
        per_second: f64,
    },
    Any,
}

#[cfg(test)]
mod tests {
    use super::*;
    use redial_core::endpoint::Origin;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// What lies in the line since the turn before would else wait for the sweep.
    #[test]
    fn a_clock_that_is_behind_confuses_no_past_turn_with_the_next() {
        let origin = Origin::parse("https://push.example").expect("an origin");
        let line = Line { lane: Lane::Transactional, origin };
        let now = Timestamp::from_secs(1_800_000_000);
        let turn = |now: Timestamp| next_turn(&line, 0, now);
        for soon in [0, 500, 1_000].map(ms) {
            // Had at once, by the clock of the first worker.
            let had = now.plus(soon);
            let free_from = Some(had.plus(turn(had).span));
            for behind in [0, 1_700, 3_000].map(ms) {
                let answer = turn(now.minus(behind)).judge(free_from);
                assert!(matches!(answer, Answer::Leased { .. }), "{soon:?} {behind:?}: {answer:?}");
            }
        }
        let to_come = now.plus(TURN);
        let answer = turn(now).judge(Some(to_come.plus(TURN)));
        assert!(matches!(answer, Answer::Empty { .. }), "two releases are enough: {answer:?}");
    }
}
