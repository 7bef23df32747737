//! Two stacks, one of which sends: `redial replica` and `redial failover`. They are two embedded emulators, which share nothing, as two regions do.

mod copied;
mod failed_over;

use std::{fs, process::Command};

use redial::local::{Description, Known, Options, note};
use redial_tests::test_stack::placeholders;

use crate::prelude::*;

/// Stack `a`, which sends, stack `b`, and a folder in which the command line finds both.
struct Regions {
    a: TestStack,
    b: TestStack,
    folder: tempfile::TempDir,
}

impl Regions {
    /// With the real functions; what `b` sends goes to the receivers of `a`.
    async fn up() -> Self {
        let a = TestStack::up().await;
        let folder = tempfile::tempdir().expect("a temporary folder");
        let ca = folder.path().join("ca.pem");
        fs::write(&ca, format!("{}{}", a.push.ca_pem(), a.webhooks.ca_pem())).expect("writable");
        let b = TestStack::up_with(|options: &mut Options| {
            options.egress_allow = vec![a.push.origin().to_owned(), a.webhooks.origin().to_owned()];
            options.egress_ca = Some(ca);
            options.parameters.insert("Standby".to_owned(), "true".to_owned());
        })
        .await;
        Self::of(a, b, folder)
    }

    /// Whose functions do nothing.
    async fn with_placeholders() -> Self {
        let bootstraps = placeholders();
        let folder = bootstraps.path().to_owned();
        let up = || TestStack::as_deployed_with(|options| options.bootstraps = Some(folder.clone()));
        let (a, b) = (up().await, up().await);
        Self::of(a, b, tempfile::tempdir().expect("a temporary folder"))
    }

    fn of(a: TestStack, b: TestStack, folder: tempfile::TempDir) -> Self {
        let regions = Self { a, b, folder };
        for (name, stack) in [("a", &regions.a), ("b", &regions.b)] {
            regions.find_at(name, stack, &stack.description().endpoint);
        }
        regions
    }

    /// Has the command line find a stack at this address.
    fn find_at(&self, name: &str, stack: &TestStack, endpoint: &str) {
        let description =
            Description { pid: None, endpoint: endpoint.to_owned(), ..stack.description().clone() };
        let known = Known { name: name.to_owned(), stack: description, key: stack.stack().key().clone() };
        note(&self.folder.path().join("state").join(name), &known).expect("writable");
    }

    fn command(&self, arguments: &str) -> Command {
        let mut command = redial(arguments);
        command.arg("--state-dir").arg(self.folder.path().join("state"));
        command.env("XDG_STATE_HOME", self.folder.path().join("xdg"));
        command
    }

    fn redial(&self, arguments: &str) -> Done {
        run(&mut self.command(arguments), "")
    }

    fn json(&self, arguments: &str) -> Value {
        parsed(&self.redial(&format!("{arguments} --json")).succeeds())
    }
}

#[tokio::test]
async fn a_stack_takes_over_what_another_has_and_the_newer_copy_is_kept() {
    let regions = Regions::with_placeholders().await;
    copied::keys_are_copied_from_secret_to_secret(&regions).await;
    copied::keys_that_subscriptions_may_need_are_kept_beside_the_copied_ones(&regions).await;
    copied::a_copy_of_keys_that_failed_restarts_functions_when_repeated(&regions).await;
    copied::every_attribute_is_copied_and_a_second_copy_changes_nothing(&regions).await;
    copied::the_newer_copy_is_kept_in_both_directions(&regions).await;
    copied::a_person_who_was_erased_does_not_come_back(&regions).await;
    copied::a_revoked_key_stays_revoked(&regions).await;
    copied::a_file_is_as_good_as_a_copy(&regions).await;
}

#[tokio::test]
async fn one_of_two_stacks_sends_and_nothing_is_lost() {
    let regions = Regions::up().await;
    failed_over::a_stack_on_standby_is_no_fault(&regions);
    failed_over::a_stack_without_keys_and_subscriptions_is_refused(&regions).await;
    failed_over::messages_wait_in_one_stack_while_the_other_sends(&regions).await;
    failed_over::a_region_that_does_not_answer_is_left_as_it_is(&regions).await;
}
