//! `redial tail` on a stack with the real functions and a push service.
//!
//! | file | what |
//! |---|---|
//! | `refused` | arguments that are refused before any call |
//! | `followed` | events as they are logged, and the end of the command |
//! | `found` | events that were already logged: filters, lines, JSON |
//! | `harness` | that stack |

mod followed;
mod found;
mod harness;
mod refused;

use harness::Harness;

#[tokio::test]
async fn the_functions_events_are_filtered_and_followed() {
    let harness = Harness::up().await;
    followed::every_event_is_printed_once_and_ctrl_c_exits_with_0(&harness).await;
    // The messages above are found here.
    found::options_filter_the_events(&harness);
    found::each_event_is_a_line(&harness);
    found::json_lines_are_as_they_were_logged(&harness);
    found::without_a_match_the_exit_status_is_1(&harness);
    found::requests_are_printed_with_their_option(&harness).await;
    found::lines_that_are_no_events_are_not_printed(&harness).await;
    followed::a_late_line_is_printed_once(&harness).await;
    followed::a_closed_pipe_ends_it(&harness);
}
