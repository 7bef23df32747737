//! Messages to a tag: which subscriptions bear it, how that changes, and what is sent to it.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use redial_core::audience::{SHARDS, shard_of};
use redial_core::identity::{SubscriptionId, SubscriptionKey, Tenant};
use redial_core::ledger::DEDUPE_WINDOW;

use super::drawing::{self, SENDING, TENANTS, moment, secs};
use super::faults::{Faults, Outage};
use super::pressure::InVain;
use super::receivers::{self, Receiver};

/// The tag of all audiences.
pub const TAG: &str = "news";

/// No more than this many subscriptions are few enough for a rate.
const FEW: usize = 60;

/// In which share of the scenarios there are messages to a tag.
const SHARE: f64 = 0.15;

/// A browser's subscription of a tenant, which may bear the tag.
#[derive(Clone, PartialEq, Debug)]
pub struct Member {
    pub tenant: &'static str,
    pub id: String,
    /// Whether it bears the tag from the beginning.
    pub bears: bool,
    pub receiver: Receiver,
}

/// What a user or an operator does.
#[derive(Clone, PartialEq, Debug)]
pub enum Change {
    /// A subscription gets the tag; one that was erased is stored again, at a new endpoint.
    Joins(usize),
    Leaves(usize),
    Erased(usize),
    /// An operator cancels what the sending of that number opened.
    Cancels(usize),
}

/// A message to the tag.
#[derive(Clone, PartialEq, Debug)]
pub struct Sending {
    pub at: Duration,
    pub tenant: &'static str,
    pub id: String,
    pub content: u32,
    pub rate: Option<&'static str>,
    /// Seconds.
    pub ttl: Option<u32>,
    pub class: Option<&'static str>,
    pub retry: Option<&'static str>,
    pub deliver_at: Option<Duration>,
}

/// A second time of faults, when the ledger has forgotten the ids of the first one: some are used again.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Later {
    pub from: Duration,
    pub until: Duration,
    /// How many of the rows that have expired DynamoDB deletes each time.
    pub deleted: f64,
}

#[derive(Clone, PartialEq, Debug, Default)]
pub struct Audiences {
    pub members: Vec<Member>,
    pub sendings: Vec<Sending>,
    pub changes: Vec<(Duration, Change)>,
    pub later: Option<Later>,
    /// When a message is sent that is too long for a run.
    pub too_long_at: Option<Duration>,
    /// Until then some runs are of a newer release, and cannot be read.
    pub unreadable_until: Option<Duration>,
    /// Whether the runs are sent by the page.
    pub by_the_page: bool,
    /// Whether the messages request acknowledgements.
    pub has_acks: bool,
}

/// What may be out together of the table of audiences.
const OUTAGES: &[&[&str]] = &[
    &["audiences.open", "audiences.load", "audiences.members", "audiences.progress", "audiences.advance"],
    &["audiences.advance"],
    &["audiences.members"],
    &["audiences.load"],
    &["audiences.open"],
    &["audiences.progress"],
];

impl Member {
    pub fn key(&self) -> SubscriptionKey {
        SubscriptionKey {
            tenant: Tenant::parse(self.tenant).expect("invariant: a tenant's name"),
            id: SubscriptionId::parse(&self.id).expect("invariant: a subscription's id"),
        }
    }

    /// The address of the member of that number: `https://push.example/a3/0`. The last number counts its endpoints.
    pub fn endpoint(number: usize, incarnation: usize) -> String {
        format!("https://push.example/a{number}/{incarnation}")
    }
}

impl Audiences {
    /// Whose endpoint that is.
    pub fn member_at(&self, endpoint: &str) -> Option<&Member> {
        let number = endpoint.split('/').nth(3)?.strip_prefix('a')?.parse::<usize>().ok()?;
        self.members.get(number)
    }

    /// In a share of the scenarios with messages to the tag they are sent by the page, and in one they request acknowledgements.
    pub(super) fn goes_by_the_page(&mut self, rng: &mut StdRng) {
        self.by_the_page = !self.sendings.is_empty() && rng.random_bool(0.5);
        self.has_acks = !self.sendings.is_empty() && rng.random_bool(0.5);
    }

