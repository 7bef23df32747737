//! Scenarios of several steps on one stack: each step runs although an earlier one failed, and the test reports all that failed.

use std::{any::Any, cell::RefCell, panic::AssertUnwindSafe};

use futures_util::FutureExt as _;

#[derive(Default)]
pub struct Steps {
    failed: RefCell<Vec<String>>,
}

impl Steps {
    /// Runs a step; `None` if it panicked.
    pub async fn run<T>(&self, name: &str, step: impl Future<Output = T>) -> Option<T> {
        match AssertUnwindSafe(step).catch_unwind().await {
            Ok(value) => Some(value),
            Err(panic) => {
                self.failed.borrow_mut().push(format!("{name}: {}", message(&*panic)));
                None
            }
        }
    }

    /// # Panics
    /// If a step failed, with the name and the message of each that did.
    pub fn finish(self) {
        let failed = self.failed.into_inner();
        assert!(failed.is_empty(), "{} steps failed:\n{}", failed.len(), failed.join("\n"));
    }
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "it panicked".to_owned())
}

/// Runs these expressions one after the other as [`Steps`], under their own text.
#[macro_export]
macro_rules! steps {
    ($($step:expr;)+) => {{
        let steps = $crate::steps::Steps::default();
        $(steps.run(stringify!($step), async { $step }).await;)+
        steps.finish();
    }};
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_failed_step_is_reported_and_the_others_run() {
        let ran = RefCell::new(Vec::new());
        let step = async |n: u32| {
            ran.borrow_mut().push(n);
            assert!(n.is_multiple_of(2), "{n} is odd");
        };
        let steps = Steps::default();
        for n in 1..=4 {
            steps.run(&format!("step {n}"), step(n)).await;
        }
        assert_eq!(*ran.borrow(), [1, 2, 3, 4]);
        assert_eq!(*steps.failed.borrow(), ["step 1: 1 is odd", "step 3: 3 is odd"]);
        let finished = std::panic::catch_unwind(AssertUnwindSafe(|| steps.finish()));
        assert!(message(&*finished.expect_err("it fails")).starts_with("2 steps failed:\nstep 1: 1 is odd"));
    }
}
