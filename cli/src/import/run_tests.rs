use std::future::pending;

use redial_core::identity::Tenant;
use redial_testkit::memory::{Memory, PortErrorKind};

use super::*;
use crate::{checkpoint::Identity, import::read::tests::reader};

// RFC 8291, Appendix A.
const KEYS: &str = r#"{"p256dh":"BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4","auth":"BTBZMqHH6r4Tts7J_aSIgg"}"#;

fn line(id: &str, endpoint: &str) -> String {
    format!(
        r#"{{"id":"{id}","endpoint":"https://push.example/{endpoint}","keys":{KEYS},"consent":{{"at":"2026-01-01T00:00:00Z","prompt_version":"v1","action":"granted","origin":"https://shop.example"}}}}"#
    )
}

fn plan() -> Plan {
    Plan { reader: reader(), rate: Rate::parse("1000000/s").expect("a rate"), at_once: 8 }
}

struct Import {
    world: Memory,
    folder: tempfile::TempDir,
    checkpoint: Checkpoint,
}

impl Import {
    fn new() -> Self {
        let of = Identity { stack: "here".to_owned(), options: String::new() };
        let checkpoint = Checkpoint::start(of, System.now(), 0);
        Self { world: Memory::default(), folder: tempfile::tempdir().expect("a folder"), checkpoint }
    }

    async fn run(&mut self, text: &str) -> Result<Ended, Failure> {
        let path = self.folder.path().join("checkpoint.json");
        let mut lines = Lines::new(text.as_bytes());
        let (to, bar) = ((&mut self.checkpoint, path.as_path()), ProgressBar::hidden());
        run(&self.world, &mut lines, &plan(), to, &bar, pending()).await
    }

    fn counts(&self) -> (u64, u64, u64) {
        (self.checkpoint.new, self.checkpoint.renewed, self.checkpoint.refused)
    }

    fn stored(&self) -> usize {
        self.world.state().subscriptions.len()
    }
}

#[tokio::test]
async fn what_is_stored_is_counted_and_what_is_not_is_refused() {
    let mut import = Import::new();
    let text = [line("a", "1"), "{}".to_owned(), line("b", "2"), line("a", "3")].join("\n");
    assert_eq!(import.run(&text).await.expect("it runs"), Ended::Done);
    assert_eq!((import.counts(), import.stored()), ((2, 1, 1), 2));
    let tenant = Tenant::parse("acme").expect("valid");
    let state = import.world.state();
    let (_, last) = state.subscriptions.iter().find(|(key, _)| key.id.as_str() == "a").expect("stored");
    assert_eq!(last.key.tenant, tenant);
    assert!(last.recipient.endpoint().expose().as_str().ends_with("/3"), "the later of two lines stays");
    assert_eq!((last.state.label(), last.last_seen_at), ("active", None));
}

#[tokio::test]
async fn it_goes_on_after_the_last_line_of_its_checkpoint_and_only_with_the_same_input() {
    let mut import = Import::new();
    let first: Vec<String> = (0..70).map(|n| line(&format!("s{n}"), &n.to_string())).collect();
    assert_eq!(import.run(&first.join("\n")).await.expect("it runs"), Ended::Done);
    assert_eq!((import.counts(), import.checkpoint.after), ((70, 0, 0), 70));
    let all = [first.clone(), vec![line("more", "x")]].concat().join("\n");
    // The end of line 70 was not there when it was read: what was read was another input.
    assert!(matches!(import.run(&all).await, Err(Failure::Input(_))));

    let mut import = Import::new();
    assert_eq!(import.run(&format!("{}\n", first.join("\n"))).await.expect("it runs"), Ended::Done);
    assert_eq!(import.run(&all).await.expect("it goes on"), Ended::Done);
    assert_eq!((import.counts(), import.stored()), ((71, 0, 0), 71));
    let other = all.replacen("s0", "s9", 1);
    assert!(matches!(import.run(&other).await, Err(Failure::Input(_))));
}

#[tokio::test]
async fn a_store_that_fails_ends_it_before_the_checkpoint_of_that_batch() {
    let mut import = Import::new();
    import.world.fail("renew", 1, PortErrorKind::Broken);
    let text = [line("a", "1"), line("b", "2")].join("\n");
    assert!(matches!(import.run(&text).await, Err(Failure::Failed(_))));
    assert_eq!((import.counts(), import.checkpoint.after), ((0, 0, 0), 0));
    assert_eq!(import.run(&text).await.expect("it goes on"), Ended::Done);
    let (new, renewed, refused) = import.counts();
    assert_eq!((new + renewed, refused, import.stored()), (2, 0, 2));
}
