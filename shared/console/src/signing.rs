//! Signs what commands ask of an emulator without an SDK's client.
//!
//! The embedded emulator answers only what is signed with its stack's key, its own pages included, which no SDK has calls for.

use std::{
    iter,
    time::{Duration, UNIX_EPOCH},
};

use aws_credential_types::Credentials;
use aws_sigv4::{
    http_request::{
        PayloadChecksumKind, PercentEncodingMode, SignableBody, SignableRequest, SigningSettings,
        UriPathNormalizationMode, sign,
    },
    sign::v4,
};
use redial_core::time::Timestamp;

#[derive(Debug, thiserror::Error)]
#[error("the request cannot be signed")]
pub struct SigningError(#[source] Box<dyn std::error::Error + Send + Sync>);

/// The headers that a request has to have, by name: a SigV4 signature as S3 takes it. It does not cover the body, which may be
/// long, and stays on this machine.
pub fn signature(
    method: &str,
    url: &str,
    credentials: &Credentials,
    region: &str,
    now: Timestamp,
) -> Result<Vec<(String, String)>, SigningError> {
    let mut settings = SigningSettings::default();
    settings.percent_encoding_mode = PercentEncodingMode::Single;
    settings.uri_path_normalization_mode = UriPathNormalizationMode::Disabled;
    settings.payload_checksum_kind = PayloadChecksumKind::XAmzSha256;
    let identity = credentials.clone().into();
    let since = Duration::from_millis(u64::try_from(now.as_ms()).unwrap_or_default());
    let parameters = v4::SigningParams::builder()
        .identity(&identity)
        .region(region)
        .name("s3")
        .time(UNIX_EPOCH + since)
        .settings(settings)
        .build()
        .map_err(|error| SigningError(error.into()))?
        .into();
    let request = SignableRequest::new(method, url, iter::empty(), SignableBody::UnsignedPayload);
    let signed = request.and_then(|request| sign(request, &parameters));
    let (instructions, _) = signed.map_err(|error| SigningError(error.into()))?.into_parts();
    Ok(instructions.headers().map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_names_key_day_region_and_host_and_never_the_secret() {
        let credentials = Credentials::new("LOCAL1", "s3cret", None, None, "test");
        let now = Timestamp::from_secs(1_800_000_000);
        let headers = signature("PUT", "http://127.0.0.1:4566/b/k", &credentials, "us-east-1", now);
        let headers = headers.expect("it is a URL");
        let header = |name: &str| {
            let found = headers.iter().find(|(header, _)| header == name);
            found.map_or_else(|| panic!("no {name}: {headers:?}"), |(_, value)| value.as_str())
        };
        assert_eq!(header("x-amz-content-sha256"), "UNSIGNED-PAYLOAD");
        assert_eq!(header("x-amz-date"), "20270115T080000Z");
        let authorization = header("authorization");
        assert!(authorization.contains("Credential=LOCAL1/20270115/us-east-1/s3/aws4_request"));
        assert!(authorization.contains("SignedHeaders=host;"), "{authorization}");
        assert!(!format!("{headers:?}").contains("s3cret"));
    }
}
