//! `redial subscriptions`: those of browsers and of webhooks' receivers.

mod delete;
mod document;
mod failing;
mod get;
mod import;
mod list;
mod person;
mod prune;
mod put;
mod tone;
mod variables;
mod which;

pub(crate) use which::Which;

subcommands! {
    /// Stores, imports, lists, shows, prunes, deletes, exports and erases the subscriptions of browsers and of webhooks' receivers
    #[command(after_help = "\
Examples:
  redial subscriptions put --tenant acme --id s1 subscription.json
  redial subscriptions import --tenant acme subscriptions.ndjson
  redial subscriptions get --tenant acme --id s1
  redial subscriptions list --tenant acme --tag news
  redial subscriptions list --failing --tenant acme
  redial subscriptions enable hooks --tenant acme
  redial subscriptions prune --tenant acme
  redial subscriptions delete s1 --tenant acme
  redial subscriptions export --tenant acme --subscription s1
  redial subscriptions erase --tenant acme --ref user-4711")]
    Subscriptions {
        Put(put::Put),
        Import(Box<import::Import>),
        Get(get::Get),
        List(Box<list::List>),
        Enable(failing::Enable),
        Prune(prune::Prune),
        Delete(delete::Delete),
        Export(Box<person::Export>),
        Erase(Box<person::Erase>),
    }
}
