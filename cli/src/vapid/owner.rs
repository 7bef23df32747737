//! Which CloudFormation stack manages a secret.
//!
//! CloudFormation writes a secret again whenever its source property changes. The template's own VAPID secret comes from a
//! parameter, so a deployment with another `VapidPrivateKey` would replace all rotated keys by one. A secret that no stack
//! manages is safe from that.

use aws_sdk_cloudformation::{Client, error::ProvideErrorMetadata as _, types::ResourceStatus};

use crate::aws_error;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Owned {
    /// A deployment could overwrite the change.
    #[error(
        "the stack {stack} made the secret {secret} from VapidPrivateKey, and a deployment with another key would \
         overwrite the rotated keys. Make the stack release the secret first, which changes neither the secret nor the functions: \
         sam build && sam deploy --stack-name {stack} --parameter-overrides VapidSecretId={secret} VapidPrivateKey=none \
         (with your other parameters; and the same two in samconfig.toml)"
    )]
    ByStack { stack: String, secret: String },
    #[error("cannot determine whether the stack manages the secret {secret}: DescribeStackResource: {words}")]
    Unknown { secret: String, words: String },
}

/// The template's own secret of the VAPID key.
const LOGICAL_ID: &str = "VapidSecret";

/// Fails if the stack manages the secret. Other stacks are not checked: deployments of this one do not write their secrets, and a
/// search by the secret's own id would list a hundred resources at most.
pub(crate) async fn refuse_owned(cloudformation: &Client, stack: &str, secret: &str) -> Result<(), Owned> {
    let request = cloudformation.describe_stack_resource().stack_name(stack).logical_resource_id(LOGICAL_ID);
    match request.send().await {
        Ok(described) => {
            let owns = described.stack_resource_detail().is_some_and(|resource| {
                let status = resource.resource_status();
                let is_gone =
                    matches!(status, Some(ResourceStatus::DeleteComplete | ResourceStatus::DeleteSkipped));
                resource.physical_resource_id() == Some(secret) && !is_gone
            });
            if owns {
                return Err(Owned::ByStack { stack: stack.to_owned(), secret: secret.to_owned() });
            }
            Ok(())
        }
        // "Resource VapidSecret does not exist for stack …"
        Err(error)
            if error.code() == Some("ValidationError")
                && error.message().is_some_and(|words| words.contains("does not exist")) =>
        {
            Ok(())
        }
        Err(error) => Err(Owned::Unknown { secret: secret.to_owned(), words: aws_error::message(&error) }),
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

    fn managed(physical_id: &str, status: &str) -> String {
        format!(
            "<DescribeStackResourceResponse><DescribeStackResourceResult><StackResourceDetail>\
             <StackName>shop</StackName><LogicalResourceId>VapidSecret</LogicalResourceId>\
             <PhysicalResourceId>{physical_id}</PhysicalResourceId><ResourceStatus>{status}</ResourceStatus>\
             </StackResourceDetail></DescribeStackResourceResult></DescribeStackResourceResponse>"
        )
    }

    async fn refused_owned(status: u16, body: &str) -> Result<(), Owned> {
        refuse_owned(&answering(status, body), "shop", SECRET).await
    }

    fn refused(code: &str, message: &str) -> String {
        format!(
            "<ErrorResponse><Error><Type>Sender</Type><Code>{code}</Code><Message>{message}</Message></Error></ErrorResponse>"
        )
    }

    #[tokio::test]
    async fn a_managed_secret_is_refused_with_the_way_to_release_it() {
        let owned = refused_owned(200, &managed(SECRET, "CREATE_COMPLETE")).await.expect_err("it is managed");
        let words = owned.to_string();
        assert!(matches!(owned, Owned::ByStack { .. }) && words.contains("the stack shop"), "{words}");
        assert!(words.contains(&format!("VapidSecretId={SECRET} VapidPrivateKey=none")), "{words}");
        assert!(words.contains("--stack-name shop"), "{words}");
    }

    #[tokio::test]
    async fn an_unmanaged_secret_may_be_rotated() {
        let absent = refused("ValidationError", "Resource VapidSecret does not exist for stack shop");
        assert!(refused_owned(400, &absent).await.is_ok());
        assert!(refused_owned(200, &managed("another", "CREATE_COMPLETE")).await.is_ok());
        assert!(refused_owned(200, &managed(SECRET, "DELETE_SKIPPED")).await.is_ok(), "it was given up");
    }

    #[tokio::test]
    async fn a_secret_with_an_unknown_owner_is_refused() {
        let denied = refused("AccessDenied", "not you");
        let unknown = refused_owned(403, &denied).await.expect_err("it is not known");
        assert!(matches!(unknown, Owned::Unknown { .. }), "{unknown}");
    }
}
