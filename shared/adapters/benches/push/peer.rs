//! The `web-push` crate: behind our port, and as its own documentation shows it (a signature for every message, from the private key's
//! text), with the client that it brings for tokio.

use std::hint::black_box;

use redial_adapters::seal::{Sealer, WebPushSealer};
use redial_core::payload::Payload;
use web_push::{
    ContentEncoding, HyperWebPushClient, SubscriptionInfo, VapidSignatureBuilder, WebPushClient,
    WebPushMessage, WebPushMessageBuilder,
};

use crate::sending::Service;
use crate::{AUTH, P256DH, Row, SUBJECT, VAPID, browser, payload, runtime};

pub(crate) fn sealing() -> Vec<Row> {
    let (keys, sealed, payload) = (browser(), Payload::new(payload()), payload());
    let subscription = SubscriptionInfo::new("https://push.example/p/token", P256DH, AUTH);
    vec![
        Row::new("web-push: seal 1 KiB", move |_| {
            black_box(WebPushSealer::new().seal(&keys, &sealed).expect("sealed"));
        }),
        Row::new("web-push: a message as its documentation builds it", move |_| {
            black_box(message(&subscription, &payload));
        }),
    ]
}

pub(crate) fn sending(service: Service<'_>) -> Row {
    let (runtime, payload, endpoint) = (runtime(), payload(), service.endpoint());
    let subscription = SubscriptionInfo::new(endpoint.as_str(), P256DH, AUTH);
    let client = HyperWebPushClient::new();
    Row::new("web-push: a message and its client", move |_| {
        runtime.block_on(client.send(message(&subscription, &payload))).expect("accepted");
    })
}

fn message(subscription: &SubscriptionInfo, payload: &[u8]) -> WebPushMessage {
    let mut signature = VapidSignatureBuilder::from_base64(VAPID, subscription).expect("a key");
    signature.add_claim("sub", SUBJECT);
    let mut message = WebPushMessageBuilder::new(subscription);
    message.set_vapid_signature(signature.build().expect("a signature"));
    message.set_payload(ContentEncoding::Aes128Gcm, payload);
    message.build().expect("a message")
}
