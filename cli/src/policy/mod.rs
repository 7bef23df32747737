//! `redial policy`: which retry policies there are, what they do before an outage shows it, and which applies to a message.

mod check;
mod explain;
mod list;
#[cfg(feature = "simulate")]
mod plot;
mod show;
mod stored;
mod timetable;

subcommands! {
    /// Shows what retry policies do before an outage, and changes a tenant's without a deployment
    ///
    /// A message is retried by the first of these that exists: its own `retry`, the policy of its webhook's subscription, its
    /// tenant's policy for its `event_type`, its tenant's policy, that of its channel (webhooks: schedule-standard), that of its
    /// class. Named policies come with Redial; the operator's own in infra/policies override them. Those of a tenant are
    /// stored with `set` and take effect within a minute.
    #[command(after_help = "\
Examples:
  redial policy list
  redial policy show otp --ttl 60
  redial policy plot web-push additive fixed-jitter -o policies.svg
  redial policy set --tenant acme schedule-patient
  redial policy explain message.json")]
    Policies {
        List(list::List),
        Show(show::Show),
        #[cfg(feature = "simulate")]
        Plot(plot::Plot),
        Check(check::Check),
        Set(stored::Set),
        Unset(stored::Unset),
        Explain(explain::Explain),
    }
}
