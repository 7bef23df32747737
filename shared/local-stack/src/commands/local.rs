//! `redial local up | down | status | env`, and the others' list.

use std::{collections::BTreeMap, path::PathBuf, process};

use clap::{Args, Subcommand};
use serde::Serialize;

use redial_adapters::{egress::ExtraRoots, secrets::Secret};
use redial_console::{
    failure::Failure,
    line::Line,
    origin,
    terminal::{print, print_as_it_is, print_line, say},
    tone::Tone,
};
use redial_core::identity::Tenant;

use super::{
    emulator::DeployTo,
    interruption::{INTERRUPTED, interruption},
    listen::{self, Listen, TENANT, What},
    logs::Logs,
    which::{DEFAULT_NAME, Which},
};
use crate::local::{self, Description, Emulator, Known, LocalError, Options, Progress, Stack};

/// Runs the whole stack on this machine, without an AWS account
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  redial local up
  redial local status
  eval \"$(redial local env)\"
  redial local logs dispatch --follow
  redial local down")]
pub enum Local {
    Up(Box<Up>),
    Listen(Listen),
    Down(Down),
    Status(Status),
    Env(Env),
    Logs(Logs),
    /// Hosts the functions of a stack on a LocalStack, as a process that `local up` starts
    #[command(hide = true)]
    HostFunctions(HostFunctions),
}

/// A finding about a stack whose functions run on this machine.
const FUNCTIONS_ENDED: &str =
    "the process that hosts the functions has ended: take the stack down, and up again";

/// Starts a stack and leaves it running
///
/// With --emulator localstack the template is deployed to a LocalStack that runs. By default its functions are left out and run on this
/// machine, in a process that polls LocalStack's queues until `redial local down`, because LocalStack runs functions in Docker only.
///
/// With --emulator parts an embedded emulator takes all calls, and forwards those of SQS, Step Functions and DynamoDB to the servers that
/// are given for them. Functions run on this machine. `redial local down` removes what was made at those servers.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial local up
  redial local up --listen --answer 503,503,201 --retry-after 5
  redial local up --json --egress-allow https://localhost:8443 --egress-ca root.pem
  redial local up --name shop --env WAIT_SHARDS=1
  redial local up --emulator localstack --endpoint http://localhost:4566
  redial local up --emulator parts --dynamodb http://localhost:8000
  redial local up --emulator parts --sqs http://localhost:4566 --step-functions http://localhost:4566")]
#[command(mut_group("replies", |replies| replies.requires("listen")))]
#[command(mut_arg("id", |id| id.requires("listen")), mut_arg("webhook_id", |id| id.requires("listen")))]
pub struct Up {
    #[command(flatten)]
    which: Which,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
    /// Then receive what it sends, as `redial local listen` does
    #[arg(long, conflicts_with = "json")]
    listen: bool,
    #[command(flatten)]
    what: What,
    /// Origin on this machine that messages may be sent to, such as https://localhost:8443
    #[arg(long, value_name = "ORIGIN")]
    egress_allow: Vec<String>,
    /// PEM file with an additional root certificate to trust
    #[arg(long, value_name = "FILE")]
    egress_ca: Option<PathBuf>,
    /// Environment variable for the functions
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    env: Vec<(String, String)>,
    /// Parameter of the template
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    parameter: Vec<(String, String)>,
    #[command(flatten)]
    deploy_to: DeployTo,
    /// VAPID private key, base64url or PEM [default: a new one]
    #[arg(long, env = "VAPID_PRIVATE_KEY", hide_env_values = true, hide = true)]
    vapid_private_key: Option<String>,
    /// VAPID subject: a mailto or https address
    #[arg(long, env = "VAPID_SUBJECT", hide = true)]
    vapid_subject: Option<String>,
    /// Folder with binaries named as the functions, instead of building them
    #[arg(long, value_name = "DIR", hide = true)]
    bootstraps: Option<PathBuf>,
}

/// Stops a stack
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  redial local down --name shop")]
pub struct Down {
    #[command(flatten)]
    which: Which,
}

/// Hosts the functions of a stack
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  redial local host-functions target/redial/stacks/redial")]
pub struct HostFunctions {
    /// The stack's folder
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// Lists the running stacks
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  redial local status --json | jq -r .queues.ingest")]
pub struct Status {
    /// Folder where stacks keep their state [default: target/redial/stacks of the checkout; of a release, redial/stacks in the user's cache]
    #[arg(long, value_name = "DIR", env = "REDIAL_STATE_DIR")]
    state_dir: Option<PathBuf>,
    /// Print one line of JSON for each
    #[arg(long)]
    json: bool,
}

/// A stack as `--json` prints it.
#[derive(Debug, Serialize)]
struct Shown<'a> {
    name: &'a str,
    #[serde(flatten)]
    stack: &'a Description,
    /// What is wrong with it, each with its remedy.
    findings: &'a [String],
}

