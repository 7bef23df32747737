//! The modules of each crate form a DAG: no file, and no folder, imports one that imports it.
//!
//! Reads the sources as text: `use` trees and paths that begin with `crate`, `self`, `super` or a child module, without comments,
//! strings and what is compiled for tests alone. A name that a module re-exports belongs to the module that declares it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use crate::files::{files_below, workspace};

type Graph = BTreeMap<String, BTreeSet<String>>;

/// A module's paths, by where they stand.
#[derive(Default)]
struct Module {
    /// Of private imports and of code.
    used: Vec<Vec<String>>,
    /// Of re-exports, by the name that they get.
    exported: BTreeMap<String, Vec<String>>,
    /// All identifiers of its code.
    identifiers: BTreeSet<String>,
    /// The child modules that are compiled for tests alone.
    tests: Vec<String>,
}

struct Sources(BTreeMap<String, Module>);

impl Sources {
    /// Reads files by their paths below `src`.
    fn new(files: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut modules = BTreeMap::new();
        for (path, code) in files {
            let name = path.trim_end_matches(".rs").replace('/', "::");
            let name = name.strip_suffix("::mod").unwrap_or(&name);
            let name = if matches!(name, "lib" | "main") { "" } else { name };
            modules.insert(name.to_owned(), Module::read(&code));
        }
        let tests: Vec<String> = modules
            .iter()
            .flat_map(|(name, module)| module.tests.iter().map(|test| join(name, test)))
            .collect();
        modules.retain(|name, _| {
            let of_tests = |test: &String| name == test || name.starts_with(&format!("{test}::"));
            !tests.iter().any(of_tests) && !name.split("::").any(|part| part.ends_with("tests"))
        });
        Self(modules)
    }

    fn of_crate(folder: &Path) -> Self {
        let src = folder.join("src");
        let files =
            files_below(src.clone()).into_iter().filter(|path| path.extension().is_some_and(|it| it == "rs"));
        Self::new(files.map(|path| {
            let name = path.strip_prefix(&src).expect("below src").to_str().expect("UTF-8");
            (name.to_owned(), fs::read_to_string(&path).expect("a source"))
        }))
    }

    /// The module that declares what a path in `module` names.
    fn resolve(&self, module: &str, path: &[String]) -> String {
        let mut current = module.to_owned();
        let mut rest = path;
        while let [first, others @ ..] = rest {
            match first.as_str() {
                "crate" => current.clear(),
                "self" => {}
                "super" => current = parent(&current).to_owned(),
                name if self.0.contains_key(&join(&current, name)) => current = join(&current, name),
                name => match self.0.get(&current).and_then(|module| module.exported.get(name)) {
                    Some(source) if source.as_slice() != path => return self.resolve(&current, source),
                    Some(_) | None => return current,
                },
            }
            rest = others;
        }
        current
    }

    fn graph(&self) -> Graph {
        let mut graph = Graph::new();
        for (name, module) in &self.0 {
            let own_child = |path: &&Vec<String>| {
                matches!(path[0].as_str(), "crate" | "self" | "super")
                    || self.0.contains_key(&join(name, &path[0]))
            };
            let exports_in_use = module
                .exported
                .iter()
                .filter(|(name, _)| module.identifiers.contains(*name))
                .map(|(_, path)| path);
            let paths = module.used.iter().chain(exports_in_use).filter(own_child);
            let imported = paths.map(|path| self.resolve(name, path));
            graph.insert(name.clone(), imported.filter(|to| to != name && !to.is_empty()).collect());
        }
        graph
    }

    /// Every cycle among the files, and among the children of each folder, with its edges.
    fn cycles(&self) -> Vec<String> {
        let graph = self.graph();
        let mut found = cycles_in("files", &graph);
        let folders: BTreeSet<&str> = graph.keys().map(|name| parent(name)).collect();
        for folder in folders {
            let child = |name: &str| {
                let below =
                    if folder.is_empty() { name } else { name.strip_prefix(folder)?.strip_prefix("::")? };
                below.split("::").next().filter(|child| !child.is_empty()).map(str::to_owned)
            };
            let mut children = Graph::new();
            for (from, imported) in &graph {
                let Some(from) = child(from) else { continue };
                let others = imported.iter().filter_map(|to| child(to)).filter(|to| *to != from);
                children.entry(from.clone()).or_default().extend(others);
            }
            found.extend(cycles_in(&format!("folder {:?}", folder), &children));
        }
        found
    }
}

