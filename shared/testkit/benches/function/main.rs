//! What the deployed `dispatch` function costs: its release bootstrap behind a Runtime API, with an AWS and a push service that answer
//! from memory.
//!
//! ```sh
//! cargo bench --profile dev -p redial-testkit --bench function                  # builds the bootstrap first: some minutes
//! cargo bench --profile dev -p redial-testkit --bench function -- --bootstrap target/lambda/dispatch/bootstrap
//! cargo bench --profile dev -p redial-testkit --bench function -- --counts      # only instructions, beside the committed counts
//! cargo bench --profile dev -p redial-testkit --bench function -- --check       # the same; fails where one has grown by more than 5 %, and over 8 MB
//! cargo bench --profile dev -p redial-testkit --bench function -- --accept      # commits the counts of this build
//! cargo bench --profile dev -p redial-testkit --bench function -- --counts --profiles DIR   # keeps callgrind's profiles there
//! cargo bench --profile dev -p redial-testkit --bench function -- --counts --qemu           # counts with QEMU, SHA and ADX included
//! ```
//!
//! It is built in the development profile because only the bootstrap is measured, and that is another process. Instructions are all of
//! the process's: the Runtime API's client, JSON, the ledger's calls, sealing, TLS, log lines. A message's are the difference between a
//! longer and a shorter run. Times are the least of many runs, because noise only adds; they depend on the machine.

#![expect(clippy::print_stdout, reason = "a benchmark prints")]

mod cloud;
mod counted;
mod process;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use redial_instructions::{Mode, Table};

use cloud::Cloud;
use counted::{Counted, Counter};
use process::{Aws, Function};

/// Starts of the function, of which the fastest counts.
const STARTS: usize = 20;

/// Messages of a batch, and batches of a shorter and a longer run.
type Run = (usize, usize, usize);

const RUNS: [Run; 3] = [(1, 20, 120), (10, 10, 60), (100, 2, 6)];

/// Under QEMU, which takes longer.
const RUNS_IN_QEMU: [Run; 3] = [(1, 10, 60), (10, 5, 25), (100, 2, 4)];

/// The most that the executable may have: most of a function's memory is pages of it.
const MOST_BYTES: u64 = 8_000_000;

const LATENCY: Duration = Duration::from_millis(100);

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: &[String]) -> Result<(), String> {
    let value = |flag: &str| {
        let place = arguments.iter().position(|argument| argument == flag)?;
        // Cargo starts a benchmark in the folder of its crate.
        arguments.get(place + 1).map(|path| workspace().join(path))
    };
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    let mode = Mode::of_arguments(arguments);
    let counter = if has("--qemu") { Counter::Qemu } else { Counter::Callgrind };
    let bootstrap = match value("--bootstrap") {
        Some(path) => path,
        None => build()?,
    };
    let bootstrap = bootstrap.canonicalize().map_err(|error| format!("{}: {error}", bootstrap.display()))?;
    let bytes = size(&bootstrap)?;
    if mode == Mode::Check && bytes > MOST_BYTES {
        return Err(format!("the executable has {bytes} bytes, more than {MOST_BYTES}"));
    }
    let cloud = Cloud::start().map_err(|error| error.to_string())?;
    if mode == Mode::Print && !has("--counts") {
        times(&bootstrap, &cloud).await?;
    }
    let counted = Counted::new(counter, &bootstrap, value("--profiles").as_deref())?;
    counts(&counted, &cloud, mode).await
}

fn size(bootstrap: &Path) -> Result<u64, String> {
    bootstrap.metadata().map(|it| it.len()).map_err(|error| error.to_string())
}

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// For which processors cargo-lambda builds.
const LEAST_PROCESSOR: &str = if cfg!(target_arch = "aarch64") { "neoverse-n1" } else { "haswell" };

