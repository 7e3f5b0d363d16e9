//! The structure of `src/`: imports point one way, files make no circles, and a name of a type
//! stands for one thing. Files that comments name are there, and do what is said of them:
//! `structure/comments.rs`.

#[path = "structure/comments.rs"]
mod comments;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The folders and the root files, each below those before it. A file imports from its own folder
/// and from lower ones.
const LAYERS: [&str; 15] = [
    "api",
    "engine",
    "graph",
    "worker",
    "thread",
    "pool",
    "variable",
    "tickets",
    "profile",
    "operation",
    "device",
    "error",
    "util",
    "platform",
    "sync",
];

/// The circles that there may be: a block has the calls of its closure, which may get a completion,
/// which ends a block.
const CIRCLES: [&[&str]; 1] = [&["operation::block", "operation::closure", "operation::completion"]];

/// Lines of a file, tests left out.
const LINES: usize = 400;

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// The files by their paths in `src/`, with what is in them.
type Files = BTreeMap<String, String>;

/// The text of each module, without comments, strings of documentation and tests.
type Modules = BTreeMap<String, String>;

/// For each module those that it imports.
type Imports = BTreeMap<String, BTreeSet<String>>;

fn files() -> Files {
    let (mut folders, mut found) = (vec![source()], Files::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("the folder is there") {
            let path = entry.expect("it can be read").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                let inside = path.strip_prefix(source()).expect("it lies there");
                let name = inside.to_str().expect("names are ASCII").replace(std::path::MAIN_SEPARATOR, "/");
                found.insert(name, fs::read_to_string(path).expect("it can be read"));
            }
        }
    }
    found
}

/// The module that a file is.
fn module(path: &str) -> String {
    let name = path.trim_end_matches(".rs");
    name.strip_suffix("/mod").unwrap_or(name).replace('/', "::")
}

fn modules() -> Modules {
    modules_of(&files())
}

fn modules_of(files: &Files) -> Modules {
    let is_module = |path: &str| path != "lib.rs" && !path.ends_with("/tests.rs");
    let modules = files.iter().filter(|(path, _)| is_module(path));
    modules.map(|(path, text)| (module(path), code(text))).collect()
}

/// The code of a file without its comments and without the items that only its tests have.
fn code(text: &str) -> String {
    let tests = ["#[cfg(test)]", "#[cfg(all(test"];
    let (mut kept, mut skipped) = (Vec::new(), None);
    for line in text.lines().map(|line| line.split("//").next().unwrap_or_default()) {
        let indent = indent(line);
        if tests.iter().any(|start| line.trim_start().starts_with(start)) {
            skipped = skipped.or(Some(indent));
        }
        match skipped {
            None => kept.push(line),
            Some(start) if indent == start && ends_item(line) => skipped = None,
            Some(_) => {}
        }
    }
    kept.join("\n")
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// Whether an item is over with a line that is not further in than its first.
fn ends_item(line: &str) -> bool {
    line.trim_end().ends_with(['}', ';', ','])
}

/// The paths that begin with `crate::`, each as often as it stands there; those of a list one by
/// one.
fn paths(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    for rest in code.split("crate::").skip(1) {
        let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
        let base: String = rest.chars().take_while(|c| is_part(*c)).collect();
        match rest[base.len()..].strip_prefix('{') {
            Some(list) if base.ends_with("::") => {
                let list = list.split('}').next().unwrap_or_default();
                assert!(!list.contains('{'), "one list an import: crate::{base}{{{list}}}");
                found.extend(list.split(',').map(|name| format!("{base}{}", name.trim())));
            }
            _ => found.push(base),
        }
    }
    found
}

fn imports(modules: &Modules) -> Imports {
    let of = |(name, code): (&String, &String)| {
        let module = |path: String| {
            let parts: Vec<&str> = path.split("::").collect();
            let known = (1..=parts.len()).rev().map(|count| parts[..count].join("::"));
            known.into_iter().find(|module| modules.contains_key(module))
        };
        let imported: BTreeSet<String> =
            paths(code).into_iter().filter_map(module).filter(|other| other != name).collect();
        (name.clone(), imported)
    };
    modules.iter().map(of).collect()
}

/// The modules that a module leads to, by any number of steps.
fn reached<'a>(from: &'a str, imports: &'a Imports) -> BTreeSet<&'a str> {
    let (mut open, mut seen) = (vec![from], BTreeSet::new());
    while let Some(module) = open.pop() {
        let next = imports[module].iter().map(String::as_str);
        open.extend(next.filter(|next| seen.insert(*next)).collect::<Vec<_>>());
    }
    seen
}

/// The circles of files: those of which each leads to all others.
fn circles(imports: &Imports) -> BTreeSet<BTreeSet<String>> {
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        imports.keys().map(|module| (module.as_str(), reached(module, imports))).collect();
    let of = |module: &&str| {
        let others = reached[*module].iter().filter(|other| reached[**other].contains(module));
        others.map(|other| (*other).to_owned()).collect::<BTreeSet<String>>()
    };
    reached.keys().map(of).filter(|circle| circle.len() > 1).collect()
}

/// Imports from a layer above, as `file → file`.
fn upward(imports: &Imports) -> Vec<String> {
    let layer = |module: &str| {
        let folder = module.split("::").next().unwrap_or_default();
        LAYERS.iter().position(|layer| *layer == folder).unwrap_or_else(|| panic!("{folder} has no layer"))
    };
    let mut found = Vec::new();
    for (module, imported) in imports {
        found.extend(
            imported.iter().filter(|other| layer(other) < layer(module)).map(|other| format!("{module} → {other}")),
        );
    }
    found
}

/// What an item declares.
#[derive(Clone, Copy, PartialEq)]
enum Declares {
    Type,
    Constant,
}

/// The name that a line declares. Associated types and constants are named with their types.
fn declared<'a>(line: &'a str, before: &[&str]) -> Option<(Declares, &'a str)> {
    let words: Vec<&str> =
        line.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty()).collect();
    let visible = ["pub", "crate", "super", "unsafe"];
    let at = words.iter().position(|word| !visible.contains(word))?;
    let what = match words[at] {
        "struct" | "enum" | "union" | "trait" | "type" => Declares::Type,
        "const" | "static" if !line.contains("fn ") && line.contains(": ") => Declares::Constant,
        _ => return None,
    };
    words.get(at + 1).filter(|name| **name != "_" && !is_associated(line, before)).map(|name| (what, *name))
}