impl Module {
    fn read(code: &str) -> Self {
        let mut module = Self::default();
        let tokens = module.without_tests(&tokens(code));
        let mut at = 0;
        while at < tokens.len() {
            if tokens[at] == "use" {
                let end = at + tokens[at..].iter().position(|token| token == ";").expect("use ends in ;");
                let is_exported = at > 0 && matches!(tokens[at - 1].as_str(), "pub" | ")");
                let mut paths = Vec::new();
                use_tree(&tokens[at + 1..end], &[], &mut paths);
                for (path, name) in paths {
                    if is_exported {
                        module.exported.insert(name, path);
                    } else {
                        module.used.push(path);
                    }
                }
                at = end;
            } else if matches!(tokens[at].as_str(), "mod" | "fn" | ".") {
                // What follows is declared here, or is a method.
                at += 1;
            } else if is_identifier(&tokens[at]) {
                let mut path = vec![tokens[at].clone()];
                while tokens.get(at + 1).is_some_and(|token| token == "::")
                    && tokens.get(at + 2).is_some_and(|token| is_identifier(token))
                {
                    at += 2;
                    path.push(tokens[at].clone());
                }
                module.identifiers.insert(path[0].clone());
                if path.len() > 1 {
                    module.used.push(path);
                }
            }
            at += 1;
        }
        module
    }

    /// The tokens without the items under `#[cfg(test)]`.
    fn without_tests(&mut self, tokens: &[String]) -> Vec<String> {
        const TEST: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];
        let mut kept = Vec::new();
        let mut at = 0;
        while at < tokens.len() {
            if !tokens[at..].iter().take(TEST.len()).eq(TEST.iter()) {
                kept.push(tokens[at].clone());
                at += 1;
                continue;
            }
            let (begin, mut depth) = (at + TEST.len(), 0);
            // The item ends with `;`, or with the first block: attributes have neither outside of their brackets.
            at = begin;
            loop {
                match tokens[at].as_str() {
                    "(" | "[" | "{" => depth += 1,
                    ")" | "]" => depth -= 1,
                    "}" => {
                        depth -= 1;
                        if depth == 0 {
                            break;
                        }
                    }
                    ";" if depth == 0 => break,
                    _ => {}
                }
                at += 1;
            }
            if tokens[at] == ";" && tokens[at - 2] == "mod" {
                self.tests.push(tokens[at - 1].clone());
            }
            at += 1;
        }
        kept
    }
}

fn use_tree(tree: &[String], prefix: &[String], paths: &mut Vec<(Vec<String>, String)>) {
    let mut path = prefix.to_vec();
    let mut alias = None;
    for (at, token) in tree.iter().enumerate() {
        match token.as_str() {
            "{" => {
                let inner = &tree[at + 1..tree.len() - 1];
                let mut depth = 0;
                let branches = inner.split(|token| {
                    depth += i32::from(token == "{") - i32::from(token == "}");
                    token == "," && depth == 0
                });
                return branches
                    .filter(|branch| !branch.is_empty())
                    .for_each(|branch| use_tree(branch, &path, paths));
            }
            "as" => alias = tree.get(at + 1).cloned(),
            "::" => {}
            _ if alias.is_none() => path.push(token.clone()),
            _ => {}
        }
    }
    let last = path.last().cloned().unwrap_or_default();
    paths.push((path, alias.unwrap_or(last)));
}

/// Identifiers, `::` and single characters, without comments, literals and lifetimes.
fn tokens(code: &str) -> Vec<String> {
    let chars: Vec<char> = code.chars().collect();
    let find = |from: usize, end: &str| {
        let end: Vec<char> = end.chars().collect();
        (from..chars.len()).find(|at| chars[*at..].starts_with(&end)).map_or(chars.len(), |at| at + end.len())
    };
    let (mut tokens, mut at) = (Vec::new(), 0);
    while let Some(&c) = chars.get(at) {
        let next = chars.get(at + 1).copied().unwrap_or_default();
        let begin = at;
        at += 1;
        match c {
            '/' if next == '/' => at = find(at, "\n"),
            '/' if next == '*' => at = find(at, "*/"),
            '"' => {
                while at < chars.len() && chars[at] != '"' {
                    at += 1 + usize::from(chars[at] == '\\');
                }
                at += 1;
            }
            '\'' if next == '\\' => at = find(at + 2, "'"),
            '\'' if chars.get(at + 1) == Some(&'\'') => at += 2,
            '\'' => {}
            ':' if next == ':' => {
                tokens.push("::".to_owned());
                at += 1;
            }
            c if c.is_alphanumeric() || c == '_' => {
                while chars.get(at).is_some_and(|c| c.is_alphanumeric() || *c == '_') {
                    at += 1;
                }
                let word: String = chars[begin..at].iter().collect();
                let hashes = chars[at..].iter().take_while(|c| **c == '#').count();
                if matches!(word.as_str(), "r" | "br") && chars.get(at + hashes) == Some(&'"') {
                    at = find(at + hashes + 1, &format!("\"{}", "#".repeat(hashes)));
                } else if !(begin > 0 && chars[begin - 1] == '\'') {
                    tokens.push(word);
                }
            }
            c if c.is_whitespace() => {}
            c => tokens.push(c.to_string()),
        }
    }
    tokens
}

