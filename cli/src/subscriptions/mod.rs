//! `redial subscriptions`: those of browsers and of webhooks' receivers.

mod document;
mod failing;
mod get;
mod import;
mod put;
mod variables;
mod which;

pub(crate) use which::Which;

subcommands! {
    /// Stores, imports and shows the subscriptions of browsers and of webhooks' receivers
    #[command(after_help = "\
Examples:
  redial subscriptions put --tenant acme --id s1 subscription.json
  redial subscriptions import --tenant acme subscriptions.ndjson
  redial subscriptions get --tenant acme --id s1
  redial subscriptions list --failing --tenant acme
  redial subscriptions enable hooks --tenant acme")]
    Subscriptions {
        Put(put::Put),
        Import(Box<import::Import>),
        Get(get::Get),
        List(failing::List),
        Enable(failing::Enable),
    }
}
