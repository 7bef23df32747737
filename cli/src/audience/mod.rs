//! `redial audience`: messages to all subscriptions with a tag.

mod cancel;
mod outcomes;
mod progress;
mod recipient;
mod status;

subcommands! {
    /// Shows the progress of a message to an audience, or cancels it
    ///
    /// A message to {"audience": {"tag": …}} goes to all of a tenant's subscriptions with that tag. Redial expands it in sixteen
    /// parts, and each recipient gets a delivery of its own; `redial status ID` of the message itself only shows that this began.
    /// If an id was used again after the dedupe window, it names the message that was opened last.
    #[command(after_help = "\
Examples:
  redial audience status autumn-2026 --tenant acme --watch 5
  redial audience status autumn-2026 --tenant acme --outcomes
  redial audience recipient autumn-2026 s-4711 --tenant acme
  redial audience cancel autumn-2026 --tenant acme")]
    Audiences { Status(status::Status), Recipient(recipient::Recipient), Cancel(cancel::Cancel) }
}
