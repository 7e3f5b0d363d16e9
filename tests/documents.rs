//! The documents: what they point at is there, what they count is so, and their prose has lines
//! that can be read.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

const WIDTH: usize = 100;

/// Folders without documents of ours: what is built, and the report, which is made of measurements.
const OTHERS: [&str; 2] = ["target", "report"];

/// Folders whose files documents name as `folder/…`.
const FOLDERS: [&str; 16] = [
    "scripts/",
    "perf/",
    "benches/",
    "tests/",
    "src/",
    "loom-tests/",
    "capi/",
    "bindings/",
    "fuzz/",
    "digits/",
    "make/",
    "tensor/",
    "examples/",
    "sim/",
    "mutants/",
    "docs/",
];

/// The chapters of the guide, and its table of contents.
const GUIDE: &str = "docs/src/";
const CONTENTS: &str = "docs/src/SUMMARY.md";

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every document: the files of Markdown in the repository, by their paths in it.
fn documents() -> Vec<String> {
    files(".md")
}

/// The files of the repository whose names end so, by their paths in it.
fn files(ending: &str) -> Vec<String> {
    let (mut folders, mut found) = (vec![repository().to_owned()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("the folder is there") {
            let path = entry.expect("it can be read").path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if path.is_dir() && !name.starts_with('.') && !OTHERS.contains(&name) {
                folders.push(path);
            } else if path.is_file() && name.ends_with(ending) {
                let inside = path.strip_prefix(repository()).expect("it lies there");
                found.push(inside.to_str().expect("names are ASCII").to_owned());
            }
        }
    }
    found.sort();
    found
}

fn text(document: &str) -> String {
    fs::read_to_string(repository().join(document)).unwrap_or_else(|error| panic!("{document}: {error}"))
}

/// The lines that are prose: no table, no code, nothing that a script makes.
fn prose(text: &str) -> Vec<(usize, &str)> {
    let (mut code, mut made, mut lines) = (false, false, Vec::new());
    for (number, line) in text.lines().enumerate() {
        code ^= line.trim_start().starts_with("```");
        made = (made || line.starts_with("<!-- figures")) && !line.starts_with("<!-- end of figures");
        if !code && !made && !line.starts_with('|') {
            lines.push((number + 1, line));
        }
    }
    lines
}

/// Lines of prose that are too long.
fn long_lines(text: &str) -> Vec<usize> {
    let is_long = |line: &str| line.chars().count() > WIDTH;
    prose(text).into_iter().filter(|(_, line)| is_long(line)).map(|(number, _)| number).collect()
}

/// Comments that are lines of their own and too long; not of code, links and tables.
fn long_comments(source: &str) -> Vec<usize> {
    let (mut code, mut found) = (false, Vec::new());
    for (number, line) in source.lines().enumerate().filter(|(_, line)| line.trim_start().starts_with("//")) {
        let text = line.trim_start().trim_start_matches(['/', '!']).trim_start();
        code ^= text.starts_with("```");
        if !code && !text.starts_with(['[', '|']) && line.chars().count() > WIDTH {
            found.push(number + 1);
        }
    }
    found
}

/// The anchor that a heading has on the sites that show Markdown.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    kept.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c)).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Links that lead nowhere, of a text that lies in `folder`.
fn dead_links(text: &str, folder: &Path) -> Vec<String> {
    let outside_of_code: Vec<&str> = text.split("```").step_by(2).collect();
    let mut dead = Vec::new();
    for part in outside_of_code.iter().flat_map(|text| text.split("](").skip(1)) {
        let target = part.split(')').next().unwrap_or_default();
        if target.starts_with("http") {
            continue;
        }
        let (path, fragment) = target.split_once('#').unwrap_or((target, ""));
        let there = if path.is_empty() { None } else { Some(folder.join(path)) };
        let is_there = there.as_ref().is_none_or(|path| path.exists());
        let of_headings = match &there {
            Some(path) if !fragment.is_empty() => fs::read_to_string(path).unwrap_or_default(),
            _ => text.to_owned(),
        };
        let headings = of_headings.lines().filter(|line| line.starts_with('#'));
        let found =
            fragment.is_empty() || headings.map(|line| anchor(line.trim_start_matches('#'))).any(|a| a == fragment);
        if !is_there || !found {
            dead.push(target.to_owned());
        }
    }
    dead
}

/// Names between backquotes that are of a file or folder of the repository, or of `folder`, and are
/// not there.
fn missing_files(text: &str, folder: &Path) -> Vec<String> {
    let names = text.split("```").step_by(2).flat_map(|text| text.split('`').skip(1).step_by(2));
    let named = names.filter_map(|name| name.split_whitespace().next());
    let ours = named.filter(|name| FOLDERS.iter().any(|folder| name.starts_with(folder)) && !name.contains(['*', '<']));
    ours.filter(|name| !repository().join(name).exists() && !folder.join(name).exists()).map(str::to_owned).collect()
}

/// What stands between two phrases, on whatever lines.
fn between(text: &str, beginning: &str, end: &str) -> String {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let rest = words.split_once(beginning).unwrap_or_else(|| panic!("nothing begins with '{beginning}'")).1;
    rest.split_once(end).unwrap_or_else(|| panic!("nothing ends with '{end}'")).0.trim().to_owned()
}

/// What is wrong with a guide of these chapters: those that its contents do not list, and those
/// whose programs no test runs.
fn unchecked_chapters(chapters: &[&str], contents: &str, library: &str) -> Vec<String> {
    let programs = library.split("mod programs {").nth(1).and_then(|rest| rest.split("\n}").next()).unwrap_or_default();
    let mut wrong = Vec::new();
    for chapter in chapters {
        if !contents.contains(&format!("]({chapter})")) {
            wrong.push(format!("{chapter} is not in SUMMARY.md"));
        }
        if !programs.contains(&format!("#[doc = include_str!(\"../{GUIDE}{chapter}\")]")) {
            wrong.push(format!("{chapter} is not among the programs of src/lib.rs"));
        }
    }
    wrong
}

/// Links of a chapter that a book made of the guide would not have: mdBook takes every file of
/// Markdown for a chapter.
fn links_out_of_the_guide(text: &str) -> Vec<String> {
    let outside_of_code = text.split("```").step_by(2);
    let links = outside_of_code.flat_map(|text| text.split("](").skip(1)).filter_map(|link| link.split(')').next());
    let paths = links.filter(|link| !link.starts_with("http")).filter_map(|link| link.split('#').next());
    paths.filter(|path| path.ends_with(".md") && path.contains('/')).map(str::to_owned).collect()
}

#[test]
fn every_chapter_of_the_guide_is_listed_and_tested() {
    let documents = documents();
    let guide: Vec<&str> = documents.iter().filter_map(|document| document.strip_prefix(GUIDE)).collect();
    let chapters: Vec<&str> = guide.into_iter().filter(|chapter| *chapter != "SUMMARY.md").collect();
    assert!(chapters.contains(&"concepts.md"), "{chapters:?}");
    assert_eq!(unchecked_chapters(&chapters, &text(CONTENTS), &text("src/lib.rs")), [""; 0]);
    for chapter in chapters {
        assert_eq!(links_out_of_the_guide(&text(&format!("{GUIDE}{chapter}"))), [""; 0], "{chapter}");
    }
}

#[test]
fn links_and_names_of_files_lead_somewhere() {
    for document in documents() {
        let (path, text): (PathBuf, String) = (repository().join(&document), text(&document));
        let folder = path.parent().unwrap();
        assert_eq!(dead_links(&text, folder), [""; 0], "{document}");
        assert_eq!(missing_files(&text, folder), [""; 0], "{document}");
    }
}

#[test]
fn prose_has_lines_of_a_hundred_columns() {
    let documents = documents();
    for known in ["README.md", "CHANGELOG.md", "src/tickets/README.md", "perf/NOTES.md"] {
        assert!(documents.iter().any(|document| document == known), "{known} is not among {documents:?}");
    }
    for document in documents {
        assert_eq!(long_lines(&text(&document)), [0; 0], "{document}: lines of more than {WIDTH} columns");
    }
    for source in [".rs", ".hpp", ".cpp"].iter().flat_map(|ending| files(ending)) {
        assert_eq!(long_comments(&text(&source)), [0; 0], "{source}: comments of more than {WIDTH} columns");
    }
}

#[test]
fn what_is_counted_is_so() {
    let mutants = text("mutants/list.txt");
    let lines = mutants.lines().filter(|line| !line.starts_with('#'));
    // Some have a line for each check that finds them.
    let names: HashSet<&str> = lines.filter_map(|line| line.split_whitespace().next()).collect();
    let said = format!("builds {} bugs into the source", names.len());
    assert!(text("CONTRIBUTING.md").contains(&said), "CONTRIBUTING.md does not say '{said}'");

    for line in text("mutants/list.txt").lines().filter(|line| !line.starts_with('#')) {
        if let [_, _, file, check] = line.split_whitespace().collect::<Vec<_>>()[..] {
            let (package, file) = file.strip_prefix("tensor/").map_or(("", file), |file| ("tensor/", file));
            // A test in a module has the module's file in its name, and so has one of the library.
            let (module, check) = check.rsplit_once("::").unwrap_or(("", check));
            let places = match module.strip_suffix("::tests").filter(|_| file == "lib") {
                Some(module) => ["", "/mod", "/tests"]
                    .map(|end| format!("{package}src/{}{end}.rs", module.replace("::", "/")))
                    .to_vec(),
                None => {
                    let file = format!("{file}/{module}");
                    ["loom-tests/tests", "tests"]
                        .map(|folder| format!("{package}{folder}/{}.rs", file.trim_end_matches('/')))
                        .to_vec()
                }
            };
            let found = places.iter().filter(|place| repository().join(place).exists()).map(|place| text(place));
            assert!(found.into_iter().any(|text| text.contains(&format!("fn {check}("))), "{file} has no {check}");
        }
    }

    let digits = |document| between(&text(document), "On two cores digits takes", "on two.");
    assert_eq!(digits("README.md"), digits("PERFORMANCE.md"));

    let rust = env!("CARGO_PKG_RUST_VERSION");
    for document in ["README.md", "CONTRIBUTING.md"] {
        assert!(text(document).contains(&format!("Rust {rust}")), "{document} does not name Rust {rust}");
    }
}

/// What a list of suppressions names of this crate and `src/` does not have, with the files by
/// their modules.
fn missing_items(list: &str, source: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let lines = list.lines().filter(|line| !line.starts_with('#'));
    let paths = lines.flat_map(|line| line.split("seriatim::").skip(1)).map(|rest| {
        let end = rest.find(|c: char| !c.is_alphanumeric() && !"_:".contains(c)).unwrap_or(rest.len());
        rest[..end].trim_end_matches(':')
    });
    let is_missing = |path: &&str| {
        let (modules, item) = path.rsplit_once("::").unwrap_or(("lib", path));
        let Some(text) = source(&modules.replace("::", "/")) else { return true };
        let is_item = |kind| [format!("{kind} {item}<"), format!("{kind} {item} "), format!("{kind} {item}(")];
        !["struct", "enum", "union", "trait", "type", "fn"]
            .into_iter()
            .flat_map(is_item)
            .any(|start| text.contains(&start))
    };
    paths.filter(is_missing).map(str::to_owned).collect()
}

#[test]
fn what_sanitizers_are_told_to_suppress_is_there() {
    let source = |modules: &str| {
        let places = [format!("src/{modules}.rs"), format!("src/{modules}/mod.rs")];
        places.iter().find(|place| repository().join(place).exists()).map(|place| text(place))
    };
    let lists = files(".supp");
    assert_eq!(lists, ["scripts/sanitizers/lsan.supp", "scripts/sanitizers/tsan.supp"]);
    for list in lists {
        assert_eq!(missing_items(&text(&list), source), [""; 0], "{list}");
    }
}

#[test]
fn the_checks_find_what_they_look_for() {
    let wide = "x".repeat(WIDTH + 1);
    let page = format!(
        "# One, two\n{wide}\n|{wide}|\n```sh\n{wide}\n```\n<!-- figures -->\n{wide}\n<!-- end of figures -->\n"
    );
    assert_eq!(long_lines(&page), [2]);
    assert_eq!(long_comments(&format!("// {wide}\n    /// {wide}\n//! |{wide}|\nlet {wide};\n")), [1, 2]);
    let links =
        "# One, two\n[a](#one-two) [b](#three) [c](README.md) [d](NO.md) [e](README.md#limits) [f](README.md#no)\n";
    assert_eq!(dead_links(links, repository()), ["#three", "NO.md", "README.md#no"]);
    assert_eq!(
        missing_files("`src/lib.rs` `src/no.rs` `cargo test` `perf/no.sh A`", repository()),
        ["src/no.rs", "perf/no.sh"]
    );
    let library =
        "mod programs {\n    #[doc = include_str!(\"../docs/src/a.md\")]\n    struct A;\n}\n// docs/src/b.md\n";
    assert_eq!(
        unchecked_chapters(&["a.md", "b.md"], "- [B](b.md)", library),
        ["a.md is not in SUMMARY.md", "b.md is not among the programs of src/lib.rs"]
    );
    let list =
        "# seriatim::no::no\nrace:<Arc<seriatim::a::b::Cell<Vec<u64>>>>::drop\nrace:seriatim::c::D\nrace:seriatim::e";
    let source = |modules: &str| (modules == "a/b").then(|| "pub struct Cell<T> {\n".to_owned());
    assert_eq!(missing_items(list, source), ["c::D", "e"]);
    assert_eq!(between("One. It\n  takes 1 ms. That\ntakes 2. End", "It takes", "2."), "1 ms. That takes");
    assert_eq!(links_out_of_the_guide("[a](b.md#c) [d](../../D.md) [e](../../e.rs)"), ["../../D.md"]);
}
