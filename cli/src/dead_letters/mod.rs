//! `redial dead-letters`: messages that failed for good, found by what they are, sent again, removed.
//! The options of `which` make a filter, and `matching` finds what matches it; `show` finds the dead letters of an id.

#[cfg(test)]
mod described_tests;
mod list;
mod matching;
mod purge;
mod replay;
mod show;
mod which;

pub(crate) use list::latest;

subcommands! {
    /// Lists, shows, resends or removes messages that failed for good
    ///
    /// A message that fails for good leaves a dead letter: a description, kept for the days that its retry policy sets (14), and
    /// its body, kept until its TTL ends. infra/docs/dead-letters.md says what each command reads and what that costs.
    #[command(after_help = "\
Examples:
  redial dead-letters list --since 2h
  redial dead-letters show order-17 --tenant acme
  redial dead-letters replay --tenant acme --reason retries_exhausted \\
    --dry-run
  redial dead-letters purge --tenant acme --reason malformed")]
    DeadLetters {
        List(list::List),
        Show(show::Show),
        Replay(replay::Replay),
        Purge(purge::Purge),
    }
}
