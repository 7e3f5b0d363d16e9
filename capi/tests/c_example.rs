//! The examples in C compile without a warning, link against both libraries, and find everything as
//! it should be.

#![cfg(all(unix, not(miri)))]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// What the Rust standard library needs from the system, for the static library.
const SYSTEM_LIBRARIES: &[&str] = if cfg!(target_os = "macos") { &["-liconv", "-lm"] } else { &["-lm", "-ldl"] };

fn shared_name() -> String {
    format!("{}seriatim_c{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX)
}

const STATIC_NAME: &str = "libseriatim_c.a";

/// The folder with the libraries. They are made together with the one that this test links, so they
/// lie beside the test; should a future cargo put them elsewhere, it is asked to make them.
fn libraries() -> PathBuf {
    let test = std::env::current_exe().expect("the test knows where it is");
    let beside = test.parent().expect("the test is in a folder");
    let above = beside.parent().unwrap_or(beside);
    let is_complete = |folder: &Path| folder.join(shared_name()).exists() && folder.join(STATIC_NAME).exists();
    if is_complete(beside) {
        return beside.to_owned();
    }
    let profile = match above.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(other) => other,
    };
    let target = above.parent().expect("a profile's folder is in the target folder");
    let status = Command::new(env!("CARGO"))
        .args(["build", "--package", "seriatim_c", "--profile", profile, "--target-dir"])
        .arg(target)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status()
        .expect("cargo runs");
    assert!(status.success() && is_complete(above), "no libraries in {} or {}", beside.display(), above.display());
    above.to_owned()
}

/// The source of an example; that of the README is written where the compiler finds it.
fn source(example: &str, program: &Path) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    if example != "readme" {
        return root.join(format!("examples/{example}.c"));
    }
    let readme = std::fs::read_to_string(root.join("README.md")).expect("the README can be read");
    let text = readme.split("```c\n").nth(1).and_then(|rest| rest.split("```").next()).expect("it has a program");
    let path = program.with_extension("c");
    std::fs::write(&path, text).expect("the program can be written");
    path
}

fn compile(example: &str, program: &Path, libraries: &[&str]) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = Command::new("cc")
        .args(["-std=c11", "-pthread", "-Wall", "-Wextra", "-Werror", "-O1", "-g"])
        .arg("-I")
        .arg(root.join("include"))
        .arg(source(example, program))
        .args(libraries)
        .arg("-o")
        .arg(program)
        .output()
        .expect("cc runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Runs the program, but not for ever: an operation that never ended must show as a failure.
fn run(program: &Path) -> String {
    let mut child = Command::new(program)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("what was compiled can be run");
    let deadline = Instant::now() + Duration::from_secs(60);
    while child.try_wait().expect("the program can be waited for").is_none() {
        if Instant::now() > deadline {
            let _ = child.kill();
            break;
        }
        sleep(Duration::from_millis(5));
    }
    let output = child.wait_with_output().expect("the program's output can be read");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {text}{errors}", output.status);
    text
}

/// What each example says if all is well.
const EXAMPLES: [(&str, &[&str]); 6] = [
    ("readme", &[]),
    // The sum of 2 (b + i) over 64 blocks b of 256 elements i.
    ("pipeline", &["total 5210112 after 64 blocks", "order of priorities: 3 2 1", "arguments, each deleted once"]),
    // What spreads is not lost. The highest temperature is that of the same steps in a plain loop.
    ("replay", &["32 operations, replayed 1000 times: version 1000, heat 1000.000, at most 14.567"]),
    // The sum of 2 i + 1 over a thousand numbers, in a buffer of a power of two.
    ("gpu", &["sum 1000000, 8192 bytes in use"]),
    ("reduce", &["64000 numbers, equal bins and equal sums on 1 and 4 workers"]),
    ("notify", &["total 100 by 100 wake-ups; 'out of paper'; 5 calls, 6 deletions"]),
];

fn check(linked: &str, libraries: &[&str]) {
    for (example, expected) in EXAMPLES {
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{example}-{linked}"));
        compile(example, &program, libraries);
        let text = run(&program);
        expected.iter().for_each(|expected| assert!(text.contains(expected), "{expected:?} is not in: {text}"));
    }
}

#[test]
fn runs_with_the_shared_library() {
    let folder = libraries();
    let folder = folder.to_str().expect("a path in UTF-8");
    let search = format!("-L{folder}");
    let find = format!("-Wl,-rpath,{folder}");
    check("shared", &[&search, "-lseriatim_c", &find]);
}

#[test]
fn runs_with_the_static_library() {
    let library = libraries().join(STATIC_NAME);
    let mut libraries = vec![library.to_str().expect("a path in UTF-8")];
    libraries.extend(SYSTEM_LIBRARIES);
    check("static", &libraries);
}
