//! `redial tenants`: the weight of a tenant, and its most concurrent attempts, as an operator sets them. Its rate is in [`crate::limits`].

use clap::{ArgGroup, Args};
use redial_core::{
    identity::Tenant,
    share::{Concurrency, Share, Weight},
};
use redial_engine::ports::{Allowed, Limited};
use serde_json::{Value, json};

use crate::{
    arguments,
    failure::Failure,
    stack::{OnStack, WORKERS_FOLLOW},
    table::{Column, Narrow, Table},
    terminal::{say, width},
};

subcommands! {
    /// Sets the weight of a tenant, and how many of its attempts may be under way together
    ///
    /// Running workers follow within 30 seconds. Where tenants wait for each other, they take turns in proportion to their weights; who waits
    /// alone has every turn. Attempts over the most concurrent ones follow when others of the tenant are over, and use no attempt.
    /// A tenant's rate is set by `redial limits set tenant`.
    #[command(after_help = "\
Examples:
  redial tenants set acme --weight 4 --concurrency 50
  redial tenants list
  redial tenants show acme
  redial tenants clear acme")]
    Tenants { Set(Set), Show(Show), List(List), Clear(Clear) }
}

/// Sets a tenant's weight, its most concurrent attempts, or both
///
/// What is not given stays as it is. Running workers follow within 30 seconds.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("what").required(true).multiple(true), after_help = "\
Examples:
  redial tenants set acme --weight 4
  redial tenants set acme --concurrency 50 --json")]
pub(crate) struct Set {
    /// The tenant
    #[arg(value_name = "TENANT", value_parser = arguments::tenant)]
    tenant: Tenant,
    /// How many turns it has for each turn of a tenant without a weight: 1 to 100
    #[arg(long, group = "what", value_name = "N", value_parser = Weight::parse)]
    weight: Option<Weight>,
    /// The most of its attempts that may be under way together: 1 to 10000
    #[arg(long, group = "what", value_name = "N", value_parser = Concurrency::parse)]
    concurrency: Option<Concurrency>,
    #[command(flatten)]
    on: OnStack,
}

/// Shows a tenant's weight, its most concurrent attempts and its rate
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial tenants show acme
  redial tenants show acme --json | jq .weight")]
pub(crate) struct Show {
    /// The tenant
    #[arg(value_name = "TENANT", value_parser = arguments::tenant)]
    tenant: Tenant,
    #[command(flatten)]
    on: OnStack,
}

/// Lists the tenants that have a weight, a most of concurrent attempts or a rate of their own
///
/// A tenant that is not listed has the weight 1, and no other limit.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial tenants list
  redial tenants list --json \\
    | jq -r '.tenants[] | select(.weight > 1) | .tenant'")]
pub(crate) struct List {
    #[command(flatten)]
    on: OnStack,
}

/// Removes a tenant's weight and its most concurrent attempts, or one of the two
///
/// Its rate stays. Running workers follow within 30 seconds. Exit status 1 means that nothing was set.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial tenants clear acme
  redial tenants clear acme --concurrency")]
pub(crate) struct Clear {
    /// The tenant
    #[arg(value_name = "TENANT", value_parser = arguments::tenant)]
    tenant: Tenant,
    /// Removes its weight
    #[arg(long)]
    weight: bool,
    /// Removes its most concurrent attempts
    #[arg(long)]
    concurrency: bool,
    #[command(flatten)]
    on: OnStack,
}

impl Set {
    async fn run(self) -> Result<(), Failure> {
        let Self { tenant, weight, concurrency, on } = self;
        let set = Share { weight, concurrency };
        let before = on.target().await?.protection().set_share(&tenant, set).await?;
        let after =
            Share { weight: weight.or(before.weight), concurrency: concurrency.or(before.concurrency) };
        report(&on, &tenant, after, before)
    }
}

impl Clear {
    async fn run(self) -> Result<(), Failure> {
        let Self { tenant, weight, concurrency, on } = self;
        let protection = on.target().await?.protection();
        let all = !weight && !concurrency;
        let removed = protection.clear_share(&tenant, weight || all, concurrency || all).await?;
        if !removed.is_set() {
            let what = match (weight, concurrency) {
                (true, false) => "no weight is",
                (false, true) => "no concurrency is",
                (true, true) | (false, false) => "neither weight nor concurrency is",
            };
            return Err(Failure::reported(&format!("{what} set for {tenant}")));
        }
        let after = protection.allowed(&Limited::Tenant(tenant.clone())).await?.share;
        let before = Share {
            weight: removed.weight.or(after.weight),
            concurrency: removed.concurrency.or(after.concurrency),
        };
        report(&on, &tenant, after, before)
    }
}

impl Show {
    async fn run(self) -> Result<(), Failure> {
        let protection = self.on.target().await?.protection();
        let allowed = protection.allowed(&Limited::Tenant(self.tenant.clone())).await?;
        let lines = || table([(&self.tenant, &allowed)].into_iter()).lines();
        self.on.print(|| json_of(&self.tenant, &allowed), lines)
    }
}

impl List {
    async fn run(self) -> Result<(), Failure> {
        let tenants = self.on.target().await?.protection().tenants().await?;
        if tenants.is_empty() && !self.on.json {
            say("no tenant has a weight, a concurrency or a rate of its own");
            return Ok(());
        }
        let all = || tenants.iter().map(|(tenant, allowed)| json_of(tenant, allowed));
        let rows = tenants.iter().map(|(tenant, allowed)| (tenant, allowed));
        self.on.print(|| json!({"tenants": all().collect::<Vec<_>>()}), || table(rows).lines())
    }
}

fn table<'a>(tenants: impl Iterator<Item = (&'a Tenant, &'a Allowed)>) -> Table {
    let columns = [
        Column::text("TENANT").narrowed(0, Narrow::CutEnd),
        Column::number("WEIGHT"),
        Column::number("CONCURRENCY"),
        Column::text("RATE"),
    ];
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let row = |(tenant, Allowed { rate, share }): (&Tenant, &Allowed)| {
        [
            tenant.to_string(),
            share.weight.unwrap_or_default().to_string(),
            or_none(share.concurrency.map(|it| it.to_string())),
            or_none(rate.map(|it| it.to_string())),
        ]
    };
    Table::new(columns).within(width()).with(tenants.map(row))
}

fn json_of(tenant: &Tenant, Allowed { rate, share }: &Allowed) -> Value {
    json!({
        "tenant": tenant.as_str(),
        "weight": share.weight.unwrap_or_default().get(),
        "concurrency": share.concurrency.map(Concurrency::get),
        "rate": rate.map(|rate| rate.to_string()),
    })
}

fn report(on: &OnStack, tenant: &Tenant, after: Share, before: Share) -> Result<(), Failure> {
    let json = |share: &Share| {
        json!({
            "weight": share.weight.unwrap_or_default().get(),
            "concurrency": share.concurrency.map(Concurrency::get),
        })
    };
    let words = |share: &Share| {
        let most = share.concurrency.map_or_else(|| "any".to_owned(), |it| it.to_string());
        format!("weight {}, concurrency {most}", share.weight.unwrap_or_default())
    };
    on.print(
        || {
            let mut shown = json(&after);
            shown["tenant"] = tenant.as_str().into();
            shown["before"] = json(&before);
            shown
        },
        || vec![format!("{tenant}: {}; was {}", words(&after), words(&before))],
    )?;
    say(WORKERS_FOLLOW);
    Ok(())
}
