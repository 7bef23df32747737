//! The ports of the HTTP API.

use super::{
    Answer, Answers, Clock, ErasureMarks, ErasureRequests, Outbox, Pages, Protection, Quotas, Randomness,
    SubscriptionBook, Telemetry,
};
use redial_core::access::{ApiKeyId, IamArn, StoredKey};
use redial_core::ack::AckEvent;
use redial_core::channel::Channel;
use redial_core::endpoint::EndpointHash;
use redial_core::identity::{DeliveryKey, SubscriptionId, Turn, VapidKeyId};
use redial_core::ledger;
use redial_core::ledger::listing::{Listing, Position};
use redial_core::ledger::{Cancellation, Entry, Given, PastAttempt, State};
use redial_core::time::Timestamp;

/// Looks up keys and principals' rights. What it answers may be half a minute old, so a revocation takes effect that much later; it is
/// never older, because a store that cannot be read must not keep a revoked key alive.
pub trait AccessKeys: Send + Sync {
    /// What is stored of the key of that id: good or not, which is [`StoredKey::grant_to`]'s to say.
    fn find(&self, id: &ApiKeyId) -> impl Answer<Option<StoredKey>>;

    /// What is stored for that principal: good or not, which is [`StoredKey::grant_to_iam`]'s to say.
    fn find_iam(&self, arn: &IamArn) -> impl Answer<Option<StoredKey>>;
}

/// A key that browsers subscribe with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PublicKey {
    /// Its id: what a subscription made with it carries as `vapid_key_id`.
    pub id: VapidKeyId,
    /// base64url of the uncompressed point.
    pub public_base64url: String,
    /// Whether new subscribers are given it.
    pub is_current: bool,
}

pub trait PublicKeys: Send + Sync {
    /// All keys, in the order of their ids; half a minute old at most, unless where they are kept cannot be read: then as they
    /// were last known.
    fn all(&self, now: Timestamp) -> impl Answer<Vec<PublicKey>>;
}

/// What the ledger is to hold of a delivery before a worker has claimed it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewDelivery {
    pub key: DeliveryKey,
    pub fingerprint: EndpointHash,
    /// Through which channel it goes, where the message says so itself.
    pub channel: Option<Channel>,
    /// Where it goes, where the message says so itself.
    pub endpoint_hash: Option<EndpointHash>,
    pub subscription: Option<SubscriptionId>,
    pub given: Given,
    /// Not to be sent before this.
    pub not_before: Option<Timestamp>,
}

impl NewDelivery {
    /// The entry that is inserted: any worker can claim it.
    pub fn entry(&self, now: Timestamp) -> Entry {
        let (key, fingerprint) = (self.key.clone(), self.fingerprint.clone());
        Entry {
            endpoint_hash: self.endpoint_hash.clone(),
            subscription: self.subscription.clone(),
            not_before: self.not_before,
            given: self.given.clone(),
            expires_at: ledger::expires_at(now, self.not_before),
            ..Entry::unclaimed(key, State::Queued, Turn::default(), fingerprint, now)
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Inserted {
    /// The delivery was not known. It is stored now, in state `queued`, for any worker to claim.
    New,
    /// It was; nothing was written.
    Duplicate {
        state: State,
        fingerprint: EndpointHash,
        /// Whether its message may have to go to its queue once more.
        awaits_its_message: bool,
    },
}

pub trait Deliveries: Send + Sync {
    /// Inserts each of these unless it is there, each on its own; keys are distinct. [`redial_core::ledger::judge`] lets
    /// any worker claim what is inserted, without doubt.
    fn insert(&self, deliveries: Vec<NewDelivery>, now: Timestamp) -> impl Answers<Inserted>;

    /// Ends a delivery as cancelled if [`redial_core::ledger::cancel`] allows it, by a conditional write on its entry; one that has no
    /// entry gets it.
    fn cancel(&self, key: &DeliveryKey, now: Timestamp) -> impl Answer<Cancellation>;

    /// The deliveries of a listing, and the position to go on from if there may be more. An index that is a moment behind may leave out what
    /// has just changed; what has changed otherwise is not among them, so a page may be shorter than the listing's limit.
    fn list(&self, listing: &Listing) -> impl Answer<Listed>;

    /// All that is known of a delivery, read consistently; `None` if it is not known (any more).
    fn find(&self, key: &DeliveryKey) -> impl Answer<Option<DeliveryRecord>>;
}

/// A page of deliveries by their state, the latest first.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Listed {
    pub records: Vec<DeliveryRecord>,
    /// From where to go on.
    pub next: Option<Position>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeliveryRecord {
    pub entry: Entry,
    /// Through which channel it goes, if that is known by now.
    pub channel: Option<Channel>,
    pub attempts: Vec<PastAttempt>,
    /// What its user's browser acknowledged first, and when, as far as that is kept with the entry.
    pub acknowledged: Vec<(AckEvent, Timestamp)>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Acknowledged {
    /// The first of its event: it is noted.
    First,
    /// It was noted before: what was noted then stays.
    Again,
    /// The ledger does not know the delivery, or no longer, or its recipient was erased: nothing is noted.
    Unknown,
}

pub trait Acks: Send + Sync {
    /// Notes on a delivery that its user's browser reported this at `now`, unless it was noted before. Of a recipient of a page
    /// ([`redial_core::page::Position`]) it is kept by itself, until then; of any other delivery with its entry.
    fn acknowledge(
        &self,
        key: &DeliveryKey,
        event: AckEvent,
        until: Timestamp,
        now: Timestamp,
    ) -> impl Answer<Acknowledged>;

    /// What is kept by itself of a recipient of a page at `now`; `None` if its person was erased.
    fn acknowledged(
        &self,
        key: &DeliveryKey,
        now: Timestamp,
    ) -> impl Answer<Option<Vec<(AckEvent, Timestamp)>>>;
}

/// The ports of the HTTP API, behind one type: the state of an HTTP router is one type, and its handlers take their ports from it.
pub trait HttpApi: Send + Sync {
    type Clock: Clock;
    type Randomness: Randomness;
    type AccessKeys: AccessKeys;
    type Protection: Protection;
    type Ledger: Deliveries;
    type Outbox: Outbox;
    type Subscriptions: SubscriptionBook + ErasureMarks;
    type ErasureRequests: ErasureRequests;
    type PublicKeys: PublicKeys;
    type Quotas: Quotas;
    type Acks: Acks;
    type Pages: Pages;
    type Telemetry: Telemetry;

    fn clock(&self) -> &Self::Clock;
    fn randomness(&self) -> &Self::Randomness;
    fn access_keys(&self) -> &Self::AccessKeys;
    /// What workers share to keep limits.
    fn protection(&self) -> &Self::Protection;
    fn ledger(&self) -> &Self::Ledger;
    fn outbox(&self) -> &Self::Outbox;
    fn subscriptions(&self) -> &Self::Subscriptions;
    fn erasure_requests(&self) -> &Self::ErasureRequests;
    fn public_keys(&self) -> &Self::PublicKeys;
    fn quotas(&self) -> &Self::Quotas;
    fn acks(&self) -> &Self::Acks;
    fn pages(&self) -> &Self::Pages;
    fn telemetry(&self) -> &Self::Telemetry;
}
