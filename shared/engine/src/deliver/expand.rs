//! Messages to audiences: they are opened once, and then walked page by page.
//!
//! A page is sent before its part's progress is moved past it, and the progress is moved before the message that asked for
//! it is acknowledged. Dying in between sends a page again, and the claim drops the second.

use std::collections::HashMap;
use std::time::Duration;

use super::fate::{Fate, Setback};
use super::hand_off::{self, fate_of};
use super::inbox::{Job, Unread};
use super::{Invocation, RESERVE, Settings};
use crate::ports::{Audiences, Clock, Environment, Outbox, PortError, Telemetry};
use redial_core::audience::{Audience, Expansion, Opening, RecipientRef, Run, RunKey};
use redial_core::body::Body;
use redial_core::channel::Channel;
use redial_core::identity::SubscriptionId;
use redial_core::ledger;
use redial_core::message::{Inbound, Message, Refusal, Travel};
use redial_core::metric::Metric;
use redial_core::queue::{Outgoing, Queue};
use redial_core::route::DelaySeconds;
use redial_core::time::Timestamp;

/// What was read of the messages to audiences that recipients in a batch refer to.
pub(super) type Runs = HashMap<RunKey, Result<Option<Told>, PortError>>;

/// What recipients of a message to an audience get.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) message: Message,
    /// Whether it was called off.
    pub(super) is_cancelled: bool,
}

impl Told {
    fn by(run: &Run) -> Result<Self, PortError> {
        let (message, _, _) = run.read().ok_or_else(PortError::unreadable_run)?;
        Ok(Self { message, is_cancelled: run.cancelled_at.is_some() })
    }
}

/// Reads them, each once.
pub(super) async fn runs<E: Environment>(env: &E, read: &[Result<Inbound, Refusal>]) -> Runs {
    let mut wanted: Vec<RunKey> = read
        .iter()
        .filter_map(|inbound| match inbound {
            Ok(Inbound::Recipient(recipient, _)) => Some(recipient.run.clone()),
            Ok(Inbound::Message(..) | Inbound::Release(_) | Inbound::Expand(_)) | Err(_) => None,
        })
        .collect();
    wanted.sort();
    wanted.dedup();
    if wanted.is_empty() {
        return Runs::new();
    }
    let answers = env.audiences().load(wanted.clone(), env.clock().now()).await;
    let told = answers.into_iter().map(|run| run?.as_ref().map(Told::by).transpose());
    wanted.into_iter().zip(told).collect()
}

/// What becomes of a recipient's message that could not be put together. What it belongs to is kept for longer than its TTL: if
/// that is forgotten, the TTL is over.
pub(super) fn fate_of_unread<E: Environment>(env: &E, why: Unread) -> Fate {
    match why {
        Unread::Forgotten => {
            env.telemetry().count(Metric::Expired, 1);
            Fate::Acknowledged
        }
        Unread::Failed(error) => fate_of(env, Err(error)),
    }
}

/// Stores these messages, each of which was claimed at that time, and sets every part of their audiences going.
pub(super) async fn open<E: Environment>(env: &E, jobs: Vec<(Job, Timestamp)>) -> Vec<(usize, Fate)> {
    if jobs.is_empty() {
        return Vec::new();
    }
    let mut fates = Vec::new();
    let mut new = Vec::new();
    let mut going = Vec::new();
    for ((job, at), earlier) in jobs.iter().zip(opened_without_an_opening(env, &jobs).await) {
        match earlier {
            Ok(Some(run)) => going.push((job, run)),
            Ok(None) => new.push((job, run(job, *at))),
            Err(error) => fates.push((job.index, fate_of(env, Err(error)))),
        }
    }
    let opened = match new.iter().map(|(_, run)| run.clone()).collect::<Vec<_>>() {
        runs if runs.is_empty() => Vec::new(),
        runs => env.audiences().open(runs).await,
    };
    for ((job, run), opened) in new.into_iter().zip(opened) {
        match opened {
            Ok(()) => going.push((job, run.key)),
            Err(error) => fates.push((job.index, fate_of(env, Err(error)))),
        }
    }
    let parts: Vec<_> = going
        .iter()
        .flat_map(|(job, run)| {
            let part = |part: Expansion| (job.index, part.outgoing(job.lane, DelaySeconds::ZERO));
            Expansion::all(run.clone()).map(part)
        })
        .collect();
    let sent = hand_off::send(env, parts).await;
    fates.extend(going.into_iter().map(|(job, _)| {
        let failed = sent.iter().find(|(of, fate)| *of == job.index && *fate != Fate::Acknowledged);
        (job.index, failed.map_or(Fate::Acknowledged, |(_, fate)| fate.clone()))
    }));
    fates
}

/// The run of this message's claim, which was written at `at`: all of it follows from the two, however often it is opened.
fn run(job: &Job, at: Timestamp) -> Run {
    let opening = Opening { turn: job.travel.turn, at };
    Run {
        key: RunKey::new(&job.message.key(), opening),
        message: job.message.id.clone(),
        lane: job.lane,
        body: Body::new(job.message.expose_stored_body(&job.travel.for_the_store(), job.deadline, at)),
        opened_at: at,
        kept_until: ledger::expires_at(at, Some(job.deadline.at())),
        cancelled_at: None,
    }
}

