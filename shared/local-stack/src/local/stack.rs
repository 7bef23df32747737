//! A stack from nothing to ready, and to nothing again.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use aws_config::SdkConfig;
use redial_adapters::egress::EgressAllow;

use super::{
    Description, Emulator, FunctionHost, FunctionsIn, Known, LocalError, Options, Parts, StackKey,
    bootstraps,
    clients::{http_client, sdk_config},
    deploy::{self, Deployment},
    emulator_differences, emulator_install,
    emulator_process::{self, EmulatorProcess},
    events,
    hosting::{self, HostProcess, Plan},
    in_container, localstack, made_at_parts,
    own_receiver::OwnReceiver,
    package::Template,
    parameters, part_probe, registry,
    source::Source,
    vapid_key::VapidKey,
};

/// The subject of tokens that no real push service will see.
const SUBJECT: &str = "mailto:local-stack@redial.invalid";

/// A stack that is up. Dropping it ends the embedded emulator with all its functions, or the process that hosts them, and removes its
/// folder; a process that dies without dropping it has the same effect. A LocalStack keeps what was deployed to it.
#[derive(Debug)]
pub struct Stack {
    name: String,
    folder: PathBuf,
    key: StackKey,
    description: Description,
    outputs: BTreeMap<String, String>,
    emulator: Option<EmulatorProcess>,
    host: Option<HostProcess>,
}

/// What is deployed.
struct Packaged {
    template: Template,
    /// The state machine's.
    definition: String,
    /// The functions that are hosted here, if any are.
    hosted: Option<Plan>,
}

impl Stack {
    /// Installs the emulator if need be, starts it, builds the functions, deploys the template.
    pub async fn up(options: Options) -> Result<Self, LocalError> {
        let progress = options.progress;
        let source = Source::find(options.workspace.as_deref())?;
        let folder = registry::stack_folder(options.state.as_deref(), &source, &options.name)?;
        let http = http_client()?;
        match &options.emulator {
            Emulator::LocalStack { endpoint, .. } => {
                localstack::check(&http, endpoint.trim_end_matches('/')).await?;
            }
            Emulator::Parts(parts) => part_probe::check(&http, parts).await?,
            Emulator::Embedded => {}
        }
        // Before the functions are built, which takes minutes.
        if !matches!(options.emulator, Emulator::LocalStack { .. }) {
            emulator_install::check(&source.redial_dir()?)?;
        }
        if registry::is_up(&folder)? && !registry::is_forgotten(&folder).await? {
            return Err(LocalError::AlreadyUp(options.name));
        }
        // A host of functions outlives a LocalStack that forgot them, and things at parts an emulator that was killed.
        registry::end_processes(&folder).await;
        made_at_parts::remove(&folder).await?;
        registry::remove(&folder)?;
        let vapid = match &options.vapid_private_key {
            Some(key) => VapidKey::parse(key.expose())?,
            None => VapidKey::generate(),
        };

        // A container's own `localhost` is another one.
        let has_receiver = options.own_receiver && !in_container::runs_there(&options.emulator);
        let receiver = has_receiver.then(OwnReceiver::reserve).transpose()?;
        let parameters = parameters(&options, &vapid, receiver.as_ref(), &folder)?;
        let Packaged { template, definition, hosted } = packaged(&source, &options, &parameters)?;

        let key = match &options.emulator {
            Emulator::Embedded | Emulator::Parts(_) => StackKey::generate(),
            Emulator::LocalStack { .. } => StackKey::of_localstack(),
        };
        let build = tokio::task::spawn_blocking({
            let (source, prebuilt) = (source.clone(), options.bootstraps.clone());
            move || source.binaries(prebuilt.as_deref(), &progress)
        });
        let emulator = started(&source, &folder, &key, &options, &http);
        let (emulator, binaries) = tokio::join!(emulator, build);
        let (emulator, endpoint) = emulator?;
        let binaries = binaries.expect("the build does not panic")?;
        let template = if in_container::runs_there(&options.emulator) {
            in_container::adapted(template, &binaries)?
        } else {
            template
        };
        let bundles = if hosted.is_some() {
            Vec::new()
        } else {
            bootstraps::bundles(&binaries, &in_container::files(&options)?)?
        };

        let sdk = sdk_config(&endpoint, &key);
        let cloudformation = aws_sdk_cloudformation::Client::new(&sdk);
        let is_kept = emulator.is_none();
        if is_kept {
            if localstack::has(&cloudformation, &options.name).await? {
                return Err(LocalError::AlreadyUp(options.name));
            }
            registry::note_coming_up(&folder, &endpoint)?;
        }
        if let Some(receiver) = receiver {
            // Before the functions start, which read their roots then.
            receiver.write(&folder, options.egress_ca.as_deref())?;
        }
        if let Some(warning) = in_container::warning(&options) {
            progress.say(&warning);
        }
        progress.say("deploying the template");
        let events = if options.events { Some(events::create(&sdk, &options.name).await?) } else { None };
        let deployment = Deployment {
            name: &options.name,
            template: &template,
            definition: &definition,
            bundles,
            key: &key,
            parameters: &parameters,
        };
        let ruin = async || {
            // The embedded emulator ends here, with all that is in it; a LocalStack and parts would keep the ruin.
            let removed = if is_kept {
                let removed = registry::remove_from_localstack(&sdk, &options.name).await;
                removed.and_then(|()| registry::remove(&folder))
            } else {
                made_at_parts::remove(&folder).await.map(|_| ())
            };
            removed.unwrap_or_else(|left| progress.say(&format!("not everything was removed: {left}")));
        };
        let mut outputs = match deployment.run(&endpoint, &http, &cloudformation).await {
            Ok(outputs) => outputs,
            Err(error) => {
                // Any other error may be about a stack of before.
                if matches!(error, LocalError::Deploy { .. }) {
                    ruin().await;
                }
                return Err(localstack::with_hint(error, &options.emulator));
            }
        };
        let pid = emulator.as_ref().map(EmulatorProcess::pid);
        let deployed = async {
            let api_url = outputs.get("ApiUrl").map(|url| emulator_differences::api_url(&endpoint, url));
            let events = events.clone();
            let mut description =
                Description::from_outputs(&endpoint, &outputs, api_url, events, pid, vapid.public.clone())?;
            let dynamodb = aws_sdk_dynamodb::Client::new(&sdk);
            vapid.publish(&dynamodb, &description.tables).await?;
            if is_kept {
                localstack::address_queues(&mut description, &endpoint);
            }
            if let Emulator::Parts(parts) = &options.emulator {
                description.parts = Some(parts.clone());
                part_probe::reach(&sdk, &description).await?;
            }
            if pid.is_some() {
                emulator_differences::switch_on_expiry(&dynamodb, &description.tables).await?;
            }
            if pid.is_some() && hosted.is_none() {
                let lambda = aws_sdk_lambda::Client::new(&sdk);
                emulator_differences::allow_recursion(&lambda, &template, &description.functions).await?;
                emulator_differences::stand_by(&lambda, &description.functions, &parameters).await?;
            }
            let Some(plan) = hosted else { return Ok((description, None)) };
            progress.say("starting the functions");
            let program = options.host_program.map_or_else(std::env::current_exe, Ok);
            let program = program.map_err(LocalError::file(Path::new("redial")))?;
            let functions = plan.answered(&outputs)?;
            let beside = hosting::folder_beside(&folder);
            let host_folder = if is_kept { &folder } else { &beside };
            let host =
                HostProcess::start(&program, host_folder, &endpoint, &key, functions, &binaries).await?;
            let lambda_endpoint = host.lambda_url.clone();
            description.function_host = Some(FunctionHost { pid: host.pid(), lambda_endpoint });
            description.api_url.clone_from(&host.api_url);
            Ok((description, Some(host)))
        };
        let (description, host) = match deployed.await {
            Ok(deployed) => deployed,
            Err(error) => {
                ruin().await;
                return Err(error);
            }
        };
        outputs.retain(|name, _| !hosting::is_answer(name));
        Ok(Self { name: options.name, folder, key, description, outputs, host, emulator })
    }

