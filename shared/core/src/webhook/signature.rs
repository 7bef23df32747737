//! The signature of Standard Webhooks: `v1,` and the HMAC-SHA256 of `id.timestamp.body`, in base64.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;

use super::WebhookSecret;
use crate::time::Timestamp;

/// The value of `webhook-signature`: one signature for each secret, separated by spaces. A receiver accepts if one of them matches.
pub fn signatures(secrets: &[WebhookSecret], id: &str, at: Timestamp, body: &[u8]) -> String {
    let signed: Vec<String> = secrets.iter().map(|secret| signature(secret, id, at, body)).collect();
    signed.join(" ")
}

fn signature(secret: &WebhookSecret, id: &str, at: Timestamp, body: &[u8]) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.expose_bytes());
    let mut context = hmac::Context::with_key(&key);
    context.update(format!("{id}.{}.", at.as_secs()).as_bytes());
    context.update(body);
    format!("v1,{}", STANDARD.encode(context.sign()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vector that the reference libraries of Standard Webhooks are tested with.
    #[test]
    fn signatures_match_the_specification_s_vector() {
        let secret = WebhookSecret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").expect("valid");
        let at = Timestamp::from_secs(1_614_265_330);
        let id = "msg_p5jXN8AQM9LWM0D4loKWxJek";
        let of = |secrets: &[WebhookSecret]| signatures(secrets, id, at, br#"{"test": 2432232314}"#);
        let expected = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
        assert_eq!(of(std::slice::from_ref(&secret)), expected);

        let newer = WebhookSecret::new(vec![7; 32]).expect("valid");
        let both = of(&[newer.clone(), secret]);
        assert_eq!(both, format!("{} {expected}", of(&[newer])));
        assert_eq!(of(&[]), "");
    }
}
