//! Programs that must not compile, each with what the compiler says to it.
//!
//! `tests/typed/refused.rs` and `tensor/tests/refused.rs` have folders of them. The first lines of
//! a program say what the compiler's answer has in it, as `//~ text`. Without the lines that end in
//! `// refused` it compiles, so it is these that are refused.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::SystemTime;

/// The folder of this test's binary, where the library lies as well.
fn built() -> PathBuf {
    let test = std::env::current_exe().expect("the path of this binary");
    test.parent().expect("it lies in a folder").to_owned()
}

/// The library of this name that was built last: the one that this test was linked with.
fn library(library: &str) -> PathBuf {
    let files = std::fs::read_dir(built()).expect("the folder is there").flatten();
    let prefix = format!("lib{library}-");
    let name = |file: &std::fs::DirEntry| file.file_name().to_string_lossy().into_owned();
    let is_library =
        |file: &std::fs::DirEntry| name(file).strip_prefix(&prefix).is_some_and(|rest| rest.ends_with(".rlib"));
    let age =
        |file: &std::fs::DirEntry| file.metadata().and_then(|data| data.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
    files.filter(is_library).max_by_key(age).expect("the library is there").path()
}

fn compile(against: &str, source: &str, name: &str) -> Output {
    let place = built().join(format!("refused-{against}-{name}-{}.rs", std::process::id()));
    std::fs::write(&place, source).expect("the folder can be written to");
    let output = Command::new(std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into()))
        .args(["--edition=2024", "--crate-type=bin", "--emit=metadata", "--color=never", "-Adead_code", "-Aunused"])
        .arg("--extern")
        .arg(format!("{against}={}", library(against).display()))
        .arg("-L")
        .arg(format!("dependency={}", built().display()))
        .arg("-o")
        .arg(place.with_extension("rmeta"))
        .arg(&place)
        .output()
        .expect("the compiler runs");
    for file in [place.clone(), place.with_extension("rmeta")] {
        let _ = std::fs::remove_file(file);
    }
    output
}

/// The programs of a folder, by name.
fn programs(folder: &Path) -> Vec<(String, String)> {
    let files = std::fs::read_dir(folder).expect("the programs are there").flatten();
    let mut programs: Vec<(String, String)> = files
        .map(|file| {
            let name = file.path().file_stem().expect("it has a name").to_string_lossy().into_owned();
            (name, std::fs::read_to_string(file.path()).expect("it can be read"))
        })
        .collect();
    programs.sort();
    programs
}

/// Checks the programs of a folder of the package, which use a library, against what they say of
/// themselves. Returns how many there are; none where no compiler is for this machine.
pub fn check(against: &str, folder: &str) -> Option<usize> {
    // Tests that run under an emulator have the compiler of another machine, and no library for it.
    let host = Command::new("rustc").arg("-vV").output();
    let host = host.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    if !host.contains(&format!("host: {}", std::env::consts::ARCH)) {
        eprintln!("skipped: no compiler for {}", std::env::consts::ARCH);
        return None;
    }
    let programs = programs(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder));
    let count = programs.len();
    let mut wrong = Vec::new();
    for (name, text) in programs {
        let expected: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("//~ ")).collect();
        assert!(expected.len() >= 2, "{name} does not say what the compiler says");
        let output = compile(against, &text, &name);
        let said = String::from_utf8_lossy(&output.stderr);
        let missing: Vec<&&str> = expected.iter().filter(|part| !said.contains(**part)).collect();
        if output.status.success() || !missing.is_empty() {
            wrong.push(format!("of {name} the compiler does not say {missing:?}, but\n{said}"));
        }
        let kept: Vec<&str> = text.lines().filter(|line| !line.ends_with("// refused")).collect();
        let output = compile(against, &kept.join("\n"), &format!("{name}-kept"));
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            wrong.push(format!("{name} does not compile without what is refused:\n{said}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    Some(count)
}
