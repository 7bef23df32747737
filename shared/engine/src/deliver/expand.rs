//! Messages to audiences: they are opened once, and then walked page by page.
//!
//! A page is sent before its part's progress is moved past it, and the progress is moved before the message that asked for
//! it is acknowledged. Dying in between sends a page again, and the claim drops the second. Where there is a rate, a page's bounds are
//! recorded before it is sent: a slower copy may read others behind them, because some have left, and sends those nothing yet.

use std::time::Duration;

use super::acknowledgements::Acknowledgements;
use super::job::Job;
use super::worker::{Invocation, Ports, Worker};
use crate::ports::{Audiences, Clock, PortError, Telemetry};
use redial_core::audience::{Audience, Expansion, Opening, Page, RecipientRef, Run, RunKey};
use redial_core::body::Body;
use redial_core::channel::Channel;
use redial_core::identity::SubscriptionId;
use redial_core::lane::Lane;
use redial_core::ledger;
use redial_core::message::{Message, Travel};
use redial_core::metric::Metric;
use redial_core::queue::{Outgoing, Queue};
use redial_core::route::DelaySeconds;
use redial_core::setback::Setback;
use redial_core::time::Timestamp;

/// How a walk over a part ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Walk {
    /// With the part, or with this invocation's time, or for a rest: whatever is to go on has its message.
    Over,
    /// Another worker walks it, and was faster.
    Crossed,
    /// A copy of the message that asked for the last page: until then the rate lets no further page go.
    Rests { until: Timestamp },
}

impl<P: Ports> Worker<P> {
    /// Stores these messages, each of which was claimed at that time, and sends the first message of every part of their audiences.
    pub(super) async fn open(&self, jobs: Vec<(Job, Timestamp)>, now: Timestamp) -> Acknowledgements {
        let mut acknowledgements = Acknowledgements::default();
        if jobs.is_empty() {
            return acknowledgements;
        }
        let mut new = Vec::new();
        let mut going = Vec::new();
        for ((job, at), earlier) in jobs.iter().zip(self.opened_without_an_opening(&jobs, now).await) {
            match earlier {
                Ok(Some(run)) => going.push((job, run)),
                Ok(None) => new.push((job, run(job, *at))),
                Err(error) => acknowledgements.failed(job.place, error, &self.telemetry),
            }
        }
        let opened = match new.iter().map(|(_, run)| run.clone()).collect::<Vec<_>>() {
            runs if runs.is_empty() => Vec::new(),
            runs => self.audiences.open(runs).await,
        };
        for ((job, run), opened) in new.into_iter().zip(opened) {
            match opened {
                Ok(()) => going.push((job, run.key)),
                Err(error) => acknowledgements.failed(job.place, error, &self.telemetry),
            }
        }
        let parts = going.into_iter().flat_map(|(job, run)| {
            Expansion::all(run).map(|part| (job.place, part.outgoing(LANE, DelaySeconds::ZERO)))
        });
        acknowledgements.extend(self.send(parts.collect()).await);
        acknowledgements
    }

    /// The runs of these claims, where the previous release opened them already and a crash kept it from sending all first messages:
    /// it named a run by its message alone. One that is older than the claim belongs to an earlier use of the same id.
    async fn opened_without_an_opening(
        &self,
        jobs: &[(Job, Timestamp)],
        now: Timestamp,
    ) -> Vec<Result<Option<RunKey>, PortError>> {
        let keys = jobs.iter().map(|(job, _)| RunKey::without_opening(&job.message.key())).collect();
        let loaded = self.audiences.load(keys, now).await;
        let of_claim = |run: Option<Run>, at| run.filter(|run| run.opened_at >= at).map(|run| run.key);
        loaded.into_iter().zip(jobs).map(|(run, (_, at))| run.map(|run| of_claim(run, *at))).collect()
    }

    /// Moves these parts on, one after the other.
    pub(super) async fn expand_all(
        &self,
        invocation: &Invocation,
        expansions: Vec<(usize, Expansion)>,
    ) -> Acknowledgements {
        let mut acknowledgements = Acknowledgements::default();
        for (place, expansion) in expansions {
            match self.expand(invocation, &expansion).await {
                Ok(Walk::Over) => acknowledgements.acknowledged(place),
                // The other may hold this very message, and die: it comes back when both of them are gone.
                Ok(Walk::Crossed) => {
                    acknowledgements.comes_back(place, Setback::Leased { until: invocation.deadline });
                }
                // The message for the next page may be lost: it is sent after the progress is moved.
                Ok(Walk::Rests { until }) => {
                    acknowledgements.comes_back(place, Setback::HeldBack { until });
                }
                Err(error) => acknowledgements.failed(place, error, &self.telemetry),
            }
        }
        acknowledgements
    }

