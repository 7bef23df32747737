//! Adds up the write units that DynamoDB reports.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use aws_sdk_dynamodb::types::ConsumedCapacity;

/// A meter for tables; clones share it.
#[derive(Clone, Debug, Default)]
pub struct WriteUnits(Arc<AtomicU64>);

impl WriteUnits {
    /// Units of single writes are whole numbers.
    pub(crate) fn add<'a>(&self, consumed: impl IntoIterator<Item = &'a ConsumedCapacity>) {
        let units: f64 = consumed.into_iter().filter_map(ConsumedCapacity::capacity_units).sum();
        self.0.fetch_add(units.round() as u64, Ordering::Relaxed);
    }

    pub fn take(&self) -> u64 {
        self.0.swap(0, Ordering::Relaxed)
    }
}
