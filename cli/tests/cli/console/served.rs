//! What the console's server gives, and what it refuses.

use std::{
    fs,
    net::{SocketAddr, TcpStream},
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::Command,
};

use super::{Console, PAYLOAD};
use crate::prelude::*;

/// Without what differs between two reads: times, and what follows from them.
fn without_moments(mut document: Value) -> Value {
    match &mut document {
        Value::Object(fields) => {
            for name in ["at", "since", "looked_at", "oldest_seconds", "pace_per_second"] {
                fields.remove(name);
            }
            // A place says how long ago something was.
            if let Some(Value::String(place)) = fields.get_mut("where") {
                place.truncate(place.find(" (").unwrap_or(place.len()));
            }
            fields.values_mut().for_each(|value| *value = without_moments(value.take()));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| *item = without_moments(item.take())),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    document
}

pub(super) async fn every_document_is_what_the_command_prints(stack: &TestStack, console: &Console) {
    let tenant = &stack.tenant;
    for (path, command) in [
        ("summary".to_owned(), "status --summary".to_owned()),
        ("summary?since=1h".to_owned(), "status --summary --since 1h".to_owned()),
        ("breakers?all=false".to_owned(), "breakers list".to_owned()),
        ("breakers?all=true".to_owned(), "breakers list --all".to_owned()),
        (format!("delivery?tenant={tenant}&id=refused"), format!("status refused --tenant {tenant}")),
        (format!("delivery?tenant={tenant}&id=well"), format!("status well --tenant {tenant}")),
    ] {
        // Counts may change between two reads.
        let same = async || {
            let (shown, printed) = (console.document(&path), stack.json(&command));
            (without_moments(shown) == without_moments(printed)).then_some(())
        };
        stack.until(&format!("{path} is what `{command} --json` prints"), same).await;
    }
    let mut tailed = stack
        .redial("tail --since 15m --no-follow --json --verdict retry --verdict gone --verdict failed")
        .json_lines();
    tailed.reverse();
    assert!(tailed.iter().any(|line| line["correlation_id"] == "refused"), "{tailed:?}");
    assert_eq!(console.document("failures"), json!(tailed));
    let letters = stack.redial("dead-letters list --json").json_lines();
    assert_eq!(console.document("dead-letters"), json!(letters));
    for (state, id) in [("retrying", "busy"), ("failed", "refused"), ("deferred", "scheduled")] {
        let listed = stack.redial(format!("status --state {state} --tenant {tenant} --json")).json_lines();
        let shown = console.document(&format!("deliveries?tenant={tenant}&state={state}"));
        assert_eq!(shown[0]["id"], id, "{shown}");
        assert_eq!(without_moments(shown), without_moments(json!(listed)), "{state}");
    }
    let about = console.document("about");
    assert_fields(&about, json!({"stack": "here", "emulated": true}));
    assert_eq!(console.data(&format!("delivery?tenant={tenant}&id=unknown")).status, 404);
}

pub(super) fn no_endpoint_and_no_payload_is_shown(console: &Console, endpoints: &[String]) {
    for path in ["summary", "breakers?all=true", "failures", "dead-letters", "delivery?tenant=acme&id=busy"] {
        let shown = console.data(path).body;
        assert!(!shown.contains(PAYLOAD), "{path}: {shown}");
        for endpoint in endpoints {
            let (_, token) = endpoint.rsplit_once('/').expect("a path");
            assert!(!shown.contains(token), "{path}: {shown}");
        }
    }
}

pub(super) fn data_needs_the_token_of_this_run(console: &Console) {
    let other = format!("Bearer {}", "A".repeat(console.token.len()));
    for headers in [&[][..], &[("authorization", "Bearer ")], &[("authorization", &*other)]] {
        for path in ["/data/about", "/data/summary", "/data/delivery?tenant=acme&id=well", "/data/delivery"] {
            let refused = console.request("GET", path, headers);
            assert_eq!((refused.status, refused.body.contains("document")), (401, false), "{refused:?}");
        }
    }
    assert_eq!(console.data("about").status, 200);
    // The page itself has nothing of the stack, and the token is in none of its files.
    for file in ["/", "/console.js", "/server.js", "/style.css", "/icon.svg", "/plots/policies.svg"] {
        let served = console.request("GET", file, &[]);
        assert!(served.status == 200 && !served.body.contains(&console.token), "{file}");
    }
}

pub(super) fn requests_of_other_sites_and_names_are_refused(console: &Console) {
    let bearer = format!("Bearer {}", console.token);
    let own = format!("127.0.0.1:{}", console.port);
    let rebound = format!("evil.example:{}", console.port);
    for (host, origin, status) in [
        (&*own, None, 200),
        (&*format!("localhost:{}", console.port), None, 200),
        (&*rebound, None, 421),
        ("127.0.0.1", None, 421),
        (&*own, Some("https://evil.example"), 403),
        (&*own, Some("null"), 403),
    ] {
        let headers = [("authorization", &*bearer), ("host", host)];
        let origin = origin.map(|origin| ("origin", origin));
        let headers: Vec<(&str, &str)> = headers.into_iter().chain(origin).collect();
        for path in ["/", "/data/about"] {
            assert_eq!(console.request("GET", path, &headers).status, status, "{headers:?} {path}");
        }
    }
    let head = console.request("GET", "/", &[]).head;
    let expected = [
        "content-security-policy: default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        "cross-origin-resource-policy: same-origin",
        "x-content-type-options: nosniff",
        "referrer-policy: no-referrer",
        "cache-control: no-store",
    ];
    assert!(expected.iter().all(|header| head.contains(header)), "{head}");
    assert!(!head.contains("access-control-allow-origin"));
    // Another address of this machine: nothing listens there.
    let other = SocketAddr::from(([127, 0, 0, 2], console.port));
    assert!(TcpStream::connect_timeout(&other, Duration::from_secs(5)).is_err());
}

pub(super) fn nothing_but_reading_is_accepted(console: &Console) {
    let bearer = format!("Bearer {}", console.token);
    for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"] {
        let refused = console.request(method, "/data/breakers", &[("authorization", &bearer)]);
        assert_eq!(refused.status, 405, "{method}");
    }
    for path in ["nothing", "subscriptions", "../about"] {
        assert_eq!(console.data(path).status, 404, "{path}");
    }
}