    pub(super) fn draw(rng: &mut StdRng, faults_end: Duration) -> Self {
        if rng.random_bool(SHARE) { Self::some(rng, faults_end) } else { Self::default() }
    }

    pub(super) fn some(rng: &mut StdRng, faults_end: Duration) -> Self {
        let main = drawing::tenant(rng);
        let members = members(rng, main, faults_end);
        let mut sendings = sendings(rng, main, members.len());
        let later = rng.random_bool(0.2).then(|| later(rng));
        if let Some(later) = later {
            use_again(rng, later, &mut sendings);
        }
        let changes = changes(rng, &members, &sendings);
        let too_long_at = rng.random_bool(0.1).then(|| moment(rng, SENDING));
        let unreadable_until = rng.random_bool(0.3).then(|| faults_end.mul_f64(rng.random_range(0.3..1.0)));
        let plain = Self::default();
        Self { members, sendings, changes, later, too_long_at, unreadable_until, ..plain }
    }

    /// `members` members of one part, all of whom bear the tag and accept, and `messages` messages to them within 20 minutes.
    pub(super) fn few(rng: &mut StdRng, members: usize, messages: usize, rate: Option<&'static str>) -> Self {
        let shard = rng.random_range(0..SHARDS);
        let ids = (0..).map(|n| format!("s{n}"));
        let ids = ids.filter(|id| SubscriptionId::parse(id).is_some_and(|id| shard_of(&id) == shard));
        let tenant = TENANTS[0];
        let member = |id| Member { tenant, id, bears: true, receiver: Receiver::default() };
        let members = ids.take(members).map(member).collect();
        let sendings = (0..messages).map(|n| Sending {
            at: moment(rng, Duration::from_secs(1_200)),
            tenant,
            id: format!("a{n}"),
            content: 0,
            rate,
            ttl: Some(86_400),
            class: None,
            retry: None,
            deliver_at: None,
        });
        Self { sendings: sendings.collect(), members, ..Self::default() }
    }

    /// Every `one_in`th member gains and loses the tag, at random moments of the first `secs` seconds after the first message.
    pub(super) fn come_and_go(&mut self, rng: &mut StdRng, secs: u64, one_in: usize) {
        let Some(at) = self.sendings.iter().map(|it| it.at).min() else { return };
        for n in 0..secs * 2 {
            let number = one_in * rng.random_range(0..self.members.len().div_ceil(one_in));
            let change = if rng.random() { Change::Leaves(number) } else { Change::Joins(number) };
            self.changes.push((at + Duration::from_millis(rng.random_range(0..500) + n * 500), change));
        }
    }

    /// Where one of a page's hundred messages is refused, all of them are sent again: while one in seven is refused, that never ends,
    /// and is more than a scenario may take. So single messages fail seldom where pages are full.
    pub(super) fn temper(&self, faults: &mut Faults) {
        if self.members.len() > FEW {
            faults.refused = faults.refused.min(0.01);
            faults.lost = faults.lost.min(0.01);
        }
    }

    /// Beside a hostile tenant, whose failures are the only ones.
    pub(super) fn calmed(self) -> Self {
        let well = |member| Member { receiver: Receiver::default(), ..member };
        let members = self.members.into_iter().map(well).collect();
        Self { members, unreadable_until: None, ..self }
    }

    /// Beside another area. What that promises is judged in the end, by what weeks would have made the ledger forget.
    pub(super) fn within_days(mut self) -> Self {
        let is_soon: Vec<bool> = self.sendings.iter().map(|it| it.at < DEDUPE_WINDOW).collect();
        // A cancellation names a message by its number.
        self.changes.retain_mut(|(_, change)| {
            let Change::Cancels(number) = change else { return true };
            let stays = is_soon[*number];
            *number = is_soon[..*number].iter().filter(|is_soon| **is_soon).count();
            stays
        });
        self.sendings.retain(|it| it.at < DEDUPE_WINDOW);
        Self { later: None, ..self }
    }

    /// Whether its members are few enough for what presses on claims.
    pub(super) fn is_small(&self) -> bool {
        self.members.len() <= FEW
    }