/// The runs of these claims, where the previous release opened them already and a crash kept it from setting all parts going:
/// it named a run by its message alone. One that is older than the claim belongs to an earlier use of the same id.
async fn opened_without_an_opening<E: Environment>(
    env: &E,
    jobs: &[(Job, Timestamp)],
) -> Vec<Result<Option<RunKey>, PortError>> {
    let keys = jobs.iter().map(|(job, _)| RunKey::without_opening(&job.message.key())).collect();
    let loaded = env.audiences().load(keys, env.clock().now()).await;
    let of_claim = |run: Option<Run>, at| run.filter(|run| run.opened_at >= at).map(|run| run.key);
    loaded.into_iter().zip(jobs).map(|(run, (_, at))| run.map(|run| of_claim(run, *at))).collect()
}

/// Moves these parts on, one after the other.
pub(super) async fn expand_all<E: Environment>(
    env: &E,
    settings: &Settings,
    invocation: &Invocation,
    expansions: Vec<(usize, Expansion)>,
) -> Vec<(usize, Fate)> {
    let mut fates = Vec::with_capacity(expansions.len());
    for (index, expansion) in expansions {
        let fate = match expand(env, settings, invocation, &expansion).await {
            Ok(Walk::Over) => Fate::Acknowledged,
            // The other may hold this very message, and die: it comes back when both of them are gone.
            Ok(Walk::Crossed) => Fate::ComesBack(Setback::Leased { until: invocation.deadline }),
            Err(error) => fate_of(env, Err(error)),
        };
        fates.push((index, fate));
    }
    fates
}

/// How a walk over a part ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Walk {
    /// With the part, or with this invocation's time, or for a rest: whatever is to go on has its message.
    Over,
    /// Another worker walks it, and was faster.
    Crossed,
}

async fn expand<E: Environment>(
    env: &E,
    settings: &Settings,
    invocation: &Invocation,
    expansion: &Expansion,
) -> Result<Walk, PortError> {
    let Expansion { run: key, shard } = expansion;
    let mut at = env.audiences().progress(key, *shard).await?;
    while !at.done {
        let mut answers = env.audiences().load(vec![key.clone()], env.clock().now()).await;
        let run = answers.pop().expect("a port answers every item")?;
        // Forgotten, for its time is over; or called off.
        let Some(run) = run.filter(|run| run.cancelled_at.is_none()) else { return Ok(Walk::Over) };
        let (message, audience, travel) = run.read().ok_or_else(PortError::unreadable_run)?;
        let now = env.clock().now();
        if message.deadline(Channel::WebPush, travel.first_sent).is_over(now, 0) {
            return Ok(Walk::Over);
        }
        if now.plus(RESERVE) >= invocation.deadline {
            again(env, expansion, &run, Duration::ZERO, settings).await?;
            return Ok(Walk::Over);
        }
        let page = audience.page();
        let members = env.audiences().members(&key.tenant, &audience.tag, *shard, at.after.as_ref(), page);
        let members = members.await?;
        send(env, &run, &message, &travel, &members).await?;
        let next = at.past(&members, page);
        if !env.audiences().advance(&run, *shard, &at, &next).await? {
            return Ok(Walk::Crossed);
        }
        env.telemetry().count(Metric::Recipients, members.len() as u64);
        at = next;
        if let Some(rest) = rest(&audience, members.len()).filter(|_| !at.done) {
            again(env, expansion, &run, rest, settings).await?;
            return Ok(Walk::Over);
        }
    }
    Ok(Walk::Over)
}

fn rest(audience: &Audience, recipients: usize) -> Option<Duration> {
    Some(audience.rest_after(recipients)).filter(|rest| !rest.is_zero())
}

async fn again<E: Environment>(
    env: &E,
    expansion: &Expansion,
    run: &Run,
    after: Duration,
    settings: &Settings,
) -> Result<(), PortError> {
    // Rounded up: a rest that were rounded down to nothing would be none.
    let delay = DelaySeconds::floor(after + Duration::from_millis(999), settings.waits.sqs_max_delay);
    env.outbox().send(vec![expansion.outgoing(run.lane, delay)]).await.into_iter().collect()
}

async fn send<E: Environment>(
    env: &E,
    run: &Run,
    message: &Message,
    travel: &Travel,
    members: &[SubscriptionId],
) -> Result<(), PortError> {
    if members.is_empty() {
        return Ok(());
    }
    let start = Travel::start(travel.first_sent);
    let now = env.clock().now();
    let messages = members
        .iter()
        .map(|member| {
            let own = message.to_recipient(&RecipientRef::new(&run.key, member.clone()));
            let deadline = own.deadline(Channel::WebPush, start.first_sent);
            Outgoing {
                queue: Queue::Retry(run.lane),
                body: own.expose_travel_body(&start, deadline, now),
                delay: DelaySeconds::ZERO,
                tenant: Some(run.key.tenant.clone()),
            }
        })
        .collect();
    env.outbox().send(messages).await.into_iter().collect()
}
