//! What the ledger keeps of a response's headers.

use crate::outcome::Response;
use crate::retry_after;

/// The longest value that is kept, in bytes.
const MAX_VALUE: usize = 64;

/// The headers that show an operator what the provider decided. Each has one form, and no value of another form is kept, because a
/// service may write the endpoint's token in any of them.
pub fn kept_headers(response: &Response) -> Vec<(String, String)> {
    let is_kept = |(name, value): &&(String, String)| {
        let has_form = match name.as_str() {
            "retry-after" => retry_after::parse(value, response.at).is_some(),
            "ttl" => value.bytes().all(|b| b.is_ascii_digit()),
            "apns-id" => is_uuid(value),
            "x-wns-status" | "x-wns-notificationstatus" => value.bytes().all(|b| b.is_ascii_alphabetic()),
            _ => false,
        };
        has_form && (1..=MAX_VALUE).contains(&value.len())
    };
    response.headers.iter().filter(is_kept).cloned().collect()
}

fn is_uuid(text: &str) -> bool {
    let is_hyphen = |at: usize| matches!(at, 8 | 13 | 18 | 23);
    text.len() == 36
        && text
            .bytes()
            .enumerate()
            .all(|(at, b)| if is_hyphen(at) { b == b'-' } else { b.is_ascii_hexdigit() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::response;

    #[test]
    fn a_few_headers_are_kept_each_in_its_one_form() {
        let kept = |headers: &[(&str, &str)]| kept_headers(&response(200, headers, ""));
        let good = [
            ("retry-after", "Sat, 21 Nov 2026 10:05:00 GMT"),
            ("retry-after", "120"),
            ("ttl", "60"),
            ("apns-id", "8d2f9c3a-1b7e-4c5d-9a6f-0e1d2c3b4a59"),
            ("x-wns-status", "appthrottled"),
            ("x-wns-notificationstatus", "dropped"),
        ];
        assert_eq!(kept(&good).len(), good.len());

        let token = "gAAAAABmQ2-endpoint.token";
        let others = [token, "https://push.example/secret", "", &"1".repeat(65), &format!("120 {token}")];
        for name in Response::KEPT_HEADERS {
            for value in others {
                assert_eq!(kept(&[(name, value)]), [], "{name}: {value}");
            }
        }
        assert_eq!(kept(&[("x-wns-error-description", "dropped"), ("location", "60")]), []);
    }
}
