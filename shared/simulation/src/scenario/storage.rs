//! What becomes of subscriptions, keys and rows of tables, and which release workers run.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use super::drawing::{SENDING, moment, secs};
use super::faults::{Faults, Outage};
use super::messages::Sending;
use super::receivers::{Behaviour, Hostile, Receiver};

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);

/// In this number of a thousand scenarios something happens to what is stored.
const PARTS: u32 = 320;
const ALL_PARTS: u32 = 1_000;

/// From this number of endpoints on that turn gone together, all are kept: infra/docs/operate.md.
const GREAT: usize = 10;

/// What happens to what is stored.
#[derive(Clone, PartialEq, Debug)]
pub enum Act {
    /// A user's subscription is erased.
    Erases(&'static str, usize),
    /// A tenant asks the HTTP API to erase a person: its subscription, and all with the `ref` of its messages.
    ErasesPerson(&'static str, usize),
    /// A browser subscribes: with a new endpoint, or with the one that it had last.
    Subscribes { tenant: &'static str, receiver: usize, is_new: bool },
    /// An operator switches a webhook's receiver off.
    Disables(&'static str, usize),
    /// An operator switches it on again: its health starts over.
    Enables(&'static str, usize),
    /// The next step of a rotation of the key of hashes: all workers are restarted with these keys.
    Rotates(&'static str),
    /// An operator says of every other subscription in quarantine that its endpoint is gone.
    Confirms(&'static str),
    /// TTL deletes expired rows, each with this probability.
    Expires(f64),
    /// The ledger has forgotten these ids by now: what is sent with them is new.
    Reuses,
}

/// Two releases side by side.
#[derive(Clone, PartialEq, Debug)]
pub struct Releases {
    /// The share of workers that run the newer one from `from` to `until`.
    pub share: f64,
    pub from: Duration,
    pub until: Duration,
    /// From then on all of them do.
    pub all_from: Duration,
    /// Whether the newer one writes a new kind of message, or only a new field.
    pub is_a_kind: bool,
}

/// Endpoints that turn gone together.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Wave {
    /// Its receivers are these.
    pub from: usize,
    pub until: usize,
    pub tenant: &'static str,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Storage {
    pub acts: Vec<(Duration, Act)>,
    /// How old an eventually consistent read may be.
    pub stale: Duration,
    pub releases: Option<Releases>,
    /// When a VAPID key is added that workers know only once they have loaded the keys again.
    pub vapid_from: Option<Duration>,
    /// A wave without faults: what becomes of it depends on its size alone.
    pub wave: Option<Wave>,
    /// Which receivers browsers subscribe to with that key.
    pub of_new_key: Vec<usize>,
    pub sweep_every: Duration,
    /// When producers and users have done all that they do.
    pub lasts: Duration,
    /// Whether subscriptions are watched.
    pub is_watched: bool,
    /// Whether messages to suspect subscriptions are held.
    pub holds_suspects: bool,
}

impl Default for Storage {
    fn default() -> Self {
        Self {
            acts: Vec::new(),
            stale: Duration::ZERO,
            releases: None,
            vapid_from: None,
            wave: None,
            of_new_key: Vec::new(),
            sweep_every: Duration::from_secs(300),
            lasts: Duration::ZERO,
            is_watched: false,
            holds_suspects: false,
        }
    }
}

/// What the parts of a scenario add to: each has receivers and messages of its own.
pub(super) struct Others<'a> {
    pub(super) faults: &'a mut Faults,
    pub(super) faults_end: Duration,
    pub(super) receivers: &'a mut Vec<Receiver>,
    pub(super) sendings: &'a mut Vec<Sending>,
}

impl Storage {
    /// In a share of the scenarios.
    pub(super) fn draw(rng: &mut StdRng, others: &mut Others<'_>) -> Self {
        Self::of_parts(ALL_PARTS, rng, others)
    }

    pub(super) fn some(rng: &mut StdRng, others: &mut Others<'_>) -> Self {
        Self::of_parts(PARTS, rng, others)
    }

    fn of_parts(parts: u32, rng: &mut StdRng, others: &mut Others<'_>) -> Self {
        let mut storage = Self::default();
        if rng.random_bool(0.2) {
            storage.stale = Duration::from_millis(rng.random_range(50..=2_000));
        }
        let part = rng.random_range(0..parts);
        storage.is_watched = part < PARTS;
        match part {
            0..80 => storage.users(rng, others),
            80..115 => storage.wave(rng, others),
            115..130 => storage.dead_receivers(rng, others),
            130..145 => storage.forgotten(rng, others),
            145..200 => storage.keys(rng, others),
            200..250 => storage.releases(rng, others),
            250..320 => hostile(rng, others),
            _ => {}
        }
        if rng.random_bool(0.1) {
            storage.acts.push((moment(rng, SENDING), Act::Expires(rng.random())));
        }
        storage
    }

    fn users(&mut self, rng: &mut StdRng, others: &mut Others<'_>) {
        for _ in 0..rng.random_range(1..=2) {
            let is_webhook = rng.random_bool(0.3);
            let behaviour = *[Behaviour::Accepts, Behaviour::Answers(404), Behaviour::Answers(410)]
                .choose(rng)
                .unwrap_or(&Behaviour::Accepts);
            let turns = moment(rng, SENDING);
            let phases = vec![
                (moment(rng, SENDING), Behaviour::Answers(503)),
                (turns, behaviour),
                (SENDING, Behaviour::Accepts),
            ];
            let receiver = others.receiver(is_webhook, phases);
            for _ in 0..rng.random_range(3..=12) {
                let at = moment(rng, SENDING);
                others.send(at, receiver, any_ttl(rng));
            }
            // A page that submits an endpoint again soon after it has turned gone, and messages for it.
            if !is_webhook && rng.random_bool(0.5) {
                let again = Act::Subscribes { tenant: "acme", receiver, is_new: false };
                self.acts.push((turns + secs(rng, 30, 300), again));
                others.send(turns + Duration::from_secs(1), receiver, None);
                others.send(turns + Duration::from_secs(310), receiver, None);
            }
            for _ in 0..rng.random_range(1..=5) {
                let tenant = "acme";
                let act = match rng.random_range(0..4) {
                    0 | 1 if is_webhook => Act::Disables(tenant, receiver),
                    _ if is_webhook => Act::Enables(tenant, receiver),
                    0 | 1 => Act::Erases(tenant, receiver),
                    other => Act::Subscribes { tenant, receiver, is_new: other == 2 },
                };
                self.acts.push((moment(rng, SENDING), act));
            }
        }
    }

    /// Either while there are faults, or long after, so that the guard's windows are what its size alone decides.
    fn wave(&mut self, rng: &mut StdRng, others: &mut Others<'_>) {
        let is_calm = rng.random_bool(0.7);
        let at = if is_calm { others.faults_end.max(SENDING) + 5 * HOUR } else { moment(rng, SENDING) };
        let count = if rng.random_bool(0.5) { rng.random_range(3..=7) } else { rng.random_range(10..=13) };
        let from = others.receivers.len();
        for _ in 0..count {
            let receiver = others.receiver(false, vec![(at, Behaviour::Answers(410))]);
            others.send(at + secs(rng, 0, 60), receiver, None);
        }
        let until = others.receivers.len();
        self.wave = is_calm.then_some(Wave { from, until, tenant: "acme" });
        self.lasts = at + HOUR;
        if is_calm && count >= GREAT {
            self.acts.push((at + HOUR, Act::Confirms("acme")));
            // One of those that were confirmed comes back before the walk of the day.
            let returns = Act::Subscribes { tenant: "acme", receiver: from + from % 2, is_new: true };
            self.acts.push((at + HOUR + Duration::from_secs(60), returns));
            self.lasts = at + HOUR + DAY;
        }
    }

    /// Webhooks' receivers that fail for days: for good, or with a success in between.
    pub(super) fn dead_receivers(&mut self, rng: &mut StdRng, others: &mut Others<'_>) {
        self.lasts = 8 * DAY;
        self.sweep_every = HOUR / 2;
        for _ in 0..rng.random_range(1..=2) {
            let dead = others.faults_end + secs(rng, 0, 3600);
            let status = *[500, 503, 404, 401].choose(rng).unwrap_or(&503);
            let mut phases = vec![(dead, Behaviour::Answers(status))];
            if rng.random_bool(0.5) {
                let recovers = dead + secs(rng, 86_400, 5 * 86_400 - 7200);
                phases.push((recovers, Behaviour::Accepts));
                if rng.random_bool(0.5) {
                    phases.push((recovers + 9 * HOUR, Behaviour::Answers(status)));
                }
            }
            let receiver = others.receiver(true, phases);
            let mut at = dead + secs(rng, 60, 3600);
            while at < self.lasts {
                others.send(at, receiver, None);
                at += secs(rng, 2 * 3600, 16 * 3600);
            }
        }
    }

    /// Ids that are used again after the ledger has forgotten them.
    fn forgotten(&mut self, rng: &mut StdRng, others: &mut Others<'_>) {
        self.lasts = 22 * DAY;
        self.sweep_every = 2 * HOUR;
        self.acts.push((22 * DAY, Act::Reuses));
        let share = *[0.0, 0.3, 0.9].choose(rng).unwrap_or(&0.0);
        for hours in 1..8 {
            self.acts.push((14 * DAY + HOUR * hours * 24, Act::Expires(share)));
        }
        let receiver = others.receiver(rng.random_bool(0.4), Vec::new());
        for _ in 0..3 {
            let at = moment(rng, SENDING);
            others.send(at, receiver, None);
        }
    }

    fn keys(&mut self, rng: &mut StdRng, others: &mut Others<'_>) {
        let begins = moment(rng, SENDING);
        let changes = begins + secs(rng, 60, 1800);
        let old = "k1:0123456789abcdef";
        self.acts.push((Duration::ZERO, Act::Rotates(old)));
        self.acts.push((begins, Act::Rotates("k1:0123456789abcdef,k2:fedcba9876543210")));
        self.acts.push((changes, Act::Rotates("k2:fedcba9876543210,k1:0123456789abcdef")));
        self.vapid_from = Some(moment(rng, SENDING / 2));
        if rng.random_bool(0.6) {
            let from = moment(rng, SENDING);
            let until = from + secs(rng, 10, 1800);
            others.faults.outages.push(Outage { effects: &["reload_keys"], from, until });
        }
        for _ in 0..2 {
            let from = moment(rng, SENDING * 2);
            let gone = if rng.random_bool(0.5) { vec![(from, Behaviour::Answers(410))] } else { Vec::new() };
            let receiver = others.receiver(false, gone);
            self.of_new_key.push(receiver);
            let known = self.vapid_from.unwrap_or_default() + Duration::from_secs(60);
            self.acts.push((known, Act::Subscribes { tenant: "acme", receiver, is_new: true }));
            for _ in 0..4 {
                let at = known + moment(rng, SENDING);
                others.send(at, receiver, Some(86_400));
            }
        }
        self.lasts = SENDING * 2;
    }

    fn releases(&mut self, rng: &mut StdRng, others: &mut Others<'_>) {
        let from = moment(rng, SENDING);
        let until = from + secs(rng, 300, 3600);
        let all_from = until + secs(rng, 0, 2700);
        let share = rng.random_range(0.2..0.9);
        self.releases = Some(Releases { share, from, until, all_from, is_a_kind: rng.random_bool(0.3) });
        let receiver = others.receiver(rng.random_bool(0.5), vec![(from, Behaviour::Flaps(0.6))]);
        for _ in 0..6 {
            let at = from + secs(rng, 0, 3600);
            others.send(at, receiver, None);
        }
        self.lasts = all_from;
    }
}

fn hostile(rng: &mut StdRng, others: &mut Others<'_>) {
    for _ in 0..2 {
        let from = moment(rng, SENDING / 2);
        let which = rng.random_range(0..Hostile::ALL.len());
        let status = *Hostile::STATUSES.choose(rng).unwrap_or(&418);
        let until = from + secs(rng, 60, 3600);
        let phases = vec![(from, Behaviour::Hostile(status, which)), (until, Behaviour::Accepts)];
        let receiver = others.receiver(rng.random_bool(0.6), phases);
        for _ in 0..rng.random_range(2..=5) {
            let at = from + secs(rng, 0, 1800);
            others.send(at, receiver, any_ttl(rng));
        }
    }
}

fn any_ttl(rng: &mut StdRng) -> Option<u32> {
    [60, 3600, 86_400].choose(rng).copied()
}

impl Others<'_> {
    /// Adds a receiver; returns its number.
    fn receiver(&mut self, is_webhook: bool, mut phases: Vec<(Duration, Behaviour)>) -> usize {
        phases.sort_by_key(|(from, _)| *from);
        self.receivers.push(Receiver { is_webhook, phases });
        self.receivers.len() - 1
    }

    /// Adds a message of the first tenant to a receiver's subscription.
    fn send(&mut self, at: Duration, receiver: usize, ttl: Option<u32>) {
        self.sendings.push(Sending {
            at,
            tenant: "acme",
            id: format!("s{}", self.sendings.len()),
            receiver,
            content: 0,
            ttl,
            class: None,
            retry: None,
            deliver_at: None,
            hours: None,
            by_address: false,
        });
    }
}
