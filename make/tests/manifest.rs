//! Manifests are read as `ninja` reads them: the cases of its `manifest_parser_test.cc`, with the
//! same messages, and its cases of the lexer.

#![cfg(unix)]

use seriatim_make::error::ErrorKind;
use seriatim_make::graph::Graph;
use seriatim_make::lexer::{Lexer, Token};
use seriatim_make::manifest::parse;
use std::fs;
use std::path::PathBuf;

fn well(text: &str) -> Graph {
    parse("input", text.as_bytes()).unwrap_or_else(|error| panic!("{error}\nof\n{text}"))
}

fn wrong(text: &str) -> String {
    let error = parse("input", text.as_bytes()).expect_err(text);
    assert_eq!(error.kind(), ErrorKind::Manifest);
    error.to_string()
}

fn command(graph: &Graph, edge: usize) -> String {
    String::from_utf8(graph.command(edge).unwrap()).unwrap()
}

fn variable(graph: &Graph, name: &str) -> String {
    String::from_utf8_lossy(graph.scopes.lookup(0, name.as_bytes())).into_owned()
}

fn rule_binding(graph: &Graph, rule: &str, name: &str) -> String {
    let rule = graph.scopes.rule(graph.scopes.find_rule(0, rule.as_bytes()).unwrap());
    rule.binding(name.as_bytes()).unwrap().serialize()
}

fn names(graph: &Graph, files: &[usize]) -> Vec<String> {
    files.iter().map(|file| graph.show(*file)).collect()
}

fn has(graph: &Graph, path: &str) -> bool {
    graph.find(path.as_bytes()).is_some()
}

