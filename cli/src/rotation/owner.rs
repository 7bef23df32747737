//! Which stack of CloudFormation manages a secret.
//!
//! CloudFormation writes a secret again whenever the property that it comes from changes. The template's own VAPID secret comes
//! from a parameter, so a deployment with another `VapidPrivateKey` would put one key in the place of all that a rotation has
//! gathered. A secret that no stack manages is out of its reach.

use aws_sdk_cloudformation::{Client, error::ProvideErrorMetadata as _};

use crate::aws_words::in_words;

/// Why a secret is not changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Owned {
    /// A deployment could write over the change.
    #[error(
        "the stack {stack} made the secret {secret} from VapidPrivateKey, and a deployment with another key would write over \
         what is rotated. Make the stack give the secret up first, which changes neither the secret nor the functions: \
         sam deploy --parameter-overrides VapidSecretId={secret} VapidPrivateKey=none (and the same in samconfig.toml)"
    )]
    ByStack {
        /// The stack's name.
        stack: String,
        /// The secret's name or ARN.
        secret: String,
    },
    /// Whether one does is not known.
    #[error("whether a stack manages the secret {secret} is not known: DescribeStackResources: {words}")]
    Unknown {
        /// The secret's name or ARN.
        secret: String,
        /// The service's words.
        words: String,
    },
}

/// Refuses a secret that a stack manages.
pub(crate) async fn refuse_owned(cloudformation: &Client, secret: &str) -> Result<(), Owned> {
    let described = cloudformation.describe_stack_resources().physical_resource_id(secret).send().await;
    match described {
        Ok(described) => {
            let resources = described.stack_resources();
            let stack = resources
                .iter()
                .filter(|resource| resource.physical_resource_id() == Some(secret))
                .find_map(|resource| resource.stack_name());
            match stack {
                Some(stack) => Err(Owned::ByStack { stack: stack.to_owned(), secret: secret.to_owned() }),
                None => Ok(()),
            }
        }
        // "Stack for … does not exist"
        Err(error)
            if error.code() == Some("ValidationError")
                && error.message().is_some_and(|words| words.contains("does not exist")) =>
        {
            Ok(())
        }
        Err(error) => Err(Owned::Unknown { secret: secret.to_owned(), words: in_words(&error) }),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{BufRead as _, BufReader, Read as _, Write as _},
        net::TcpListener,
        thread,
    };

    use super::*;
    use crate::local::sdk_config;

    const SECRET: &str = "arn:aws:secretsmanager:eu-central-1:1:secret:VapidSecret-a";

    /// A CloudFormation that gives this answer to one call.
    fn answering(status: u16, body: &str) -> Client {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let endpoint = format!("http://{}", listener.local_addr().expect("it is bound"));
        let answer = format!("HTTP/1.1 {status} -\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a call");
            let mut reader = BufReader::new(stream.try_clone().expect("a socket"));
            let (mut length, mut line) = (0, String::new());
            while reader.read_line(&mut line).is_ok_and(|read| read > 0) && line.trim() != "" {
                if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().expect("a number");
                }
                line.clear();
            }
            reader.read_exact(&mut vec![0; length]).expect("the body comes");
            stream.write_all(answer.as_bytes()).expect("the caller waits");
        });
        Client::new(&sdk_config(&endpoint))
    }

    fn managed(physical_id: &str) -> String {
        format!(
            "<DescribeStackResourcesResponse><DescribeStackResourcesResult><StackResources><member>\
             <StackName>shop</StackName><LogicalResourceId>VapidSecret</LogicalResourceId>\
             <PhysicalResourceId>{physical_id}</PhysicalResourceId></member></StackResources>\
             </DescribeStackResourcesResult></DescribeStackResourcesResponse>"
        )
    }

    fn refused(code: &str, message: &str) -> String {
        format!(
            "<ErrorResponse><Error><Type>Sender</Type><Code>{code}</Code><Message>{message}</Message></Error></ErrorResponse>"
        )
    }

    #[tokio::test]
    async fn a_secret_that_a_stack_manages_is_refused_with_the_way_to_release_it() {
        let owned = refuse_owned(&answering(200, &managed(SECRET)), SECRET).await.expect_err("it is managed");
        let words = owned.to_string();
        assert!(matches!(owned, Owned::ByStack { .. }) && words.contains("the stack shop"), "{words}");
        assert!(words.contains(&format!("VapidSecretId={SECRET} VapidPrivateKey=none")), "{words}");
    }

    #[tokio::test]
    async fn a_secret_that_no_stack_manages_may_be_rotated() {
        let absent = refused("ValidationError", &format!("Stack for {SECRET} does not exist"));
        assert!(refuse_owned(&answering(400, &absent), SECRET).await.is_ok());
        assert!(refuse_owned(&answering(200, &managed("another")), SECRET).await.is_ok());
    }

    #[tokio::test]
    async fn a_secret_whose_owner_is_not_known_is_left_alone() {
        let denied = refused("AccessDenied", "not you");
        let unknown = refuse_owned(&answering(403, &denied), SECRET).await.expect_err("it is not known");
        assert!(matches!(unknown, Owned::Unknown { .. }), "{unknown}");
    }
}
