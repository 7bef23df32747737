//! A server of SQS, Step Functions and DynamoDB beside a stack: one that takes any key, and keeps what it is given in an account of its own.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
};

use aws_sdk_sqs::types::QueueAttributeName::QueueArn;
use redial::local::{self, Progress, StackKey};

const PROGRAM: &str = include_str!("other_emulator.py");
/// Not that of a local stack.
pub const ACCOUNT: &str = "111122223333";

pub struct OtherEmulator {
    process: Child,
    _folder: tempfile::TempDir,
    pub endpoint: String,
    pub sqs: aws_sdk_sqs::Client,
    pub sfn: aws_sdk_sfn::Client,
    pub dynamodb: aws_sdk_dynamodb::Client,
}

impl OtherEmulator {
    pub async fn start() -> Self {
        let python = tokio::task::spawn_blocking(|| local::python(&Progress::silent()));
        let python = python.await.expect("no panic").expect("the emulator's Python");
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut command = Command::new(python);
        command
            .args(["-I", "-c", PROGRAM])
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("HOME", folder.path()).env("TMPDIR", folder.path());
        command.env("STATE_DIR", folder.path().join("state")).env("S3_DATA_DIR", folder.path().join("s3"));
        command.env("MINISTACK_HOST", "127.0.0.1").env("MINISTACK_ACCOUNT_ID", ACCOUNT);
        command.env("LAMBDA_EXECUTOR", "local").env("SFTP_ENABLED", "0").env("IOT_MTLS_ENABLED", "0");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().expect("Python starts");
        let mut port = String::new();
        let stdout = process.stdout.take().expect("piped");
        BufReader::new(stdout).read_line(&mut port).expect("text");
        assert!(!port.trim().is_empty(), "the other emulator did not start");
        let endpoint = format!("http://127.0.0.1:{}", port.trim());
        let sdk = local::sdk_config(&endpoint, &StackKey::of_localstack());
        Self {
            process,
            _folder: folder,
            endpoint,
            sqs: aws_sdk_sqs::Client::new(&sdk),
            sfn: aws_sdk_sfn::Client::new(&sdk),
            dynamodb: aws_sdk_dynamodb::Client::new(&sdk),
        }
    }

    /// Names of its queues, state machines and tables; none of another account.
    pub async fn names(&self) -> Vec<String> {
        let mut names = Vec::new();
        let queues = self.sqs.list_queues().send().await.expect("SQS answers").queue_urls.unwrap_or_default();
        for url in queues {
            let read = self.sqs.get_queue_attributes().queue_url(&url).attribute_names(QueueArn).send().await;
            let arn = read.expect("SQS answers").attributes.expect("an attribute")[&QueueArn].clone();
            let name = arn.strip_prefix(&format!("arn:aws:sqs:us-east-1:{ACCOUNT}:")).map(str::to_owned);
            names.push(name.unwrap_or_else(|| panic!("{arn} is of another account")));
        }
        let machines = self.sfn.list_state_machines().send().await.expect("Step Functions answers");
        names.extend(machines.state_machines.into_iter().map(|machine| machine.name));
        let tables = self.dynamodb.list_tables().send().await.expect("DynamoDB answers");
        names.extend(tables.table_names.unwrap_or_default());
        names.sort();
        names
    }

    /// Has it forget its queues, as a restart does.
    pub async fn forget_queues(&self) {
        let queues = self.sqs.list_queues().send().await.expect("SQS answers").queue_urls.unwrap_or_default();
        for url in queues {
            self.sqs.delete_queue().queue_url(url).send().await.expect("SQS deletes it");
        }
    }
}

impl Drop for OtherEmulator {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ended = self.process.wait();
    }
}
