//! `redial api-keys`: who may call the HTTP API, for which tenant, and to do what.

mod create;
mod list;
mod revoke;

subcommands! {
    /// Creates, lists and revokes the keys that senders call the HTTP API with
    ///
    /// A key belongs to one tenant and has one or more scopes: send (messages), subscribe (subscriptions and browsers' tokens), read
    /// (their status). A tenant may have several keys: to replace one, create a second, give it to the sender, and revoke the first.
    /// That ends the tokens of browsers that were made with the first, as well; a key with --expires-in leaves them when it expires.
    /// Instead of a key, an AWS role or user can be granted the right to call with its own credentials.
    #[command(after_help = "\
Examples:
  redial api-keys create --tenant acme --scope send,read --label shop \\
    --expires-in 90d
  redial api-keys create --tenant acme --scope send \\
    --iam-arn arn:aws:iam::111122223333:role/Shop
  redial api-keys list --tenant acme
  redial api-keys revoke 4Xb0m2Qp9Lk7")]
    ApiKeys { Create(create::Create), List(list::List), Revoke(revoke::Revoke) }
}