    pub fn description(&self) -> &Description {
        &self.description
    }

    /// What requests to it have to be signed with.
    pub fn key(&self) -> &StackKey {
        &self.key
    }

    /// An output of the template, by its name there.
    pub fn output(&self, name: &str) -> Option<&str> {
        self.outputs.get(name).map(String::as_str)
    }

    pub fn sdk_config(&self) -> SdkConfig {
        sdk_config(&self.description.endpoint, &self.key)
    }

    /// What the embedded emulator, and the functions in it, have logged so far, or those that are hosted here; empty for a LocalStack
    /// that runs its functions itself.
    pub fn log(&self) -> String {
        let hosts =
            [&self.folder, &hosting::folder_beside(&self.folder)].map(|folder| hosting::log_path(folder));
        let paths = [emulator_process::log_path(&self.folder)].into_iter().chain(hosts);
        paths.filter_map(|path| fs::read_to_string(path).ok()).collect()
    }

    /// The line of [`Stack::log`] that says the emulator stopped delivering messages, if there is one.
    pub fn poller_failure(&self) -> Option<String> {
        emulator_differences::poller_failure(&self.log()).map(str::to_owned)
    }

    /// Lets the stack outlive this process: [`super::known`] lists it, [`super::take_down`] ends it.
    pub fn set_free(mut self) -> Result<Description, LocalError> {
        let (name, stack) = (self.name.clone(), self.description.clone());
        let known = Known { name, stack, key: self.key.clone() };
        registry::note(&self.folder, &known)?;
        if let Some(emulator) = self.emulator.take() {
            emulator.set_free()?;
        }
        if let Some(host) = self.host.take() {
            host.set_free()?;
        }
        Ok(known.stack)
    }
}

impl Drop for Stack {
    /// The functions end first, which call the emulator, and the emulator last: it does in a hurry what is still to be done here.
    fn drop(&mut self) {
        drop(self.host.take());
        if let Some(emulator) = self.emulator.take() {
            let _left = made_at_parts::remove_now(&self.folder);
            drop(emulator);
        }
    }
}