/// Builds the bootstrap as it is deployed, for this machine.
fn build() -> Result<PathBuf, String> {
    let workspace = workspace();
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace.join("target"), PathBuf::from);
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--release", "--package", "dispatch"]).current_dir(&workspace);
    cargo.env("RUSTFLAGS", format!("-C target-cpu={LEAST_PROCESSOR}"));
    let ended = cargo.status().map_err(|error| error.to_string())?;
    if ended.success() {
        Ok(target.join("release/dispatch"))
    } else {
        Err("dispatch does not build".to_owned())
    }
}

async fn times(bootstrap: &Path, cloud: &Cloud) -> Result<(), String> {
    println!("{:<44}{:>14}", "TIMES AND SIZES", "this build");
    row("bootstrap, MB", size(bootstrap)? as f64 / 1e6);
    for (name, aws) in [("AWS over http", Aws::Http), ("AWS over TLS", Aws::Tls)] {
        let (mut init, mut first) = (Duration::MAX, Duration::MAX);
        cloud.take_calls();
        for _ in 0..STARTS {
            let mut function = Function::start(bootstrap, cloud, aws).await?;
            let ready = function.cpu()?;
            init = init.min(ready);
            let (calls, connections) = cloud.take_calls();
            function.deliver(1).await?;
            first = first.min(function.cpu()? - ready);
            cloud.take_calls();
            if init == ready {
                println!("  {name}: calls of a start {calls:?} over {connections} connections");
            }
        }
        row(&format!("init, {name}, ms of CPU"), ms(init));
        row(&format!("first message, {name}, ms of CPU"), ms(first));
    }

    let mut function = Function::start(bootstrap, cloud, Aws::Http).await?;
    function.deliver(10).await?;
    row("memory after ten messages, MB", function.memory_kib()? as f64 * 1024.0 / 1e6);
    let (mut cpu, printed) = (Duration::MAX, function.log_bytes());
    for _ in 0..50 {
        let before = function.cpu()?;
        function.deliver(10).await?;
        cpu = cpu.min(function.cpu()? - before);
    }
    row("ten messages, ms of CPU", ms(cpu));
    row("log lines, bytes a message", (function.log_bytes() - printed) as f64 / 500.0);

    cloud.answers_after(LATENCY);
    function.deliver(100).await?;
    let mut fastest = Duration::MAX;
    for _ in 0..5 {
        cloud.take_calls();
        fastest = fastest.min(function.deliver(100).await?);
    }
    let (calls, _) = cloud.take_calls();
    cloud.answers_after(Duration::ZERO);
    row("a batch of 100 at 100 ms latency, ms", ms(fastest));
    println!("  calls of it: {calls:?}");
    for _ in 0..40 {
        function.deliver(100).await?;
    }
    row("memory after 5,000 messages, MB", function.memory_kib()? as f64 * 1024.0 / 1e6);
    println!();
    Ok(())
}

async fn counts(counted: &Counted, cloud: &Cloud, mode: Mode) -> Result<(), String> {
    let (title, file, runs) = match counted.counter {
        Counter::Callgrind => ("INSTRUCTIONS OF DISPATCH", "counts.txt", RUNS),
        Counter::Qemu => ("INSTRUCTIONS, WITH SHA AND ADX", "counts_qemu.txt", RUNS_IN_QEMU),
    };
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/function").join(file);
    let mut table = Table::begin(title, path);
    for (name, aws) in [("init, AWS over http", Aws::Http), ("init, AWS over TLS", Aws::Tls)] {
        table.row(name, counted.of_batches(cloud, aws, 0, 0).await?);
    }
    for (size, fewer, more) in runs {
        let shorter = counted.of_batches(cloud, Aws::Http, fewer, size).await?;
        let longer = counted.of_batches(cloud, Aws::Http, more, size).await?;
        let messages = ((more - fewer) * size) as u64;
        table.row(&format!("a message of a batch of {size}"), (longer - shorter) / messages);
    }
    table.end(mode)
}

fn row(name: &str, value: f64) {
    println!("{name:<44}{value:>14.2}");
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
