//! The `sub` claim: the contact for push services.
//!
//! It has no default, because only the operator knows an address that is read. Mozilla accepts anything, Apple refuses
//! what is neither `mailto:` nor `https:` and anything at localhost (as `BadJwtToken`), so that is refused at the start.

use url::{Host, Url};

/// A `mailto:` or `https:` address of the operator's own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VapidSubject(String);

#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("expected an address of your own, `mailto:NAME@DOMAIN` or `https://DOMAIN…`, and not at localhost")]
pub struct VapidSubjectError;

impl VapidSubject {
    /// Longest subject, in bytes: it travels with every push.
    const MAX_BYTES: usize = 256;

    pub fn parse(text: &str) -> Result<Self, VapidSubjectError> {
        let text = text.trim();
        let printable = text.bytes().all(|b| b.is_ascii_graphic()) && !text.contains(['<', '>', '"', '\\']);
        if !printable || text.len() > Self::MAX_BYTES {
            return Err(VapidSubjectError);
        }
        let domain = if let Some(address) = text.strip_prefix("mailto:") {
            let (name, domain) = address.rsplit_once('@').ok_or(VapidSubjectError)?;
            if name.is_empty() || domain.split('.').any(str::is_empty) {
                return Err(VapidSubjectError);
            }
            domain.split('?').next().unwrap_or(domain).to_ascii_lowercase()
        } else {
            let url = Url::parse(text).map_err(|_| VapidSubjectError)?;
            let Some(Host::Domain(domain)) = url.host() else { return Err(VapidSubjectError) };
            if url.scheme() != "https" {
                return Err(VapidSubjectError);
            }
            domain.to_owned()
        };
        if domain == "localhost" || domain.ends_with(".localhost") {
            return Err(VapidSubjectError);
        }
        Ok(Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_own_address_is_a_subject_and_what_apple_refuses_is_none() {
        for good in ["mailto:push@shop.example", "mailto:a+b@x.y.example", "https://shop.example/contact"] {
            assert_eq!(VapidSubject::parse(good), Ok(VapidSubject(good.to_owned())));
        }
        for bad in [
            "",
            "push@shop.example",
            "mailto:",
            "mailto:@shop.example",
            "mailto:push@",
            "mailto:push@localhost",
            "mailto:<push@shop.example>",
            "mailto: push@shop.example",
            "http://shop.example",
            "https://localhost",
            "https://localhost:8080/x",
            "https://app.localhost",
            "https://127.0.0.1/",
            "https://[::1]/",
            "tel:123",
        ] {
            assert_eq!(VapidSubject::parse(bad), Err(VapidSubjectError), "{bad}");
        }
    }
}
