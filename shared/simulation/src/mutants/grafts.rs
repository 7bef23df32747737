//! Several mutants in one source: a function's body once more for each, and what chooses between them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::bodies;
use super::mutant::Mutant;

/// A mutant in the body of a function.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Graft {
    pub(super) number: usize,
    /// The function's body in the source.
    body: Range<usize>,
    /// The body with the mutant in it.
    mutated: String,
}

/// A mutant as a graft, or `None` if it needs a build of its own.
///
/// # Errors
/// If its text does not stand in the source exactly once.
pub(super) fn of(mutant: &Mutant, number: usize, source: &str) -> Result<Option<Graft>, String> {
    let count = source.matches(mutant.find).count();
    let (1, Some(at)) = (count, source.find(mutant.find)) else {
        return Err(format!("its text stands {count} times in {}", mutant.file));
    };
    let range = at..at + mutant.find.len();
    let function = bodies::around(source, &range).filter(|it| it.is_switchable);
    Ok(function.map(|bodies::Function { body, .. }| {
        let mutated =
            [&source[body.start..range.start], mutant.replace, &source[range.end..body.end]].concat();
        Graft { number, body, mutated }
    }))
}

/// Those whose bodies lie in the bodies of others: only the outer ones can be planted together.
pub(super) fn nested(grafts: &[Graft]) -> BTreeSet<usize> {
    let lies_in = |one: &Graft, other: &Graft| {
        one.body != other.body && other.body.start <= one.body.start && one.body.end <= other.body.end
    };
    let is_nested = |one: &&Graft| grafts.iter().any(|other| lies_in(one, other));
    grafts.iter().filter(is_nested).map(|it| it.number).collect()
}

/// The source with all of these in it. `planted` is the path of what chooses.
pub(super) fn render(source: &str, grafts: &[Graft], planted: &str) -> String {
    let mut bodies: BTreeMap<(usize, usize), Vec<&Graft>> = BTreeMap::new();
    for graft in grafts {
        bodies.entry((graft.body.start, graft.body.end)).or_default().push(graft);
    }
    let mut text = String::new();
    let mut at = 0;
    for ((start, end), grafts) in bodies {
        text.push_str(&source[at..start]);
        for Graft { number, mutated, .. } in grafts {
            let choice = format!("\nif {planted}::is({number}) {{ {}\n{mutated}\n}} else", mark(*number));
            text.push_str(&choice);
        }
        text.push_str(&format!(" {{ {MARK}\n{}\n}}\n", &source[start..end]));
        at = end;
    }
    text.push_str(&source[at..]);
    text
}

const MARK: &str = "/* planted */";

fn mark(number: usize) -> String {
    format!("{MARK} /* {number} */")
}

/// Whether one of these lines, from 1, is of that mutant's body.
pub(super) fn stands_at(text: &str, number: usize, lines: &BTreeSet<usize>) -> bool {
    let own = mark(number);
    let mut is_inside = false;
    text.lines().enumerate().any(|(at, line)| {
        if line.contains(MARK) {
            is_inside = line.ends_with(&own);
        }
        is_inside && lines.contains(&(at + 1))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "fn one() -> u8 { 1 + 1 }\nconst TWO: u8 = 2;\nfn three() { fn four() { 5 } }\n";

    fn mutant(find: &'static str, replace: &'static str) -> Mutant {
        Mutant { name: "", rule: "", file: "lib.rs", find, replace }
    }

    #[test]
    fn a_function_has_its_body_once_more_for_each_of_its_mutants() {
        let of =
            |number, find, replace| of(&mutant(find, replace), number, SOURCE).expect("it stands there once");
        let grafts = [of(0, "1 +", "1 -"), of(1, "+ 1", "* 1")].map(|it| it.expect("in a function"));
        assert_eq!(of(2, "= 2", "= 3"), None);
        let text = render(SOURCE, &grafts, "crate::planted");
        let bodies = ["is(0) {", " 1 - 1 ", "is(1) {", " 1 * 1 ", "else {", " 1 + 1 ", "const TWO"];
        let places = bodies.map(|it| text.find(it).expect(it));
        assert!(places.is_sorted(), "{text}");
        let line = text.lines().position(|line| line.contains("1 * 1")).expect("a line") + 1;
        assert_eq!([0, 1].map(|n| stands_at(&text, n, &BTreeSet::from([line]))), [false, true]);
    }

    #[test]
    fn what_stands_elsewhere_or_lies_in_another_is_not_planted_together() {
        assert!(of(&mutant("6", "7"), 0, SOURCE).is_err());
        let both = ["fn four", "5"].map(|find| of(&mutant(find, ""), find.len(), SOURCE).ok().flatten());
        assert_eq!(nested(&both.map(|it| it.expect("in a function"))), BTreeSet::from([1]));
    }
}
