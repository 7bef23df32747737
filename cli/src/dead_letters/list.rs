use clap::Args;
use futures_util::TryStreamExt as _;
use redial_adapters::{
    dead_letters_dynamo::{Described, DynamoDeadLetters, Position},
    system::System,
};
use redial_core::time::Timestamp;
use redial_engine::ports::Clock as _;
use serde_json::{Value, json};

use super::{
    matching::matching,
    which::{CLOCK_SKEW, Filter, Which},
};
use crate::{
    duration::relative,
    failure::Failure,
    stack::{Target, TargetArgs},
    table::{Column, Narrow, ROWS, Table},
    terminal::{print, print_lines, say, width},
};

/// Lists dead letters, newest first
///
/// They are read from an index, page by page, while they are printed. Without --since the list goes back 14 days. SENT AGAIN is the last
/// `replay`. Columns that do not fit the terminal are left out; --json has all, and exact times.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial dead-letters list
  redial dead-letters list --tenant acme --reason retries_exhausted --since 2h
  redial dead-letters list --tenant acme --tag order --tag region:eu
  redial dead-letters list --since 7d --limit 10000 --json \\
    | jq -r .endpoint_hash | sort | uniq -c")]
pub(crate) struct List {
    #[command(flatten)]
    which: Which,
    /// The most dead letters to list
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// Only those after this one, as the end of a list says where to go on
    #[arg(long, value_name = "LETTER", value_parser = position)]
    after: Option<Position>,
    /// Print one line of JSON for each letter
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: TargetArgs,
}

impl List {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let now = System.now();
        let filter = self.which.filter(now, now.plus(CLOCK_SKEW))?;
        let store = self.target.resolve().await?.dead_letters();
        let mut table = table(width());
        let mut show = |described: &Described| -> Result<(), Failure> {
            if self.json {
                print(&json_of(described).to_string())?;
            } else {
                table.add(row(described, now));
            }
            if table.waiting() == ROWS {
                print_lines(table.page())?;
            }
            Ok(())
        };
        let page = u16::try_from(self.limit.clamp(u32::from(SMALL_PAGE), 250)).unwrap_or(250);
        let End { last, has_more } = each(&store, &filter, self.after, self.limit, page, &mut show).await?;
        print_lines(table.page())?;
        match last {
            None => say("no dead letters match"),
            Some(last) if has_more => {
                say(&format!("there are more: continue with --after {last}, or raise --limit"));
            }
            Some(_) => {}
        }
        Ok(())
    }
}

/// Items to read at once from a partition of the index, at least.
const SMALL_PAGE: u16 = 25;

/// Where a list ended.
struct End {
    last: Option<Position>,
    has_more: bool,
}

/// Passes on those that match, newest first, at most `limit`, while they are read.
async fn each(
    store: &DynamoDeadLetters,
    filter: &Filter,
    after: Option<Position>,
    limit: u32,
    page: u16,
    mut pass_on: impl FnMut(&Described) -> Result<(), Failure>,
) -> Result<End, Failure> {
    let mut matching = matching(store, filter, after, page).await?;
    let mut last = None;
    for _ in 0..limit {
        let Some(described) = matching.try_next().await? else { return Ok(End { last, has_more: false }) };
        last = Some(Position::of(&described));
        pass_on(&described)?;
    }
    let has_more = matching.try_next().await?.is_some();
    Ok(End { last, has_more })
}

/// The latest of all tenants, a document each, and whether there are more. Each tenant has four partitions a day, so the pages are small.
pub(crate) async fn latest(target: &Target, limit: u32) -> Result<(Vec<Value>, bool), Failure> {
    let now = System.now();
    let filter = Which::default().filter(now, now.plus(CLOCK_SKEW))?;
    let mut found = Vec::new();
    let collect = |described: &Described| {
        found.push(json_of(described));
        Ok(())
    };
    let End { has_more, .. } =
        each(&target.dead_letters(), &filter, None, limit, SMALL_PAGE, collect).await?;
    Ok((found, has_more))
}

fn position(text: &str) -> Result<Position, &'static str> {
    Position::parse(text).ok_or("a position as the end of a list names it: TIME/TENANT/ID/LETTER")
}

/// In a narrow terminal the reason stays longest.
fn table(terminal: Option<usize>) -> Table {
    let columns = [
        Column::text("WHEN"),
        Column::text("TENANT").narrowed(6, Narrow::CutEnd),
        Column::text("ID").narrowed(5, Narrow::CutEnd),
        Column::text("REASON"),
        Column::text("CHANNEL").narrowed(2, Narrow::LeaveOut),
        Column::number("STATUS").narrowed(3, Narrow::LeaveOut),
        Column::number("ATTEMPTS").narrowed(1, Narrow::LeaveOut),
        Column::text("SENT AGAIN").narrowed(4, Narrow::LeaveOut),
    ];
    Table::new(columns).within(terminal)
}

fn row(described: &Described, now: Timestamp) -> [String; 8] {
    let it = &described.reference;
    [
        relative(Timestamp::from_ms(it.at), now),
        it.tenant.clone(),
        it.id.clone(),
        it.reason.clone(),
        it.channel.clone(),
        it.status.map_or("-".to_owned(), |status| status.to_string()),
        it.attempts.to_string(),
        described.replayed_at.map_or("-".to_owned(), |at| relative(at, now)),
    ]
}

pub(super) fn json_of(described: &Described) -> Value {
    let it = &described.reference;
    json!({
        "tenant": it.tenant,
        "id": it.id,
        "letter": it.letter,
        "kind": it.kind,
        "lineage": it.lineage,
        "channel": it.channel,
        "reason": it.reason,
        "detail": it.detail,
        "status": it.status,
        "attempts": it.attempts,
        "subscription": it.subscription,
        "endpoint_hash": it.endpoint_hash,
        "tags": it.tags().collect::<Vec<_>>(),
        "trace_id": it.trace_id,
        "first_sent": Timestamp::from_ms(it.first_sent).to_rfc3339(),
        "at": Timestamp::from_ms(it.at).to_rfc3339(),
        "replayed_at": described.replayed_at.map(Timestamp::to_rfc3339),
        "kept_until": described.kept_until.map(Timestamp::to_rfc3339),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dead_letters::described_tests::described;

    #[test]
    fn columns_are_left_out_and_then_cut_in_a_narrow_terminal() {
        let mut replayed = described();
        replayed.reference.id = "an-id-that-is-longer-than-others".to_owned();
        replayed.reference.status = None;
        replayed.replayed_at = Some(Timestamp::from_secs(2_000));
        let now = Timestamp::from_secs(2_090);
        let lines = |terminal| table(terminal).with([row(&described(), now), row(&replayed, now)]).lines();
        assert_eq!(
            lines(None),
            [
                "WHEN         TENANT  ID                                REASON             CHANNEL   STATUS  ATTEMPTS  SENT AGAIN",
                "18m 10s ago  acme    d1                                retries_exhausted  web_push     503         6  -",
                "18m 10s ago  acme    an-id-that-is-longer-than-others  retries_exhausted  web_push       -         6  1m 30s ago",
            ]
        );
        for terminal in [120, 100, 80, 70, 60] {
            let lines = lines(Some(terminal));
            assert!(lines.iter().all(|line| line.chars().count() <= terminal), "{terminal}: {lines:?}");
        }
        assert_eq!(lines(Some(56))[2], "18m 10s ago  acme    an-id-that-is-l…  retries_exhausted");
    }
}
