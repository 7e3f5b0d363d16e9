//! The structure of this crate's `src/`: folders import from those below, files can be read at a
//! sitting, each says in its head what it does, and unsafe code is where it should be.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Each folder or root file below those before it.
const LAYERS: [&str; 16] = [
    "dlpack",
    "serialize",
    "step",
    "initializer",
    "metric",
    "optimizer",
    "autograd",
    "operator",
    "ndarray",
    "resource",
    "storage",
    "kernel",
    "request",
    "shape",
    "dtype",
    "error",
];

/// `kernel` knows no folder but its own and the random numbers that its tests draw.
const UNSAFE: [&str; 19] = [
    "dlpack/structs.rs",
    "dlpack/tensor.rs",
    "kernel/simd.rs",
    "ndarray/access.rs",
    "ndarray/array.rs",
    "ndarray/chunk.rs",
    "ndarray/cursor.rs",
    "ndarray/device_blob.rs",
    "ndarray/ending.rs",
    "ndarray/frame.rs",
    "ndarray/pieces.rs",
    "ndarray/place.rs",
    "ndarray/view.rs",
    "storage/copies.rs",
    "storage/device.rs",
    "storage/handle.rs",
    "storage/memory.rs",
    "storage/pool.rs",
    "storage/slots.rs",
];

/// Files whose operations declare what they lend, and say so at an `unsafe` call.
const LENDS: [&str; 7] = [
    "dlpack/export.rs",
    "ndarray/capturing.rs",
    "ndarray/create.rs",
    "ndarray/device_copy.rs",
    "ndarray/seeding.rs",
    "ndarray/transfer.rs",
    "operator/places.rs",
];

const LINES: usize = 400;

fn files() -> BTreeMap<String, String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (mut folders, mut found) = (vec![source.clone()], BTreeMap::new());
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| -> PathBuf { entry.unwrap().path() }) {
            if path.is_dir() {
                folders.push(path);
            } else if !path.ends_with("tests.rs") {
                let name = path.strip_prefix(&source).unwrap().to_str().unwrap().to_owned();
                found.insert(name, fs::read_to_string(path).unwrap());
            }
        }
    }
    found
}

/// The code without comments and without what stands behind the first `#[cfg(test)]`.
fn code(text: &str) -> String {
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    let lines = code.lines().map(|line| line.split("//").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

fn upward(files: &BTreeMap<String, String>) -> Vec<String> {
    let layer = |name: &str| LAYERS.iter().position(|layer| *layer == name.trim_end_matches(".rs"));
    let mut found = Vec::new();
    for (name, text) in files.iter().filter(|(name, _)| *name != "lib.rs") {
        let from = name.split('/').next().unwrap_or_default();
        let at = layer(from).unwrap_or_else(|| panic!("{from} has no layer"));
        for part in code(text).replace("$crate::", "").split("crate::").skip(1) {
            let to: String = part.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            if layer(&to).is_some_and(|to| to < at) {
                found.push(format!("{name} → {to}"));
            }
        }
    }
    found
}

#[test]
fn folders_import_from_those_below() {
    assert_eq!(upward(&files()), [""; 0]);
    let planted = [("shape.rs".to_owned(), "use crate::ndarray::array::NDArray;".to_owned())].into();
    assert_eq!(upward(&planted), ["shape.rs → ndarray"]);
}

#[test]
fn files_can_be_read_at_a_sitting_and_say_what_they_do() {
    for (name, text) in files() {
        let lines = code(&text).lines().count();
        assert!(lines <= LINES, "{name} has {lines} lines");
        assert!(text.starts_with("//! "), "{name} has no head");
    }
}

#[test]
fn unsafe_code_is_where_it_should_be() {
    let blocks = |text: &str| code(text).matches("unsafe ").count();
    let found: Vec<String> = files().into_iter().filter(|(_, text)| blocks(text) > 0).map(|(name, _)| name).collect();
    let mut expected = [&UNSAFE[..], &LENDS[..]].concat();
    expected.sort_unstable();
    assert_eq!(found, expected);
    for (name, text) in files().iter().filter(|(name, _)| !found.contains(name)) {
        let is_folder = name.ends_with("mod.rs") || name == "lib.rs";
        assert!(is_folder || text.contains("#![forbid(unsafe_code)]"), "{name} does not forbid unsafe code");
    }
}

/// Lines of a manifest that name a package whose name begins with that of the engine.
fn packages_on_the_engine(manifest: &str) -> Vec<&str> {
    let tables =
        manifest.split("\n[").filter(|table| table.split(']').next().is_some_and(|of| of.contains("dependencies")));
    let lines = tables
        .flat_map(str::lines)
        .filter(|line| line.starts_with("seriatim") || line.contains("package = \"seriatim"));
    lines.collect()
}

#[test]
fn the_engine_does_not_know_this_crate() {
    let engine = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let manifest = fs::read_to_string(engine.join("Cargo.toml")).unwrap();
    assert!(manifest.contains("\nname = \"seriatim\""));
    assert_eq!(packages_on_the_engine(&manifest), [""; 0]);
    let own = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml")).unwrap();
    assert_eq!(packages_on_the_engine(&own).len(), 2, "it would be noticed");
    let mut folders = vec![engine.join("src")];
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                assert!(!text.contains("seriatim_tensor") && !text.contains("NDArray"), "{}", path.display());
            }
        }
    }
}