    /// In a share of the scenarios the messages of parts and recipients come to their last receive, and workers die over them.
    pub(super) fn in_vain(&self, rng: &mut StdRng, faults: &mut Faults) -> Option<InVain> {
        let share = if self.by_the_page { 0.7 } else { 0.4 };
        if self.sendings.is_empty() || self.members.len() > FEW || !rng.random_bool(share) {
            return None;
        }
        faults.death = 0.5;
        // Copies of a page at its last receive are sent again by its worker and by the quarantine, and become thousands.
        faults.duplicate = if rng.random_bool(0.7) && !self.by_the_page { 0.6 } else { 0.0 };
        let least = *[0, 17].choose(rng).unwrap_or(&17);
        Some(InVain { share: 0.5, least, most: 19 })
    }

    /// In a share of the scenarios two workers hold each message of a part, and one of them dies: messages at a rate, so that a part has
    /// several pages, and one message for each part, because others would hide that it is lost.
    pub(super) fn crosses(&mut self, rng: &mut StdRng, faults: &mut Faults) -> bool {
        if self.sendings.is_empty() || self.members.len() > FEW || !rng.random_bool(0.15) {
            return false;
        }
        self.sendings.truncate(1);
        (self.later, self.unreadable_until) = (None, None);
        self.changes.retain(|(_, change)| !matches!(change, Change::Cancels(_)));
        let first = &mut self.sendings[0];
        (first.rate, first.ttl, first.deliver_at) = (Some("60/min"), Some(86_400), None);
        // Slow calls, and members that come and go within minutes: then the two read different members of one page.
        let comes_and_goes = rng.random_bool(0.5);
        *faults = Faults {
            death: if comes_and_goes { 0.1 } else { 0.3 },
            duplicate: 0.6,
            slow: if comes_and_goes { 0.4 } else { 0.0 },
            ..Faults::default()
        };
        if comes_and_goes {
            let at = first.at;
            let change = |n: usize| {
                let number = n % self.members.len();
                let change = if rng.random() { Change::Leaves(number) } else { Change::Joins(number) };
                (at + Duration::from_millis(rng.random_range(0..180_000)), change)
            };
            self.changes.extend((0..60).map(change));
        }
        true
    }

    pub(super) fn outages(&self, rng: &mut StdRng, end: Duration) -> Vec<Outage> {
        if self.sendings.is_empty() || rng.random_bool(0.6) {
            return Vec::new();
        }
        let from = moment(rng, end);
        let until = (from + secs(rng, 10, 1800)).min(end);
        vec![Outage { effects: OUTAGES.choose(rng).copied().unwrap_or_default(), from, until }]
    }
}

/// Mostly few, of which several are in one part; seldom more than a page in one part.
fn members(rng: &mut StdRng, main: &str, faults_end: Duration) -> Vec<Member> {
    let (count, parts) = match rng.random_range(0..100) {
        0..60 => (rng.random_range(1..=8), rng.random_range(1..=2)),
        60..85 => (rng.random_range(5..=25), rng.random_range(1..=SHARDS)),
        85..96 => (rng.random_range(20..=60), rng.random_range(1..=SHARDS)),
        _ => (rng.random_range(125..=220), 1),
    };
    let first = rng.random_range(0..SHARDS);
    let is_in_them = |id: &SubscriptionId| (shard_of(id) + SHARDS - first) % SHARDS < parts;
    let ids = (0..).map(|n| format!("s{n}"));
    let ids = ids.filter(|id| SubscriptionId::parse(id).is_some_and(|id| is_in_them(&id)));
    let mut members = Vec::new();
    for id in ids.take(count) {
        // The other tenant has subscriptions of the same ids, and of the same tag.
        for tenant in TENANTS.into_iter().filter(|tenant| *tenant == main || count <= 4) {
            let fails = rng.random_bool(0.2);
            let receiver = if fails { receivers::receiver(rng, faults_end) } else { Receiver::default() };
            let receiver = Receiver { is_webhook: false, ..receiver };
            members.push(Member { tenant, id: id.clone(), bears: rng.random_bool(0.85), receiver });
        }
    }
    members
}