/// Removes what a stack that was not set free has left on a LocalStack, which outlives it.
pub(crate) async fn remove_leftovers(emulator: &Emulator, name: &str) -> Result<(), LocalError> {
    let Emulator::LocalStack { endpoint, .. } = emulator else { return Ok(()) };
    let sdk = sdk_config(endpoint.trim_end_matches('/'), &StackKey::of_localstack());
    if localstack::has(&aws_sdk_cloudformation::Client::new(&sdk), name).await? {
        registry::remove_from_localstack(&sdk, name).await?;
    }
    registry::remove(&registry::stack_folder(None, &Source::find(None)?, name)?)
}

fn packaged(
    source: &Source,
    options: &Options,
    given: &BTreeMap<String, String>,
) -> Result<Packaged, LocalError> {
    let template = Template(source.template()?);
    parameters::check(&template, given)?;
    let template = template.with_artifacts_in(&deploy::artifacts(&options.name))?;
    let mut environment = options.env.clone();
    let call_elsewhere = |environment: &mut BTreeMap<String, String>| {
        if let Some(endpoint) = &options.function_endpoint {
            environment.insert("AWS_ENDPOINT_URL".to_owned(), endpoint.clone());
        }
    };
    let (template, hosted) = match &options.emulator {
        Emulator::Embedded => {
            (emulator_differences::adapted(&template.with_environment(&environment)?, given)?, None)
        }
        Emulator::Parts(_) => {
            call_elsewhere(&mut environment);
            let template = template.with_environment(&environment)?;
            let adapted = emulator_differences::adapted(&template, given)?;
            let (template, plan) = hosting::split(&adapted, &options.name)?;
            (template, Some(plan))
        }
        Emulator::LocalStack { functions, .. } => {
            call_elsewhere(&mut environment);
            let template = localstack::adapted(&template.with_environment(&environment)?);
            match functions {
                FunctionsIn::Lambda => (template, None),
                FunctionsIn::Here => {
                    let (template, plan) = hosting::split(&template, &options.name)?;
                    (template, Some(plan))
                }
            }
        }
    };
    Ok(Packaged { template, definition: source.definition()?, hosted })
}

/// The embedded emulator, unless another one is used, and the endpoint.
async fn started(
    source: &Source,
    folder: &Path,
    key: &StackKey,
    options: &Options,
    http: &reqwest::Client,
) -> Result<(Option<EmulatorProcess>, String), LocalError> {
    match &options.emulator {
        Emulator::LocalStack { endpoint, .. } => Ok((None, endpoint.trim_end_matches('/').to_owned())),
        Emulator::Embedded | Emulator::Parts(_) => {
            let (redial_dir, progress) = (source.redial_dir()?, options.progress);
            let python = tokio::task::spawn_blocking(move || {
                emulator_install::python_with_emulator(&redial_dir, &progress)
            });
            let python = python.await.expect("the installation does not panic")?;
            let function_endpoint = options.function_endpoint.as_deref();
            let parts = match &options.emulator {
                Emulator::Parts(parts) => parts.clone(),
                Emulator::Embedded | Emulator::LocalStack { .. } => {
                    Parts::tables_at(options.dynamodb_endpoint.as_deref())
                }
            };
            let process =
                EmulatorProcess::start(&python, folder, key, function_endpoint, &parts, http).await?;
            let endpoint = process.endpoint.clone();
            Ok((Some(process), endpoint))
        }
    }
}

fn parameters(
    options: &Options,
    vapid: &VapidKey,
    receiver: Option<&OwnReceiver>,
    folder: &Path,
) -> Result<BTreeMap<String, String>, LocalError> {
    let subject = options.vapid_subject.as_deref().unwrap_or(SUBJECT);
    for origin in &options.egress_allow {
        EgressAllow::parse(origin)
            .map_err(|why| LocalError::EgressAllow { origin: origin.clone(), why: why.to_string() })?;
    }
    let own = receiver.map(OwnReceiver::origins).into_iter().flatten();
    let allowed: Vec<String> = options.egress_allow.iter().cloned().chain(own).collect();
    let mut parameters = BTreeMap::from([
        ("VapidSubject".to_owned(), subject.to_owned()),
        ("VapidPrivateKey".to_owned(), vapid.private.expose().to_owned()),
        ("EgressAllow".to_owned(), allowed.join(",")),
    ]);
    if let Some(file) = &options.egress_ca {
        let file = file.canonicalize().map_err(LocalError::file(file))?;
        let file = if in_container::runs_there(&options.emulator) {
            in_container::ca_path()
        } else {
            file.to_string_lossy().into_owned()
        };
        parameters.insert("EgressCaFile".to_owned(), file);
    }
    if receiver.is_some() {
        let roots = OwnReceiver::roots_path(folder).to_string_lossy().into_owned();
        parameters.insert("EgressCaFile".to_owned(), roots);
    }
    if options.events {
        parameters.insert("EventsQueueArn".to_owned(), events::arn(&options.name));
    }
    parameters.extend(options.parameters.clone());
    Ok(parameters)
}
