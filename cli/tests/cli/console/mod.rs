//! `redial console`: what it gives and to whom, and the page in a real Firefox.

mod page;
mod reads;
mod served;

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{Ipv4Addr, TcpStream},
    process::Command,
};

use crate::prelude::*;

/// Payload of the messages, which must not be shown anywhere.
const PAYLOAD: &str = "s3cret-payload";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_console_shows_what_the_commands_print() {
    let stack = TestStack::as_deployed_with(|_| {}).await;
    let endpoints = traffic(&stack).await;
    let console = Console::start(&stack, "");
    steps! {
        served::every_document_is_what_the_command_prints(&stack, &console).await;
        served::no_endpoint_and_no_payload_is_shown(&console, &endpoints);
        served::data_needs_the_token_of_this_run(&console);
        served::requests_of_other_sites_and_names_are_refused(&console);
        served::nothing_but_reading_is_accepted(&console);
        served::invalid_parameters_are_named(&console);
        served::the_browser_gets_no_token_as_an_argument(&stack).await;
        served::an_opener_that_fails_is_reported(&stack);
        served::a_port_that_is_taken_is_an_error(&stack, &console);
        page::the_page_is_usable_in_a_browser(&stack, console).await;
    }
}

/// One delivery of each kind; the endpoints that were sent to.
async fn traffic(stack: &TestStack) -> Vec<String> {
    let (well, refusing) =
        (stack.browser_answering(Answer::created()), stack.browser_answering(Answer::status(400)));
    let busy = stack.browser_answering(Answer::status(503).with_header("retry-after", "900"));
    let later =
        json!({"ttl": 86_400, "deliver_at": System.now().plus(Duration::from_secs(7_200)).to_rfc3339()});
    stack.send(&stack.message("well", &well, PAYLOAD)).await;
    stack.send(&stack.message("refused", &refusing, PAYLOAD)).await;
    stack.send(&stack.message_with("busy", &busy, &json!({"ttl": 86_400, "payload": PAYLOAD}))).await;
    stack.send(&stack.message_with("scheduled", &well, &later)).await;
    for (id, state) in
        [("well", "sent"), ("refused", "failed"), ("busy", "retrying"), ("scheduled", "deferred")]
    {
        stack.until_state(id, state).await;
    }
    let opened = stack.redial("breakers open https://partner.example --for 30m");
    assert_eq!(opened.status, Some(0), "{opened:?}");
    let described =
        async || Some(stack.redial("dead-letters list --json").stdout).filter(|it| it.contains("refused"));
    stack.until("the dead letter is described", described).await;
    [well, refusing, busy].map(|browser| browser.endpoint).into()
}

/// A console that runs; it is ended with Ctrl-C.
struct Console {
    child: Running,
    address: String,
    port: u16,
    token: String,
}

impl Console {
    fn start(stack: &TestStack, arguments: &str) -> Self {
        Self::started(&mut stack.command(format!("console {arguments}")))
    }

    fn started(command: &mut Command) -> Self {
        let mut child = started(command);
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("text");
        let address = line.trim().to_owned();
        let after = address.strip_prefix("http://127.0.0.1:").unwrap_or_else(|| panic!("{address}"));
        let (port, token) = after.split_once("/#token=").expect("a token");
        Self { child, port: port.parse().expect("a port"), token: token.to_owned(), address }
    }

    fn request(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> Response {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let mut request = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\n");
        if headers.iter().all(|(name, _)| *name != "host") {
            request.push_str(&format!("host: 127.0.0.1:{}\r\n", self.port));
        }
        headers.iter().for_each(|(name, value)| request.push_str(&format!("{name}: {value}\r\n")));
        stream.write_all(format!("{request}\r\n").as_bytes()).expect("it is read");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("text");
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{text}"));
        let status = head.split(' ').nth(1).and_then(|it| it.parse().ok()).expect("a status");
        Response { status, head: head.to_lowercase(), body: body.to_owned() }
    }

    fn data(&self, path: &str) -> Response {
        self.request("GET", &format!("/data/{path}"), &[("authorization", &format!("Bearer {}", self.token))])
    }

    fn document(&self, path: &str) -> Value {
        let answer = self.data(path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        parsed(&answer.body)["document"].take()
    }

    fn interrupt(mut self) {
        interrupt(&self.child);
        assert_eq!(self.child.wait().expect("it ends").code(), Some(0));
    }
}

#[derive(Debug)]
struct Response {
    status: u16,
    head: String,
    body: String,
}
