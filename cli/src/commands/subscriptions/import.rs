//! `redial subscriptions import`.

use std::{
    io::{BufReader, Seek as _},
    path::{Path, PathBuf},
};

use clap::Args;
use redial_adapters::system::System;
use redial_core::{
    endpoint::{Origin, PushHosts},
    identity::{Tenant, VapidKeyId},
    rate::Rate,
    subscription::{Consent, consent},
    time::Timestamp,
};
use redial_engine::ports::Clock as _;
use serde_json::json;

use super::super::ids;
use crate::{
    checkpoint::{Identity, Resumable as _, default_path, goes_on},
    failure::Failure,
    import::{Checkpoint, Defaults, Ended, Hosts, Lines, Plan, Reader, check, count, run},
    input,
    interrupt::interrupted,
    target::{Target, TargetArgs},
    terminal::{bar, print, say},
};

/// Stores browsers' subscriptions from a file: those of another sender, for instance
///
/// FILE has one document a line: what a browser gives, {"endpoint", "keys"}, with the "id" that you send it by, "consent"
/// {"at", "prompt_version", "action", "origin"}, and if you like "tags" and "vapid_key_id". Each line is checked whole: its
/// endpoint must lie on a push service that the stack may push to, its key on the curve. Lines that are refused are told with
/// number and field, never with what stands there, and the others are stored.
///
/// The consent of lines that carry none is what the four --consent options say. A subscription that is stored already is renewed:
/// importing a file twice stores it once. Ctrl-C ends it after the batch under way, and the same command goes on from
/// there, as it does after a crash. Exit status 1 says that lines were refused, or that it was interrupted.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial subscriptions import --tenant acme subscriptions.ndjson --dry-run
  redial subscriptions import --tenant acme subscriptions.ndjson --rate 500/s
  zcat old.ndjson.gz | redial subscriptions import --tenant acme - --vapid-key-id old \\
    --consent-at 2025-03-01T00:00:00Z --consent-prompt v1 --consent-origin https://shop.example")]
pub(crate) struct Import {
    /// File with one subscription a line; - for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Whose they are
    #[arg(long, value_parser = ids::tenant)]
    tenant: Tenant,
    /// Only check the lines: nothing is stored
    #[arg(long)]
    dry_run: bool,
    /// At most so many a second, minute or hour: 50/s, 120/min, 90/h
    #[arg(long, default_value = "200/s", value_parser = Rate::parse)]
    rate: Rate,
    /// How many are stored at the same time
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u8).range(1..=64))]
    at_once: u8,
    /// The VAPID key of lines that name none [default: the default key]
    #[arg(long, value_name = "ID", value_parser = ids::vapid_key)]
    vapid_key_id: Option<VapidKeyId>,
    /// When consent was given, of lines that carry none
    #[arg(long, value_name = "TIME", value_parser = consent_at, requires_all = ["consent_prompt", "consent_origin"])]
    consent_at: Option<Timestamp>,
    /// To which words
    #[arg(long, value_name = "VERSION", value_parser = consent_prompt, requires_all = ["consent_at", "consent_origin"])]
    consent_prompt: Option<String>,
    /// How [default: granted]
    #[arg(long, value_name = "ACTION", value_parser = consent_action, requires = "consent_at")]
    consent_action: Option<String>,
    /// On which site
    #[arg(long, value_name = "ORIGIN", value_parser = consent_origin, requires_all = ["consent_at", "consent_prompt"])]
    consent_origin: Option<Origin>,
    /// Hosts that may be pushed to, separated by commas [default: those of the stack]
    #[arg(long, value_name = "HOSTS", value_parser = push_hosts)]
    push_hosts: Option<PushHosts>,
    /// File that says where it stands [default: one in the user's state directory, named after stack and options]
    #[arg(long, value_name = "FILE", conflicts_with = "dry_run")]
    checkpoint: Option<PathBuf>,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: TargetArgs,
}

fn consent_at(text: &str) -> Result<Timestamp, &'static str> {
    Consent::time(text, System.now()).ok_or("an RFC 3339 time that is not ahead, as 2026-11-21T10:05:00Z")
}

fn consent_prompt(text: &str) -> Result<String, &'static str> {
    Consent::text(text, consent::MOST_OF_PROMPT).ok_or("a text of 1 to 64 bytes")
}

fn consent_action(text: &str) -> Result<String, &'static str> {
    Consent::text(text, consent::MOST_OF_ACTION).ok_or("a text of 1 to 32 bytes")
}

fn consent_origin(text: &str) -> Result<Origin, &'static str> {
    Consent::site(text).ok_or("an https origin, or http://localhost with a port")
}

fn push_hosts(text: &str) -> Result<PushHosts, String> {
    PushHosts::parse(text).map_err(|pattern| format!("`{pattern}` is no host and no `*.` pattern"))
}

