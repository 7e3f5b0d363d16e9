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
const UNSAFE: [&str; 12] = [
    "dlpack/structs.rs",
    "dlpack/tensor.rs",
    "kernel/simd.rs",
    "ndarray/access.rs",
    "ndarray/array.rs",
    "ndarray/chunk.rs",
    "ndarray/cursor.rs",
    "storage/boxed.rs",
    "storage/handle.rs",
    "storage/memory.rs",
    "storage/pool.rs",
    "storage/slots.rs",
];

/// Files whose operations declare what they lend, and say so at an `unsafe` call.
const LENDS: [&str; 5] = [
    "dlpack/export.rs",
    "ndarray/capturing.rs",
    "ndarray/create.rs",
    "ndarray/transfer.rs",
    "operator/kernel_call.rs",
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
