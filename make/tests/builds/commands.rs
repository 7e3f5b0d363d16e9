//! How commands run: their failures, limits and output, and the command line.

use crate::place::{nothing_to_do, place, ran, Place, CC};
use std::fs;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

#[test]
fn the_line_counts_what_is_left() {
    let place = place("count", "build b: same a\nbuild c: cat b\nbuild d: cat c\n");
    place.put("a", "1");
    assert_eq!(place.run(&["-j", "1"]).out, "[1/3] b\n[2/3] c\n[3/3] d\n");
    place.put("a", "1");
    // The count of the line is of before, as ninja's is.
    assert_eq!(place.run(&["-j", "1"]).out, "[1/3] b\n");
    place.put("a", "2");
    let ran = ran(place.command(&["-j1"]).env("NINJA_STATUS", "%s %t %r %u %f %p %% > ").output().unwrap());
    assert_eq!(ran.out, "1 3 1 2 1  33% % > b\n2 3 1 1 2  66% % > c\n3 3 1 0 3 100% % > d\n");
    let wrong = place.command(&[]).env("NINJA_STATUS", "%q").output().unwrap();
    assert_eq!(crate::place::ran(wrong).error, "seriatim-make: error: unknown placeholder '%q' in $NINJA_STATUS\n");
}

#[test]
fn failures_stop_what_depends_on_them_and_no_more() {
    let place =
        place("failures", "build b: fail a\nbuild c: cat b\nbuild d: cat a\nbuild e: cat d\nbuild all: phony c e\n");
    place.put("a", "1");
    let ran = place.run(&["-k", "0", "all"]);
    assert_eq!(ran.code, 3, "{}", ran.out);
    assert_eq!(ran.lines(), ["b", "d", "e"]);
    let said = "FAILED: [code=3] b \necho it is broken; exit 3\nit is broken\n";
    assert!(ran.out.contains(said), "{}", ran.out);
    assert!(
        ran.out.ends_with("seriatim-make: build stopped: cannot make progress due to previous errors.\n"),
        "{}",
        ran.out
    );
    assert!(!place.has("c") && place.has("e"));

    let many: String = (0..9).map(|number| format!("build b{number}: fail a\n")).collect();
    let place = crate::place::place("failures-many", &many);
    place.put("a", "1");
    for (keep, said, count) in [("1", "subcommand failed", 1), ("3", "subcommands failed", 3)] {
        let ran = place.run(&["-j", "1", "-k", keep]);
        assert_eq!((ran.code, ran.lines().len()), (3, count), "{}", ran.out);
        assert!(ran.out.ends_with(&format!("seriatim-make: build stopped: {said}.\n")), "{}", ran.out);
    }
}

#[test]
fn a_signal_is_a_failure_with_its_number() {
    let place = place("signal", "rule die\n  command = kill -9 $$$$\nbuild b: die\n");
    assert_eq!(place.run(&[]).code, 128 + 9);
}

#[test]
fn response_files_are_there_for_the_command() {
    let rule = "rule rsp\n  command = cat $rspfile > $out\n  description = $out\n  rspfile = r/$out.rsp\n  \
                rspfile_content = $in $flags\n";
    let place = place("rsp", &format!("{rule}build b: rsp x y\n  flags = -z\n"));
    fs::create_dir(place.path("r")).unwrap();
    place.put("x", "");
    place.put("y", "");
    place.build(&[]);
    assert_eq!(place.text("b"), "x y -z");
    assert!(!place.has("r/b.rsp"));
    place.put("build.ninja", &place.text("build.ninja").replace("-z", "-w"));
    assert_eq!(place.build(&["-d", "keeprsp"]), ["b"]);
    assert_eq!(place.text("r/b.rsp"), "x y -w");
}

/// Counts how many commands run at a time: each makes a file of its own, looks and waits.
const COUNT: &str = "rule count\n  command = touch run.$out; sleep 0.05; ls | grep -c '^run' > $out; rm run.$out\n";

fn most(place: &Place, count: usize) -> usize {
    (0..count).map(|number| place.text(&format!("c{number}")).trim().parse().unwrap()).max().unwrap()
}

#[test]
fn pools_and_jobs_limit_what_runs_at_a_time() {
    let edges =
        |binding: &str| -> String { (0..8).map(|number| format!("build c{number}: count\n{binding}")).collect() };
    let place = Place::new("pool", &format!("{COUNT}  pool = two\npool two\n  depth = 2\n{}", edges("")));
    place.build(&["-j8"]);
    assert!((1..=2).contains(&most(&place, 8)));
    let place = Place::new("jobs", &format!("{COUNT}{}", edges("")));
    place.build(&["-j3"]);
    assert!((1..=3).contains(&most(&place, 8)));
    let place = Place::new("console", &format!("{COUNT}{}", edges("  pool = console\n")));
    place.build(&["-j8"]);
    assert_eq!(most(&place, 8), 1);
}

/// Each command waits until all eight run.
#[test]
fn without_a_limit_commands_run_beside_each_other() {
    let rule = "rule meet\n  command = touch run.$out; n=0; while [ $$(ls | grep -c '^run') -lt 8 ]; do sleep 0.02; \
                n=$$((n + 1)); [ $$n -lt 3000 ] || exit 1; done; touch $out\n";
    let edges: String = (0..8).map(|number| format!("build c{number}: meet\n")).collect();
    let place = Place::new("no-limit", &format!("{rule}{edges}"));
    place.build(&["-j0"]);
}