/// A folder of a test's own, for files that are included.
fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("manifest-{name}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

const CAT: &str = "rule cat\n  command = cat $in > $out\n";

#[test]
fn rules_have_commands_and_attributes() {
    assert_eq!(well("").edges.len(), 0);
    let graph = well(&format!("{CAT}\nrule date\n  command = date > $out\n\nbuild result: cat in_1.cc in-2.O\n"));
    assert_eq!(rule_binding(&graph, "cat", "command"), "[cat ][$in][ > ][$out]");
    assert_eq!(command(&graph, 0), "cat in_1.cc in-2.O > result");
    let attributes = ["depfile", "deps", "description", "generator", "restat"].map(|name| format!("  {name} = a\n"));
    well(&format!("rule cat\n  command = a\n{}  rspfile = a\n  rspfile_content = a\n", attributes.concat()));
}

#[test]
fn comments_and_blank_lines_may_be_indented() {
    let graph = well(
        "  #indented comment\nrule cat\n  command = cat $in > $out\n  #generator = 1\n  restat = 1 # comment\n  \
         #comment\nbuild result: cat in_1.cc in-2.O\n  #comment\n",
    );
    assert!(graph.flag(0, b"restat").unwrap() && !graph.flag(0, b"generator").unwrap());
    let graph = well(&format!("  \n{CAT}  \nbuild result: cat in_1.cc in-2.O\n  \nvariable=1\n"));
    assert_eq!(variable(&graph, "variable"), "1");
    assert_eq!(variable(&well("# this is a comment\nfoo = not # a comment\n"), "foo"), "not # a comment");
}

#[test]
fn response_files_are_bindings_of_their_own() {
    let graph = well(
        "rule cat_rsp\n  command = cat $rspfile > $out\n  rspfile = $rspfile\n  rspfile_content = $in\n\n\
         build out: cat_rsp in\n  rspfile=out.rsp\n",
    );
    assert_eq!(rule_binding(&graph, "cat_rsp", "command"), "[cat ][$rspfile][ > ][$out]");
    assert_eq!(rule_binding(&graph, "cat_rsp", "rspfile"), "[$rspfile]");
    assert_eq!(rule_binding(&graph, "cat_rsp", "rspfile_content"), "[$in]");
    assert_eq!(command(&graph, 0), "cat out.rsp > out");
    assert_eq!(graph.logged_command(0).unwrap(), b"cat out.rsp > out;rspfile=in");
    let graph =
        well("rule cat_rsp\n  command = cat $in_newline > $out\n\nbuild out: cat_rsp in in2\n  rspfile=out.rsp\n");
    assert_eq!(command(&graph, 0), "cat in\nin2 > out");
}

#[test]
fn variables_have_scopes() {
    let graph = well(
        "l = one-letter-test\nrule link\n  command = ld $l $extra $with_under -o $out $in\n\nextra = -pthread\n\
         with_under = -under\nbuild a: link b c\nnested1 = 1\nnested2 = $nested1/2\nbuild supernested: link x\n  \
         extra = $nested2/3\n",
    );
    assert_eq!(command(&graph, 0), "ld one-letter-test -pthread -under -o a b c");
    assert_eq!(variable(&graph, "nested2"), "1/2");
    assert_eq!(command(&graph, 1), "ld one-letter-test 1/2/3 -under -o supernested x");

    let graph = well(
        "foo = bar\nrule cmd\n  command = cmd $foo $in $out\n\nbuild inner: cmd a\n  foo = baz\nbuild outer: cmd b\n\n",
    );
    assert_eq!([command(&graph, 0), command(&graph, 1)], ["cmd baz a inner", "cmd bar b outer"]);
}

#[test]
fn variables_of_a_rule_that_go_in_a_circle_are_an_error() {
    let graph = well("rule cat\n  command = $depfile\n  depfile = $deps\n  deps = $depfile\nbuild a: cat b\n");
    let error = graph.command(0).unwrap_err();
    assert_eq!(error.to_string(), "cycle in rule variables: depfile -> deps -> depfile");
}

#[test]
fn dollars_escape() {
    let graph = well("rule link\n  command = foo bar $\n    baz\n\nbuild a: link c $\n d e f\n");
    assert_eq!(rule_binding(&graph, "link", "command"), "[foo bar baz]");
    assert_eq!(names(&graph, &graph.edges[0].inputs), ["c", "d", "e", "f"]);
    let graph = well("foo = bar\\baz\nfoo2 = bar\\ baz\n");
    assert_eq!([variable(&graph, "foo"), variable(&graph, "foo2")], ["bar\\baz", "bar\\ baz"]);
    let graph = well("rule foo\n  command = ${out}bar$$baz$$$\nblah\nx = $$dollar\nbuild $x: foo y\n");
    assert_eq!(variable(&graph, "x"), "$dollar");
    assert_eq!(command(&graph, 0), "'$dollar'bar$baz$blah");
    let graph = well("rule spaces\n  command = something\nbuild foo$ bar: spaces $$one two$$$ three\n");
    assert_eq!(names(&graph, &graph.edges[0].outputs), ["foo bar"]);
    assert_eq!(names(&graph, &graph.edges[0].inputs), ["$one", "two$ three"]);
}

#[test]
fn paths_are_canonical() {
    let graph = well(&format!("{CAT}build out: cat in/1 in//2\nbuild in/1: cat\nbuild in/2: cat\n"));
    assert!(has(&graph, "in/1") && has(&graph, "in/2") && !has(&graph, "in//1") && !has(&graph, "in//2"));
    let graph = well(&format!("{CAT}dir = out\nbuild $dir/exe: cat src\n"));
    assert!(!has(&graph, "$dir/exe") && has(&graph, "out/exe"));
    let graph = well(&format!("{CAT}build ./out.o: cat ./bar/baz/../foo.cc\n"));
    assert!(has(&graph, "out.o") && has(&graph, "bar/foo.cc") && !has(&graph, "./out.o"));
}

#[test]
fn an_output_is_made_once() {
    let text = format!("{CAT}build out1 out2: cat in1\nbuild out1: cat in2\nbuild final: cat out1\n");
    assert_eq!(wrong(&text), "input:5: multiple rules generate out1\n");
    for outputs in ["foo baz | foo baq foo", "foo foo foo | foo foo foo foo"] {
        let text = format!("{CAT}build {outputs}: cat bar\n");
        assert_eq!(wrong(&text), "input:4: foo is defined as an output multiple times\n");
    }
}

#[test]
fn a_phony_name_of_itself_is_dropped() {
    assert!(well("build a: phony a\n").edges[0].inputs.is_empty());
}

#[test]
fn words_may_be_names() {
    let graph =
        well("rule build\n  command = rule run $out\nbuild subninja: build include default foo.cc\ndefault subninja\n");
    assert_eq!(names(&graph, &graph.defaults), ["subninja"]);
}

#[test]
fn errors_say_where_and_what() {
    let escape = "bad $-escape (literal $ must be written as $$)";
    let cases = [
        ("subn", "1: expected '=', got eof\nsubn\n    ^ near here".to_owned()),
        ("foobar", "1: expected '=', got eof\nfoobar\n      ^ near here".to_owned()),
        ("x 3", "1: expected '=', got identifier\nx 3\n  ^ near here".to_owned()),
        ("x = 3", "1: unexpected EOF\nx = 3\n     ^ near here".to_owned()),
        ("x = 3\ny 2", "2: expected '=', got identifier\ny 2\n  ^ near here".to_owned()),
        ("x = $", format!("1: {escape}\nx = $\n    ^ near here")),
        ("x = $\n $[\n", format!("2: {escape}\n $[\n ^ near here")),
        ("x = a$\n b$\n $\n", "4: unexpected EOF\n".to_owned()),
        ("build\n", "1: expected path\nbuild\n     ^ near here".to_owned()),
        ("build x: y z\n", "1: unknown build rule 'y'\nbuild x: y z\n         ^ near here".to_owned()),
        ("build x:: y z\n", "1: expected build command name\nbuild x:: y z\n        ^ near here".to_owned()),
        (
            "rule cat\n  command = cat ok\nbuild x: cat $\n :\n",
            "4: expected newline, got ':'\n :\n ^ near here".to_owned(),
        ),
        ("rule cat\n", "2: expected 'command =' line\n".to_owned()),
        (
            "rule cat\n  command = echo\nrule cat\n  command = echo\n",
            "3: duplicate rule 'cat'\nrule cat\n        ^ near here".to_owned(),
        ),
        (
            "rule cat\n  command = echo\n  rspfile = cat.rsp\n",
            "4: rspfile and rspfile_content need to be both specified\n".to_owned(),
        ),
        (
            "rule cat\n  command = ${fafsd\nfoo = bar\n",
            format!("2: {escape}\n  command = ${{fafsd\n            ^ near here"),
        ),
        (
            "rule cat\n  command = cat\nbuild $.: cat foo\n",
            format!("3: {escape}\nbuild $.: cat foo\n      ^ near here"),
        ),
        ("rule %foo\n", "1: expected rule name\nrule %foo\n     ^ near here".to_owned()),
        (
            "rule cc\n  command = foo\n  othervar = bar\n",
            "3: unexpected variable 'othervar'\n  othervar = bar\n                ^ near here".to_owned(),
        ),
        ("rule cc\n  command = foo\n  && bar", "3: expected variable name\n  && bar\n  ^ near here".to_owned()),
        (
            "rule cc\n  command = foo\nbuild $: cc bar.cc\n",
            "3: expected ':', got newline ($ also escapes ':')\nbuild $: cc bar.cc\n                  ^ near here"
                .to_owned(),
        ),
        ("default\n", "1: expected target name\ndefault\n       ^ near here".to_owned()),
        (
            "default nonexistent\n",
            "1: unknown target 'nonexistent'\ndefault nonexistent\n                   ^ near here".to_owned(),
        ),
        (
            "rule r\n  command = r\nbuild b: r\ndefault b:\n",
            "4: expected newline, got ':'\ndefault b:\n         ^ near here".to_owned(),
        ),
        ("default $a\n", "1: empty path\ndefault $a\n          ^ near here".to_owned()),
        ("rule r\n  command = r\nbuild $a: r $c\n", "4: empty path\n".to_owned()),
        ("rule r\n  command = r\n  \n  generator = 1\n", "4: unexpected indent\n".to_owned()),
        ("pool\n", "1: expected pool name\npool\n    ^ near here".to_owned()),
        ("pool foo\n", "2: expected 'depth =' line\n".to_owned()),
        ("pool foo\n  depth = 4\npool foo\n", "3: duplicate pool 'foo'\npool foo\n        ^ near here".to_owned()),
        ("pool foo\n  depth = -1\n", "2: invalid pool depth\n  depth = -1\n            ^ near here".to_owned()),
        ("pool foo\n  bar = 1\n", "2: unexpected variable 'bar'\n  bar = 1\n         ^ near here".to_owned()),
        (
            "rule run\n  command = echo\n  pool = unnamed_pool\nbuild out: run in\n",
            "5: unknown pool name 'unnamed_pool'\n".to_owned(),
        ),
        ("\tfoo\n", "1: tabs are not allowed, use spaces\n".to_owned()),
    ];
    for (text, expected) in cases {
        assert_eq!(wrong(text), format!("input:{expected}"), "{text}");
    }
}

#[test]
fn long_lines_are_shown_in_part() {
    let said = wrong(&format!("x {}\n", "y".repeat(100)));
    assert!(said.contains(&format!("x {}...\n  ^ near here", "y".repeat(70))), "{said}");
}

#[test]
fn a_newer_version_is_refused_by_its_number() {
    well("ninja_required_version = 1.5\n");
    let error = parse("input", b"ninja_required_version = 2.0\n").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}

#[test]
fn other_files_are_read_in_scopes_of_their_own_or_not() {
    let folder = folder("includes");
    let put = |name: &str, text: &str| {
        fs::write(folder.join(name), text).unwrap();
        folder.join(name).display().to_string()
    };
    let inner = put("inner.ninja", "var = inner\nbuild $builddir/inner: varref\n");
    let graph = well(&format!(
        "builddir = some_dir/\nrule varref\n  command = varref $var\nvar = outer\nbuild $builddir/outer: varref\n\
         subninja {inner}\nbuild $builddir/outer2: varref\n"
    ));
    assert!(has(&graph, "some_dir/outer") && has(&graph, "some_dir/inner"));
    let commands: Vec<_> = (0..3).map(|edge| command(&graph, edge)).collect();
    assert_eq!(commands, ["varref outer", "varref inner", "varref outer"]);

    let rules = put("rules.ninja", CAT);
    let user = put("user.ninja", &format!("include {rules}\nbuild x : cat\n"));
    well(&format!("{CAT}subninja {rules}\n"));
    well(&format!("include {rules}\nsubninja {user}\nbuild y : cat\n"));
    let bound = put("bound.ninja", "var = inner\n");
    assert_eq!(variable(&well(&format!("var = outer\ninclude {bound}\n")), "var"), "inner");

    let broken = put("broken.ninja", "build\n");
    assert_eq!(wrong(&format!("include {broken}\n")), format!("{broken}:1: expected path\nbuild\n     ^ near here"));
    let said = wrong("subninja foo.ninja\n");
    let line = "subninja foo.ninja\n                  ^ near here";
    assert_eq!(said, format!("input:1: loading 'foo.ninja': No such file or directory\n{line}"));
}

#[test]
fn inputs_and_outputs_are_of_several_kinds() {
    let graph = well(&format!("{CAT}build foo | imp: cat bar | baz || last |@ check\n"));
    let edge = &graph.edges[0];
    assert_eq!(names(&graph, &edge.inputs), ["bar", "baz", "last"]);
    assert_eq!((edge.implicit, edge.order_only, edge.implicit_outputs), (1, 1, 1));
    assert_eq!(names(&graph, edge.real_inputs()), ["bar", "baz"]);
    assert_eq!(names(&graph, &edge.outputs), ["foo", "imp"]);
    assert_eq!(names(&graph, &edge.validations), ["check"]);
    assert_eq!(command(&graph, 0), "cat bar > foo");
    assert_eq!(well(&format!("{CAT}build foo | : cat bar\n")).edges[0].outputs.len(), 1);
    assert_eq!(well(&format!("{CAT}build | imp : cat bar\n")).edges[0].outputs.len(), 1);
}

#[test]
fn what_is_built_by_default() {
    let four: String = ["a", "b", "c", "d"].map(|name| format!("build {name}: cat foo\n")).concat();
    let graph = well(&format!("{CAT}{four}"));
    assert_eq!(graph.default_targets().unwrap().len(), 4);
    let graph = well(&format!("{CAT}{four}third = c\ndefault a b\ndefault $third\n"));
    assert_eq!(names(&graph, &graph.default_targets().unwrap()), ["a", "b", "c"]);
    let error = well(&format!("{CAT}build a: cat a\n")).default_targets().unwrap_err();
    assert_eq!(error.to_string(), "could not determine root nodes of build graph");
}

#[test]
fn bytes_and_line_ends_of_others_are_read() {
    well("rule utf8\n  command = true\n  description = compilaci\u{f3}\n");
    well("# comment with crlf\r\n");
    assert_eq!(variable(&well("foo = foo\nbar = bar\r\n"), "bar"), "bar");
    well("pool link_pool\r\n  depth = 15\r\n\r\nrule xyz\r\n  command = something$expand \r\n  description = YAY!\r\n");
}

#[test]
fn a_file_of_dependencies_has_to_be_an_input() {
    for statement in ["build result: cat in\n  dyndep = in\n", "build result: cat x | in\n  dyndep = in\n"] {
        let graph = well(&format!("{CAT}{statement}"));
        let file = graph.edges[0].dyndep.unwrap();
        assert!(graph.files[file].has_dyndeps && graph.show(file) == "in");
    }
    assert_eq!(well(&format!("{CAT}build result: cat in\n")).edges[0].dyndep, None);
    let said = wrong("rule touch\n  command = touch $out\nbuild result: touch\n  dyndep = notin\n");
    assert_eq!(said, "input:5: dyndep 'notin' is not an input\n");
}

#[test]
fn words_are_told_apart() {
    let mut lexer = Lexer::new("input", b"foo baR baz_123 foo-bar\n");
    for name in ["foo", "baR", "baz_123", "foo-bar"] {
        assert_eq!(lexer.ident().unwrap(), name.as_bytes());
    }
    let mut lexer = Lexer::new("input", b"plain text $var $VaR ${x}\n");
    assert_eq!(lexer.value().unwrap().serialize(), "[plain text ][$var][ ][$VaR][ ][$x]");
    let mut lexer = Lexer::new("input", b"$ $$ab c$: $\ncde\n");
    assert_eq!(lexer.value().unwrap().serialize(), "[ $ab c: cde]");
    let mut lexer = Lexer::new("input", b"foo.dots $bar.dots ${bar.dots}\n");
    assert_eq!(lexer.ident().unwrap(), b"foo.dots");
    assert_eq!(lexer.value().unwrap().serialize(), "[$bar][.dots ][$bar.dots]");
    // A comment that no line end follows is none.
    assert_eq!(Lexer::new("input", b"# foo").token(), Token::Error);
}
