//! What is built, and in which order.

use crate::place::{nothing_to_do, place, Place, CC, RULES};
use std::fs;
use std::thread;
use std::time::Duration;

#[test]
fn what_is_out_of_date_is_built_in_order() {
    let place = place("order", "build b: cat a\nbuild c: cat b x\nbuild d: cat c b\nbuild deep/er/e: cat d\n");
    place.put("a", "1");
    place.put("x", "2");
    assert_eq!(place.build(&[]), ["b", "c", "d", "deep/er/e"]);
    assert_eq!(place.text("deep/er/e"), "121");
    nothing_to_do(&place);
    place.put("x", "3");
    assert_eq!(place.build(&[]), ["c", "d", "deep/er/e"]);
    assert_eq!(place.text("d"), "131");
    fs::remove_file(place.path("b")).unwrap();
    assert_eq!(place.build(&["b"]), ["b"]);
    assert_eq!(place.build(&["x^"]), ["c"]);
    assert!(!place.has(".ninja_lock"));
}

#[test]
fn another_command_builds_anew() {
    let place = place("command", "build b: cat a\n");
    place.put("a", "1");
    place.build(&[]);
    place.put(
        "build.ninja",
        &format!("{RULES}rule more\n  command = cat $in $in > $out\n  description = $out\nbuild b: more a\n"),
    );
    assert_eq!(place.build(&[]), ["b"]);
    assert_eq!(place.text("b"), "11");
    nothing_to_do(&place);
}

#[test]
fn what_turns_out_to_be_unchanged_stops_a_build() {
    let place =
        place("restat", "build b: same a\nbuild c: cat b\nbuild d: cat c\nbuild all: phony d\nbuild e: cat all x\n");
    place.put("a", "1");
    place.put("x", "1");
    let manifest = place.text("build.ninja").replace("cat all x", "cat x | all");
    place.put("build.ninja", &manifest);
    assert_eq!(place.build(&["e"]), ["b", "c", "d", "e"]);
    place.put("a", "1");
    assert_eq!(place.build(&["e"]), ["b"]);
    nothing_to_do(&place);
    place.put("a", "2");
    assert_eq!(place.build(&["e"]), ["b", "c", "d", "e"]);
    // One of two inputs is unchanged: the other counts.
    place.put("a", "2");
    place.put("x", "2");
    assert_eq!(place.build(&["e"]), ["b", "e"]);
    nothing_to_do(&place);
}

#[test]
fn what_is_missing_is_named() {
    let place = place("missing", "build b: cat a\nbuild c: cat b\n");
    let ran = place.run(&[]);
    assert_eq!(ran.code, 1);
    assert_eq!(ran.error, "seriatim-make: error: 'a', needed by 'b', missing and no known rule to make it\n");
    let error = place.run(&["nothing"]).error;
    assert_eq!(error, "seriatim-make: error: unknown target 'nothing'\n");
}

#[test]
fn circles_are_named() {
    let place = place("circle", "build a b: cat c\nbuild c: cat a\n");
    let error = place.run(&["b"]).error;
    assert_eq!(error, "seriatim-make: error: dependency cycle: a -> c -> a\n");
}

#[test]
fn order_only_inputs_come_before_and_do_not_count() {
    let place = place("order-only", "build h: cat a\nbuild b: cat x || h\n");
    place.put("a", "1");
    place.put("x", "1");
    let lines = place.run(&["-j1", "b"]).out;
    assert_eq!(lines, "[1/2] h\n[2/2] b\n");
    place.put("a", "2");
    assert_eq!(place.build(&["b"]), ["h"]);
    nothing_to_do(&place);
}

#[test]
fn validations_are_built_as_well_and_hold_nothing_up() {
    let place = place("validations", "build b: cat a |@ check\nbuild check: touch b\nbuild c: cat b\n");
    place.put("a", "1");
    assert_eq!(place.build(&["c"]), ["b", "c", "check"]);
    nothing_to_do(&place);
    let place = crate::place::place("validations-fail", "build b: cat a |@ check\nbuild check: fail\nbuild c: cat b\n");
    place.put("a", "1");
    let ran = place.run(&["-k0", "c"]);
    assert_eq!((ran.code, ran.lines()), (3, vec!["b".into(), "c".into(), "check".into()]));
}

#[test]
fn what_commands_say_that_they_read_counts_the_next_time() {
    for deps in ["", "  deps = gcc\n"] {
        let place = place(if deps.is_empty() { "depfile" } else { "deps" }, &format!("{CC}{deps}build o/b.o: cc a\n"));
        place.put("a", "1");
        place.put("h", "2");
        assert_eq!(place.build(&[]), ["o/b.o"]);
        assert_eq!(place.has("o/b.o.d"), deps.is_empty());
        nothing_to_do(&place);
        place.put("h", "3");
        assert_eq!(place.build(&[]), ["o/b.o"]);
        assert_eq!(place.text("o/b.o"), "13");
        nothing_to_do(&place);
        // A header that is gone is no reason to stop.
        place.put("build.ninja", &place.text("build.ninja").replace(" h", " k"));
        place.put("k", "4");
        fs::remove_file(place.path("h")).unwrap();
        assert_eq!(place.build(&[]), ["o/b.o"]);
        nothing_to_do(&place);
        // Without the record it is not known what was read.
        fs::remove_file(place.path(if deps.is_empty() { "o/b.o.d" } else { ".ninja_deps" })).unwrap();
        assert_eq!(place.build(&[]), ["o/b.o"]);
    }
}

