//! The one stack of all tests: the deployed template on the embedded emulator, with a push service and a webhook receiver beside it.
//! If `REDIAL_LOCALSTACK_ENDPOINT` is set, it is on the LocalStack that listens there, and its functions are processes of this machine.
//! If `REDIAL_SQS_ENDPOINT` is set, that SQS keeps the queues, and those of `REDIAL_STEP_FUNCTIONS_ENDPOINT` and
//! `REDIAL_DYNAMODB_ENDPOINT` the waits and the tables.
//!
//! A stack of a test's own ends with the test, also when that panics. The stacks that tests share end with their process: the
//! emulator reads its standard input, whose other end only this process holds. Under `cargo test` the tests of a binary share
//! them; under `cargo nextest` each test is a process and has its own. A test on a shared stack works on a tenant of its own.

mod messages;
mod observed;
mod settings;

use std::{
    ffi::OsStr,
    fs,
    ops::Deref,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use redial::local::{
    Description, Emulator, FunctionsIn, Known, Options, Parts, Queues, Stack, StackKey, Tables, note,
};
use redial_testkit::{push_service::PushService, webhook_receiver::WebhookReceiver};
use tokio::sync::OnceCell;

use crate::files::workspace;

pub use messages::{MessageOnQueue, document};
pub use observed::{Item, PATIENCE, eventually, number, text};
pub use settings::{
    AUTH, P256DH, dead_letter, push_target, queue_arn, queue_name, renewal, subscription_key,
};

/// A stack as one test sees it. The clients are the test's own, because a connection ends with the runtime that opened it.
pub struct TestStack {
    running: Arc<Running>,
    /// `acme`, or on a shared stack one that no other test has.
    pub tenant: String,
    pub sqs: aws_sdk_sqs::Client,
    pub dynamodb: aws_sdk_dynamodb::Client,
    pub sfn: aws_sdk_sfn::Client,
    pub lambda: aws_sdk_lambda::Client,
    pub logs: aws_sdk_cloudwatchlogs::Client,
    pub secrets: aws_sdk_secretsmanager::Client,
}

/// What ends together.
pub struct Running {
    pub push: PushService,
    pub webhooks: WebhookReceiver,
    stack: Stack,
    folder: Folder,
}

impl Deref for TestStack {
    type Target = Running;

    fn deref(&self) -> &Running {
        &self.running
    }
}

impl TestStack {
    /// A stack of the test's own with the real functions and short waits: queues delay by two seconds at most, buckets are of one
    /// second. Breakers are off: what a test provokes at one origin would look like an outage.
    pub async fn up() -> Self {
        Self::up_with(|_| {}).await
    }

    pub async fn up_with(change: impl FnOnce(&mut Options)) -> Self {
        let change = |options: &mut Options| {
            set_env(
                options,
                [
                    ("SQS_MAX_DELAY_SECONDS", "2"),
                    ("WAIT_BUCKET_SECONDS", "1"),
                    ("WAIT_SHARDS", "1"),
                    ("BREAKER", "off"),
                ],
            );
            change(options);
        };
        Self::as_deployed_with(change).await
    }

    /// [`Self::up`] with these variables of the functions.
    pub async fn up_with_env<const N: usize>(variables: [(&str, &str); N]) -> Self {
        Self::up_with(|options| set_env(options, variables)).await
    }

    /// A stack of the test's own with the real functions and the template's own waits and breakers.
    pub async fn as_deployed_with(change: impl FnOnce(&mut Options)) -> Self {
        Self::of(Arc::new(Running::start(change).await), "acme")
    }

    /// A stack of the test's own whose functions are placeholders.
    pub async fn with_placeholders() -> Self {
        let bootstraps = placeholders();
        Self::as_deployed_with(|options| options.bootstraps = Some(bootstraps.path().to_owned())).await
    }

    /// The same, and no queue is read: what is sent stays where it was put.
    pub async fn idle() -> Self {
        let stack = Self::with_placeholders().await;
        stack.set_mappings(None, false).await;
        stack
    }

    /// [`Self::up`] for tests that do not disturb each other.
    pub async fn shared() -> Self {
        static SHARED: OnceCell<Arc<Running>> = OnceCell::const_new();
        let running = SHARED.get_or_init(async || Self::up().await.running).await;
        Self::of(Arc::clone(running), &Self::own_tenant())
    }

    /// [`Self::idle`] for tests that do not disturb each other.
    pub async fn shared_idle() -> Self {
        static SHARED: OnceCell<Arc<Running>> = OnceCell::const_new();
        let running = SHARED.get_or_init(async || Self::idle().await.running).await;
        Self::of(Arc::clone(running), &Self::own_tenant())
    }

    fn own_tenant() -> String {
        static TENANTS: AtomicU32 = AtomicU32::new(0);
        format!("acme-{}", TENANTS.fetch_add(1, Ordering::Relaxed))
    }

    fn of(running: Arc<Running>, tenant: &str) -> Self {
        let sdk = running.stack.sdk_config();
        let of_lambda = match &running.description().function_host {
            Some(host) => sdk.clone().into_builder().endpoint_url(&host.lambda_endpoint).build(),
            None => sdk.clone(),
        };
        Self {
            tenant: tenant.to_owned(),
            sqs: aws_sdk_sqs::Client::new(&sdk),
            dynamodb: aws_sdk_dynamodb::Client::new(&sdk),
            sfn: aws_sdk_sfn::Client::new(&sdk),
            lambda: aws_sdk_lambda::Client::new(&of_lambda),
            logs: aws_sdk_cloudwatchlogs::Client::new(&sdk),
            secrets: aws_sdk_secretsmanager::Client::new(&sdk),
            running,
        }
    }
}

impl Running {
    async fn start(change: impl FnOnce(&mut Options)) -> Self {
        let (push, webhooks) = (PushService::start(), WebhookReceiver::start());
        let (push, webhooks) = (push.expect("a free port"), webhooks.expect("a free port"));
        let folder = Folder::create();
        let ca = folder.0.join("ca.pem");
        fs::write(&ca, format!("{}{}", push.ca_pem(), webhooks.ca_pem())).expect("target is writable");
        let mut options = Options {
            egress_allow: vec![push.origin().to_owned(), webhooks.origin().to_owned()],
            egress_ca: Some(ca),
            ..Options::default()
        };
        if let Some(endpoint) = localstack() {
            options.emulator = Emulator::LocalStack { endpoint, functions: FunctionsIn::Here };
            options.host_program = Some(command_line());
        } else if let Some(parts) = parts() {
            options.emulator = Emulator::Parts(parts);
            options.host_program = Some(command_line());
        }
        change(&mut options);
        let stack = Stack::up(options).await.unwrap_or_else(|error| panic!("the stack comes up: {error}"));
        let running = Self { push, webhooks, stack, folder };
        running.register_at(&running.stack.description().endpoint);
        running
    }

    pub fn description(&self) -> &Description {
        self.stack.description()
    }

    pub fn queues(&self) -> &Queues {
        &self.description().queues
    }

    pub fn tables(&self) -> &Tables {
        &self.description().tables
    }

    pub fn stack(&self) -> &Stack {
        &self.stack
    }

    /// A folder of the stack's own, for the files of a test.
    pub fn folder(&self) -> &Path {
        &self.folder.0
    }

    /// The folder in which the command line finds the stack (`--state-dir`).
    pub fn state(&self) -> PathBuf {
        self.folder().join("state")
    }

    /// Has the command line find the stack behind another endpoint, such as a proxy's.
    pub fn register_at(&self, endpoint: &str) {
        let description = Description { endpoint: endpoint.to_owned(), ..self.description().clone() };
        register(self.folder(), description, self.stack.key());
    }
}

/// Where a LocalStack listens that stacks are deployed to instead of to an embedded emulator; it keeps them.
pub fn localstack() -> Option<String> {
    std::env::var("REDIAL_LOCALSTACK_ENDPOINT").ok()
}

/// Whether a test is left out because its stack would be on a LocalStack, and it is about what only the embedded emulator does. Prints why.
#[expect(clippy::print_stdout, reason = "a test prints why it does not run")]
pub fn left_out_on_localstack(why: &str) -> bool {
    let is_left_out = localstack().is_some();
    if is_left_out {
        println!("not run on LocalStack: {why}");
    }
    is_left_out
}

/// The servers that keep what an embedded emulator otherwise does.
fn parts() -> Option<Parts> {
    let [sqs, step_functions, dynamodb] = ["SQS", "STEP_FUNCTIONS", "DYNAMODB"]
        .map(|part| std::env::var(format!("REDIAL_{part}_ENDPOINT")).ok());
    sqs.as_ref()?;
    Some(Parts::new(sqs, step_functions, dynamodb).unwrap_or_else(|error| panic!("{error}")))
}

/// Whether the tables report the write units of statements: Amazon's DynamoDB Local, which LocalStack runs, does not.
pub fn charges_statements() -> bool {
    localstack().is_none() && std::env::var_os("REDIAL_DYNAMODB_ENDPOINT").is_none()
}

/// The program that hosts functions. Cargo does not build it for tests of other packages.
fn command_line() -> PathBuf {
    let program = workspace().join("target/debug/redial");
    assert!(program.exists(), "{} is missing: cargo build --workspace --bin redial", program.display());
    program
}

pub fn set_env<const N: usize>(options: &mut Options, variables: [(&str, &str); N]) {
    options.env.extend(variables.map(|(name, value)| (name.to_owned(), value.to_owned())));
}

/// Registers a stack below `state` in this folder, as one that another process runs.
pub fn register(folder: &Path, description: Description, key: &StackKey) {
    let stack = Description { pid: None, ..description };
    let known = Known { name: "here".to_owned(), stack, key: key.clone() };
    note(&folder.join("state/here"), &known).expect("the folder is writable");
}

/// A folder of functions that do nothing, for stacks on which nothing is to be sent. It is read when a stack comes up.
pub fn placeholders() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for function in ["dispatch", "cleanup", "ingest"] {
        let path = folder.path().join(function);
        fs::write(&path, "#!/bin/sh\nexec sleep 600\n").expect("the folder is writable");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("the file is ours");
    }
    folder
}

/// A folder that ends with its value. That of a shared stack is a static's, which is never dropped: it is removed when another
/// process creates one, and by `cargo clean`.
struct Folder(PathBuf);

impl Folder {
    fn create() -> Self {
        static FOLDERS: AtomicU32 = AtomicU32::new(0);
        let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/redial/tests");
        let of_ended_process = |folder: &Path| {
            let process = folder.file_name().and_then(OsStr::to_str).and_then(|name| name.split('-').next());
            let processes = Path::new("/proc");
            processes.join("self").exists() && process.is_some_and(|id| !processes.join(id).exists())
        };
        for folder in fs::read_dir(&all).into_iter().flatten().flatten().map(|entry| entry.path()) {
            if of_ended_process(&folder) {
                let _absent = fs::remove_dir_all(folder);
            }
        }
        let index = FOLDERS.fetch_add(1, Ordering::Relaxed);
        let folder = all.join(format!("{}-{index}", std::process::id()));
        fs::create_dir_all(&folder).expect("target is writable");
        Self(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _absent = fs::remove_dir_all(&self.0);
    }
}
