//! Why a call of AWS got no answer, in words: what was tried, and what would do.
//!
//! The SDK's errors name neither the endpoint that was called nor where credentials were looked for. So the HTTP client of each
//! [`SdkConfig`] is wrapped by one that adds the endpoint to what failed on the way; a path or query is never in it.

use std::{error::Error, fmt, io, iter};

use aws_config::SdkConfig;
use aws_credential_types::provider::error::CredentialsError;
use aws_smithy_runtime_api::client::{
    http::{
        HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpClient,
        SharedHttpConnector,
    },
    orchestrator::HttpRequest,
    result::ConnectorError,
    runtime_components::RuntimeComponents,
};

use crate::failure::causes;

const NO_CREDENTIALS: &str = "no AWS credentials were found: the environment (AWS_ACCESS_KEY_ID), the profile (AWS_PROFILE), single \
                              sign-on, and the roles of a container or an instance were tried; log in, for example with `aws sso \
                              login`, or name a profile with --profile";

/// A call that did not reach its endpoint, or was not answered.
#[derive(Debug)]
struct NoAnswer {
    /// Scheme, host and port.
    endpoint: String,
    cause: Box<dyn Error + Send + Sync>,
    is_timeout: bool,
}

impl fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { endpoint, cause, is_timeout } = self;
        let chain: Vec<&(dyn Error + 'static)> =
            iter::once(&**cause as &(dyn Error + 'static)).chain(causes(&**cause)).collect();
        let kind = chain.iter().find_map(|error| Some(error.downcast_ref::<io::Error>()?.kind()));
        let text: Vec<String> = chain.iter().map(ToString::to_string).collect();
        let contains = |words: &[&str]| words.iter().any(|word| text.iter().any(|text| text.contains(word)));
        if kind == Some(io::ErrorKind::ConnectionRefused) {
            write!(f, "nothing listens at {endpoint} (connection refused)")
        } else if contains(&["dns error", "failed to lookup address"]) {
            write!(f, "the host of {endpoint} is not known here: check the region and the network")
        } else if contains(&["certificate", "UnknownIssuer"]) {
            write!(
                f,
                "{endpoint} has a certificate that is not trusted: behind a proxy that inspects TLS, set AWS_CA_BUNDLE to its roots"
            )
        } else if *is_timeout || kind == Some(io::ErrorKind::TimedOut) {
            write!(f, "{endpoint} did not answer in time: check the network, and try again")
        } else {
            write!(f, "{endpoint} did not answer: {}", text.last().map_or("", String::as_str))
        }
    }
}

impl Error for NoAnswer {}

/// Why there was no answer; `None` if the error is of another kind.
pub(crate) fn words(error: &(dyn Error + 'static)) -> Option<String> {
    let mut chain = iter::once(error).chain(causes(error));
    chain.find_map(|error| match (error.downcast_ref::<NoAnswer>(), error.downcast_ref::<CredentialsError>()) {
        (Some(no_answer), _) => Some(no_answer.to_string()),
        (None, Some(CredentialsError::CredentialsNotLoaded(_))) => Some(NO_CREDENTIALS.to_owned()),
        (None, Some(other)) => {
            let cause = causes(other).last().map_or_else(|| other.to_string(), ToString::to_string);
            let cause = cause.trim_end_matches('.');
            Some(format!("the AWS credentials cannot be loaded: {cause}; log in again, or name another profile with --profile"))
        }
        (None, None) => None,
    })
}

/// The same configuration, whose errors name the endpoint.
pub(crate) fn naming_endpoints(sdk: SdkConfig) -> SdkConfig {
    let Some(client) = sdk.http_client() else { return sdk };
    sdk.into_builder().http_client(Naming(client)).build()
}

#[derive(Debug)]
struct Naming(SharedHttpClient);

impl HttpClient for Naming {
    fn http_connector(
        &self,
        settings: &HttpConnectorSettings,
        components: &RuntimeComponents,
    ) -> SharedHttpConnector {
        SharedHttpConnector::new(NamingConnector(self.0.http_connector(settings, components)))
    }
}

#[derive(Debug)]
struct NamingConnector(SharedHttpConnector);

impl HttpConnector for NamingConnector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let endpoint = endpoint_of(request.uri());
        let answer = self.0.call(request);
        HttpConnectorFuture::new(async move { answer.await.map_err(|error| named(error, endpoint)) })
    }
}

/// Without the path and the query.
fn endpoint_of(uri: &str) -> String {
    let host = uri.find("://").map_or(0, |at| at + 3);
    let end = uri[host..].find(['/', '?']).map_or(uri.len(), |at| host + at);
    uri[..end].to_owned()
}

/// The kind stays, since retries depend on it.
fn named(error: ConnectorError, endpoint: String) -> ConnectorError {
    let is_timeout = error.is_timeout();
    if !is_timeout && !error.is_io() {
        return error;
    }
    let named = Box::new(NoAnswer { endpoint, cause: error.into_source(), is_timeout });
    if is_timeout { ConnectorError::timeout(named) } else { ConnectorError::io(named) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn no_answer(cause: impl Into<Box<dyn Error + Send + Sync>>) -> String {
        let endpoint = endpoint_of("https://sqs.eu-central-1.amazonaws.com/s3cret?Action=x");
        let named = named(ConnectorError::io(cause.into()), endpoint);
        let words = words(&named).expect("no answer");
        assert!(!words.contains("s3cret"), "{words}");
        words.replace("https://sqs.eu-central-1.amazonaws.com", "AWS")
    }

    #[test]
    fn the_words_name_the_endpoint_and_what_would_do() {
        let io = |kind: io::ErrorKind| io::Error::new(kind, "os error");
        for (cause, expected) in [
            (io(io::ErrorKind::ConnectionRefused), "nothing listens at AWS (connection refused)"),
            (
                io::Error::other("dns error: no record"),
                "the host of AWS is not known here: check the region and the network",
            ),
            (io(io::ErrorKind::TimedOut), "AWS did not answer in time: check the network, and try again"),
            (
                io::Error::other("invalid peer certificate: UnknownIssuer"),
                "AWS has a certificate that is not trusted: ",
            ),
            (io(io::ErrorKind::ConnectionReset), "AWS did not answer: os error"),
        ] {
            let found = no_answer(cause);
            assert!(found.starts_with(expected), "{found}");
        }
        assert_eq!(endpoint_of("http://127.0.0.1:4566"), "http://127.0.0.1:4566");
        assert_eq!(endpoint_of("http://127.0.0.1:4566?x"), "http://127.0.0.1:4566");
    }

    #[test]
    fn missing_credentials_say_where_they_were_looked_for() {
        let missing = CredentialsError::not_loaded("the credential provider was not enabled");
        assert_eq!(words(&missing).as_deref(), Some(NO_CREDENTIALS));
        let expired = CredentialsError::provider_error(io::Error::other("the SSO token has expired"));
        let found = words(&expired).expect("words");
        assert!(
            found
                .starts_with("the AWS credentials cannot be loaded: the SSO token has expired; log in again"),
            "{found}"
        );
        assert_eq!(words(&io::Error::other("another")), None);
    }
}