/// Prints the environment in which AWS SDKs and tools call a stack
///
/// As commands of a POSIX shell: endpoint, that of Lambda's API if functions run on this machine, region, the key that the stack's emulator accepts, the queues of producers and consumers
/// (INGEST_QUEUE_URL, BULK_QUEUE_URL, EVENTS_QUEUE_URL), and the HTTP API (REDIAL_API_URL). The key is new for each stack. A caller with it can run code as the user who started the stack.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  eval \"$(redial local env)\"
  python3 producer.py")]
pub struct Env {
    #[command(flatten)]
    which: Which,
}

impl Local {
    pub async fn run(self) -> Result<(), Failure> {
        match self {
            Self::Up(up) => up.run().await,
            Self::Listen(listen) => listen.run().await,
            Self::Down(down) => down.run().await,
            Self::Status(status) => status.run().await,
            Self::Env(env) => env.run(),
            Self::Logs(logs) => logs.run().await,
            Self::HostFunctions(host) => Ok(local::host_functions(&host.folder).await?),
        }
    }
}

impl Up {
    async fn run(self) -> Result<(), Failure> {
        let origins = self.egress_allow.iter().flat_map(|list| list.split(','));
        let egress_allow = origins
            .map(|text| Ok(origin::parse("--egress-allow", text)?.as_str().to_owned()))
            .collect::<Result<_, Failure>>()?;
        if let Some(file) = &self.egress_ca {
            ExtraRoots::from_file(file).map_err(|error| Failure::input(format!("--egress-ca: {error}")))?;
        }
        let options = Options {
            name: self.which.name.clone(),
            state: self.which.state_dir.clone(),
            emulator: self.deploy_to.emulator()?,
            egress_allow,
            egress_ca: self.egress_ca,
            own_receiver: true,
            env: BTreeMap::from_iter(self.env),
            parameters: BTreeMap::from_iter(self.parameter),
            bootstraps: self.bootstraps,
            vapid_private_key: self.vapid_private_key.map(Secret::new),
            vapid_subject: self.vapid_subject,
            events: true,
            progress: Progress::to(say),
            ..Options::default()
        };
        let name = &self.which.name;
        let is_kept = matches!(options.emulator, Emulator::LocalStack { .. });
        let stack = tokio::select! {
            stack = Stack::up(options) => stack.map_err(of_input)?.set_free()?,
            ended = interruption() => {
                ended?;
                say("interrupted");
                if is_kept {
                    say(&format!("redial local down --name {name} removes what is on LocalStack"));
                }
                // The thread of a build that was ended is not worth waiting for.
                process::exit(INTERRUPTED);
            }
        };
        if self.json {
            return Ok(print(&serde_json::to_string(&Shown { name, stack: &stack, findings: &[] })?)?);
        }
        show(name, &stack, &[])?;
        if !self.listen {
            next_steps(&self.which, self.what.tenant()).iter().for_each(|line| say(line));
        }
        if self.listen {
            listen::of_stack(&self.which, self.what.listening(false)).await?;
            say(&format!("{name} is still up: redial local down --name {name}"));
        }
        Ok(())
    }
}

impl Down {
    async fn run(self) -> Result<(), Failure> {
        local::take_down(&self.which.name, self.which.state_dir.as_deref()).await?;
        say(&format!("{} is down", self.which.name));
        Ok(())
    }
}

impl Status {
    async fn run(self) -> Result<(), Failure> {
        let running = local::known(self.state_dir.as_deref())?;
        for stack in &running {
            let mut findings = local::findings(stack).await?;
            if !local::are_functions_hosted(stack, self.state_dir.as_deref())? {
                findings.push(FUNCTIONS_ENDED.to_owned());
            }
            if self.json {
                let shown = Shown { name: &stack.name, stack: &stack.stack, findings: &findings };
                print(&serde_json::to_string(&shown)?)?;
            } else {
                show(&stack.name, &stack.stack, &findings)?;
            }
        }
        let abandoned = local::abandoned(self.state_dir.as_deref())?;
        for name in &abandoned {
            say(&format!(
                "the emulator of {name} has ended; what the stack had at its parts is there still: `redial local down --name {name}` \
                 removes it"
            ));
        }
        let state = self.state_dir.as_deref();
        let ended: Vec<Known> =
            local::ended(state)?.into_iter().filter(|it| !abandoned.contains(&it.name)).collect();
        ended.iter().for_each(|known| say(&local::of_ended(known, state).to_string()));
        if running.is_empty() && abandoned.is_empty() && ended.is_empty() {
            say("no stack is up");
        }
        Ok(())
    }
}

