//! Keys that are rotated while a stack works: the real functions, a push service that verifies what they sign, and the
//! commands that an operator types.
//!
//! | file | what |
//! |---|---|
//! | `refused` | what the commands refuse before they ask any stack |
//! | `vapid` | VAPID keys: the old one signs for old subscriptions, the new one for new ones |
//! | `hashes` | the key of endpoints' hashes: what was hashed before is recognised after |
//! | `world` | that stack |

mod hashes;
mod refused;
mod vapid;
mod world;

use world::World;

#[tokio::test]
async fn vapid_keys_are_rotated_under_a_stack_that_works() {
    vapid::both_keys_sign_each_for_its_own_and_the_old_one_goes_when_nobody_needs_it(&World::up().await)
        .await;
}

#[tokio::test]
async fn the_key_of_hashes_is_rotated_under_a_stack_that_works() {
    hashes::what_was_hashed_before_is_recognised_after(&World::up().await).await;
}