/// The tests that a row of the table names, each as a file and a function.
fn named_tests(row: &str) -> Vec<(&str, &str)> {
    row.split('`')
        .skip(1)
        .step_by(2)
        .filter(|part| part.contains(".rs::"))
        .filter_map(|part| part.split_once("::"))
        .collect()
}

/// The text of the file that a row names, in `tests/`, in its folder `gpu/`, or anywhere in `src/`.
fn file_of_tests(name: &str) -> Option<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = ["storage", "resource", "ndarray", "operator", "serialize", "kernel"];
    let places = folders.map(|folder| root.join("src").join(folder).join(name));
    let beside = ["tests", "tests/gpu", "src", ""].map(|folder| root.join(folder).join(name));
    let places = beside.into_iter().chain(places);
    places.filter_map(|path| fs::read_to_string(path).ok()).next()
}

fn is_there(name: &str, function: &str) -> bool {
    file_of_tests(name).is_some_and(|text| {
        text.split("#[test]").skip(1).any(|test| test.trim_start().starts_with(&format!("fn {function}(")))
    })
}

#[test]
fn the_table_of_acceptance_names_tests_that_are_there() {
    let table = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("ACCEPTANCE.md")).unwrap();
    let rows: Vec<&str> = table.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
    let mut letters = BTreeMap::new();
    for row in &rows {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let [id, _, checked] = cells[..] else { panic!("not three cells: {row}") };
        let letter: String = id.chars().filter(|c| c.is_alphabetic()).collect();
        *letters.entry(letter).or_insert(0) += 1;
        let tests = named_tests(checked);
        for (name, function) in &tests {
            assert!(is_there(name, function), "{id}: there is no test {function} in {name}");
        }
        let refers = checked.starts_with(['R', 'P']) || checked.contains("the engine: kept by its own");
        assert!(!tests.is_empty() || checked.contains("open") || refers, "{id} has no test and is not open");
    }
    let expected = [("E", 12), ("N", 12), ("P", 23), ("Q", 20), ("R", 10), ("ST", 9)];
    assert_eq!(letters, expected.map(|(letter, count)| (letter.to_owned(), count)).into());
    assert!(is_there("structure.rs", "the_table_of_acceptance_names_tests_that_are_there"));
    assert!(!is_there("structure.rs", "no_such_test") && !is_there("no_such_file.rs", "files"));
}