impl Env {
    fn run(self) -> Result<(), Failure> {
        let known = local::find(&self.which.name, self.which.state_dir.as_deref())?;
        // A shell reads it: no line is broken.
        print_as_it_is(format!("{}\n", environment(&known)).as_bytes())?;
        Ok(())
    }
}

/// What the command was given is wrong, or something else.
fn of_input(error: LocalError) -> Failure {
    if matches!(error, LocalError::Parameters(_) | LocalError::EgressAllow { .. }) {
        return Failure::input(error.to_string());
    }
    error.into()
}

/// What would win over the key or the endpoint in some SDK or other is unset.
fn environment(Known { stack, key, .. }: &Known) -> String {
    let set = [
        ("AWS_ENDPOINT_URL", Some(&*stack.endpoint)),
        ("AWS_ENDPOINT_URL_LAMBDA", stack.function_host.as_ref().map(|host| &*host.lambda_endpoint)),
        ("AWS_REGION", Some(&*stack.region)),
        ("AWS_DEFAULT_REGION", Some(&*stack.region)),
        ("AWS_ACCESS_KEY_ID", Some(key.id())),
        ("AWS_SECRET_ACCESS_KEY", Some(key.expose_secret())),
        ("INGEST_QUEUE_URL", Some(&*stack.queues.ingest)),
        ("BULK_QUEUE_URL", Some(&*stack.queues.bulk)),
        ("EVENTS_QUEUE_URL", stack.queues.events.as_deref()),
        ("REDIAL_API_URL", stack.api_url.as_deref()),
    ];
    let set = set.iter().filter_map(|(name, value)| Some(format!("export {name}={}", quoted((*value)?))));
    let unset = "unset AWS_PROFILE AWS_SESSION_TOKEN AWS_ENDPOINT_URL_LAMBDA".to_owned();
    [unset].into_iter().chain(set).collect::<Vec<_>>().join("\n")
}

/// What to do with a stack that came up, as commands that find it.
fn next_steps(which: &Which, tenant: &Tenant) -> Vec<String> {
    let state = which.state_dir.as_ref().map_or(String::new(), |dir| {
        // The variable is set for the next commands, too.
        let is_set = std::env::var_os("REDIAL_STATE_DIR").is_some_and(|set| set == *dir.as_os_str());
        if is_set { String::new() } else { format!(" --state-dir {}", dir.display()) }
    });
    let name = if which.name == DEFAULT_NAME { String::new() } else { format!(" --name {}", which.name) };
    let local = if which.name == DEFAULT_NAME { String::new() } else { format!(" --local {}", which.name) };
    let of_tenant = if tenant.as_str() == TENANT { String::new() } else { format!(" --tenant {tenant}") };
    [
        "next, in a second terminal, a receiver of what it sends, and then a message:".to_owned(),
        format!("  redial local listen{of_tenant}{name}{state}"),
        format!("  redial send --tenant {tenant} --to s1 --payload hello{local}{state}"),
        "and:".to_owned(),
        format!("  redial status --summary{local}{state}  # what it does"),
        format!("  redial local logs{name}{state} --follow  # what its functions print"),
        format!("  eval \"$(redial local env{name}{state})\"  # for AWS SDKs and tools"),
        format!("  redial local down{name}{state}"),
    ]
    .into()
}

/// As one word of a POSIX shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

