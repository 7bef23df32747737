//! `redial subscriptions import`: subscriptions from a file, validated line by line, stored at a rate, resumable.
//!
//! ```text
//! lines ─► read (a document, or its errors) ─► run (batches at a rate, several calls at once) ─► the store
//! ```
//!
//! A line that is stored twice is one subscription: so a crash between a batch and its checkpoint does no harm.

mod hosts;
mod read;
mod run;

use std::{
    io::{BufReader, Seek as _},
    path::PathBuf,
};

use clap::Args;
use redial_adapters::system::System;
use redial_core::{
    endpoint::{Origin, PushHosts},
    identity::{Tenant, VapidKeyId},
    rate::Rate,
    subscription::{Consent, SameEndpoint, consent, document::MOST_BYTES},
    time::Timestamp,
};
use redial_engine::ports::Clock as _;
use serde_json::json;

use super::variables::{parse_same_endpoint, same_endpoint};
use crate::{
    arguments,
    checkpoint::{Checkpoint, Identity, Progress as _, path},
    failure::Failure,
    input,
    lines::Lines,
    resumable::{self, remainder},
    stack::{OnStack, Target},
    terminal::bar,
};
use hosts::Hosts;
use read::Reader;
use run::{Imported, Importing, check};

/// Stores browsers' subscriptions from a file, for example those of another sender
///
/// FILE has one document a line: what a browser returns, {"endpoint", "keys"}, with the "id" that you send it by, "consent"
/// {"at", "prompt_version", "action", "origin"}, and optionally "tags", "time_zone" and "vapid_key_id". Each line is validated: its
/// endpoint must be on a push service that the stack may push to, its key on the curve. Refused lines are reported by
/// number and field, without their values, and the others are stored. Fifty refused lines in a row end it.
///
/// The four --consent options set the consent of lines that have none. A subscription that is already stored is renewed:
/// importing a file twice stores it once. A line whose endpoint is stored under another id of the tenant replaces that
/// subscription, or is refused (--same-endpoint). Ctrl-C stops after the current batch, and the same command continues from
/// there, also after a crash. Exit status 1 means that lines were refused, or that the import was interrupted.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial subscriptions import --tenant acme subscriptions.ndjson --dry-run
  redial subscriptions import --tenant acme subscriptions.ndjson --rate 500/s
  zcat old.ndjson.gz \\
    | redial subscriptions import --tenant acme - --vapid-key-id old \\
      --consent-at 2025-03-01T00:00:00Z --consent-prompt v1 \\
      --consent-origin https://shop.example")]
pub(crate) struct Import {
    /// File with one subscription a line; - for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The tenant that they belong to
    #[arg(long, env = arguments::TENANT, value_parser = arguments::tenant)]
    tenant: Tenant,
    /// Only validate the lines, and store nothing
    #[arg(long)]
    dry_run: bool,
    /// The most a second, minute or hour: 50/s, 120/min, 90/h
    #[arg(long, default_value = "200/s", value_parser = Rate::parse)]
    rate: Rate,
    /// The number that are stored at the same time
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u8).range(1..=64))]
    at_once: u8,
    /// The VAPID key of lines that name none [default: the default key]
    #[arg(long, value_name = "ID", value_parser = arguments::vapid_key)]
    vapid_key_id: Option<VapidKeyId>,
    /// When consent was given, for lines without consent
    #[arg(long, value_name = "TIME", value_parser = consent_at, requires_all = ["consent_prompt", "consent_origin"])]
    consent_at: Option<Timestamp>,
    /// The version of the prompt
    #[arg(long, value_name = "VERSION", value_parser = consent_text::<{ consent::MOST_OF_PROMPT }>, requires_all = ["consent_at", "consent_origin"])]
    consent_prompt: Option<String>,
    /// The action that gave consent [default: granted]
    #[arg(long, value_name = "ACTION", value_parser = consent_text::<{ consent::MOST_OF_ACTION }>, requires = "consent_at")]
    consent_action: Option<String>,
    /// The site's origin
    #[arg(long, value_name = "ORIGIN", value_parser = consent_origin, requires_all = ["consent_at", "consent_prompt"])]
    consent_origin: Option<Origin>,
    /// Hosts that may be pushed to, separated by commas [default: those of the stack]
    #[arg(long, value_name = "HOSTS", value_parser = push_hosts)]
    push_hosts: Option<PushHosts>,
    /// If another subscription of the tenant has a line's endpoint: replace that one, or refuse the line [default: as the
    /// stack has it, in its parameter SameEndpoint]
    #[arg(long, value_name = "replace|refuse", value_parser = parse_same_endpoint)]
    same_endpoint: Option<SameEndpoint>,
    /// File with the progress [default: one in the user's state directory, named after stack and options]
    #[arg(long, value_name = "FILE", conflicts_with = "dry_run")]
    checkpoint: Option<PathBuf>,
    #[command(flatten)]
    on: OnStack,
}

