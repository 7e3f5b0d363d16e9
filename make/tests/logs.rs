//! The logs, and the files of dependencies: what is written can be read, what is cut off is
//! recovered, and the formats are those of `ninja`.

#![cfg(unix)]

use seriatim_make::build_log::{BuildLog, BuildLogWriter, Entry};
use seriatim_make::depfile::{parse_msvc, Depfile};
use seriatim_make::deps_log::{DepsLog, DepsLogWriter};
use seriatim_make::graph::Graph;
use seriatim_make::hash::{murmurhash, rapidhash};
use seriatim_make::manifest::parse;
use std::fs;
use std::path::PathBuf;

/// A path in a folder of a test's own, in which there is nothing.
fn place(name: &str) -> Vec<u8> {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("logs-{name}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder.join("log").display().to_string().into_bytes()
}

fn text(path: &[u8]) -> String {
    String::from_utf8(fs::read(std::str::from_utf8(path).unwrap()).unwrap()).unwrap()
}

fn put(path: &[u8], bytes: impl AsRef<[u8]>) {
    fs::write(std::str::from_utf8(path).unwrap(), bytes).unwrap();
}

/// Logs of `ninja` 1.13 and 1.11 have these hashes of these commands.
#[test]
fn commands_have_the_hashes_of_ninja() {
    let command = |length: usize| format!("true {}", "x".repeat(length));
    let rapid = [
        (3, 0x8fdd_081c_b267_ecb7),
        (8, 0x08dc_b9db_1dc0_8767),
        (12, 0xe479_bb4a_ffe3_999c),
        (13, 0x50c4_a21d_0b3e_490d),
        (20, 0xa2a0_1a4d_9b54_90a2),
        (30, 0xe642_d039_e7e8_a0a9),
        (40, 0x147d_71d1_4f31_fd54),
        (41, 0x74b3_b4ec_12fc_0f07),
        (60, 0x2c37_a926_e276_feef),
        (90, 0x21dd_6855_9e1b_8ba6),
        (120, 0xe861_2662_64a8_d2b4),
        (200, 0xe7d4_f4b0_430c_a624),
    ];
    for (length, hash) in rapid {
        assert_eq!(rapidhash(command(length).as_bytes()), hash, "{length}");
    }
    assert_eq!(rapidhash(b":"), 0xa2da_2232_1247_804b);
    assert_eq!(rapidhash(b": "), 0x4a48_0f4c_6395_d231);
    let murmur = [
        (3, 0xfebd_c3af_98fd_fe81),
        (8, 0x0919_861b_835c_1f62),
        (12, 0xc180_758c_94f7_5ac4),
        (13, 0x5ebc_2a83_2832_e7a6),
        (20, 0x11be_11d5_9bc8_8b1d),
        (41, 0x3cb0_18b2_cf70_0696),
        (200, 0x2724_3baf_cc6c_efd8),
    ];
    for (length, hash) in murmur {
        assert_eq!(murmurhash(command(length).as_bytes()), hash, "{length}");
    }
    assert_eq!(murmurhash(b":"), 0x2e49_d247_7c67_37f0);
    assert_eq!(murmurhash(b": "), 0x98fe_9d46_8fef_ab13);
}

const MANIFEST: &str = "rule cat\n  command = cat $in > $out\n  deps = gcc\n  depfile = d\nbuild out mid: cat in\n";

#[test]
fn a_log_of_commands_is_appended_to_and_read() {
    let (path, graph) = (place("commands"), parse("input", MANIFEST.as_bytes()).unwrap());
    let (log, warning) = BuildLog::load(&path).unwrap();
    assert!(log.entries.is_empty() && warning.is_none());
    let mut writer = BuildLogWriter::new(&path, &log);
    writer.record(&graph, 0, (15, 18), 7).unwrap();
    writer.close();
    writer.record(&graph, 0, (20, 25), 1_795_898_331_565_227_282).unwrap();
    writer.finish().unwrap();
    let hash = rapidhash(b"cat in > out mid");
    assert_eq!(
        text(&path).lines().take(3).collect::<Vec<_>>(),
        ["# ninja log v7".to_owned(), format!("15\t18\t7\tout\t{hash:x}"), format!("15\t18\t7\tmid\t{hash:x}")]
    );
    let (log, _) = BuildLog::load(&path).unwrap();
    let expected = Entry { hash, start: 20, end: 25, mtime: 1_795_898_331_565_227_282 };
    assert_eq!((log.entries.len(), log.entries[&b"mid"[..]]), (2, expected));
}

#[test]
fn a_log_goes_on_in_its_own_version() {
    let (path, graph) = (place("version"), parse("input", MANIFEST.as_bytes()).unwrap());
    for version in [5, 6] {
        put(&path, format!("# ninja log v{version}\n1\t2\t3\tout\tabc\n"));
        let (log, warning) = BuildLog::load(&path).unwrap();
        assert_eq!((log.version, log.entries.len(), warning), (version, 1, None));
        assert_eq!(log.hash(b"cat"), murmurhash(b"cat"));
        BuildLogWriter::new(&path, &log).record(&graph, 0, (1, 2), 3).unwrap();
        let written = text(&path);
        assert!(written.starts_with(&format!("# ninja log v{version}\n1\t2\t3\tout\tabc\n1\t2\t3\tout\t")));
        assert!(written.ends_with(&format!("\tmid\t{:x}\n", murmurhash(b"cat in > out mid"))));
    }
}

#[test]
fn a_log_of_an_unknown_version_is_begun_anew() {
    let path = place("unknown");
    for (head, age) in [("# ninja log v4\n", "old"), ("# ninja log v8\n", "new"), ("hello\n", "old")] {
        put(&path, head);
        let (log, warning) = BuildLog::load(&path).unwrap();
        assert_eq!(warning.unwrap(), format!("build log version is too {age}; starting over"));
        assert!(log.entries.is_empty() && fs::metadata(std::str::from_utf8(&path).unwrap()).is_err());
    }
}

#[test]
fn lines_that_are_cut_off_are_left_out() {
    let path = place("cut");
    put(&path, "# ninja log v7\n1\t2\t3\tone\tab\n1\t2\n\n4\t5\t6\ttwo\tcd\n7\t8\t9\tthree\te");
    let (log, warning) = BuildLog::load(&path).unwrap();
    let mut outputs: Vec<_> = log.entries.keys().map(|output| String::from_utf8_lossy(output)).collect();
    outputs.sort();
    assert_eq!((outputs, warning), (vec!["one".into(), "two".into()], None));
}

#[test]
fn a_worn_log_is_written_anew_without_what_is_gone() {
    let (path, graph) = (place("worn"), parse("input", MANIFEST.as_bytes()).unwrap());
    let lines: String = (0..200).map(|mtime| format!("1\t2\t{mtime}\tout\tab\n1\t2\t3\tgone\tcd\n")).collect();
    put(&path, format!("# ninja log v7\n{lines}"));
    let (mut log, _) = BuildLog::load(&path).unwrap();
    assert!(log.is_worn());
    log.rewrite(&path, &graph).unwrap();
    assert_eq!(text(&path), "# ninja log v7\n1\t2\t199\tout\tab\n");
    assert!(!log.is_worn());
}

fn deps_of(log: &DepsLog, graph: &Graph, output: &str) -> Option<(i64, Vec<String>)> {
    let (mtime, inputs) = log.of(graph.find(output.as_bytes())?)?;
    Some((mtime, inputs.map(|input| graph.show(input)).collect()))
}

fn record(writer: &mut DepsLogWriter, output: &str, mtime: i64, inputs: &[&str]) {
    let inputs: Vec<Vec<u8>> = inputs.iter().map(|input| input.as_bytes().to_vec()).collect();
    writer.record(output.as_bytes(), mtime, &inputs).unwrap();
}

#[test]
fn a_log_of_dependencies_is_appended_to_and_read() {
    let path = place("deps");
    let mut graph = parse("input", MANIFEST.as_bytes()).unwrap();
    let (log, _) = DepsLog::load(&path, &mut graph).unwrap();
    let mut writer = DepsLogWriter::new(&path, log, &graph);
    let time = 0x0102_0304_0506_0708;
    record(&mut writer, "out", time, &["foo.h", "bar2.h"]);
    let size = fs::metadata(std::str::from_utf8(&path).unwrap()).unwrap().len();
    // The same again is not written again.
    record(&mut writer, "out", time, &["foo.h", "bar2.h"]);
    assert_eq!(fs::metadata(std::str::from_utf8(&path).unwrap()).unwrap().len(), size);
    record(&mut writer, "mid", 2, &["bar2.h"]);
    writer.finish().unwrap();

    let bytes = fs::read(std::str::from_utf8(&path).unwrap()).unwrap();
    let mut expected = b"# ninjadeps\n\x04\0\0\0".to_vec();
    expected.extend(
        b"\x08\0\0\0out\0\xff\xff\xff\xff\x0c\0\0\0foo.h\0\0\0\xfe\xff\xff\xff\x0c\0\0\0bar2.h\0\0\xfd\xff\xff\xff",
    );
    expected.extend(b"\x14\0\0\x80\0\0\0\0\x08\x07\x06\x05\x04\x03\x02\x01\x01\0\0\0\x02\0\0\0");
    if cfg!(target_endian = "little") {
        assert_eq!(bytes[..expected.len()], expected);
    }
    let mut graph = Graph::default();
    let (log, warning) = DepsLog::load(&path, &mut graph).unwrap();
    assert_eq!(warning, None);
    assert_eq!(deps_of(&log, &graph, "out"), Some((time, vec!["foo.h".into(), "bar2.h".into()])));
    assert_eq!(deps_of(&log, &graph, "mid"), Some((2, vec!["bar2.h".into()])));
    assert_eq!(deps_of(&log, &graph, "foo.h"), None);
    let made = log.first_made_of(graph.find(b"bar2.h").unwrap()).unwrap();
    assert_eq!(graph.show(made), "out");
}

#[test]
fn a_log_of_dependencies_that_is_cut_anywhere_is_recovered() {
    let path = place("deps-cut");
    let mut graph = Graph::default();
    let mut writer = DepsLogWriter::new(&path, DepsLog::default(), &graph);
    record(&mut writer, "out", 1, &["foo.h", "bar.h"]);
    record(&mut writer, "out2", 2, &["foo.h", "bar2.h"]);
    writer.finish().unwrap();
    let whole = fs::read(std::str::from_utf8(&path).unwrap()).unwrap();
    for length in (0..whole.len()).rev() {
        put(&path, &whole[..length]);
        let mut cut = Graph::default();
        let (log, _) = DepsLog::load(&path, &mut cut).unwrap();
        assert_eq!(deps_of(&log, &cut, "out2"), None, "{length}");
        // What is written next can be read, and what was whole before is still there.
        let kept = deps_of(&log, &cut, "out");
        let mut writer = DepsLogWriter::new(&path, log, &cut);
        record(&mut writer, "new", 3, &["foo.h"]);
        writer.finish().unwrap();
        graph = Graph::default();
        let (log, warning) = DepsLog::load(&path, &mut graph).unwrap();
        assert_eq!(warning, None, "{length}");
        assert_eq!(deps_of(&log, &graph, "new"), Some((3, vec!["foo.h".into()])), "{length}");
        assert_eq!(deps_of(&log, &graph, "out"), kept, "{length}");
    }
}

#[test]
fn a_worn_log_of_dependencies_is_written_anew_without_what_is_gone() {
    let path = place("deps-worn");
    let mut graph = parse("input", MANIFEST.as_bytes()).unwrap();
    let mut writer = DepsLogWriter::new(&path, DepsLog::default(), &graph);
    for mtime in 0..1001 {
        record(&mut writer, "out", mtime, &["foo.h"]);
    }
    record(&mut writer, "gone", 1, &["foo.h"]);
    writer.finish().unwrap();
    let (log, _) = DepsLog::load(&path, &mut graph).unwrap();
    assert!(log.is_worn());
    let log = log.rewrite(&path, &mut graph).unwrap();
    assert!(!log.is_worn());
    assert_eq!(deps_of(&log, &graph, "out"), Some((1000, vec!["foo.h".into()])));
    assert_eq!(deps_of(&log, &graph, "gone"), None);
}

fn depfile(text: &str) -> (Vec<String>, Vec<String>) {
    let found = Depfile::parse(text.as_bytes()).unwrap_or_else(|said| panic!("{said}: {text}"));
    let names = |of: Vec<Vec<u8>>| of.into_iter().map(|name| String::from_utf8(name).unwrap()).collect();
    (names(found.outputs), names(found.inputs))
}

/// The cases of `ninja`'s `depfile_parser_test.cc`.
#[test]
fn files_of_dependencies_are_read_as_ninja_reads_them() {
    let cases: &[(&str, &[&str], &[&str])] = &[
        ("build/ninja.o: ninja.cc ninja.h eval_env.h\n", &["build/ninja.o"], &["ninja.cc", "ninja.h", "eval_env.h"]),
        (" \\\n  out: in\n", &["out"], &["in"]),
        ("foo.o: \\\n  bar.h baz.h\n", &["foo.o"], &["bar.h", "baz.h"]),
        ("foo.o: //?/c:/bar.h\n", &["foo.o"], &["//?/c:/bar.h"]),
        (
            "foo&bar.o foo'bar.o foo\"bar.o: foo&bar.h foo'bar.h foo\"bar.h\n",
            &["foo&bar.o", "foo'bar.o", "foo\"bar.o"],
            &["foo&bar.h", "foo'bar.h", "foo\"bar.h"],
        ),
        ("foo.o: \\\r\n  bar.h baz.h\r\n", &["foo.o"], &["bar.h", "baz.h"]),
        (
            "Project\\Dir\\Foo.res : \\\n  Dir\\Library\\Foo.rc \\\n  Dir\\Version\\Bar.h \\\n",
            &["Project\\Dir\\Foo.res"],
            &["Dir\\Library\\Foo.rc", "Dir\\Version\\Bar.h"],
        ),
        ("a\\ bc\\ def:   a\\ b c d", &["a bc def"], &["a b", "c", "d"]),
        (
            "a\\ b\\#c.h: \\\\\\\\\\  \\\\\\\\ \\\\share\\info\\\\#1",
            &["a b#c.h"],
            &["\\\\ ", "\\\\\\\\", "\\\\share\\info\\#1"],
        ),
        ("\\!\\@\\#$$\\%\\^\\&\\[\\]\\\\:", &["\\!\\@#$\\%\\^\\&\\[\\]\\\\"], &[]),
        (
            "c\\:\\gcc\\include\\stddef.o: \\\n c:\\gcc\\include\\stddef.h \n",
            &["c:\\gcc\\include\\stddef.o"],
            &["c:\\gcc\\include\\stddef.h"],
        ),
        ("foo1\\: x\nfoo1\\:\nfoo1\\:\r\nfoo1\\:\t\nfoo1\\:", &["foo1\\"], &["x"]),
        (
            "C:/Program\\ Files\\ (x86)/crtdefs.h: \\\n en@quot.header~ t+t-x!=1 \\\n cn={0}core.ldif\\\n \
             Fu\u{e4}ball\\\n a[1]b@2%c",
            &["C:/Program Files (x86)/crtdefs.h"],
            &["en@quot.header~", "t+t-x!=1", "cn={0}core.ldif", "Fu\u{e4}ball", "a[1]b@2%c"],
        ),
        ("foo foo: x y z", &["foo"], &["x", "y", "z"]),
        ("foo bar: x y z", &["foo", "bar"], &["x", "y", "z"]),
        ("foo: x\nfoo: \nfoo:\n", &["foo"], &["x"]),
        ("foo: x\nfoo: y\nfoo \\\nfoo: z\n", &["foo"], &["x", "y", "z"]),
        ("foo: x\\\r\n     y\r\nfoo \\\r\nfoo: z\r\n", &["foo"], &["x", "y", "z"]),
        (" foo: x\n foo: y\n foo: z\n", &["foo"], &["x", "y", "z"]),
        ("foo: x y z\nx:\ny:\nz:\n", &["foo"], &["x", "y", "z"]),
        ("foo: x\nx:\nfoo: y\ny:\nfoo: z\nz:\n", &["foo"], &["x", "y", "z"]),
        ("foo: x y\nbar: y z\n", &["foo", "bar"], &["x", "y", "z"]),
        ("", &[], &[]),
        ("\n\n", &[], &[]),
        ("two\\\\\nends\\\\", &["two\\\\", "ends\\\\"], &[]),
    ];
    for (text, outputs, inputs) in cases {
        // The last case has no colon, which is said at the end.
        if text.starts_with("two") {
            assert_eq!(Depfile::parse(text.as_bytes()).unwrap_err(), "expected ':' in depfile");
            continue;
        }
        let (found, read) = depfile(text);
        assert_eq!((&found[..], &read[..]), (&outputs.map_strings()[..], &inputs.map_strings()[..]), "{text}");
    }
    assert_eq!(Depfile::parse(b"foo: x y z\nx: alsoin\n").unwrap_err(), "inputs may not also have inputs");
    assert_eq!(Depfile::parse(b"foo.o foo.c\n").unwrap_err(), "expected ':' in depfile");
}

trait MapStrings {
    fn map_strings(&self) -> Vec<String>;
}

impl MapStrings for &[&str] {
    fn map_strings(&self) -> Vec<String> {
        self.iter().map(|name| (*name).to_owned()).collect()
    }
}

/// The cases of `ninja`'s `clparser_test.cc`.
#[test]
fn the_lines_of_another_compiler_are_taken_out() {
    let parsed = |text: &str, prefix: &str| {
        let (kept, headers) = parse_msvc(text.as_bytes(), prefix.as_bytes());
        let headers: Vec<_> = headers.into_iter().map(|header| String::from_utf8(header).unwrap()).collect();
        (String::from_utf8(kept).unwrap(), headers)
    };
    let none: [&str; 0] = [];
    assert_eq!(parsed("foo\r\nNote: inc file prefix:  bar.h\r\nbar\r\n", "Note: inc file prefix:").1, ["bar.h"]);
    assert_eq!(parsed("foo\r\nNote: including file: x.h\r\nbar\r\n", ""), ("foo\nbar\n".into(), vec!["x.h".into()]));
    assert_eq!(parsed("foo.cc\r\ncl: warning\r\n", ""), ("cl: warning\n".into(), vec![]));
    let text = "foo.cc\r\nNote: including file: foo.h\r\nsomething something foo.cc\r\n";
    assert_eq!(parsed(text, "").0, "something something foo.cc\n");
    assert_eq!(parsed("Note: including file: c:\\Program Files\\foo.h\r\n", "").1, none);
    let text =
        "Note: including file: sub/./foo.h\r\nNote: including file: bar.h\r\nNote: including file: sub/foo.h\r\n";
    assert_eq!(parsed(text, "").1, ["bar.h", "sub/foo.h"]);
}
