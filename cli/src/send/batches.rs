//! Messages in batches that SQS takes: ten at most, and a mebibyte at most.

use super::{Outgoing, documents::MAX_MESSAGE_BYTES};

/// SendMessageBatch's own limits (API reference). A single message may fill a batch.
const MOST_ENTRIES: usize = 10;
const MOST_BYTES: usize = MAX_MESSAGE_BYTES;

/// Batches of messages that come one by one, in their order; an error ends them.
#[derive(Debug)]
pub(super) struct Batches<I> {
    messages: I,
    /// The message that did not fit any more.
    left_over: Option<Outgoing>,
}

impl<I, E> Batches<I>
where
    I: Iterator<Item = Result<Outgoing, E>>,
{
    pub(super) fn of(messages: I) -> Self {
        Self { messages, left_over: None }
    }
}

impl<I, E> Iterator for Batches<I>
where
    I: Iterator<Item = Result<Outgoing, E>>,
{
    type Item = Result<Vec<Outgoing>, E>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut batch: Vec<Outgoing> = self.left_over.take().into_iter().collect();
        let mut bytes: usize = batch.iter().map(|message| message.body.len()).sum();
        while batch.len() < MOST_ENTRIES {
            match self.messages.next() {
                None => break,
                Some(Err(error)) => return Some(Err(error)),
                Some(Ok(message)) if !batch.is_empty() && bytes + message.body.len() > MOST_BYTES => {
                    self.left_over = Some(message);
                    break;
                }
                Some(Ok(message)) => {
                    bytes += message.body.len();
                    batch.push(message);
                }
            }
        }
        (!batch.is_empty()).then_some(Ok(batch))
    }
}

#[cfg(test)]
mod tests {
    use redial_core::time::Timestamp;

    use super::*;
    use crate::send::{documents::Document, outgoing};

    fn message(line: u64, bytes: usize) -> Result<Outgoing, Vec<String>> {
        let text = format!(
            r#"{{"tenant":"acme","to":{{"subscription":"s1"}},"payload":"{}"}}"#,
            "x".repeat(bytes)
        );
        outgoing::read(Document { line, text: Ok(text) }, Timestamp::from_secs(1))
    }

    fn batches(sizes: impl IntoIterator<Item = usize>) -> Vec<Vec<u64>> {
        let messages = (1..).zip(sizes).map(|(line, bytes)| message(line, bytes));
        Batches::of(messages)
            .map(|batch| batch.expect("valid").iter().map(|message| message.line).collect())
            .collect()
    }

    #[test]
    fn a_batch_has_at_most_ten_messages_in_their_order() {
        let found = batches([1; 23]);
        assert_eq!(found.iter().map(Vec::len).collect::<Vec<_>>(), [10, 10, 3]);
        assert_eq!(found.concat(), (1..=23).collect::<Vec<_>>());
    }

    #[test]
    fn a_batch_has_at_most_a_mebibyte() {
        assert_eq!(batches([600_000, 600_000, 100, 400_000, 100_000]), [vec![1], vec![2, 3, 4], vec![5]]);
    }

    #[test]
    fn nothing_makes_no_batch() {
        assert_eq!(batches([]), Vec::<Vec<u64>>::new());
    }
}