pub(super) fn invalid_parameters_are_named(console: &Console) {
    for (path, words) in [
        ("delivery?tenant=acme", "id: expected 1 to 64 letters"),
        ("delivery?id=x&tenant=S3cret", "tenant: expected 1 to 63 lower-case letters"),
        ("deliveries?tenant=acme&state=sent", "state: expected a state that can be listed"),
        ("summary?since=1s", "since: expected a time from 1m to 15d ago"),
        ("summary?since=S3cret", "since: expected a time ago"),
    ] {
        let refused = console.data(path);
        assert!(refused.status == 400 && refused.body.contains(words), "{refused:?}");
        assert!(!refused.body.contains("S3cret"), "{refused:?}");
    }
}

pub(super) fn a_port_that_is_taken_is_an_error(stack: &TestStack, console: &Console) {
    let failed = stack.redial(format!("console --port {}", console.port)).refused_with(1);
    assert!(failed.contains("cannot be used; --port takes another"), "{failed}");
}

/// Other users of a machine see the arguments of every process.
pub(super) async fn the_browser_gets_no_token_as_an_argument(stack: &TestStack) {
    let seen = stack.folder().join("seen");
    let opener = format!("(echo \"$@\"; cat \"$1\") > {0}.new && mv {0}.new {0}", seen.display());
    let console = Console::started(&mut opening_with(stack, &opener));
    let text = eventually(async || fs::read_to_string(&seen).ok()).await.expect("it is started");
    let (arguments, file) = text.split_once('\n').expect("two parts");
    assert!(!arguments.contains(&console.token) && arguments.ends_with(".html"), "{arguments}");
    assert!(file.contains(&console.address), "{file}");
    console.interrupt();
    assert!(!Path::new(arguments).exists(), "{arguments} is left behind");
}

pub(super) fn an_opener_that_fails_is_reported(stack: &TestStack) {
    let (console, _stderr) =
        run_until(&mut opening_with(stack, "exit 3"), "failed (exit status: 3): open the");
    interrupt(&console);
    let ended = console.wait_with_output().expect("it ends");
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
}

/// `console --open`, where this script opens addresses.
fn opening_with(stack: &TestStack, script: &str) -> Command {
    let folder = stack.folder().join("opener");
    fs::create_dir_all(&folder).expect("a folder");
    for name in ["xdg-open", "open"] {
        let program = folder.join(name);
        fs::write(&program, format!("#!/bin/sh\n{script}\n")).expect("a file");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("its mode");
    }
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").expect("a path"));
    let mut command = stack.command("console --open");
    command.env("PATH", path);
    command
}
