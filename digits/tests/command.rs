//! The program as a person runs it: what it prints and with which exit code it ends.

use std::path::PathBuf;
use std::process::{Command, Output};

fn digits(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_digits")).args(arguments).output().expect("the program starts")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("text")
}

#[test]
fn every_engine_reads_as_many_digits_as_the_reference() {
    for engine in ["naive", "pooled", "per-device"] {
        for tile in ["125", "311"] {
            let run = digits(&["--engine", engine, "--repeat", "1", "--tile", tile]);
            let (out, error) = (text(&run.stdout), text(&run.stderr));
            assert!(run.status.success(), "{engine}, {tile}: {out}{error}");
            assert!(out.contains("286 of 297"), "{engine}, {tile}: {out}");
            assert!(out.contains("with the engine"), "{engine}, {tile}: {out}");
            // A row for a kind of step, not one for each operation.
            assert!(out.lines().count() < 90 && out.lines().any(|line| line.starts_with("gemm ")), "{out}");
        }
    }
}

#[test]
fn a_trace_has_a_name_for_each_operation() {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("digits-trace.json");
    let run = digits(&["--repeat", "1", "--trace", path.to_str().expect("a path of text")]);
    assert!(run.status.success(), "{}", text(&run.stderr));
    let trace = std::fs::read_to_string(&path).expect("the trace was written");
    assert!(trace.contains("\"gemm 7,3 from 2\"") && trace.contains("\"potrf 11,11\""));
}

#[test]
fn help_fits_a_screen_and_says_every_option() {
    let run = digits(&["--help"]);
    let out = text(&run.stdout);
    assert!(run.status.success() && run.stderr.is_empty() && out.lines().count() <= 40);
    for option in ["--engine", "--workers", "--tile", "--repeat", "--trace", "--data", "--help"] {
        assert!(out.contains(option), "{option}");
    }
}

#[test]
fn bad_input_is_one_line_that_says_what_to_do() {
    let cases: [(&[&str], &str); 6] = [
        (&["--tile", "0"], "--tile must be a whole number from 16 to 1500"),
        (&["--workers", "many"], "--workers must be"),
        (&["--engine", "fast"], "--help lists the options"),
        (&["--colour"], "--help lists the options"),
        (&["--data", "/nowhere"], "cannot open it"),
        (&["--trace", "/nowhere/trace.json"], "give --trace another path"),
    ];
    for (arguments, expected) in cases {
        let run = digits(arguments);
        let error = text(&run.stderr);
        assert_eq!(run.status.code(), Some(2), "{arguments:?}: {error}");
        assert!(error.contains(expected) && error.lines().count() == 1, "{arguments:?}: {error}");
    }
}
