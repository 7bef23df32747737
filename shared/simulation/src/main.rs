//! `cargo sim`: searches for broken promises, replays a seed, and shows that the search finds planted defects.

#![expect(clippy::print_stderr, reason = "a command's output")]
#![expect(clippy::disallowed_methods, reason = "how long a search takes is a matter of real time")]

use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};
use redial_simulation::mutants::nursery::{Nursery, Result as Searched};
use redial_simulation::mutants::{self, Mutant};
use redial_simulation::search::{self, Summary};
use redial_simulation::shrink::shrink;
use redial_simulation::situations::Situation;
use redial_simulation::{Scenario, run};

/// Prints a line of the result. A reader that closes the pipe early, as `head` does, is no error.
macro_rules! print_line {
    ($($text:tt)*) => {
        match writeln!(io::stdout(), $($text)*) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
            written => written.expect("standard output takes a line"),
        }
    };
}

/// This number of scenarios has to meet every situation: a search that misses one proves nothing about it.
const ENOUGH: u64 = 2_000;

/// How often a long search says how far it is.
const PROGRESS_EVERY: Duration = Duration::from_secs(30);

/// Searches for a schedule in which Redial breaks a promise.
#[derive(Debug, Parser)]
#[command(
    name = "sim",
    version,
    after_help = "Exit status: 0 if no promise was broken, 1 if one was, 2 on wrong arguments."
)]
struct Arguments {
    /// How many seeds to run.
    #[arg(long, value_name = "N", default_value_t = 2000)]
    seeds: u64,
    /// The first seed.
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    from: u64,
    /// Goes on for this number of minutes, instead of a number of seeds.
    #[arg(long, value_name = "N", conflicts_with = "seeds")]
    minutes: Option<u64>,
    /// Ends with the first broken promise.
    #[arg(long)]
    first: bool,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs one seed, and prints its scenario and all that happens, the same each time.
    Replay {
        seed: u64,
        /// Looks for a smaller scenario that breaks the same promise, and prints that instead.
        #[arg(long)]
        shrink: bool,
    },
    /// Plants defects in a copy of the sources, builds that once, and searches for each.
    Mutants {
        /// The most seeds for each.
        #[arg(long, value_name = "N", default_value_t = 2000)]
        seeds: u64,
        /// Only those whose names contain this, or one of these.
        #[arg(long, value_name = "TEXT")]
        only: Vec<String>,
    },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let is_kept = match &arguments.command {
        Some(Command::Replay { seed, shrink }) => replay(*seed, *shrink),
        Some(Command::Mutants { seeds, only }) => plant(*seeds, only),
        None => search(&arguments),
    };
    if is_kept { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn search(arguments: &Arguments) -> bool {
    let begun = Instant::now();
    let (seeds, most) = match arguments.minutes {
        Some(minutes) => (u64::MAX - arguments.from, Duration::from_secs(minutes * 60)),
        None => (arguments.seeds, Duration::MAX),
    };
    let (mut printed, mut progress) = (0, Instant::now());
    let summary = search::search(arguments.from, seeds, |so_far| {
        for (seed, promise) in &so_far.broken[printed..] {
            print_line!("seed {seed}: {promise}");
        }
        printed = so_far.broken.len();
        if progress.elapsed() >= PROGRESS_EVERY {
            progress = Instant::now();
            eprintln!("{} scenarios, {printed} with a broken promise", so_far.scenarios);
        }
        begun.elapsed() < most && !(arguments.first && printed > 0)
    });
    if printed > 0 {
        print_line!(
            "cargo sim replay SEED prints what happens; with --shrink, of a smaller scenario that breaks the same promise"
        );
    }
    let is_enough = arguments.first || print_situations(&summary);
    let each = |count: usize| count as f64 / summary.deliveries as f64;
    print_line!(
        "each delivery, with all its faults: {:.1} receives, {:.1} calls of AWS, {:.1} POSTs",
        each(summary.received),
        each(summary.calls),
        each(summary.posts)
    );
    print_line!(
        "{} scenarios, {printed} with a broken promise; {} deliveries, {} POSTs; {:.0} scenarios/s",
        summary.scenarios,
        summary.deliveries,
        summary.posts,
        summary.scenarios as f64 / begun.elapsed().as_secs_f64()
    );
    printed == 0 && is_enough
}

/// Whether every situation was met, if there were scenarios enough for all.
fn print_situations(summary: &Summary) -> bool {
    print_line!("{:>12}  situation", "times");
    for situation in Situation::ALL {
        print_line!("{:>12}  {}", summary.situations.of(*situation), situation.text());
    }
    let is_missed = |situation: &&Situation| summary.situations.of(**situation) == 0;
    let missed: Vec<_> = Situation::ALL.iter().filter(is_missed).map(|it| it.text()).collect();
    let is_enough = summary.scenarios < ENOUGH || missed.is_empty();
    if !is_enough {
        print_line!("never met: {}", missed.join(", "));
    }
    is_enough
}

fn replay(seed: u64, shrinks: bool) -> bool {
    let mut scenario = Scenario::of(seed);
    if shrinks {
        let Some(smaller) = shrink(&scenario) else {
            print_line!("seed {seed} breaks no promise");
            return true;
        };
        scenario = smaller;
    }
    let report = run(&scenario, true);
    print_line!("{scenario:#?}\n{}", report.trace);
    report.violations.iter().for_each(|violation| print_line!("broken: {violation}"));
    report.violations.is_empty()
}

fn plant(seeds: u64, only: &[String]) -> bool {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let is_chosen =
        |mutant: &&Mutant| only.is_empty() || only.iter().any(|text| mutant.name.contains(text.as_str()));
    let chosen: Vec<_> = mutants::all().filter(is_chosen).collect();
    match search_all(&root, &chosen, seeds) {
        Ok(found) => {
            print_line!("{found} of {} planted defects were found within {seeds} seeds", chosen.len());
            found == chosen.len()
        }
        Err(error) => {
            eprintln!("the sources cannot be planted: {error}");
            false
        }
    }
}

/// Searches for each of these, and prints what became of it. Returns how many were found.
fn search_all(root: &Path, chosen: &[&'static Mutant], seeds: u64) -> io::Result<usize> {
    let begun = Instant::now();
    let on_wait =
        || eprintln!("waiting for the end of another search for planted defects, which uses the same folder");
    let nursery = Nursery::new(root, on_wait)?;
    eprintln!("building {} planted defects", chosen.len());
    let planted = nursery.plant(chosen)?;
    eprintln!("built {} together in {:.0} s", planted.together.len(), begun.elapsed().as_secs_f64());
    print_line!("{:>8} {:>7}  planted defect", "seeds", "seconds");
    let mut found = 0;
    let mut report = |mutant: &Mutant, result: io::Result<Searched>| {
        found += usize::from(matches!(result, Ok(Searched::Found { .. })));
        print_line!("{}", line(mutant, result));
    };
    for (number, mutant) in &planted.together {
        report(mutant, nursery.search(Some(*number), seeds));
    }
    planted.invalid.iter().for_each(|(mutant, why)| report(mutant, Ok(Searched::Invalid(why.clone()))));
    nursery.restore(chosen)?;
    for (at, mutant) in planted.alone.iter().enumerate() {
        eprintln!("building {} of {} that need a build of their own", at + 1, planted.alone.len());
        report(mutant, nursery.search_alone(mutant, seeds));
    }
    Ok(found)
}

fn line(mutant: &Mutant, result: io::Result<Searched>) -> String {
    let Mutant { name, rule, .. } = mutant;
    match result {
        Ok(Searched::Found { scenarios, seconds, violation }) => {
            format!("{scenarios:>8} {seconds:>7.1}  {name}\n{:>18}{violation}", "")
        }
        Ok(Searched::Survived) => format!("{:>8} {:>7}  {name}: {rule}", "none", ""),
        Ok(Searched::Invalid(why)) => format!("{:>8} {:>7}  {name}: {why}", "invalid", ""),
        Err(error) => format!("{:>8} {:>7}  {name}: {error}", "invalid", ""),
    }
}
