//! What an operator sees with `redial tail`: on a stack with the real functions, and a push service beside it.
//!
//! | file | what |
//! |---|---|
//! | `refused` | what the command refuses before it asks any stack |
//! | `followed` | events as they come, and how it ends |
//! | `found` | events that are there already: filters, words, JSON |
//! | `world` | that stack |

mod followed;
mod found;
mod refused;
mod world;

use world::World;

#[tokio::test]
async fn an_operator_follows_what_functions_log() {
    let world = World::up().await;
    followed::every_event_comes_once_and_ctrl_c_ends_it_well(&world).await;
    // What was sent above is what is found here.
    found::filters_leave_what_was_asked_for(&world);
    found::people_read_a_line_for_each_event(&world);
    found::json_is_what_was_logged(&world);
    found::nothing_found_is_told_by_the_exit_status(&world);
    found::requests_are_shown_when_they_are_asked_for(&world).await;
    found::other_lines_of_a_log_are_not_shown(&world).await;
    followed::a_line_that_comes_late_is_shown_once(&world).await;
    followed::a_reader_that_left_ends_it(&world);
}
