//! What keeps one tenant from harming the others, and a message from costing too much.

use super::mutant::Mutant;

const ORIGIN: &str = "shared/core/src/protection/origin.rs";
const ADMISSION: &str = "shared/engine/src/protection/admit/breakers.rs";
const BUCKETS: &str = "shared/engine/src/protection/admit/buckets.rs";
const SWEEP: &str = "shared/engine/src/cleanup/sweep.rs";

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "a breaker opens for everyone",
        rule: "one tenant's trouble holds back that tenant",
        file: ORIGIN,
        find: "            self.only = only(fails);",
        replace: "            self.only = None;",
    },
    Mutant {
        name: "a recipient's failures open a breaker",
        rule: "one recipient's trouble opens no breaker",
        file: ORIGIN,
        find: "self.breaker.judge(fails != Concerned::Recipients && self.fails(now), now, cooldowns, rng)",
        replace: "self.breaker.judge(self.fails(now), now, cooldowns, rng)",
    },
    Mutant {
        name: "a pause is everyone's",
        rule: "an origin that asks one tenant to stay away is sent the others' messages",
        file: ORIGIN,
        find: "            self.only = only(limited);",
        replace: "            self.only = None;",
    },
    Mutant {
        name: "a recipient's 429s pause an origin",
        rule: "one recipient's 429s pause no origin",
        file: ORIGIN,
        find: "            && limited != Concerned::Recipients\n",
        replace: "",
    },
    Mutant {
        name: "a pace is everyone's",
        rule: "a pace that one tenant's 429s lower is that tenant's",
        file: ORIGIN,
        find: "                    self.only = only(concerned);",
        replace: "                    self.only = None;",
    },
    Mutant {
        name: "a worker pauses for everyone",
        rule: "a worker that sees one tenant fail goes on with the others",
        file: ADMISSION,
        find: "Concerned::Tenant(only) => mine.retain(|at| place(*at) == only),",
        replace: "Concerned::Tenant(_) => {}",
    },
    Mutant {
        name: "a tenant alone is held back while others fail",
        rule: "where others fail, too, a breaker holds back everyone",
        file: ORIGIN,
        find: "if concerns_others || is_over {",
        replace: "if is_over || (concerns_others && self.epoch > 1_000) {",
    },
    Mutant {
        name: "a breaker for one tenant holds back none",
        rule: "the tenant whose messages fail is held back",
        file: ORIGIN,
        find: "self.only.is_none_or(|only| only == place)",
        replace: "self.only.is_none_or(|only| only == place && self.epoch > 1_000)",
    },
    Mutant {
        name: "a place is the same at all origins",
        rule: "whom a tenant shares its place with differs from origin to origin",
        file: "shared/core/src/protection/whose.rs",
        find: "of_texts(&[origin.as_str(), tenant.as_str()])",
        replace: "of_texts(&[origin.as_str().get(..0).unwrap_or_default(), tenant.as_str()])",
    },
    Mutant {
        name: "refusals count for nothing",
        rule: "what a webhook refuses and is tried again counts in the retry budget",
        file: "shared/core/src/protection/count.rs",
        find: "Verdict::Retry(_) => Self { refused: 1, ..count },",
        replace: "Verdict::Retry(_) => count,",
    },
    Mutant {
        name: "a retry needs no budget",
        rule: "retries to an origin that fails are limited",
        file: BUCKETS,
        find: "if let Some(limit) = state.filter(|_| ask.is_retry).and_then(",
        replace: "if let Some(limit) = state.filter(|_| ask.is_retry && ask.is_last).and_then(",
    },
    Mutant {
        name: "delays have no floor",
        rule: "no policy and no Retry-After asks for a hundred requests within seconds",
        file: "shared/core/src/policy/mod.rs",
        find: "if retry < 2 { Duration::ZERO }",
        replace: "if retry < 1_000 { Duration::ZERO }",
    },
    Mutant {
        name: "a Retry-After of zero is followed to the letter",
        rule: "a receiver that asks for retries at once gets no more of them than a policy",
        file: "shared/core/src/plan.rs",
        find: "policy.retry_after_range(wait.max(policy::least_delay(number)), remaining)",
        replace: "policy.retry_after_range(wait.max(policy::least_delay(number.min(1))), remaining)",
    },
    Mutant {
        name: "tenants wait in one line",
        rule: "one tenant's thousand messages do not delay another's ten at a limit",
        file: BUCKETS,
        find: "TokenBucket::Queue(Box::new(bucket.clone()), tenant.to_string())",
        replace: "TokenBucket::Queue(Box::new(bucket.clone()), String::new())",
    },
    Mutant {
        name: "an id is everyone's",
        rule: "two tenants' messages of one id are two deliveries",
        file: "shared/engine/src/deliver/batch.rs",
        find: "match leaders.get_mut(&job.message.key()) {",
        replace: "match leaders.iter_mut().find(|(key, _)| key.id == job.message.id).map(|(_, it)| { it.2 = job.fingerprint.clone(); it }) {",
    },
    Mutant {
        name: "a subscription's id is everyone's",
        rule: "a message goes to its own tenant's subscription",
        file: "shared/engine/src/deliver/resolve.rs",
        find: "targets.get(&key).expect(",
        replace: "targets.iter().find(|(of, _)| of.id == key.id).map(|(_, it)| it).expect(",
    },
    Mutant {
        name: "young and old endpoints are judged together",
        rule: "a dozen young endpoints that turn gone keep no old one from being removed",
        file: SWEEP,
        find: "[gone - young, young].map(is_unusual)",
        replace: "[gone - young, young].map(|_| is_unusual(gone))",
    },
    Mutant {
        name: "all tenants' gone endpoints are judged together",
        rule: "one tenant's endpoints that turn gone keep none of another's from being removed",
        file: SWEEP,
        find: "let gone = gone.get(tenant).cloned().unwrap_or_default();",
        replace: "let gone: Vec<SubscriptionKey> = gone.values().flatten().cloned().collect();",
    },
    Mutant {
        name: "what is sent on has no message group",
        rule: "what is put on a queue names its tenant",
        file: "shared/engine/src/deliver/hand_off.rs",
        find: "tenant: Some(tenant), attribute",
        replace: "tenant: Some(tenant).filter(|_| false), attribute",
    },
];