/// Up to three messages, some with copies of the same id, which may come after the walk is over.
fn sendings(rng: &mut StdRng, main: &'static str, members: usize) -> Vec<Sending> {
    let count = if members > 60 { 1 } else { *[1, 1, 2, 3].choose(rng).unwrap_or(&1) };
    let mut sendings = Vec::new();
    for n in 0..count {
        let first = Sending { tenant: main, ..sending(rng, n) };
        // An audience of more than a page has no rate: it would take a day.
        let first = Sending { rate: first.rate.filter(|_| members <= FEW), ..first };
        let is_of_other = members <= 8 && rng.random_bool(0.3);
        let first = if is_of_other { Sending { tenant: TENANTS[n % 2], ..first } } else { first };
        let copies = if rng.random_bool(0.4) { rng.random_range(1..=3) } else { 0 };
        for _ in 0..copies {
            let latest = *[30, 1200, 3 * 3600].choose(rng).unwrap_or(&30);
            let content = if rng.random_bool(0.2) { first.content + 1 } else { first.content };
            sendings.push(Sending { at: first.at + secs(rng, 0, latest), content, ..first.clone() });
        }
        sendings.push(first);
    }
    sendings
}

fn sending(rng: &mut StdRng, n: usize) -> Sending {
    let at = moment(rng, SENDING);
    let rates = [None, None, Some("20/h"), Some("90/h"), Some("600/h"), Some("60/min"), Some("5/s")];
    Sending {
        at,
        tenant: TENANTS[0],
        id: format!("a{n}"),
        content: 0,
        rate: rates.choose(rng).copied().flatten(),
        ttl: rng.random_bool(0.5).then(|| *[0, 60, 600, 3600, 86_400].choose(rng).unwrap_or(&60)),
        class: [None, Some("otp"), Some("campaign")].choose(rng).copied().flatten(),
        retry: [None, None, Some("fixed-jitter"), Some("schedule-standard"), Some("none")]
            .choose(rng)
            .copied()
            .flatten(),
        deliver_at: rng.random_bool(0.15).then(|| at + secs(rng, 1, 2 * 3600)),
    }
}

/// Often around the very end of the window in which an id is recognised.
fn later(rng: &mut StdRng) -> Later {
    let after = if rng.random_bool(0.5) { secs(rng, 0, 6 * 3600) } else { secs(rng, 0, 20 * 86_400) };
    let from = DEDUPE_WINDOW + after;
    let deleted = if rng.random_bool(0.3) { 0.0 } else { rng.random() };
    Later { from, until: from + secs(rng, 600, 2 * 3600), deleted }
}

/// Uses ids again, some with another content, and some twice.
fn use_again(rng: &mut StdRng, later: Later, sendings: &mut Vec<Sending>) {
    for mut first in sendings.clone() {
        if rng.random_bool(0.3) {
            // The rows of the first use outlive the window.
            let at = sendings.iter().position(|it| *it == first).unwrap_or_default();
            sendings[at].ttl = Some(20 * 86_400);
        }
        first.content += u32::from(rng.random_bool(0.3));
        first.deliver_at = None;
        let times = rng.random_range(0..=2);
        let again = |first: &Sending, at| Sending { at, ..first.clone() };
        sendings.extend((0..times).map(|_| again(&first, later.from + secs(rng, 0, 600))));
    }
}

/// Around the times at which the messages go out.
fn changes(rng: &mut StdRng, members: &[Member], sendings: &[Sending]) -> Vec<(Duration, Change)> {
    let mut changes = Vec::new();
    for (at, sending) in sendings.iter().enumerate() {
        let begin = sending.deliver_at.unwrap_or(sending.at);
        for _ in 0..rng.random_range(0..=3) {
            let member = rng.random_range(0..members.len());
            let change = match rng.random_range(0..8) {
                0..3 => Change::Joins(member),
                3..6 => Change::Leaves(member),
                _ => Change::Erased(member),
            };
            let until = *[5, 60, 1800].choose(rng).unwrap_or(&5);
            changes.push((begin + secs(rng, 0, until), change));
        }
        if rng.random_bool(0.1) {
            changes.push((begin + secs(rng, 0, 900), Change::Cancels(at)));
        }
    }
    changes
}