/// Whether the item that a line begins stands in a trait or in an implementation of one.
fn is_associated(line: &str, before: &[&str]) -> bool {
    let is_start = |outer: &&&str| outer.trim_start().starts_with(char::is_alphabetic) && outer.trim() != "where";
    let outer = before.iter().rev().filter(is_start).find(|outer| indent(outer) < indent(line));
    let words = outer.into_iter().flat_map(|outer| outer.split([' ', '<', '(', ')']));
    let mut words = words.filter(|word| !["", "pub", "crate", "unsafe"].contains(word));
    words.next().is_some_and(|word| ["impl", "trait"].contains(&word))
}

/// Names that are declared more often than `most` times. A file of `platform/` declares a name once
/// for each system.
fn declared_often(modules: &Modules, what: Declares, most: usize) -> Vec<String> {
    let mut found = BTreeMap::<&str, Vec<&str>>::new();
    for (module, code) in modules.iter().filter(|(module, _)| !module.starts_with("sync")) {
        let lines: Vec<&str> = code.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            if let Some((_, name)) = declared(line, &lines[..at]).filter(|(kind, _)| *kind == what) {
                let modules = found.entry(name).or_default();
                if !(module.starts_with("platform") && modules.contains(&module.as_str())) {
                    modules.push(module);
                }
            }
        }
    }
    found
        .into_iter()
        .filter(|(_, modules)| modules.len() > most)
        .map(|(name, modules)| format!("{name}: {modules:?}"))
        .collect()
}

/// Names of types that are declared more than once.
fn doubled(modules: &Modules) -> Vec<String> {
    declared_often(modules, Declares::Type, 1)
}

/// Names of constants and statics that are declared more than twice.
fn tripled(modules: &Modules) -> Vec<String> {
    declared_often(modules, Declares::Constant, 2)
}

#[test]
fn imports_point_one_way() {
    assert_eq!(upward(&imports(&modules())), Vec::<String>::new());
}

#[test]
fn files_make_no_circles() {
    let accepted: BTreeSet<BTreeSet<String>> =
        CIRCLES.iter().map(|circle| circle.iter().map(|module| (*module).to_owned()).collect()).collect();
    assert_eq!(circles(&imports(&modules())), accepted);
}

#[test]
fn a_name_of_a_type_stands_for_one_thing() {
    assert_eq!(doubled(&modules()), Vec::<String>::new());
}

#[test]
fn a_name_of_a_constant_stands_for_two_things_at_most() {
    assert_eq!(tripled(&modules()), Vec::<String>::new());
}

#[test]
fn files_can_be_read_at_a_sitting() {
    let modules = modules();
    let long = modules.iter().filter(|(_, code)| code.lines().count() > LINES).map(|(module, _)| module);
    assert_eq!(long.collect::<Vec<_>>(), Vec::<&String>::new());
}

#[test]
fn the_checks_find_what_they_look_for() {
    let file = |name: &str, code: &str| (name.to_owned(), self::code(code));
    let planted: Modules = [
        file("api::a", "use crate::engine::b::{B, C};\npub struct A;"),
        file("engine::b", "use crate::engine::c::C;\npub struct B;"),
        file("engine::c", "fn c() { crate::engine::b::b() }\npub struct A;\npub type F = fn();"),
        file(
            "graph::f",
            "impl<T> Iterator for G\nwhere\n    T: Copy,\n{\n    type A = T;\n}\nfn f() {\n    struct F;\n}",
        ),
        file(
            "graph::g",
            "#[cfg(test)]\nmod tests {\n    struct B;\n}\n#[cfg(test)]\nuse a::B;\ntype E = ();\nenum E {}",
        ),
        file("sync::d", "use crate::api::a::A;"),
        file("sync::e", "// crate::api::a::A\n#[cfg(test)]\nmod tests {\n    use crate::api::a::A;\n}"),
    ]
    .into();
    let imports = imports(&planted);
    assert_eq!(upward(&imports), ["sync::d → api::a"]);
    let circle = BTreeSet::from(["engine::b".to_owned(), "engine::c".to_owned()]);
    assert_eq!(circles(&imports), BTreeSet::from([circle]));
    let twice =
        ["A: [\"api::a\", \"engine::c\"]", "E: [\"graph::g\", \"graph::g\"]", "F: [\"engine::c\", \"graph::f\"]"];
    assert_eq!(doubled(&planted), twice);
    let constants =
        "pub const A: u8 = 0;\nthread_local! {\n    static A: u8 = 0;\n}\nfn a() {\n    const A: u8 = 1;\n}";
    let constants = self::code(&format!("{constants}\nimpl C {{\n    const B: u8 = 0;\n}}\nconst B: u8 = 1;"));
    let planted: Modules = [
        ("pool::a".to_owned(), constants.clone()),
        ("pool::b".to_owned(), "const B: u8 = 2;\nconst fn B(a: u8) {}\nconst fn B(a: u8) {}".into()),
    ]
    .into();
    assert_eq!(tripled(&planted), ["A: [\"pool::a\", \"pool::a\", \"pool::a\"]"]);
}
