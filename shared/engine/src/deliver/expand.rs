//! Messages to audiences: they are opened once, and then walked page by page.
//!
//! A page is sent before its part's progress is moved past it, and the progress is moved before the message that asked for
//! it is acknowledged. Dying in between sends a page again, and the claim drops the second. Where there is a rate, a page's bounds are
//! recorded before it is sent: a slower copy may read others behind them, because some have left, and sends those nothing yet.

use std::time::Duration;

use super::acknowledgements::Acknowledgements;
use super::job::Job;
use super::worker::{Invocation, Ports, Worker};
use crate::ports::{AudienceExpired, Audiences, Clock, PortError, Telemetry};
use crate::runs;
use redial_core::audience::{Audience, Expansion, Page, RecipientRef, Run, RunKey};
use redial_core::channel::Channel;
use redial_core::identity::SubscriptionId;
use redial_core::message::{Message, Travel};
use redial_core::metric::Metric;
use redial_core::page::{PageKey, PageMessage};
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
    pub(super) async fn open(&self, jobs: Vec<(Job, Timestamp)>) -> Acknowledgements {
        let mut acknowledgements = Acknowledgements::default();
        if jobs.is_empty() {
            return acknowledgements;
        }
        let opened: Vec<Run> = jobs
            .iter()
            .map(|(job, at)| Run {
                by_the_page: self.settings.audience_pages,
                ..runs::of_claim(&job.message, &job.travel, job.deadline, *at)
            })
            .collect();
        let mut parts = Vec::new();
        let keys: Vec<RunKey> = opened.iter().map(|run| run.key.clone()).collect();
        for (((job, _), run), opened) in jobs.iter().zip(keys).zip(self.audiences.open(opened).await) {
            match opened {
                Ok(()) => parts.extend(runs::first_messages(run).map(|part| (job.place, part))),
                Err(error) => acknowledgements.failed(job.place, error, &self.telemetry),
            }
        }
        acknowledgements.extend(self.send(parts).await);
        acknowledgements
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
                let left =
                    audiences.members(&key.tenant, &audience.tag, *shard, at.after.as_ref(), 1).await?;
                if !left.is_empty() {
                    // They have no deliveries, which would show it.
                    let (message, part, recipients) = (&run.message, expansion, at.recipients);
                    telemetry.audience_expired(&AudienceExpired { message, part, recipients });
                }
                return Ok(Walk::Over);
            }
            if let Some(until) = at.rests_until.filter(|until| now < *until) {
                return Ok(Walk::Rests { until });
            }
            if invocation.is_ending(now) {
                return go_on(&run, Duration::ZERO).await;
            }
            let after = at.after.as_ref();
            let mut page = self.page(expansion, &audience, after).await?;
            let mut whole = None;
            if run.by_the_page && !page.members.is_empty() {
                let at = PageKey::next(key.clone(), *shard, &at);
                let members = audiences.record_page(&run, &at, &page.members, &message.given(None)).await?;
                page = page.recorded(members.clone());
                whole = Some(PageMessage { key: at, members, apart: false });
            } else if let Some(own) = page.bounds().filter(|_| audience.rate.is_some()) {
                let Some(bounds) = audiences.bound(&run, *shard, after, &own).await? else {
                    return Ok(Walk::Crossed);
                };
                while page.ends_before(&bounds) {
                    let next = self.page(expansion, &audience, page.through()).await?;
                    page = page.and(next);
                }
                page = page.within(bounds);
            }
            let messages = match whole {
                Some(whole) => vec![whole.outgoing(run.lane)],
                None => messages_to(&page.members, &run, &message, &travel, clock.now()),
            };
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

    /// The members of a part that follow `after`, as a page of their audience.
    async fn page(
        &self,
        part: &Expansion,
        audience: &Audience,
        after: Option<&SubscriptionId>,
    ) -> Result<Page, PortError> {
        let (tenant, most) = (&part.run.tenant, audience.page());
        let members = self.audiences.members(tenant, &audience.tag, part.shard, after, most).await?;
        Ok(Page::of(members, most))
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
            attribute: None,
        }
    };
    members.iter().map(to).collect()
}
