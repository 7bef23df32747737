//! Letters and counts below each other.

use redial_adapters::dead_letters_dynamo::Described;
use redial_core::time::Timestamp;
use serde_json::{Value, json};

use super::Tally;
use crate::table::{Column, Narrow, Table};

/// One row for each letter. The reason stays to the last where the terminal has no room.
pub(crate) fn table(terminal: Option<usize>) -> Table {
    Table::new([
        Column::text("AT"),
        Column::text("TENANT").narrowed(6, Narrow::CutEnd),
        Column::text("ID").narrowed(5, Narrow::CutEnd),
        Column::text("REASON"),
        Column::text("CHANNEL").narrowed(2, Narrow::LeaveOut),
        Column::number("STATUS").narrowed(3, Narrow::LeaveOut),
        Column::number("ATTEMPTS").narrowed(1, Narrow::LeaveOut),
        Column::text("SENT AGAIN").narrowed(4, Narrow::LeaveOut),
    ])
    .within(terminal)
}

pub(crate) fn row(described: &Described) -> [String; 8] {
    let it = &described.reference;
    let time = |at: Timestamp| at.to_rfc3339_seconds();
    [
        time(Timestamp::from_ms(it.at)),
        it.tenant.clone(),
        it.id.clone(),
        it.reason.clone(),
        it.channel.clone(),
        it.status.map_or("-".to_owned(), |status| status.to_string()),
        it.attempts.to_string(),
        described.replayed_at.map_or("-".to_owned(), time),
    ]
}

/// All that is known of a letter.
pub(crate) fn json_of(described: &Described) -> Value {
    let it = &described.reference;
    let time = |at: i64| Timestamp::from_ms(at).to_rfc3339();
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
        "first_sent": time(it.first_sent),
        "at": time(it.at),
        "replayed_at": described.replayed_at.map(Timestamp::to_rfc3339),
        "kept_until": described.kept_until.map(Timestamp::to_rfc3339),
    })
}

/// Counts by tenant and reason, each with how many of them are ready where that is asked.
pub(crate) fn counts(letters: &Tally, ready: Option<&Tally>) -> Vec<String> {
    let rows = letters.rows().map(|(tenant, reason, number)| {
        let ready = ready.map_or(String::new(), |ready| ready.of(tenant, reason).to_string());
        [tenant.to_owned(), reason.to_owned(), number.to_string(), ready]
    });
    let to_be_sent = if ready.is_some() { "TO BE SENT" } else { "" };
    let numbers = ["LETTERS", to_be_sent].map(Column::number);
    Table::new(["TENANT", "REASON"].map(Column::text).into_iter().chain(numbers)).with(rows).lines()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dead_letters::filter::tests::described;

    fn lines(terminal: Option<usize>) -> Vec<String> {
        let mut replayed = described();
        replayed.reference.id = "an-id-that-is-longer-than-others".to_owned();
        replayed.reference.status = None;
        replayed.replayed_at = Some(Timestamp::from_secs(2_000));
        table(terminal).with([row(&described()), row(&replayed)]).lines()
    }

    #[test]
    fn there_is_a_column_for_everything_where_there_is_room() {
        assert_eq!(
            lines(None),
            [
                "AT                    TENANT  ID                                REASON             CHANNEL   STATUS  ATTEMPTS  SENT AGAIN",
                "1970-01-01T00:16:40Z  acme    d1                                retries_exhausted  web_push     503         6  -",
                "1970-01-01T00:16:40Z  acme    an-id-that-is-longer-than-others  retries_exhausted  web_push       -         6  1970-01-01T00:33:20Z",
            ]
        );
    }

    #[test]
    fn what_has_no_room_is_left_out_and_then_cut() {
        for terminal in [120, 100, 80, 70, 60] {
            let longest = lines(Some(terminal)).iter().map(|line| line.chars().count()).max();
            assert!(
                longest.is_some_and(|longest| longest <= terminal),
                "{terminal}: {:?}",
                lines(Some(terminal))
            );
        }
        assert_eq!(lines(Some(64))[2], "1970-01-01T00:16:40Z  acme    an-id-that-is-…  retries_exhausted");
    }

    #[test]
    fn counts_stand_below_each_other() {
        let mut letters = Tally::default();
        (0..12).for_each(|_| letters.add(&described().reference));
        let mut ready = Tally::default();
        ready.add(&described().reference);
        assert_eq!(
            counts(&letters, Some(&ready)),
            [
                "TENANT  REASON             LETTERS  TO BE SENT",
                "acme    retries_exhausted       12           1",
            ]
        );
        assert_eq!(counts(&letters, None)[0], "TENANT  REASON             LETTERS");
    }
}
