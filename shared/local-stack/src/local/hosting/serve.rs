//! The process that hosts a stack's functions, from within.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{Read as _, Write as _},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    process,
    sync::Arc,
    time::Duration,
};

use aws_config::{SdkConfig, timeout::TimeoutConfig};
use redial_console::terminal::say;
use redial_function_host::{
    function::{Definition, Function},
    function_url::{self, Auth},
    mapping::{self, Note, Settings, SqsQueue, Switch},
    runtime_api::Confinement,
    schedule::{self, When},
};
use redial_receivers::{ambient, serve::Port};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::{mpsc, oneshot},
    task::JoinSet,
};

use super::{
    super::{
        LocalError, StackKey,
        clients::{REGION, sdk_config},
        error::call,
        guarded_process::{LOCK, running_pid},
        private_folder,
    },
    hosted::{Hosted, HostedFunction, HostedMapping},
    lambda_api::{self, LambdaApi},
    logs,
    process::{Ready, bootstrap},
};

/// How often instances are looked at that have been idle for long.
const IDLE_INTERVAL: Duration = Duration::from_secs(30);
/// How often it is looked whether the folder is still there.
const FOLDER_INTERVAL: Duration = Duration::from_secs(1);
/// The longest that a call may take: longer than a long poll.
const CALL_LIMIT: Duration = Duration::from_secs(30);
/// How long the last lines may take to be written.
const LAST_LINES: Duration = Duration::from_secs(1);

/// Hosts the functions that the folder of a stack describes, until the process is asked to end or its owner has gone.
pub(crate) async fn serve(folder: &Path) -> Result<(), LocalError> {
    // A terminal that is closed does not end it. It fails for the leader of a process group: one that was started by hand.
    let _leader = rustix::process::setsid();
    let lock = lock(folder)?;
    let mut end = signal(SignalKind::user_defined1()).map_err(LocalError::file(folder))?;
    let mut terminate = signal(SignalKind::terminate()).map_err(LocalError::file(folder))?;
    let owner = owner_gone();

    let asked = async {
        tokio::select! {
            _ = end.recv() => End::Asked,
            _ = terminate.recv() => End::Asked,
            Ok(()) = owner => End::Abandoned,
            () = replaced(folder, &lock) => End::Asked,
            () = emulator_ended(folder) => End::Asked,
        }
    };
    tokio::pin!(asked);
    let started = tokio::select! {
        started = Host::start(folder) => Ok(started?),
        ended = &mut asked => Err(ended),
    };
    let ended = match started {
        Err(ended) => ended,
        Ok(mut host) => {
            let ended = tokio::select! {
                ended = asked => ended,
                Some(_) = host.work.join_next() => End::Broken,
            };
            host.end().await;
            ended
        }
    };
    match ended {
        End::Asked => {}
        End::Abandoned => drop(fs::remove_dir_all(folder)),
        End::Broken => say("a mapping, a schedule or a server has ended by itself, and so does the host"),
    }
    Ok(())
}

/// Why it ends.
enum End {
    Asked,
    /// Its owner has gone.
    Abandoned,
    Broken,
}

/// Resolves when the lock in the folder is another file, or none: the folder was removed, so that no command finds this process.
async fn replaced(folder: &Path, lock: &File) {
    let path = folder.join(LOCK);
    let file = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
    let own = lock.metadata().ok().map(file);
    while fs::metadata(&path).ok().map(file) == own {
        tokio::time::sleep(FOLDER_INTERVAL).await;
    }
}

/// Resolves when the embedded emulator, in whose folder this one is, does not run any more; never without one.
async fn emulator_ended(folder: &Path) {
    let beside = folder.parent().filter(|emulator| emulator.join(LOCK).exists());
    let Some(emulator) = beside else { return std::future::pending().await };
    while running_pid(emulator).is_some() {
        tokio::time::sleep(FOLDER_INTERVAL).await;
    }
}

fn lock(folder: &Path) -> Result<File, LocalError> {
    let path = folder.join(LOCK);
    let mut file = private_folder::new_file(&path)?;
    file.lock().map_err(LocalError::file(&path))?;
    file.write_all(process::id().to_string().as_bytes()).map_err(LocalError::file(&path))?;
    Ok(file)
}

/// Resolves when standard input ends without a byte: the owner has gone. One byte sets this process free.
fn owner_gone() -> oneshot::Receiver<()> {
    let (gone, owner) = oneshot::channel();
    // A thread and not a blocking task, which the runtime would wait for in the end.
    std::thread::spawn(move || {
        if !matches!(std::io::stdin().read(&mut [0]), Ok(1..)) {
            let _ended = gone.send(());
        }
    });
    owner
}

struct Host {
    functions: BTreeMap<String, Arc<Function>>,
    /// By the function's name, in the order of its mappings.
    switches: BTreeMap<String, Vec<Arc<Switch>>>,
    /// Mappings, schedules and servers: none ends by itself.
    work: JoinSet<()>,
    logs: JoinSet<()>,
}

impl Host {
    async fn start(folder: &Path) -> Result<Self, LocalError> {
        let hosted = Hosted::read(folder)?;
        let limit = TimeoutConfig::builder().operation_attempt_timeout(CALL_LIMIT).build();
        let sdk = sdk_config(&hosted.endpoint, &hosted.key).into_builder().timeout_config(limit).build();
        let mut host = Self {
            functions: BTreeMap::new(),
            switches: BTreeMap::new(),
            work: JoinSet::new(),
            logs: JoinSet::new(),
        };
        let mut api_url = None;
        for function in &hosted.functions {
            if let Some(url) = host.start_function(function, &hosted, folder, &sdk).await? {
                api_url = Some(url);
            }
        }
        let lambda = LambdaApi::new(&hosted.functions, host.functions.clone(), &host.switches);
        let port = port()?;
        // No page of another site and no other user of the machine knows the path: variables have secrets.
        let root = format!("/{}", ambient::unique_name());
        let lambda_url = format!("{}{root}", port.origin("127.0.0.1"));
        host.work.spawn(async move { note_end("Lambda's API", lambda_api::run(port, root, lambda).await) });
        Ready { api_url, lambda_url }.write(folder)?;
        Ok(host)
    }

