//! What the template promises beyond its own syntax, which `sam validate --lint` checks.
//!
//! CloudWatch accepts an alarm on a metric that no code writes, and it never goes off: so each one in the template is compared with what
//! the code writes ([`metrics`]), and each leads to its section of the runbook. The template is read line by line, because most of
//! these tests compare what it says to the letter.

mod access;
mod alarms;
mod coverage;
mod dashboard;
mod loops;
mod metrics;
mod partitions;
mod retained;
mod runbook;
mod stack;

const TEMPLATE: &str = include_str!("../../../infra/template.yaml");

/// A named block of a section: a resource, a parameter, an event.
struct Block<'a> {
    name: &'a str,
    lines: Vec<&'a str>,
}

impl<'a> Block<'a> {
    /// The blocks whose names stand `indent` spaces deep in these lines.
    fn all(lines: &[&'a str], indent: usize) -> Vec<Self> {
        let mut blocks: Vec<Self> = Vec::new();
        for line in lines {
            let text = line.trim_start();
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            match (line.len() - text.len() == indent, text.strip_suffix(':')) {
                (true, Some(name)) => blocks.push(Self { name, lines: Vec::new() }),
                (true, None) | (false, _) => {
                    if let Some(block) = blocks.last_mut() {
                        block.lines.push(line);
                    }
                }
            }
        }
        blocks
    }

    /// What stands behind `key:`, on whatever level it comes first.
    fn value(&self, key: &str) -> Option<&'a str> {
        self.lines.iter().find_map(|line| line.trim_start().strip_prefix(key)?.strip_prefix(": "))
    }

    fn number(&self, key: &str) -> u64 {
        let value = self.value(key).unwrap_or_else(|| panic!("{} has no {key}", self.name));
        value.parse().unwrap_or_else(|_| panic!("{key} of {} is not a number", self.name))
    }
}

fn section(name: &str) -> Vec<&'static str> {
    let within = TEMPLATE.lines().skip_while(|line| line.strip_suffix(':') != Some(name)).skip(1);
    let lines: Vec<_> = within.take_while(|line| line.is_empty() || line.starts_with([' ', '#'])).collect();
    assert!(!lines.is_empty(), "there is no section {name}");
    lines
}

fn resources(of_type: &str) -> Vec<Block<'static>> {
    let mut blocks = Block::all(&section("Resources"), 2);
    blocks.retain(|block| block.value("Type") == Some(of_type));
    assert!(!blocks.is_empty(), "there is no {of_type}");
    blocks
}

fn globals() -> Block<'static> {
    Block { name: "Globals", lines: section("Globals") }
}

fn named(mut blocks: Vec<Block<'static>>, name: &str) -> Block<'static> {
    let at = blocks.iter().position(|block| block.name == name);
    blocks.swap_remove(at.unwrap_or_else(|| panic!("there is no {name}")))
}

fn parameter(name: &str) -> Block<'static> {
    named(Block::all(&section("Parameters"), 2), name)
}
