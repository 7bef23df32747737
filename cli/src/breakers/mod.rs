//! `redial breakers`: the state of the origins that workers post to, and an operator's changes to it.

mod list;
pub(crate) mod shown;
mod turn;
mod which;

pub(crate) use list::Listed;

subcommands! {
    /// Shows which push services and receivers are down or slowed down, and opens or closes their breakers by hand
    ///
    /// Every origin, that is scheme, host and port, has a breaker, which all workers share. It opens when too many attempts fail;
    /// messages to the origin are then held back, without using an attempt, until a few probes have succeeded. See
    /// infra/docs/protection.md.
    #[command(after_help = "\
Examples:
  redial breakers list
  redial breakers open https://fcm.googleapis.com --for 30m
  redial breakers close https://fcm.googleapis.com")]
    Breakers { List(list::List), Open(turn::Open), Close(turn::Close) }
}
