//! `redial replica`: what a stack in another region needs to send in this one's place.
//!
//! ```text
//! keys      secrets, stack to stack
//! copy      rows, stack to stack  ─┐
//! export    rows ─► file           ├─► taking: pages at a rate, resumable; the store decides which copy is kept
//! import    file ─► rows          ─┘
//! ```

mod copy;
mod export;
mod file;
mod import;
mod key_set;
mod keys;
mod rows;
mod taking;

pub(crate) use key_set::Kind as KeyKind;
pub(crate) use keys::compare;

subcommands! {
    /// Prepares a stack in another region to send in a stack's place
    ///
    /// `keys` gives it the same keys, `copy` subscriptions and settings: run it regularly. `export` and `import` do the same by a file, where no
    /// one may read both stacks. `redial failover` then changes which of the two sends. infra/docs/two-regions.md has the whole.
    #[command(after_help = "\
Examples:
  redial replica keys --from redial --from-region eu-central-1 \\
    --to redial --to-region eu-west-1
  redial replica copy --from redial --from-region eu-central-1 \\
    --to redial --to-region eu-west-1
  redial replica export redial.ndjson --stack redial
  redial replica import redial.ndjson --stack redial --region eu-west-1")]
    Replica { Keys(keys::Keys), Copy(copy::Copy), Export(export::Export), Import(import::Import) }
}
