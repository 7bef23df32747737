//! What the commands refuse with status 2 before they look for a stack, and what they say when there is none.

use crate::prelude::*;

/// Commands that work on a stack, with arguments that they refuse, and words of the refusal.
const ON_A_STACK: &str = "
    api-keys: | create --tenant acme | create --scope send | create --tenant acme --scope admin
    api-keys: create --tenant acme --scope send, | create --tenant acme --scope send --expires-in 0s
    api-keys: create --tenant acme --scope send --iam-arn Shop
    api-keys: create --tenant acme --scope send --label= | list --tenant Acme
    api-keys: create --tenant acme --scope send --expires-in 3651d
    api-keys: create --tenant acme --scope send --label=\u{1b}[2J
    api-keys: create --tenant acme --scope send --label=01234567890123456789012345678901234567890123456789012345678901234
    api-keys: revoke rdk_4Xb0m2Qp9Lk7_s3cret --yes | revoke short --yes | revoke rdk_ --yes
    breakers: | open | open push.example | open http://push.example
    breakers: open https://push.example --for 0s | open https://push.example --for 25h
    breakers: open https://push.example --tenant acme => --endpoint <HASH>
    breakers: close https://push.example --endpoint 0a3fc1d2 => --tenant <TENANT>
    breakers: open https://push.example --tenant acme --endpoint 0a3f => --endpoint: expected the 8 digits
    breakers: close https://push.example --tenant acme --endpoint https://push.example/s3cret => found a URL
    breakers: close https://push.example --tenant acme --endpoint-hash https://push.example/s3cret => found a URL
    breakers: close https://push.example --tenant A --endpoint 0a3fc1d2 => lower-case
    breakers: open https://push.example --for soon | close https://push.example --for 1m
    breakers: open https://push.example --now
    cancel: | d1 | --tenant acme | d1 --tenant Acme | a#b --tenant acme
    cancel: d1 --tenant acme => --yes
    cancel: --dry-run --tenant acme --yes => --dry-run: `redial cancel` has no such option
    cancel: d1 --tenant acme --yess => (did you mean --yes?)
    cancel: -AbC --tenant acme --yes => put ID after -- if it begins with -
    limits: | set origin https://push.example | set origin https://push.example 0/s
    limits: set origin https://push.example 50/d | set origin acme 50/s
    limits: set origin https://s3cret@push.example 50/s
    limits: set tenant https://push.example/s3cret 50/s => found a URL
    limits: set tenant Acme 50/s => NAME: expected a tenant: 1 to 63 lower-case letters, digits, _ and -, the first a letter or a digit, found `Acme`
    limits: set-quota acme parked -5 => LIMIT: expected a whole number from 0
    limits: set endpoint https://push.example 50/s | unset tenant
    limits: quotas | quotas Acme | set-quota acme parked | set-quota acme parked 1.5 | unset-quota acme
    limits: set-quota acme parked many => expected a whole number from 0 to 999999999999, or `off`
    limits: set-quota acme messages 5 => expected subscriptions, parked or dead_letters
    tenants: | set acme | set --weight 4 | set Acme --weight 4 | set acme --weight 4 --rate 5/s | show | clear
    tenants: set acme --weight 0 => --weight: expected a whole number from 1 to 100, found `0`
    tenants: set acme --weight heavy => `heavy`
    tenants: set acme => --weight <N> or --concurrency <N>: required
    tenants: set acme --concurrency 10001 => --concurrency: expected a whole number from 1 to 10000
    policy: set --tenant acme no-such | set --tenant Acme otp | set --tenant acme --topic= otp | set otp
    send: | /nowhere/messages.json | - --stack a --local b
    status: | d1 | --tenant acme | d1 --tenant Acme | d1 --tenant acme --summary
    status: --sumary --tenant acme => --sumary: `redial status` has no such option (did you mean --summary?)
    status: --state retrying => --tenant
    status: --state sent --tenant acme => retrying
    status: d1 --state retrying --tenant acme | --state retrying --tenant acme --summary
    status: --state retrying --tenant acme --since soon | --since 1h --tenant acme
    status: d1 --tenant acme --tag order => ID: cannot be combined with --tag
    status: d1 --tenant acme --limit 5 => ID: cannot be combined with --limit
    status: --summary --tag order => --summary: cannot be combined with --tag
    status: --summary --limit 5 => --summary: cannot be combined with --limit
    status: --state failed --tenant acme --watch 5 => cannot be combined with
    status: --state failed --tenant acme --all => cannot be combined with
    status: --state retrying --tenant acme --limit 0 | --state retrying --tenant _unknown
    status: --summary --since 5s => --since: expected a time from 1m to 15d ago
    status: --summary --since 16d => and for 15 days, found `16d`
    status: --summary --wait 5 | --summary --watch 0 | d1 --tenant acme --watch 5 | d1 --tenant acme --all
    subscriptions: list --failing | list --failing --tenant Acme | list --tenant acme --state off
    subscriptions: list --tag news | list --failing --tenant acme --tag news | list --after acme | list --all --limit 5
    subscriptions: enable --tenant acme | enable hooks | delete --tenant acme | delete s1
    subscriptions: delete s1 --tenant acme => --yes
    subscriptions: delete --dry-run --tenant acme --yes => --dry-run: `redial subscriptions delete` has no such option
    subscriptions: get --tenant acme | delete s1 --id s1 --tenant acme --yes | get s1 --id s2 --tenant acme => ID
    subscriptions: prune | prune --tenant Acme | prune --tenant acme --tag A
    subscriptions: prune --tenant acme => --yes
    tail: --tenant * | --id order-*
    webhooks: | secret | rotate-secret --tenant acme
    webhooks: rotate-secret --tenant acme --id hooks --grace 1w
    webhooks: rotate-secret --tenant acme --id hooks --grace 32d
    webhooks: rotate-secret --tenant acme --id hooks --grace -1h
    dead-letters: replay | purge | purge --yes => --all
    dead-letters: replay --all --tenant acme => --all cannot be combined
    dead-letters: purge --tenant acme | purge --all => --yes
    dead-letters: list --since 1h --until 2h => nothing is between
    dead-letters: replay --tenant acme --since 1h --until 2h => nothing is between
    dead-letters: list --since yesterday => 2h, 7d
    dead-letters: list --reason no_such_reason => retries_exhausted
    dead-letters: list --channel sms => web_push
    dead-letters: list --endpoint-hash ! => --endpoint-hash: expected the 8 digits of an endpoint's hash
    dead-letters: list --endpoint-hash https://push.example/s3cret | purge --yes --endpoint push.example/s3cret => found
    dead-letters: list --tenant Acme => lower-case
    dead-letters: list --limit 0 => --limit
    dead-letters: list --after d1 => TIME/TENANT/ID/LETTER
    dead-letters: replay --tenant acme --rate 0 => 2000/s
    dead-letters: replay --tenant acme --dry-run --checkpoint a.json => --checkpoint
    dead-letters: show d1 => --tenant
    dead-letters: show d1 --tenant acme --body --json => --json
    hash-key: rotate --id a:b => 1 to 32 letters
    hash-key: retire => <ID>
    hash-key: retire k1 --force => pass --yes to remove the key without confirmation
    hash-key: status --stack a --local b => --local
    tail: --verdict accepted => --verdict: expected sent, sign_again, retry, gone or failed, found `accepted`
    tail: --since=soon | --since=10 | --since=-1m => 90s, 30m, 2h, 7d
    vapid: retire => <ID>
    vapid: retire k1 => --yes
";

/// The same of commands that need no stack, or run without `--state-dir`.
const WITHOUT_A_STACK: &str = "
    cost: --dead-letter-rate -1
    cost: --dead-letter-rate 101 => --dead-letter-rate: expected a number from 0 to 100: 0.05 is one in twenty messages, found `101`
    cost: --messages -1 => --messages: expected a whole number, found `-1`
    cost: --messages 1000000000001 | --subscriptions many => expected a whole number
    send: --tenant acme --to bad!id --payload hi => --to: expected the id of a subscription (1 to 64 letters, digits, _ and -) or an https URL, found `bad!id`
    send: --tenant acme --to ftp://s3cret.example/ --payload hi => or an https URL, found a URL
    send: --tenant acme --to s3cret.example/hooks --payload hi => or an https URL, found something else
    send: --tenant acme --to http://a.example/s3cret --payload hi => error: --to: expected
    send: --tenant acme --to s1 --payload hi --between 25:00-26:00 => error: --between: expected
    send: - --id x => FILE: cannot be combined with --id
    send: - --payload s3cret => FILE: cannot be combined with --payload
    send: - --tag order => FILE: cannot be combined with --tag
    send: - --between 09:00-20:00 => FILE: cannot be combined with --between
    send: - --traceparent 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01 => FILE: cannot be combined with --traceparent
    send: - --tenant acme => --tenant: cannot be combined with FILE
    send: --tenant acme --to s1 --payload s3cret --tag A => --tag: expected 1 to 32 lower-case letters
    send: --tenant acme --to s1 --payload s3cret --id a:b => --id: expected 1 to 64 letters
    send: --tenant acme --to s1 --payload s3cret --between 9-17 => --between: expected two times of day
    send: --tenant acme --to s1 --payload s3cret --traceparent 00-1 => --traceparent: expected 00-, a trace id
    subscriptions import: --tenant acme - --consent-prompt v1 --consent-origin https://a.example --consent-at 2099-01-01T00:00:00Z => --consent-at: expected an RFC 3339 time, now or earlier
    subscriptions import: --tenant acme --push-hosts http://x - => --push-hosts: expected hosts separated by commas
    verify: --roads --yes --receiver-at http://x => --receiver-at: expected an origin
    policy: show web_push => web-push, or a file such as ./mine.json
    policy: show web-push --topic order.created => NAME: cannot be combined with --topic
    policy: set --tenant acme schedule-patent => no policy is named schedule-patent (did you mean schedule-patient?)
    policy: set --tenant acme ./nowhere.json => ./nowhere.json cannot be read
    policy: show | show web-push --f 150 | show wait-factor --f 9
    policy: show schedule-standard --max-retries 4 | plot web-push -o p.png | plot no-such -o p.svg
    status: d1 --tenant acme --region eu-central-1
    simulate: --policys web-push => --policys: `redial simulate` has no such option (did you mean --policy?)
    simulate: web-push => web-push: `redial simulate` takes no further argument
    help nosuch: => nosuch: `redial` has no such command
    simulat: => simulat: `redial` has no such command (did you mean simulate?)
    policy: shwo => shwo: `redial policy` has no such command (did you mean show?)
    simulate: --messages => --messages: expected a value, <N>, found nothing
    simulate: --messages many => --messages: expected a whole number, found `many`
    local up: --egress-allow http://s3cret.example => --egress-allow: expected an origin, https://host or https://host:port, found
    local up: --egress-allow https://a.example/s3cret => its origin is https://a.example
    local up: --egress-allow localhost:8443 => did you mean https://localhost:8443?
    local up: --egress-allow https://a.example,b => --egress-allow: expected an origin
    local up: --egress-ca /nowhere/ca.pem => --egress-ca: 
    local up: --egress-ca / => --egress-ca: 
    local up: --emulator localstack --endpoint localhost:4566 => --endpoint: expected an address such as
    local up: --endpoint http://localhost:4566 => --endpoint: it is an option of --emulator localstack
    local up: --env A | --env =a | --parameter A-B=c => expected KEY=VALUE
    status: d1 --tenant acme --stack a --region eu.example.com/ => --region: expected a region of AWS
    status: d1 --tenant acme --wait 31536001 => --wait: expected a whole number
    simulate: --rate fast | --rate 0/s | --capacity 1.5/s => 2000/s, 120/min
    simulate: --outage 5 => 1m..2m30s
    simulate: --outage 35..5 => --outage: expected START before END, found `35..5`
    simulate: --policy web_push => no policy is named web_push (did you mean web-push?): expected one of
    simulate: --policy ./nowhere.json => ./nowhere.json cannot be read
    simulate: --jitter some => additive=FRACTION
    simulate: --messages 0 => --messages
    simulate: --rate 1/h => longer than a year
    simulate: --ttl 2419201 => --ttl
    simulate: -o outage.png => ends in .svg
    simulate: --workers 0 | --workers 10001 => --workers: expected a whole number from 1 to 10000
    simulate: --breaker on | --limit 50/s | --counter-lag 2s => --workers <N>
    simulate: --workers 2 --breaker half => --breaker: expected on, off or both, found `half`
    simulate: --workers 2 --limit 0/s => 2000/s, 120/min
    simulate: --workers 2 --counter-lag 2ms => 1m30s
    simulate: --tenants acme => acme:1000,other:10
    simulate: --tenants acme:1 --messages 7 => --tenants: cannot be combined with --messages
";

/// Commands that are right, but for the stack, which is not there.
const NO_STACK: &str = "
    api-keys: create --tenant acme --scope send --expires-in 3650d --label 0123456789012345678901234567890123456789012345678901234567890123 | list
    breakers: list | open https://push.example | close https://push.example
    cancel: d1 --tenant acme --yes
    dead-letters: list | show d1 --tenant acme | replay --all | purge --all --yes
    limits: list | set tenant acme 50/s | unset tenant acme
    tenants: list | set acme --weight 4 | show acme | clear acme
    status: --summary | --summary --since 15d
    subscriptions: list | list --tenant acme --tag news --all --json | delete s1 --tenant acme --yes
    subscriptions: get s1 --tenant acme | get --id s1 --tenant acme | enable --id s1 --tenant acme | delete --id s1 --tenant acme --yes
    subscriptions: list --failing --tenant acme | enable hooks --tenant acme | prune --tenant acme --yes
    webhooks: rotate-secret --tenant acme --id hooks --grace 31d | secret --tenant acme
";

const SUBSCRIPTION: &str = "subscriptions put --tenant acme --id hooks";

fn run_in_no_folder(arguments: impl AsRef<str>, stdin: &str) -> Done {
    let folder = tempfile::tempdir().expect("a temporary folder");
    run(&mut unregistered(arguments, folder.path()), stdin)
}

/// The lines of a refusal, without any part of a secret.
#[track_caller]
fn refused(arguments: impl AsRef<str>, stdin: &str) -> Vec<String> {
    let said = run_in_no_folder(arguments, stdin).refused_with(2);
    assert!(!said.contains("s3cret"), "{said}");
    said.lines().map(str::to_owned).collect()
}

/// The commands of a table, each with all its arguments, and the words behind the arrow.
fn commands(table: &str) -> impl Iterator<Item = (String, &str)> {
    let lines = table.lines().map(|line| line.split_once(" => ").unwrap_or((line, "")));
    lines.flat_map(|(commands, words)| {
        let (command, all) = commands.trim().split_once(':').unwrap_or_default();
        let each = all.split('|').filter(|_| !command.is_empty());
        each.map(move |arguments| (format!("{command} {}", arguments.trim()), words))
    })
}

#[test]
fn wrong_arguments_are_refused_and_no_secret_is_repeated() {
    let on_a_stack = commands(ON_A_STACK).map(|(it, words)| (run_in_no_folder(&it, ""), it, words));
    let without = commands(WITHOUT_A_STACK).map(|(it, words)| (run(&mut redial(&it), ""), it, words));
    let mut wrong = Vec::new();
    for (done, arguments, words) in on_a_stack.chain(without) {
        let holds = done.status == Some(2) && done.stdout.is_empty() && done.stderr.contains(words);
        if !holds || done.stderr.contains("s3cret") {
            wrong.push(format!("{arguments}: {done:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The last argument has spaces in it.
#[test]
fn an_argument_that_is_no_name_and_could_end_a_filter_pattern_is_refused() {
    for (arguments, last, words) in [
        ("status --tenant acme", "a b", ""),
        ("subscriptions enable --tenant acme", "a b", ""),
        ("vapid rotate --id", "a b", "1 to 64 letters"),
        ("tail --tenant", r#"acme" || $.tenant = "beta"#, ""),
        ("tail --id", r#"a" || $.event = "attempt"#, ""),
        ("tail --verdict", r#"sent" || $.verdict = "failed"#, ""),
    ] {
        let said = run(redial(arguments).arg(last), "").refused_with(2);
        assert!(said.contains(words), "{arguments}: {said}");
    }
}

#[test]
fn a_missing_stack_is_reported_with_the_ways_to_name_one() {
    let mut wrong = Vec::new();
    for (arguments, _) in commands(NO_STACK) {
        let done = run_in_no_folder(&arguments, "");
        let names_ways = ["redial local up", "--stack"].iter().all(|way| done.stderr.contains(way));
        if done.status != Some(1) || !done.stdout.is_empty() || !names_ways {
            wrong.push(format!("{arguments}: {done:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let said = run_in_no_folder("send -", r#"{"tenant":"acme","to":{"subscription":"s1"}}"#).ends_with(1);
    assert!(said.contains("redial local up") && said.contains("--stack"), "{said}");
}

#[test]
fn an_id_that_begins_with_a_hyphen_is_taken_after_two_hyphens() {
    for command in ["status", "cancel --yes", "subscriptions delete --yes"] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut command = unregistered(format!("{command} --tenant acme"), folder.path());
        let said = run(command.args(["--", "-AbC"]), "").refused_with(1);
        assert!(said.contains("no local stack is up"), "{said}");
    }
}

#[test]
fn an_invalid_file_is_named_with_what_it_has() {
    let said = refused("replica import -", r#"{"url":"https://s3cret.example"}"#);
    let words = "line 1: expected the header of `redial replica export`, found other JSON";
    assert_eq!(said, [format!("error: standard input: {words}")]);
    let said = run(&mut redial("policy explain - --offline"), "{\n\"tenant\":").refused_with(2);
    assert!(said.contains("found invalid JSON (its line 2, column 9)"), "{said}");
}

#[test]
fn an_endpoint_given_for_an_origin_is_refused_without_its_path() {
    for command in ["breakers open", "breakers close", "limits unset origin"] {
        let said = refused(format!("{command} https://push.example:8443/wpush/s3cret?token=s3cret"), "");
        let said = said.join("\n") + "\n";
        for words in [
            "expected an origin, https://host or https://host:port, found",
            "its origin is https://push.example:8443\n",
        ] {
            assert!(said.contains(words), "{said}");
        }
    }
}

#[test]
fn an_invalid_message_is_refused_with_its_line_and_field() {
    let wrong = concat!(
        r#"{"tenant":"acme","to":{"subscription":"s1"},"payload":"s3cret"}"#,
        "\n",
        r#"{"tenant":"acme","to":{"subscription":"s1"},"ttl":"s3cret"}"#,
    );
    let expected = "error: line 2: ttl: expected whole seconds from 0 to 31536000 (a year), found a string";
    assert_eq!(refused("send -", wrong), [expected]);
    let authorization = r#"{"tenant":"acme","to":{"webhook":{"url":"https://a.example/s3cret"}},"headers":{"Authorization":"s3cret"}}"#;
    let said = refused("send -", authorization);
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains("headers: expected names that any message may set"), "{said:?}");
}

#[test]
fn an_invalid_webhook_is_refused_with_all_its_errors() {
    let wrong = r#"{"url":"http://s3cret.example","secrets":["whsec_s3cret"],"headers":{"Host":"s3cret","x-a":7},
        "permit_headers":"s3cret","policy":{"retry_delays":["s3cret"]},"topic":7,"rate":1}"#;
    let fields = "url secrets[0] topic headers.Host headers.x-a permit_headers policy.retry_delays[0] rate";
    let said = refused(SUBSCRIPTION, wrong);
    let field =
        |line: &String| line.strip_prefix("error: ")?.split_once(": expected ").map(|it| it.0.to_owned());
    let found: Vec<String> = said.iter().filter_map(field).collect();
    assert_eq!((found.join(" ").as_str(), found.len()), (fields, said.len()), "{said:?}");
}

#[test]
fn an_invalid_subscription_is_refused() {
    for text in ["", "[]", "{}", "no JSON", r#"{"uri":"https://s3cret.example"}"#] {
        assert!(!refused(SUBSCRIPTION, text).is_empty(), "{text}");
    }
    let said = refused(SUBSCRIPTION, r#"{"endpoint":"s3cret"}"#).join("\n");
    assert!(said.contains("endpoint: expected an https URL"), "{said}");
    let with_key = refused(format!("{SUBSCRIPTION} --vapid-key-id k1"), r#"{"url":"https://a.example"}"#);
    assert_eq!(with_key, ["error: --vapid-key-id: a webhook has no VAPID key"]);
}

#[test]
fn an_invalid_policy_is_refused_with_all_its_errors() {
    let said = refused("policy set --tenant acme -", r#"{"max_retries":101,"f":1}"#);
    let retries =
        "error: standard input: max_retries: expected an integer from 0 to 100, found an integer: 101";
    assert_eq!(said, [retries, "error: standard input: f: expected no such field, found an integer: 1"]);
}
