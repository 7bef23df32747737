//! The four keys of two stacks: compared, and copied from secret to secret. They pass through this process's memory, and through no file
//! and no terminal.

use clap::Args;
use redial_adapters::{replica_dynamo::At, secrets::Secret, system::System, vapid::VapidKeys};
use redial_core::time::Timestamp;
use redial_engine::ports::Clock as _;
use serde_json::{Value, json};

use super::key_set::{KeySet, Kind, merged};
use crate::{
    confirm::Confirm,
    failure::Failure,
    rotation::{
        functions,
        secret::{KeysSecret, SecretFailure, Version},
    },
    stack::{Pair, Target},
    terminal::{print, say},
    vapid,
};

/// Gives a stack the keys of another: VAPID keys, the webhook key, and those of browsers' tokens and endpoints' hashes
///
/// A subscription is bound to the VAPID key that its browser subscribed with, and a webhook's secrets are sealed with the stack's webhook key:
/// a stack that takes over for another needs the same ones. The keys go from secret to secret, and through no file and no terminal. Run it
/// again after each rotation in the stack that sends; or replicate the secrets with Secrets Manager and deploy with them
/// (infra/docs/two-regions.md), and there is nothing to copy.
///
/// Keys that only --to has are kept beside the copied ones once --to has subscriptions, because those that were made with them
/// could not be sent to any more. Where both have another key under the same id, that kind of key is then not copied. The functions
/// of --to are restarted, also if they were not after an earlier copy that was interrupted. Exit status 1 means that keys differ
/// and were not copied, or that a restart is due.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redial replica keys --from redial --from-region eu-central-1 \\
    --to redial --to-region eu-west-1 --dry-run
  redial replica keys --from local:a --to local:b --yes")]
pub(crate) struct Keys {
    /// Only compare the keys
    #[arg(long)]
    dry_run: bool,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    confirm: Confirm,
    #[command(flatten)]
    pair: Pair,
}

/// A kind of key in both stacks.
pub(crate) struct Comparison {
    pub(crate) kind: Kind,
    /// The ids of keys that the stack to end with does not have as the other has them.
    pub(crate) missing: Vec<String>,
    /// The ids of keys that only it has, or has otherwise.
    own: Vec<String>,
    /// The ids of keys that it has otherwise.
    otherwise: Vec<String>,
    /// Whether it has all, and uses the same one.
    pub(crate) is_same: bool,
    from: (KeysSecret, Version),
    to: (KeysSecret, Version),
}

pub(crate) async fn compare(from: &Target, to: &Target) -> Result<Vec<Comparison>, Failure> {
    let mut compared = Vec::new();
    for kind in Kind::ALL {
        let (from_secret, from_version, theirs) = read(from, kind).await?;
        let (to_secret, to_version, ours) = read(to, kind).await?;
        compared.push(Comparison {
            kind,
            missing: theirs.not_in(&ours),
            own: ours.not_in(&theirs),
            otherwise: ours.otherwise_in(&theirs),
            is_same: theirs.is_served_by(&ours),
            from: (from_secret, from_version),
            to: (to_secret, to_version),
        });
    }
    Ok(compared)
}

async fn read(target: &Target, kind: Kind) -> Result<(KeysSecret, Version, KeySet), Failure> {
    let secret = KeysSecret::of(target, &kind.variables()).await?;
    let version = secret.read().await?;
    let set = KeySet::parse(kind, &version.text);
    let set = set.ok_or_else(|| secret.invalid(format!("the {} cannot be read", kind.in_words())))?;
    Ok((secret, version, set))
}

impl Comparison {
    fn words(&self) -> String {
        if self.is_same {
            return "the same".to_owned();
        }
        match (self.missing.is_empty(), self.own.is_empty()) {
            (true, _) => "another one is used".to_owned(),
            (false, true) => format!("missing: {}", self.missing.join(", ")),
            (false, false) => {
                format!("missing: {}; its own: {}", self.missing.join(", "), self.own.join(", "))
            }
        }
    }

    /// The text to replace the secret by; `None` where a key would be lost that subscriptions of the stack may need.
    fn text(&self, is_empty: bool, now: Timestamp) -> Option<Secret> {
        let (theirs, ours) = (&self.from.1.text, &self.to.1.text);
        if is_empty || self.own.is_empty() {
            return Some(theirs.clone());
        }
        if self.otherwise.is_empty() { merged(self.kind, theirs, ours, now) } else { None }
    }

    fn refusal(&self, to: &Target) -> String {
        let (name, kind) = (&to.name, self.kind.in_words());
        if self.otherwise.is_empty() {
            let own = self.own.join(", ");
            return format!(
                "{kind}: not copied, because those of {name} ({own}) cannot be kept beside those to copy"
            );
        }
        format!(
            "{kind}: not copied, because {name} has subscriptions, and other keys under the same ids ({}), which would be lost: \
             rotate in one stack only, and copy from that one",
            self.otherwise.join(", ")
        )
    }

