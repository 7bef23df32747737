//! `redial tail` on a stack with the real functions and a push service beside it.

mod followed;
mod found;

use std::process::Command;

use crate::prelude::*;

#[tokio::test]
async fn an_operator_follows_what_functions_log() {
    let stack = TestStack::as_deployed_with(|_| {}).await;
    steps! {
        followed::every_event_comes_once_and_ctrl_c_ends_the_command(&stack).await;
        // What was sent above is what is found here.
        found::filters_select_events(&stack);
        found::an_event_is_a_line_of_words(&stack);
        found::json_is_what_was_logged(&stack);
        found::without_events_the_exit_status_is_1(&stack);
        found::requests_are_shown_with_their_option(&stack).await;
        found::other_lines_of_a_log_are_not_shown(&stack).await;
        followed::a_late_line_is_shown_once(&stack).await;
        followed::a_reader_that_leaves_ends_the_command(&stack).await;
    }
}

fn tail(stack: &TestStack, arguments: &str) -> Command {
    stack.command(format!("tail {arguments}"))
}