fn is_identifier(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

fn join(module: &str, name: &str) -> String {
    if module.is_empty() { name.to_owned() } else { format!("{module}::{name}") }
}

fn parent(module: &str) -> &str {
    module.rsplit_once("::").map_or("", |(parent, _)| parent)
}

fn cycles_in(what: &str, graph: &Graph) -> Vec<String> {
    let reached = |from: &String| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
        while let Some(node) = next.pop() {
            next.extend(graph.get(node).into_iter().flatten().filter(|to| seen.insert((*to).clone())));
        }
        seen
    };
    let reach: Graph = graph.keys().map(|node| (node.clone(), reached(node))).collect();
    let together =
        |a: &String, b: &String| reach[a].contains(b) && reach.get(b).is_some_and(|of_b| of_b.contains(a));
    let groups: BTreeSet<Vec<&String>> = graph
        .keys()
        .map(|a| graph.keys().filter(|b| together(a, b)).collect::<Vec<_>>())
        .filter(|group| group.len() > 1)
        .collect();
    let edges = |group: &Vec<&String>| {
        let edge = |from: &&String| {
            let imported = graph[*from].iter().filter(|to| group.contains(to)).cloned();
            format!("\n    {from} -> {}", imported.collect::<Vec<_>>().join(", "))
        };
        group.iter().map(edge).collect::<String>()
    };
    groups.iter().map(|group| format!("{what}: a cycle{}", edges(group))).collect()
}

fn members(manifest: &str) -> Vec<&str> {
    let list =
        manifest.split_once("members = [").and_then(|(_, rest)| rest.split_once(']')).expect("members").0;
    list.split('"').skip(1).step_by(2).collect()
}

#[test]
fn the_modules_of_every_crate_form_a_dag() {
    let manifest = fs::read_to_string(workspace().join("Cargo.toml")).expect("the workspace's manifest");
    let members = members(&manifest);
    assert!(members.contains(&"shared/core"), "{members:?}");
    let mut wrong = String::new();
    for member in members {
        for cycle in Sources::of_crate(&workspace().join(member)).cycles() {
            wrong += &format!("{member}: {cycle}\n");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

fn cycles(files: &[(&str, &str)]) -> Vec<String> {
    Sources::new(files.iter().map(|(path, code)| ((*path).to_owned(), (*code).to_owned()))).cycles()
}

#[test]
fn every_way_to_import_is_read() {
    let edges = "a cycle\n    a -> b\n    b -> a";
    for b in [
        "use crate::a::A;",
        "use super::a::A;",
        "use crate::{c::C, a::{self, A as Other}};",
        "fn b() { crate::a::a() }",
        "pub struct B(pub(crate) super::a::A);",
    ] {
        let found = cycles(&[("lib.rs", ""), ("a.rs", "use crate::b::B;"), ("b.rs", b), ("c.rs", "")]);
        assert_eq!(found, [format!("files: {edges}"), format!("folder \"\": {edges}")], "{b}");
    }
    assert_eq!(members("[workspace]\nmembers = [\n    \"cli\",\n    \"a/b\",\n]\n[x]"), ["cli", "a/b"]);
}

#[test]
fn cycles_of_several_files_of_re_exports_and_of_folders_are_found() {
    let longer = [("a.rs", "use crate::b::B;"), ("b.rs", "use crate::c::C;"), ("c.rs", "use crate::a::A;")];
    let through_folder = [
        ("a/mod.rs", "mod inner;\npub use inner::Inner;"),
        ("a/inner.rs", "use crate::b::B;"),
        ("b.rs", "use crate::a::Inner;"),
    ];
    let own_use = [
        ("a/mod.rs", "mod inner;\npub use inner::Inner;\npub struct A(Inner);"),
        ("a/inner.rs", "use super::A;"),
    ];
    let folders = [
        ("a/mod.rs", ""),
        ("b/mod.rs", ""),
        ("a/one.rs", "use crate::b::one::One;"),
        ("a/two.rs", ""),
        ("b/one.rs", ""),
        ("b/two.rs", "use crate::a::two::Two;"),
    ];
    for (files, edges) in [
        (&longer[..], "files: a cycle\n    a -> b\n    b -> c\n    c -> a"),
        (&through_folder, "files: a cycle\n    a::inner -> b\n    b -> a::inner"),
        (&own_use, "files: a cycle\n    a -> a::inner\n    a::inner -> a"),
        (&folders, "folder \"\": a cycle\n    a -> b\n    b -> a"),
    ] {
        assert_eq!(cycles(files)[0], edges);
    }
}

#[test]
fn tests_comments_and_strings_import_nothing() {
    let b = r##"
        // use crate::a::A;
        /// [`crate::a`]
        const TEXT: (&str, &str, char) = ("crate::a::A \" ", r#"crate::a::A"#, '"');
        #[cfg(test)]
        #[path = "b_tests.rs"]
        mod checks;
        #[cfg(test)]
        pub(super) mod tests { use crate::a::A; fn test() { let _ = [0; 3]; } }
        #[cfg(test)]
        const COUNT: [u8; 1] = [crate::a::N];
        fn lifetimes<'a>(text: &'a str) -> &'a str { text }
    "##;
    let files = [("a.rs", "use crate::b::B;"), ("b.rs", b), ("b_tests.rs", "use crate::a::A;")];
    assert_eq!(cycles(&files), [""; 0]);
}