    fn json(&self, is_copied: bool, is_behind: bool) -> Value {
        json!({
            "kind": self.kind.label(), "same": self.is_same, "missing": self.missing, "own": self.own, "copied": is_copied,
            "restart": is_behind,
        })
    }
}

impl Keys {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        if !self.dry_run {
            self.confirm.is_possible("copy the keys")?;
        }
        let (from, to) = self.pair.both().await?;
        let compared = compare(&from, &to).await?;
        let differ: Vec<&Comparison> = compared.iter().filter(|one| !one.is_same).collect();
        let behind = behind(&compared, &to).await?;
        if self.dry_run || (differ.is_empty() && behind.is_empty()) {
            self.print(&compared, &[], &behind, &to)?;
            return if differ.is_empty() && behind.is_empty() { Ok(()) } else { Err(Failure::Reported) };
        }
        let is_empty = to.replica().page(&At::Subscriptions(None), 1).await?.rows.is_empty();
        let mut texts = Vec::new();
        for one in &differ {
            match one.text(is_empty, System.now()) {
                Some(text) => texts.push((*one, text)),
                None => say(&one.refusal(&to)),
            }
        }
        if let Some((vapid, _)) = texts.iter().find(|(one, _)| one.kind == Kind::Vapid)
            && !to.is_emulated()
        {
            vapid::refuse_owned(&to, &vapid.to.0.id).await?;
        }
        if texts.is_empty() && behind.is_empty() {
            return Err(Failure::Reported);
        }
        self.confirm.ask(&question(&to, &texts), "nothing was changed")?;
        let mut copied = Vec::new();
        for (one, text) in &texts {
            copy(one, text, &to).await?;
            copied.push(one.kind);
        }
        for one in compared.iter().filter(|one| behind.contains(&one.kind)) {
            restart(one, &to).await?;
        }
        self.print(&compared, &copied, &behind, &to)?;
        if copied.len() == differ.len() { Ok(()) } else { Err(Failure::Reported) }
    }

    fn print(
        &self,
        compared: &[Comparison],
        copied: &[Kind],
        behind: &[Kind],
        to: &Target,
    ) -> Result<(), Failure> {
        if self.json {
            let one = |one: &Comparison| one.json(copied.contains(&one.kind), behind.contains(&one.kind));
            let keys: Vec<Value> = compared.iter().map(one).collect();
            print(&json!({"to": to.name, "keys": keys}).to_string())?;
            return Ok(());
        }
        for one in compared {
            let words = match (copied.contains(&one.kind), behind.contains(&one.kind)) {
                (true, _) => "copied".to_owned(),
                (false, true) if self.dry_run => "the same, but functions have to be restarted".to_owned(),
                (false, true) => "the same; functions restarted".to_owned(),
                (false, false) => one.words(),
            };
            print(&format!("{:<26}{words}", one.kind.in_words()))?;
        }
        Ok(())
    }
}

/// The kinds that are the same, but that workers may have read before they were: a copy was interrupted before the restart.
async fn behind(compared: &[Comparison], to: &Target) -> Result<Vec<Kind>, Failure> {
    let functions = functions::all(to).await?;
    let is_behind = |one: &&Comparison| {
        let (secret, version) = &one.to;
        let (id, created) = (one.kind.variables().id, version.created);
        one.is_same
            && created.is_some_and(|created| {
                functions.iter().any(|(_, it)| functions::is_behind(it, id, &secret.id, created))
            })
    };
    Ok(compared.iter().filter(is_behind).map(|one| one.kind).collect())
}

fn question(to: &Target, texts: &[(&Comparison, Secret)]) -> String {
    let kinds: Vec<&str> = texts.iter().map(|(one, _)| one.kind.in_words()).collect();
    if kinds.is_empty() {
        return format!("Restart the functions of {}, which may have its keys from before?", to.name);
    }
    format!("Replace in {}: {}? Its functions are restarted.", to.name, kinds.join(", "))
}

async fn copy(one: &Comparison, text: &Secret, to: &Target) -> Result<(), Failure> {
    let (secret, ours) = &one.to;
    if !secret.exchange(ours, text).await? {
        return Err(SecretFailure::Overtaken.into());
    }
    if one.kind == Kind::Vapid
        && let Ok(keys) = VapidKeys::parse(text.expose())
        && let Err(error) = to.public_keys().publish(&keys).await
    {
        say(&format!(
            "the public keys could not be published ({error}): dispatch does so within five minutes"
        ));
    }
    restart(one, to).await
}

async fn restart(one: &Comparison, to: &Target) -> Result<(), Failure> {
    functions::restart(to, one.kind.variables().id, &one.to.0.id).await.map(|_| ())
}
