//! `redial doctor` on stacks: healthy ones, ill ones, and such that it may not look at.
//!
//! | file | what |
//! |---|---|
//! | `account` | what the account, its quotas and its keys do to a stack |
//! | `planted` | five faults on one stack: it names the five and nothing else |
//! | `refused` | a caller who may read nothing |
//! | `world` | the stack |

mod account;
mod planted;
mod refused;
mod world;

use world::World;

#[tokio::test]
async fn a_healthy_stack_is_well_and_each_planted_fault_is_named_alone() {
    let world = World::up().await;
    world.answers_as_aws().await;
    planted::nothing_is_found_on_a_healthy_stack(&world);
    planted::five_faults_are_named_and_nothing_else(&world).await;
    planted::a_reader_who_leaves_is_no_reason_to_panic(&world);
    planted::what_is_mended_is_well_again_and_a_warning_is_no_fault(&world).await;
}

#[tokio::test]
async fn limits_settings_and_keys_of_the_account_are_found() {
    let world = World::up().await;
    account::an_operation_that_is_not_available_is_neither_a_fault_nor_well(&world);
    account::each_planted_fault_is_named_alone(&world).await;
}
