//! Batches within the limits of SQS: ten messages, and a mebibyte.

use super::{documents::MAX_MESSAGE_BYTES, outgoing::Outgoing, queue::MOST_ENTRIES};

/// Batches the messages of an iterator in order; an error ends them.
#[derive(Debug)]
pub(super) struct Batches<I, E> {
    messages: I,
    /// The message that did not fit.
    left_over: Option<Outgoing>,
    /// The error that ended the messages, returned after those before it.
    error: Option<E>,
    ended: bool,
}

impl<I, E> Batches<I, E>
where
    I: Iterator<Item = Result<Outgoing, E>>,
{
    pub(super) fn of(messages: I) -> Self {
        Self { messages, left_over: None, error: None, ended: false }
    }
}

impl<I, E> Iterator for Batches<I, E>
where
    I: Iterator<Item = Result<Outgoing, E>>,
{
    type Item = Result<Vec<Outgoing>, E>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut batch: Vec<Outgoing> = self.left_over.take().into_iter().collect();
        let mut bytes: usize = batch.iter().map(|message| message.body.len()).sum();
        while batch.len() < MOST_ENTRIES && !self.ended {
            match self.messages.next() {
                None => self.ended = true,
                // What was read before it goes out first.
                Some(Err(error)) => {
                    self.error = Some(error);
                    self.ended = true;
                }
                Some(Ok(message)) if !batch.is_empty() && bytes + message.body.len() > MAX_MESSAGE_BYTES => {
                    self.left_over = Some(message);
                    break;
                }
                Some(Ok(message)) => {
                    bytes += message.body.len();
                    batch.push(message);
                }
            }
        }
        if batch.is_empty() { self.error.take().map(Err) } else { Some(Ok(batch)) }
    }
}

#[cfg(test)]
mod tests {
    use redial_core::time::Timestamp;

    use super::*;
    use crate::send::{documents::Document, outgoing};

    /// With padding: a payload of that length could not be delivered.
    fn message(line: u64, bytes: usize) -> Result<Outgoing, Vec<String>> {
        let text = format!(r#"{{"tenant":"acme",{}"to":{{"subscription":"s1"}}}}"#, " ".repeat(bytes));
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
    fn an_error_follows_the_messages_before_it_and_ends_all() {
        let wrong = outgoing::read(Document { line: 3, text: Ok("{}".to_owned()) }, Timestamp::from_secs(1));
        let mut batches = Batches::of([message(1, 1), message(2, 1), wrong, message(4, 1)].into_iter());
        assert_eq!(batches.next().map(|batch| batch.map(|batch| batch.len()).ok()), Some(Some(2)));
        assert!(batches.next().is_some_and(|batch| batch.is_err()));
        assert!(batches.next().is_none());
    }

    #[test]
    fn no_messages_make_no_batch() {
        assert_eq!(batches([]), Vec::<Vec<u64>>::new());
    }
}