    /// Starts what calls the function; answers its URL, if it has one.
    async fn start_function(
        &mut self,
        hosted: &HostedFunction,
        stack: &Hosted,
        folder: &Path,
        sdk: &SdkConfig,
    ) -> Result<Option<String>, LocalError> {
        let (sink, lines) = mpsc::unbounded_channel();
        let stream = format!("[$LATEST]{}", ambient::unique_name());
        let variables = environment(hosted, stack, &stream);
        let logs = aws_sdk_cloudwatchlogs::Client::new(sdk);
        self.logs.spawn(logs::write(logs, hosted.log_group.clone(), stream, hosted.binary.clone(), lines));
        let function = Arc::new(Function::new(Definition {
            bootstrap: bootstrap(hosted, folder),
            environment: variables,
            timeout: Duration::from_secs(hosted.timeout_s),
            reserved_concurrency: hosted.reserved_concurrency.map(count),
            confinement: Confinement {
                sink: Some(sink),
                freezes: true,
                memory_mb: Some(hosted.memory_mb),
                ..Confinement::default()
            },
        }));
        self.functions.insert(hosted.name.clone(), Arc::clone(&function));
        let name = hosted.binary.clone();
        let note: Note = Arc::new(move |line: &str| say(&format!("host of {name}: {line}")));

        let sqs = aws_sdk_sqs::Client::new(sdk);
        for mapping in &hosted.mappings {
            let queue = Arc::new(queue(&sqs, &mapping.queue_arn).await?);
            let switch = Arc::new(Switch::new(mapping.enabled));
            self.switches.entry(hosted.name.clone()).or_default().push(Arc::clone(&switch));
            let (function, note) = (Arc::clone(&function), Arc::clone(&note));
            self.work.spawn(mapping::run(settings(mapping), queue, function, switch, note));
        }
        for schedule in &hosted.schedules {
            let when = schedule.expression.as_deref().map_or(Ok(When::Deployed), When::parse);
            let when = when.map_err(|error| LocalError::Template(error.to_string()))?;
            let (input, function, note) = (schedule.input.clone(), Arc::clone(&function), Arc::clone(&note));
            self.work.spawn(async move {
                schedule::run(when, input, function, note).await;
                std::future::pending().await
            });
        }
        let idle = Arc::clone(&function);
        self.work.spawn(async move {
            loop {
                tokio::time::sleep(IDLE_INTERVAL).await;
                idle.end_idle().await;
            }
        });
        let Some(is_open) = hosted.url_is_open else { return Ok(None) };
        let port = port()?;
        let url = port.origin("127.0.0.1");
        let auth = if is_open { Auth::Open } else { Auth::Signed };
        self.work.spawn(async move {
            note_end("the HTTP API", function_url::run(port, auth, None, function, note).await);
        });
        Ok(Some(url))
    }

    async fn end(mut self) {
        self.work.shutdown().await;
        let functions = std::mem::take(&mut self.functions);
        for function in functions.into_values() {
            function.shut_down().await;
        }
        // With the functions, the senders of their lines are gone.
        let written = async { while self.logs.join_next().await.is_some() {} };
        let _late = tokio::time::timeout(LAST_LINES, written).await;
    }
}

fn note_end(what: &str, ended: std::io::Result<()>) {
    if let Err(error) = ended {
        say(&format!("{what} ended: {error}"));
    }
}

fn port() -> Result<Port, LocalError> {
    Port::take(0).map_err(LocalError::file(&PathBuf::from("127.0.0.1")))
}

async fn queue(client: &aws_sdk_sqs::Client, arn: &str) -> Result<SqsQueue, LocalError> {
    let name = arn.rsplit(':').next().unwrap_or_default();
    let found = client.get_queue_url().queue_name(name).send().await.map_err(call("GetQueueUrl"))?;
    let url = found.queue_url.ok_or_else(|| LocalError::Template(format!("no queue named {name}")))?;
    Ok(SqsQueue { client: client.clone(), url, arn: arn.to_owned() })
}

fn settings(mapping: &HostedMapping) -> Settings {
    Settings {
        batch_size: count(mapping.batch_size),
        window: Duration::from_secs(mapping.window_s),
        maximum_concurrency: count(mapping.maximum_concurrency),
        reports_failures: mapping.reports_failures,
    }
}

fn count(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// What Lambda sets, and on top of it what the template does.
fn environment(hosted: &HostedFunction, stack: &Hosted, stream: &str) -> BTreeMap<String, String> {
    let key: &StackKey = &stack.key;
    let memory = hosted.memory_mb.to_string();
    let lambdas = [
        ("AWS_ENDPOINT_URL", stack.endpoint.as_str()),
        ("AWS_ACCESS_KEY_ID", key.id()),
        ("AWS_SECRET_ACCESS_KEY", key.expose_secret()),
        ("AWS_REGION", REGION),
        ("AWS_DEFAULT_REGION", REGION),
        ("AWS_LAMBDA_FUNCTION_NAME", &hosted.name),
        ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", &memory),
        ("AWS_LAMBDA_LOG_GROUP_NAME", &hosted.log_group),
        ("AWS_LAMBDA_LOG_STREAM_NAME", stream),
    ];
    let lambdas = lambdas.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    lambdas.chain(hosted.environment.clone()).collect()
}
