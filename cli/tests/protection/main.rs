//! What an operator sees of the origins that are posted to, and does about them, on a stack.
//!
//! | file | what |
//! |---|---|
//! | `refused` | what the commands refuse before they ask any stack |
//! | `breakers`, `limits` | the commands on a stack whose functions are placeholders |
//! | `steer` | the real functions follow them |
//! | `page` | the page for operators: every command on it, and what it says of numbers |
//! | `world` | that stack |

mod breakers;
mod limits;
mod page;
mod refused;
mod steer;
mod world;

use world::World;

#[tokio::test]
async fn an_operator_sees_and_steers_what_workers_share() {
    let world = World::up().await;
    // One stack for all of it: the first finds it empty.
    breakers::nothing_is_known_at_first(&world);
    limits::are_set_listed_and_taken_away(&world).await;
    breakers::are_opened_and_closed_by_hand(&world).await;
    breakers::are_listed_as_workers_left_them(&world).await;
    breakers::several_operators_do_not_undo_each_other(&world).await;
    breakers::an_operator_is_told_where_nobody_follows(&world).await;
}
