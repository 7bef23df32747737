//! What waits in the lines of origins.

use super::mutant::Mutant;

const LINES: &str = "shared/engine/src/deliver/lines.rs";
const CORE: &str = "shared/core/src/line.rs";

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "a line is not registered",
        rule: "a line is registered before anything lies in it",
        file: LINES,
        find: "let registered = self.wait_registry.register_line(line.clone(), messages, now).await?;",
        replace: "let registered = crate::ports::RegisteredLine { line: line.clone(), shards: 1, messages, at: now };",
    },
    Mutant {
        name: "an empty line is forgotten at once",
        rule: "a worker relies on a registration for half the time after which an empty line is forgotten",
        file: CORE,
        find: "pub const FORGOTTEN_AFTER: Duration = Duration::from_secs(600);",
        replace: "pub const FORGOTTEN_AFTER: Duration = Duration::ZERO;",
    },
    Mutant {
        name: "a message joins its line again in its former place",
        rule: "what left a line and joins it again is another message: its former place is still deleted",
        file: "shared/engine/src/deliver/hand_off.rs",
        find: "        in_place_of: job.source_message,\n        message_id: job.message_id,\n",
        replace: "        in_place_of: job.source_message.clone(),\n        message_id: job.source_message,\n",
    },
    Mutant {
        name: "copies leave their line each for itself",
        rule: "copies that wait in one place leave their line as one",
        file: "shared/engine/src/deliver/waits.rs",
        find: "if first == next { sending.push(item) }",
        replace: "if first <= next { sending.push(item) }",
    },
    Mutant {
        name: "a message that joins a line late releases nothing",
        rule: "a message that joins after its breaker closed releases its line",
        file: LINES,
        find: "            let released = self.release_if_it_lets_go(line, shards).await;\n",
        replace: "            let released = Ok(());\n",
    },
    Mutant {
        name: "who closes a breaker releases no line",
        rule: "who closes a breaker releases its lines",
        file: LINES,
        find: "        if releases.is_empty() {\n",
        replace: "        if releases.len() < 1_000 {\n",
    },
    Mutant {
        name: "an open breaker lets its line go",
        rule: "nothing but probes and what is over leaves the line of an open breaker",
        file: "shared/core/src/protection/line.rs",
        find: "            Phase::HalfOpen { .. } | Phase::Open { .. } | Phase::Paused { .. } => LetsGo::None,\n",
        replace: "            Phase::HalfOpen { .. } | Phase::Open { .. } | Phase::Paused { .. } => LetsGo::All,\n",
    },
    Mutant {
        name: "a line has no probes",
        rule: "where nothing else comes, messages that wait become probes",
        file: LINES,
        find: "self.send_as_probes(&line, registered.shards, number).await\n",
        replace: "self.send_as_probes(&line, registered.shards, number * 0).await\n",
    },
    Mutant {
        name: "no sweep looks after lines",
        rule: "a sweep looks after each registered line",
        file: "shared/engine/src/cleanup/sweep.rs",
        find: "for registered in self.in_turn(registry.lines().await?) {",
        replace: "for registered in registry.lines().await?.into_iter().take(0) {",
    },
];