    async fn expand(&self, invocation: &Invocation, expansion: &Expansion) -> Result<Walk, PortError> {
        let Self { settings, system: clock, telemetry, audiences, .. } = self;
        let Expansion { run: key, shard } = expansion;
        let go_on = async |run: &Run, after: Duration| {
            // Rounded up: a rest that was rounded down to nothing would be none. What SQS cannot delay for long enough comes early, and
            // rests by its visibility.
            let delay = DelaySeconds::floor(after + Duration::from_millis(999), settings.waits.sqs_max_delay);
            self.send_all(vec![expansion.outgoing(run.lane, delay)]).await.map(|()| Walk::Over)
        };
        let mut at = audiences.progress(key, *shard).await?;
        while !at.done {
            let mut loaded = audiences.load(vec![key.clone()], clock.now()).await;
            let run = loaded.pop().expect("a port answers every item")?;
            // Forgotten, for its time is over; or cancelled.
            let Some(run) = run.filter(|run| run.cancelled_at.is_none()) else { return Ok(Walk::Over) };
            let (message, audience, travel) = run.read().ok_or_else(PortError::unreadable_run)?;
            let now = clock.now();
            if message.deadline(Channel::WebPush, travel.first_sent).is_over(now, 0) {
                return Ok(Walk::Over);
            }
            if let Some(until) = at.rests_until.filter(|until| now < *until) {
                return Ok(Walk::Rests { until });
            }
            if invocation.is_ending(now) {
                return go_on(&run, Duration::ZERO).await;
            }
            let (most, after) = (audience.page(), at.after.as_ref());
            let members = audiences.members(&key.tenant, &audience.tag, *shard, after, most).await?;
            let mut page = Page::of(members, most);
            if let Some(own) = page.bounds().filter(|_| audience.rate.is_some()) {
                match audiences.bound(&run, *shard, after, &own).await? {
                    Some(bounds) => page = page.within(bounds),
                    None => return Ok(Walk::Crossed),
                }
            }
            let messages = messages_to(&page.members, &run, &message, &travel, clock.now());
            if !messages.is_empty() {
                self.send_all(messages).await?;
            }
            let rest = rest(&audience, page.counted);
            let next = at.past(&page, rest.map(|rest| clock.now().plus(rest)));
            if !audiences.advance(&run, *shard, &at, &next).await? {
                return Ok(Walk::Crossed);
            }
            telemetry.count(Metric::Recipients, page.members.len() as u64);
            at = next;
            if let Some(rest) = rest.filter(|_| !at.done) {
                return go_on(&run, rest).await;
            }
        }
        Ok(Walk::Over)
    }
}

/// Audiences are walked and sent in the bulk lane, whichever lane their message came by: a tenant's thousands of recipients, and what
/// walks them for hours at a rate, must not stand before another tenant's one-time code.
const LANE: Lane = Lane::Bulk;

/// The run of this message's claim, which was written at `at`: all of it follows from the two, however often it is opened.
fn run(job: &Job, at: Timestamp) -> Run {
    let opening = Opening { turn: job.travel.turn, at };
    Run {
        key: RunKey::new(&job.message.key(), opening),
        message: job.message.id.clone(),
        lane: LANE,
        body: Body::new(job.message.expose_stored_body(&job.travel.for_the_store(), job.deadline, at)),
        opened_at: at,
        kept_until: ledger::expires_at(at, Some(job.deadline.at())),
        cancelled_at: None,
    }
}

fn rest(audience: &Audience, recipients: usize) -> Option<Duration> {
    Some(audience.rest_after(recipients)).filter(|rest| !rest.is_zero())
}

fn messages_to(
    members: &[SubscriptionId],
    run: &Run,
    message: &Message,
    travel: &Travel,
    now: Timestamp,
) -> Vec<Outgoing> {
    let start = Travel::start(travel.first_sent);
    let to = |member: &SubscriptionId| {
        let own = message.to_recipient(&RecipientRef::new(&run.key, member.clone()));
        let deadline = own.deadline(Channel::WebPush, start.first_sent);
        Outgoing {
            queue: Queue::Retry(run.lane),
            body: own.expose_travel_body(&start, deadline, now),
            delay: DelaySeconds::ZERO,
            tenant: Some(run.key.tenant.clone()),
        }
    };
    members.iter().map(to).collect()
}
