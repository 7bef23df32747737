//! A stack whose caller may do nothing at all.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    thread,
};

use redial::local::{Description, Functions, Queues, Tables};

/// A service that answers every call by refusing it, in the words of the protocol that the call is in.
pub(crate) fn refusing() -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || refuse_all(stream));
        }
    });
    format!("http://{address}")
}

fn refuse_all(stream: TcpStream) {
    let mut reader = BufReader::new(stream.try_clone().expect("a socket"));
    let mut stream = stream;
    loop {
        let (mut length, mut is_query, mut is_cbor, mut line) = (0, false, false, String::new());
        while reader.read_line(&mut line).is_ok_and(|read| read > 0) && line.trim() != "" {
            let lower = line.to_ascii_lowercase();
            if let Some(value) = lower.strip_prefix("content-length:") {
                length = value.trim().parse().expect("a number");
            }
            is_query |= lower.starts_with("content-type:") && lower.contains("form-urlencoded");
            is_cbor |= lower.starts_with("content-type:") && lower.contains("cbor");
            line.clear();
        }
        if line.is_empty() {
            return;
        }
        reader.read_exact(&mut vec![0; length]).expect("the body comes");
        let body: &[u8] = if is_query {
            b"<ErrorResponse><Error><Type>Sender</Type><Code>AccessDenied</Code><Message>not you</Message></Error></ErrorResponse>"
        } else if is_cbor {
            // A map of two pairs of texts, each after its length.
            b"\xa2\x66__type\x75AccessDeniedException\x67message\x67not you"
        } else {
            br#"{"__type":"AccessDeniedException","message":"not you"}"#
        };
        let head = format!(
            "HTTP/1.1 403 Forbidden\r\nx-amzn-errortype: AccessDeniedException\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        if stream.write_all(&[head.as_bytes(), body].concat()).is_err() {
            return;
        }
    }
}

/// A stack whose services are all there.
pub(crate) fn description(endpoint: &str) -> Description {
    let url = |queue: &str| format!("{endpoint}/000000000000/{queue}");
    Description {
        endpoint: endpoint.to_owned(),
        region: "us-east-1".to_owned(),
        queues: Queues {
            ingest: url("ingest"),
            bulk: url("bulk"),
            retry: url("retry"),
            retry_bulk: url("retry-bulk"),
            dead_letter: url("dlq"),
            quarantine: url("quarantine"),
            events: None,
        },
        tables: Tables {
            deliveries: "deliveries".to_owned(),
            subscriptions: "subscriptions".to_owned(),
            audiences: "audiences".to_owned(),
            parked: "parked".to_owned(),
            dead_letters: "dead_letters".to_owned(),
            control: "control".to_owned(),
        },
        state_machine: "arn:aws:states:us-east-1:000000000000:stateMachine:wait".to_owned(),
        functions: Functions {
            dispatch: "dispatch".to_owned(),
            cleanup: "cleanup".to_owned(),
            ingest: "ingest".to_owned(),
        },
        api_url: None,
        webhook_key_secret: "webhook-key".to_owned(),
        pid: None,
        vapid_public_key: String::new(),
    }
}
