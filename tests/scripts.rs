//! The scripts that a person runs, as far as they can be tried without running them.

#![cfg(unix)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// What builds, installs, fetches or measures. In their place are programs that leave a mark and
/// fail.
const FORBIDDEN: [&str; 12] =
    ["cargo", "rustup", "rustc", "gcc", "cc", "g++", "apt-get", "pip", "pip3", "curl", "perf", "valgrind"];

const PATIENCE: Duration = Duration::from_secs(60);
const SCREEN: usize = 24;
const WIDTH: usize = 100;

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A folder with those programs; the mark is a file in it.
fn forbidding(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    for program in FORBIDDEN {
        let path = folder.join(program);
        fs::write(&path, format!("#!/bin/sh\necho {program} \"$@\" >>{}/mark\nexit 97\n", folder.display())).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    folder
}

/// Asks a script for help.
///
/// # Errors
/// What is wrong with the answer.
fn help(script: &Path, forbidding: &Path) -> Result<(), String> {
    let path = format!("{}:{}", forbidding.display(), std::env::var("PATH").unwrap());
    let asked = Command::new("bash")
        .arg(script)
        .arg("--help")
        .env("PATH", path)
        .current_dir(forbidding)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut asked = asked.map_err(|error| error.to_string())?;
    let start = Instant::now();
    while asked.try_wait().map_err(|error| error.to_string())?.is_none() {
        if start.elapsed() > PATIENCE {
            let _ = asked.kill();
            return Err(format!("no answer for {PATIENCE:?}"));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let answer = asked.wait_with_output().map_err(|error| error.to_string())?;
    let (text, error) = (String::from_utf8_lossy(&answer.stdout), String::from_utf8_lossy(&answer.stderr));
    if let Ok(done) = fs::read_to_string(forbidding.join("mark")) {
        return Err(format!("it ran {done}"));
    }
    if !answer.status.success() || !error.is_empty() {
        return Err(format!("{}: {error}", answer.status));
    }
    if let Some(wide) = text.lines().find(|line| line.chars().count() > WIDTH) {
        return Err(format!("wider than a screen: {wide}"));
    }
    match text.lines().count() {
        0..=1 => Err("hardly a word".to_owned()),
        lines if lines > SCREEN => Err(format!("{lines} lines, where a screen has {SCREEN}")),
        _ => Ok(()),
    }
}

#[test]
fn every_script_answers_help_in_one_screen_and_does_nothing_else() {
    let forbidding = forbidding("help");
    let mut asked = 0;
    for folder in ["scripts", "perf"] {
        for entry in fs::read_dir(repository().join(folder)).unwrap() {
            let script = entry.unwrap().path();
            // Sourced by the others.
            let own = script.file_name().is_some_and(|name| name != "help.sh");
            if own && script.extension().is_some_and(|extension| extension == "sh") {
                help(&script, &forbidding).unwrap_or_else(|error| panic!("{}: {error}", script.display()));
                asked += 1;
            }
        }
    }
    assert!(asked >= 12, "{asked} scripts");
}

#[test]
fn the_check_finds_scripts_that_do_more_or_say_nothing() {
    let cases = [
        ("builds.sh", "cargo build --help || true\necho a\necho b\n", "it ran cargo build"),
        ("refuses.sh", "echo usage >&2\nexit 2\n", "usage"),
        ("silent.sh", "exit 0\n", "hardly a word"),
        ("talks.sh", "seq 100\n", "100 lines"),
        ("wide.sh", "echo a\nprintf '%0101d\\n' 0\n", "wider than a screen: 0"),
    ];
    for (name, text, expected) in cases {
        let folder = forbidding(name);
        let script = folder.join(name);
        fs::write(&script, text).unwrap();
        let said = help(&script, &folder).expect_err(name);
        assert!(said.contains(expected), "{name}: {said}");
    }
}

#[test]
fn a_test_that_hangs_is_ended_and_named() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("hanging");
    fs::create_dir_all(&folder).unwrap();
    let binary = folder.join("tests");
    fs::write(&binary, "#!/bin/sh\necho 'test ends ... ok'\nprintf 'test hangs ... '\nexec sleep 600\n").unwrap();
    fs::set_permissions(&binary, fs::Permissions::from_mode(0o755)).unwrap();
    let (begin, timed) = (Instant::now(), repository().join("scripts/timed.sh"));
    let ended = Command::new("bash").arg(timed).arg(&binary).env("TEST_LIMIT", "1").output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(begin.elapsed() < PATIENCE, "{said}");
    assert_eq!(ended.status.code(), Some(124), "{said}");
    assert!(said.contains("\n    hangs\n") && !said.contains("    ends\n"), "{said}");
}