impl Import {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let mut file = input::open(&self.file)?;
        let lines = count(BufReader::new(&mut file))?;
        file.rewind()?;
        let target = self.target.resolve().await?;
        let hosts = match &self.push_hosts {
            Some(push_hosts) => Hosts { push_hosts: push_hosts.clone(), egress_allow: Vec::new() },
            None => Hosts::of(&target).await?,
        };
        let reader = Reader { tenant: self.tenant.clone(), hosts, defaults: self.defaults() };
        let mut source = Lines::new(BufReader::new(file));
        if self.dry_run {
            let bar = bar(lines, "checking");
            let (fit, refused) = check(&mut source, &reader, &bar)?;
            bar.finish_and_clear();
            return self.tell_check(fit, refused);
        }

        let identity = self.identity(&target);
        let path = match &self.checkpoint {
            Some(given) => given.clone(),
            None => default_path("imports", &target.name, &identity)?,
        };
        let mut checkpoint = match Checkpoint::read(&path)? {
            Some(checkpoint) => {
                checkpoint.is_of(&identity, &path)?;
                say(&going_on(&checkpoint, &path));
                checkpoint
            }
            None => Checkpoint::start(identity, System.now(), lines),
        };
        checkpoint.lines = lines;
        let book = target.subscriptions().await?;
        let plan = Plan { reader, rate: self.rate, at_once: usize::from(self.at_once) };
        let bar = bar(lines, "storing");
        bar.set_position(checkpoint.done());
        let done = run(&book, &mut source, &plan, (&mut checkpoint, &path), &bar, interrupted()).await;
        bar.finish_and_clear();
        if let Err(Failure::Input(_)) = &done {
            return done.map(|_| ());
        }
        self.tell(&checkpoint, &target.name)?;
        match done.inspect_err(|_| say(&goes_on("something failed", &path)))? {
            Ended::Done => Checkpoint::remove(&path)?,
            Ended::Interrupted => {
                say(&goes_on("interrupted", &path));
                return Err(Failure::Reported);
            }
        }
        if checkpoint.refused == 0 { Ok(()) } else { Err(Failure::Reported) }
    }

    fn defaults(&self) -> Defaults {
        let consent = match (self.consent_at, &self.consent_prompt, &self.consent_origin) {
            (Some(at), Some(prompt_version), Some(origin)) => Some(Consent {
                at,
                prompt_version: prompt_version.clone(),
                action: self.consent_action.clone().unwrap_or_else(|| "granted".to_owned()),
                origin: origin.clone(),
            }),
            // The definition of the options asks for all three or none.
            (_, _, _) => None,
        };
        Defaults { consent, vapid_key_id: self.vapid_key_id.clone() }
    }

    /// Whose subscriptions from which file, and what lines have that do not say it.
    fn identity(&self, target: &Target) -> Identity {
        let file = self.file.canonicalize().unwrap_or_else(|_| self.file.clone());
        let mut options = vec![format!("--tenant {} {}", self.tenant, file.display())];
        let Defaults { consent, vapid_key_id } = self.defaults();
        options.extend(vapid_key_id.map(|id| format!("--vapid-key-id {id}")));
        if let Some(Consent { at, prompt_version, action, origin }) = consent {
            options.push(format!(
                "--consent-at {} --consent-prompt {prompt_version} --consent-action {action} --consent-origin {}",
                at.to_rfc3339(),
                origin.as_str()
            ));
        }
        Identity { stack: target.queues.retry.clone(), options: options.join(" ") }
    }

    fn tell_check(&self, fit: u64, refused: u64) -> Result<(), Failure> {
        if self.json {
            let line =
                json!({"dry_run": true, "lines": fit + refused, "to_be_stored": fit, "refused": refused});
            print(&line.to_string())?;
        } else {
            print(&format!("{fit} of {} lines would be stored, {refused} refused", fit + refused))?;
        }
        if refused == 0 { Ok(()) } else { Err(Failure::Reported) }
    }

    fn tell(&self, checkpoint: &Checkpoint, stack: &str) -> Result<(), Failure> {
        let Checkpoint { lines, new, renewed, refused, .. } = checkpoint;
        if self.json {
            let line = json!({"lines": lines, "new": new, "renewed": renewed, "refused": refused});
            return Ok(print(&line.to_string())?);
        }
        let mut line =
            format!("{new} new, {renewed} renewed, {refused} refused, of {lines} lines to {stack}");
        let left = lines.saturating_sub(checkpoint.done());
        if left > 0 {
            line.push_str(&format!(", {left} not tried"));
        }
        Ok(print(&line)?)
    }
}

fn going_on(checkpoint: &Checkpoint, path: &Path) -> String {
    format!(
        "goes on with the import that began {}, after {} of {} lines (to begin anew, remove {})",
        Timestamp::from_ms(checkpoint.begun).to_rfc3339_seconds(),
        checkpoint.done(),
        checkpoint.lines,
        path.display()
    )
}
