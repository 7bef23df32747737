//! `cargo sim`: searches for broken promises, replays a seed, and shows that the search finds planted defects.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command's output")]
#![expect(clippy::disallowed_methods, reason = "how long a search takes is a matter of real time")]

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};
use redial_simulation::mutants;
use redial_simulation::mutants::nursery::{Nursery, Result as Searched};
use redial_simulation::shrink::shrink;
use redial_simulation::situations::{Situation, Situations};
use redial_simulation::{Scenario, run};

/// So many scenarios have to meet every situation: a search that misses one proves nothing about it.
const ENOUGH: u64 = 2_000;

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
    /// Goes on for so many minutes, instead of a number of seeds.
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
    /// Plants defects in a copy of the sources, one after the other, and searches for each.
    Mutants {
        /// At most so many seeds for each.
        #[arg(long, value_name = "N", default_value_t = 2000)]
        seeds: u64,
        /// Only those whose names contain this.
        #[arg(long, value_name = "TEXT", default_value = "")]
        only: String,
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
    let mut situations = Situations::default();
    let (mut ran, mut failed, mut deliveries, mut posts, mut received, mut calls) =
        (0_u64, 0_u64, 0, 0, 0, 0);
    let is_over = |ran| match arguments.minutes {
        Some(minutes) => begun.elapsed() >= Duration::from_secs(minutes * 60),
        None => ran >= arguments.seeds,
    };
    let mut seed = arguments.from;
    while !is_over(ran) {
        let report = run(&Scenario::of(seed), false);
        ran += 1;
        deliveries += report.deliveries;
        posts += report.posts;
        calls += report.calls;
        received += report.received;
        situations.add(&report.situations);
        if let Some(first) = report.violations.first() {
            failed += 1;
            println!("seed {seed}: {first}");
            if arguments.first {
                break;
            }
        }
        seed += 1;
    }
    if failed > 0 {
        println!(
            "cargo sim replay SEED prints what happens; with --shrink, of a smaller scenario that breaks the same promise"
        );
    }
    if !arguments.first {
        println!("{:>12}  situation", "times");
        for situation in Situation::ALL {
            println!("{:>12}  {}", situations.of(*situation), situation.text());
        }
    }
    let missed: Vec<_> = Situation::ALL
        .iter()
        .filter(|situation| situations.of(**situation) == 0)
        .map(|it| it.text())
        .collect();
    let is_enough = ran < ENOUGH || missed.is_empty();
    if !is_enough {
        println!("never met: {}", missed.join(", "));
    }
    let a_second = ran as f64 / begun.elapsed().as_secs_f64();
    let each = |count: usize| count as f64 / deliveries as f64;
    println!(
        "each delivery, with all its faults: {:.1} receives, {:.1} calls of AWS, {:.1} POSTs",
        each(received),
        each(calls),
        each(posts)
    );
    println!(
        "{ran} scenarios, {failed} with a broken promise; {deliveries} deliveries, {posts} POSTs; {a_second:.0} scenarios/s"
    );
    failed == 0 && is_enough
}

fn replay(seed: u64, shrinks: bool) -> bool {
    let mut scenario = Scenario::of(seed);
    if shrinks {
        let Some(smaller) = shrink(&scenario) else {
            println!("seed {seed} breaks no promise");
            return true;
        };
        scenario = smaller;
    }
    let report = run(&scenario, true);
    println!("{scenario:#?}\n{}", report.trace);
    report.violations.iter().for_each(|violation| println!("broken: {violation}"));
    report.violations.is_empty()
}

fn plant(seeds: u64, only: &str) -> bool {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let nursery = match Nursery::new(&root) {
        Ok(nursery) => nursery,
        Err(error) => {
            eprintln!("the sources cannot be copied: {error}");
            return false;
        }
    };
    let mut found = 0;
    let chosen: Vec<_> = mutants::all().filter(|mutant| mutant.name.contains(only)).collect();
    println!("{:>8} {:>7}  planted defect", "seeds", "seconds");
    for mutant in &chosen {
        match nursery.search(mutant, seeds) {
            Ok(Searched::Found { scenarios, seconds, violation }) => {
                found += 1;
                println!("{scenarios:>8} {seconds:>7.1}  {}\n{:>18}{violation}", mutant.name, "");
            }
            Ok(Searched::Survived) => println!("{:>8} {:>7}  {}: {}", "none", "", mutant.name, mutant.rule),
            Ok(Searched::Invalid(why)) => println!("{:>8} {:>7}  {}: {why}", "invalid", "", mutant.name),
            Err(error) => println!("{:>8} {:>7}  {}: {error}", "invalid", "", mutant.name),
        }
    }
    println!("{found} of {} planted defects were found within {seeds} seeds", chosen.len());
    found == chosen.len()
}