#[test]
fn what_is_newer_than_what_is_known_of_it_is_built_anew() {
    let place = place("deps-age", &format!("{CC}  deps = gcc\nbuild b.o: cc a\n"));
    place.put("a", "1");
    place.put("h", "2");
    place.build(&[]);
    place.put("b.o", "of somebody else");
    assert_eq!(place.build(&[]), ["b.o"]);
    assert_eq!(place.text("b.o"), "12");
    nothing_to_do(&place);
}

#[test]
fn a_depfile_that_cannot_be_read_fails_its_command() {
    let wrong = CC.replace("echo \"$out: $in h\"", "echo nonsense");
    let place = place("depfile-wrong", &format!("{wrong}  deps = gcc\nbuild b: cc a\n"));
    place.put("a", "1");
    place.put("h", "2");
    let ran = place.run(&[]);
    assert!(ran.code == 1 && ran.out.contains("expected ':' in depfile"), "{}", ran.out);
}

#[test]
fn the_longest_way_comes_first() {
    let place = place("weights", "build x: cat a\nbuild b: cat a\nbuild c: cat b\nbuild d: cat c\nbuild y: cat a\n");
    place.put("a", "1");
    assert_eq!(place.run(&["-j1"]).out, "[1/5] b\n[2/5] c\n[3/5] x\n[4/5] d\n[5/5] y\n");
}

#[test]
fn the_manifest_is_made_anew_first() {
    let place = Place::new("generator", "");
    let manifest = format!(
        "{RULES}rule make\n  command = cp next build.ninja\n  description = $out\n  generator = 1\n\
         build build.ninja: make next\nbuild b: cat a\n"
    );
    place.put("a", "1");
    place.put("build.ninja", &manifest);
    thread::sleep(Duration::from_millis(20));
    place.put("next", &format!("{manifest}build c: cat b\n"));
    assert_eq!(place.build(&[]), ["b", "build.ninja", "c"]);
    nothing_to_do(&place);
    place.put("next", "nonsense");
    let ran = place.run(&[]);
    assert!(ran.code == 1 && ran.error.contains("build.ninja:1: expected '=', got eof"), "{}{}", ran.out, ran.error);
}

#[test]
fn dependencies_may_come_from_files_that_are_built() {
    let place = place(
        "dyndep",
        "build dd: cat dd.in\nbuild out: cat in || dd\n  dyndep = dd\nbuild late: cat early\nbuild end: cat out\n\
         build always: phony\nrule run\n  command = echo run >> runs\n  description = $out\nbuild run: run | always\n",
    );
    place.put("in", "1");
    place.put("early", "1");
    place.put("dd.in", "ninja_dyndep_version = 1\nbuild out | extra: dyndep | late\n");
    // What is known at once is built at once, and once.
    place.put("build.ninja", &place.text("build.ninja").replace("cat in ||", "both in ||"));
    let both = "rule both\n  command = cat $in late > $out; cp $out extra\n  description = $out\n";
    place.put("build.ninja", &format!("{both}{}", place.text("build.ninja")));
    let lines = place.build(&["end", "run"]);
    assert_eq!(lines, ["dd", "end", "late", "out", "run"]);
    assert_eq!(
        (place.text("out"), place.text("extra"), place.text("runs")),
        ("11".into(), "11".into(), "run\n".into())
    );
    assert_eq!(place.build(&["end", "run"]), ["run"]);
    place.put("early", "2");
    assert_eq!(place.build(&["end"]), ["end", "late", "out"]);
    // Another input by another file.
    place.put("dd.in", "ninja_dyndep_version = 1\nbuild out: dyndep\n  restat = 1\n");
    assert_eq!(place.build(&["end"]), ["dd"]);
    place.put("early", "3");
    assert!(place.build(&["end"]).is_empty());
    place.put("dd.in", "ninja_dyndep_version = 1\n");
    let error = place.run(&["end"]).error;
    assert_eq!(error, "seriatim-make: error: 'out' not mentioned in its dyndep file 'dd'\n");
}

#[test]
fn a_long_chain_is_built() {
    let chain: String = (1..3000).map(|number| format!("build p{number}: phony p{}\n", number - 1)).collect();
    let place = place("chain", &format!("build p0: cat a\n{chain}"));
    place.put("a", "1");
    assert_eq!(place.build(&["p2999"]), ["p0"]);
    nothing_to_do(&place);
}
