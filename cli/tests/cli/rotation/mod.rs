//! Keys are rotated while a stack works: the real functions, a push service that verifies what they sign, and the commands that an
//! operator types.
//!
//! | file | what |
//! |---|---|
//! | `vapid` | VAPID keys: the old one signs for old subscriptions, the new one for new ones |
//! | `hashes` | the key of endpoints' hashes: what was hashed before the rotation is recognised after it |

mod harness;
mod hashes;
mod vapid;

use harness::Harness;

#[tokio::test]
async fn vapid_keys_are_rotated_while_the_stack_works() {
    vapid::each_key_signs_for_its_own_subscriptions_until_it_is_retired(&Harness::up().await).await;
}

#[tokio::test]
async fn the_key_of_hashes_is_rotated_while_the_stack_works() {
    hashes::a_hash_from_before_is_recognised_after(&Harness::up().await).await;
}