#[test]
fn a_command_may_have_the_terminal() {
    let rule =
        "rule ask\n  command = read answer; echo $$answer > $out; echo asked\n  description = $out\n  pool = console\n";
    let place = place("terminal", &format!("{rule}build b: ask\nbuild c: cat b\n"));
    let mut child = place.command(&["-j1"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"forty-two\n").unwrap();
    let ran = ran(child.wait_with_output().unwrap());
    assert_eq!((ran.code, ran.out.as_str()), (0, "[0/2] b\nasked\n[2/2] c\n"));
    assert_eq!(place.text("c"), "forty-two\n");
}

#[test]
fn a_rehearsal_runs_nothing() {
    let place = place("rehearsal", "build b: same a\nbuild c: cat b\n");
    place.put("a", "1");
    assert_eq!(place.build(&["-n"]), ["b", "c"]);
    assert!(!place.has("b") && !place.has(".ninja_log"));
}

#[test]
fn commands_and_their_output_can_be_shown() {
    let place = place("verbose", "rule say\n  command = printf 'one\\ntwo\\n'; touch $out\nbuild b: say\n");
    assert_eq!(place.run(&["-v"]).out, "[1/1] printf 'one\\ntwo\\n'; touch b\none\ntwo\n");
    fs::remove_file(place.path("b")).unwrap();
    assert_eq!(place.run(&["--quiet"]).out, "one\ntwo\n");
}

#[test]
fn a_build_that_is_asked_to_stop_removes_what_is_half_done() {
    let rule = "rule slow\n  command = echo half > $out; touch began.$out; sleep 30; echo whole > $out\n";
    let place = place("interrupt", &format!("{rule}build b: slow\nbuild c: slow\nbuild d: cat b c\n"));
    let mut child = place.command(&["-j2"]).stdout(Stdio::piped()).spawn().unwrap();
    let begin = Instant::now();
    while !(place.has("began.b") && place.has("began.c")) {
        assert!(begin.elapsed() < Duration::from_secs(60));
        thread::sleep(Duration::from_millis(5));
    }
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    let status = child.wait().unwrap();
    assert!(begin.elapsed() < Duration::from_secs(25));
    assert_eq!((status.code(), status.signal()), (Some(130), None));
    assert!(!place.has("b") && !place.has("c") && !place.has("d") && !place.has(".ninja_lock"));
}

#[test]
fn a_trace_has_every_command() {
    let place = place("trace", "build b: cat a\nbuild \"c: cat b\n");
    place.put("a", "1");
    place.build(&["--trace", "trace.json"]);
    let trace: serde_json::Value = serde_json::from_str(&place.text("trace.json")).unwrap();
    let names: Vec<_> = trace.as_array().unwrap().iter().map(|span| span["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["b", "\"c"]);
}

#[test]
fn tools_do_what_they_say() {
    let place = place("tools", &format!("{CC}build b: cat a\nbuild o: cc b\nbuild all: phony o\n"));
    place.put("a", "1");
    place.put("h", "1");
    place.build(&[]);
    assert_eq!(place.run(&["-t", "targets", "all"]).out, "b: cat\no: cc\nall: phony\n");
    for tool in [&["-t", "recompact"][..], &["-t", "restat"], &["-t", "restat", "b"]] {
        assert_eq!(place.run(tool).code, 0);
        nothing_to_do(&place);
    }
    assert_eq!(place.run(&["-t", "cleandead"]).out, "Cleaning... 0 files.\n");
    let manifest = place.text("build.ninja");
    place.put("build.ninja", &format!("{manifest}build dead: cat a\n"));
    assert_eq!(place.build(&["dead"]), ["dead"]);
    place.put("build.ninja", &manifest);
    assert_eq!(place.run(&["-t", "cleandead"]).out, "Cleaning... 1 files.\n");
    assert!(!place.has("dead") && place.has("b"));
    assert_eq!(place.run(&["-t", "clean"]).out, "Cleaning... 3 files.\n");
    assert!(!place.has("b") && !place.has("o") && !place.has("o.d") && place.has("a"));
}

#[test]
fn what_only_ninja_has_is_refused() {
    let place = place("refused", "build b: touch\n");
    let cases: [(&[&str], &str); 7] = [
        (&["-t", "graph"], "-t graph is ninja's"),
        (&["-d", "stats"], "-d stats is ninja's"),
        (&["-w", "phonycycle=err"], "-w phonycycle=err is ninja's"),
        (&["-j", "x"], "-j takes a whole number"),
        (&["-j", "-1"], "-j takes a whole number"),
        (&["--nonsense"], "--help lists the options"),
        (&["-f", "nowhere"], "loading 'nowhere': No such file or directory"),
    ];
    for (arguments, said) in cases {
        let ran = place.run(arguments);
        assert!(ran.code == 1 && ran.error.contains(said), "{arguments:?}: {}", ran.error);
    }
    let version = place.run(&["--version"]).out;
    assert!(version.starts_with("1.13.0.seriatim-make-"), "{version}");
    assert!(place.run(&["--help"]).out.lines().count() <= 24);
}

#[test]
fn the_folder_can_be_changed_first() {
    let place = place("folder", "build b: touch\n");
    let outside: &Path = place.0.parent().unwrap();
    let name = place.0.file_name().unwrap().to_str().unwrap();
    let mut command = place.command(&["-C", name, "-f", "./build.ninja"]);
    let ran = ran(command.current_dir(outside).output().unwrap());
    assert_eq!((ran.code, ran.out), (0, format!("seriatim-make: Entering directory `{name}'\n[1/1] b\n")));
    assert!(place.has("b"));
}

#[test]
fn output_that_fills_a_pipe_does_not_hold_a_command_up() {
    let place =
        place("output", "rule much\n  command = head -c 1000000 /dev/zero | tr '\\0' x; touch $out\nbuild b: much\n");
    let begin = SystemTime::now();
    let out = place.run(&[]).out;
    assert!(out.len() > 1_000_000 && begin.elapsed().unwrap() < Duration::from_secs(60));
}
