//! What waits in buckets.

use super::mutant::Mutant;

const WAITS: &str = "shared/engine/src/deliver/waits.rs";

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "a page is deleted before it is sent",
        rule: "a release deletes what it has sent",
        file: WAITS,
        find: "sending.into_iter().zip(sent).partition(|(_, sent)| sent.is_ok());",
        replace: "sending.into_iter().zip(sent).partition(|_| true);",
    },
    Mutant {
        name: "a bucket is released again for one of its shards",
        rule: "the work of a release follows from what waits, and not from the number of shards",
        file: WAITS,
        find: "                self.drain(invocation, shard).await?;\n",
        replace: "                let _ = (invocation, shard);\n                return Err(error);\n",
    },
    Mutant {
        name: "a bucket is not registered",
        rule: "a bucket is registered before anything lies in it",
        file: WAITS,
        find: "let registered = self.wait_registry.register(bucket, messages).await?;",
        replace: "let registered = crate::ports::RegisteredBucket { bucket, shards: 1, messages };",
    },
    Mutant {
        name: "a failed put is acknowledged",
        rule: "what is not parked comes back",
        file: WAITS,
        find: "Err(error) => acknowledgements.failed(it.place, error, telemetry),",
        replace: "Err(_) => acknowledgements.acknowledged(it.place),",
    },
    Mutant {
        name: "the sweep forgets a full bucket",
        rule: "a late bucket is released",
        file: "shared/engine/src/cleanup/sweep.rs",
        find: "if self.holds_any(bucket.shards(shards).map(Partition::from)).await? {",
        replace: "if self.holds_any(bucket.shards(shards).map(Partition::from)).await? && swept.released > 1_000 {",
    },
    Mutant {
        name: "a throttled put is acknowledged",
        rule: "what there is no room for hops",
        file: WAITS,
        find: "for it in throttled {\n",
        replace: "for it in throttled {\n            acknowledgements.acknowledged(it.place);\n            if it.place < usize::MAX {\n                continue;\n            }\n",
    },
    Mutant {
        name: "a release delays what it sends for another minute",
        rule: "what was parked is sent when it is due",
        file: WAITS,
        find: "|_, item| item.not_before.since(now)",
        replace: "|_, item| item.not_before.since(now) + Duration::from_secs(60)",
    },
    Mutant {
        name: "a bucket begins after what lies in it",
        rule: "a bucket begins before what lies in it is due",
        file: "shared/core/src/wait.rs",
        find: "due.as_secs().div_euclid(size).saturating_mul(size);",
        replace: "due.as_secs().div_euclid(size).saturating_add(1).saturating_mul(size);",
    },
    Mutant {
        name: "a short wait is longer",
        rule: "the queue delays for what is left of a wait",
        file: "shared/core/src/route.rs",
        find: "Route::Queue(DelaySeconds::floor(delay, most))",
        replace: "Route::Queue(DelaySeconds::floor(delay + Duration::from_secs(20), most))",
    },
    Mutant {
        name: "the sweep waits for an hour",
        rule: "a late bucket is released within minutes",
        file: "shared/engine/src/cleanup/sweep.rs",
        find: ".minus(self.settings.late_after)).await?;",
        replace: ".minus(self.settings.late_after * 30)).await?;",
    },
    Mutant {
        name: "a deferred copy takes the other's place",
        rule: "two deferred copies are two messages",
        file: "shared/engine/src/ports/waits.rs",
        find: "if let Some(message_id) = deferred_from {",
        replace: "if let Some(message_id) = deferred_from.filter(|_| false) {",
    },
    Mutant {
        name: "a release has today's shards",
        rule: "a bucket has as many shards as when it was filled",
        file: WAITS,
        find: "registered.unwrap_or(self.settings.waits.shards)",
        replace: "registered.map_or(0, |_| self.settings.waits.shards)",
    },
    Mutant {
        name: "a bucket is not divided before messages lie in its new shards",
        rule: "a shard is registered before anything lies in it",
        file: WAITS,
        find: "match self.wait_registry.divide(bucket, shards).await {",
        replace: "match Ok::<(), PortError>(()) {",
    },
    Mutant {
        name: "a bucket gets fewer shards again",
        rule: "the number of a bucket's shards only grows",
        file: "shared/memory/src/waits.rs",
        find: "registered.shards = registered.shards.max(shards);",
        replace: "registered.shards = shards;",
    },
    Mutant {
        name: "a bucket that is registered again has one shard again",
        rule: "the number of a bucket's shards only grows",
        file: "shared/memory/src/waits.rs",
        find: "registered.messages += messages;",
        replace: "registered.messages += messages;\n            registered.shards = 1;",
    },
    Mutant {
        name: "a release leaves the last shard",
        rule: "a release goes to all shards of its bucket",
        file: WAITS,
        find: "_ => self.fan_out(invocation, shards).await,",
        replace: "_ => self.fan_out(invocation, shards.into_iter().skip(1).collect()).await,",
    },
    Mutant {
        name: "an execution that does not start holds the message up",
        rule: "what lies in a registered bucket is acknowledged",
        file: WAITS,
        find: "                self.start(bucket).await;\n                Ok(())",
        replace: "                self.wait_executions.ensure_running(bucket).await",
    },
    Mutant {
        name: "a deferred message does not wait for its time",
        rule: "nothing is sent before its `deliver_at`",
        file: "shared/engine/src/deliver/job.rs",
        find: "[self.travel.not_before, self.message.deliver_at, slot]",
        replace: "[self.travel.not_before, slot]",
    },
];