fn show(name: &str, stack: &Description, findings: &[String]) -> Result<(), Failure> {
    let process = stack.pid.map(|pid| format!(", process {pid}")).unwrap_or_default();
    let (state, tone) = if findings.is_empty() { ("up", Tone::Well) } else { ("not whole", Tone::Alarm) };
    let place = format!(" at {} in {}{process}", stack.endpoint, stack.region);
    print_line(&Line::from(format!("{name} is ")).then(state, Some(tone)).then(&place, None))?;
    for finding in findings {
        print(&format!("  {finding}"))?;
    }
    let functions = match (&stack.function_host, stack.pid) {
        (Some(host), None) => Some(format!(
            "on this machine, process {}, because LocalStack runs functions in Docker only",
            host.pid
        )),
        (Some(host), Some(_)) => Some(format!(
            "on this machine, process {}, because the emulator runs none for queues that it does not keep",
            host.pid
        )),
        (None, None) => Some("in LocalStack's Lambda, which needs Docker".to_owned()),
        (None, Some(_)) => None,
    };
    let parts = stack.parts.as_ref().map(ToString::to_string);
    for (label, value) in [
        ("parts", parts.as_ref()),
        ("functions", functions.as_ref()),
        ("HTTP API", stack.api_url.as_ref()),
        ("ingest queue", Some(&stack.queues.ingest)),
        ("bulk queue", Some(&stack.queues.bulk)),
        ("events queue", stack.queues.events.as_ref()),
        ("deliveries table", Some(&stack.tables.deliveries)),
        ("dead-letter table", Some(&stack.tables.dead_letters)),
        ("VAPID public key", Some(&stack.vapid_public_key)),
    ] {
        let line = value.map(|value| format!("  {label:<18}{value}"));
        line.map_or(Ok(()), |line| print(&line))?;
    }
    Ok(())
}

/// `KEY=VALUE`, cut at the first `=`.
fn pair(text: &str) -> Result<(String, String), &'static str> {
    let is_name = |key: &str| {
        key.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    };
    let pair = text.split_once('=').filter(|(key, _)| is_name(key));
    pair.map(|(key, value)| (key.to_owned(), value.to_owned()))
        .ok_or("KEY=VALUE, with a KEY of letters, digits and _")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::local::StackKey;

    #[test]
    fn the_next_steps_find_the_stack_that_came_up() {
        let which = |name: &str, dir: Option<&str>| Which {
            name: name.to_owned(),
            state_dir: dir.map(PathBuf::from),
        };
        let tenant = |text: &str| Tenant::parse(text).expect("a tenant");
        let usual = next_steps(&which(DEFAULT_NAME, None), &tenant(TENANT)).join("\n");
        assert!(usual.contains("\n  redial local listen\n"), "{usual}");
        assert!(usual.contains("\n  redial send --tenant acme --to s1 --payload hello\n"), "{usual}");
        let other = next_steps(&which("shop", Some("/state")), &tenant("t1"));
        assert_eq!(other[1], "  redial local listen --tenant t1 --name shop --state-dir /state");
        assert_eq!(
            other[2],
            "  redial send --tenant t1 --to s1 --payload hello --local shop --state-dir /state"
        );
        assert!(other.iter().all(|line| line.chars().count() <= 80 || line.contains("/state")), "{other:?}");
    }

    #[test]
    fn calls_of_lambda_reach_the_functions_wherever_they_run() {
        let of = |names: &[&str]| serde_json::Value::from_iter(names.iter().map(|name| (*name, "")));
        let mut stack = serde_json::json!({
            "endpoint": "http://localhost:4566", "region": "us-east-1", "state_machine": "", "api_url": null,
            "queues": of(&["ingest", "bulk", "retry", "retry_bulk", "dead_letter", "quarantine"]),
            "tables": of(&["deliveries", "subscriptions", "audiences", "parked", "dead_letters", "control"]),
            "functions": of(&["dispatch", "cleanup", "ingest"]), "webhook_key_secret": "", "pid": null, "vapid_public_key": "",
        });
        let environment = |stack: &serde_json::Value| {
            let stack = serde_json::from_value(stack.clone()).expect("a description");
            environment(&Known { name: "shop".to_owned(), stack, key: StackKey::of_localstack() })
        };
        let set = environment(&stack);
        assert!(set.starts_with("unset AWS_PROFILE AWS_SESSION_TOKEN AWS_ENDPOINT_URL_LAMBDA\n"), "{set}");
        assert_eq!(set.matches("LAMBDA").count(), 1, "{set}");
        stack["function_host"] =
            serde_json::json!({"pid": 1, "lambda_endpoint": "http://127.0.0.1:9/secret"});
        let set = environment(&stack);
        assert!(set.contains("\nexport AWS_ENDPOINT_URL_LAMBDA='http://127.0.0.1:9/secret'\n"), "{set}");
    }

    #[test]
    fn a_shell_reads_a_quoted_text_as_one_word() {
        assert_eq!(quoted("http://127.0.0.1:1/0/shop-ingest"), "'http://127.0.0.1:1/0/shop-ingest'");
        assert_eq!(quoted("a'; $(id)"), r"'a'\''; $(id)'");
    }
}