fn consent_at(text: &str) -> Result<Timestamp, &'static str> {
    Consent::time(text, System.now()).ok_or("an RFC 3339 time, now or earlier, such as 2026-11-21T10:05:00Z")
}

fn consent_text<const MOST: usize>(text: &str) -> Result<String, String> {
    Consent::text(text, MOST).ok_or_else(|| format!("a text of 1 to {MOST} bytes"))
}

fn consent_origin(text: &str) -> Result<Origin, &'static str> {
    Consent::site(text).ok_or("an https origin, or http://localhost with a port")
}

fn push_hosts(text: &str) -> Result<PushHosts, String> {
    PushHosts::parse(text).map_err(|_| {
        "hosts separated by commas, each a name such as push.example, or *. and a name".to_owned()
    })
}

impl Import {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let mut file = input::open(&self.file)?;
        let mut lines = 0;
        let mut source = Lines::new(BufReader::new(&mut file), MOST_BYTES);
        while source.line()?.is_some() {
            lines += 1;
        }
        file.rewind()?;
        let target = self.on.target().await?;
        let hosts = match &self.push_hosts {
            Some(push_hosts) => Hosts { push_hosts: push_hosts.clone(), egress_allow: Vec::new() },
            None => Hosts::of(&target).await?,
        };
        let (tenant, vapid_key_id) = (self.tenant.clone(), self.vapid_key_id.clone());
        let reader = Reader { tenant, hosts, consent: self.consent(), vapid_key_id };
        let mut source = Lines::new(BufReader::new(file), MOST_BYTES);
        if self.dry_run {
            let bar = bar(lines, "checking");
            let (fit, refused) = check(&mut source, &reader, &bar)?;
            bar.finish_and_clear();
            return self.print_check(fit, refused, lines);
        }

        let identity = self.identity(&target);
        let path = path::<Imported>(self.checkpoint.as_deref(), &target.name, &identity)?;
        let mut checkpoint = match Checkpoint::<Imported>::resume(&path, &identity)? {
            Some(checkpoint) => checkpoint,
            None => Checkpoint::begin(&path, &identity, System.now(), Imported::default()),
        };
        checkpoint.progress.lines = lines;
        let same_endpoint = same_endpoint(&target, self.same_endpoint).await?;
        let book = target.subscriptions().await?;
        let at_once = usize::from(self.at_once);
        let work = Importing::new(&book, source, reader, same_endpoint, at_once, &checkpoint.progress)?;
        let print = |progress: &Imported| self.print(progress, &target.name);
        resumable::run(work, &mut checkpoint, self.rate, print).await?;
        if checkpoint.progress.refused == 0 { Ok(()) } else { Err(Failure::Reported) }
    }

    /// The consent of lines that have none. clap requires all three options or none.
    fn consent(&self) -> Option<Consent> {
        let action = self.consent_action.clone().unwrap_or_else(|| "granted".to_owned());
        let (prompt_version, origin) = (self.consent_prompt.clone()?, self.consent_origin.clone()?);
        Some(Consent { at: self.consent_at?, prompt_version, action, origin })
    }

    /// The file, the tenant, and the defaults of its lines.
    fn identity(&self, target: &Target) -> Identity {
        let file = self.file.canonicalize().unwrap_or_else(|_| self.file.clone());
        let mut options = vec![format!("--tenant {} {}", self.tenant, file.display())];
        options.extend(self.vapid_key_id.as_ref().map(|id| format!("--vapid-key-id {id}")));
        if let Some(Consent { at, prompt_version, action, origin }) = self.consent() {
            let (at, origin) = (at.to_rfc3339(), origin.as_str());
            options.push(format!("--consent-at {at} --consent-prompt {prompt_version}"));
            options.push(format!("--consent-action {action} --consent-origin {origin}"));
        }
        Identity { stack: target.queues.retry.clone(), options: options.join(" ") }
    }

    fn print_check(&self, fit: u64, refused: u64, lines: u64) -> Result<(), Failure> {
        let not_tried = lines.saturating_sub(fit + refused);
        let rest = remainder(0, not_tried);
        self.on.print(
            || json!({"dry_run": true, "lines": lines, "to_be_stored": fit, "refused": refused}),
            || vec![format!("{fit} of {lines} lines would be stored, {refused} refused{rest}")],
        )?;
        if not_tried > 0 {
            return Err(Failure::reported(&run::given_up()));
        }
        if refused == 0 { Ok(()) } else { Err(Failure::Reported) }
    }

    fn print(&self, progress: &Imported, stack: &str) -> Result<(), Failure> {
        let Imported { lines, new, renewed, refused, .. } = progress;
        let not_tried = remainder(0, lines.saturating_sub(progress.done()));
        let line = format!(
            "{new} new, {renewed} renewed, {refused} refused, of {lines} lines to {stack}{not_tried}"
        );
        let json = || json!({"lines": lines, "new": new, "renewed": renewed, "refused": refused});
        self.on.print(json, || vec![line])
    }
}
