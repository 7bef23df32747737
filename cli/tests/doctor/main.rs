//! `redial doctor` on healthy stacks, on faulty ones, and without permissions.
//!
//! | file | what |
//! |---|---|
//! | `account` | faults in the account, its quotas and its keys |
//! | `planted` | five faults on one stack: it finds the five and nothing else |
//! | `refused` | a caller without permissions |
//! | `harness` | the stack |

mod account;
mod harness;
mod planted;
mod refused;

use harness::Harness;

#[tokio::test]
async fn a_healthy_stack_has_no_findings_and_each_planted_fault_is_one() {
    let harness = Harness::up().await;
    harness.answers_as_aws().await;
    planted::nothing_is_found_on_a_healthy_stack(&harness);
    planted::five_planted_faults_are_found_and_nothing_else(&harness).await;
    planted::a_closed_pipe_does_not_panic(&harness);
    planted::repaired_faults_are_gone_and_a_warning_is_no_fault(&harness).await;
}

#[tokio::test]
async fn limits_settings_and_keys_of_the_account_are_found() {
    let harness = Harness::up().await;
    account::an_unavailable_operation_is_skipped_and_is_no_fault(&harness);
    account::each_planted_fault_is_named_alone(&harness).await;
}
