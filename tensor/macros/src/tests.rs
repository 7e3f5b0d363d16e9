//! What the macros refuse, and where their errors point to. What they write is tested by the
//! operators of `seriatim-tensor`.

use crate::{choices, parameters};
use proc_macro2::TokenStream;

/// The errors for a program: what is said, and the text that each points to.
fn refused(expand: fn(TokenStream) -> syn::Result<TokenStream>, program: &str) -> Vec<(String, String)> {
    let tokens: TokenStream = program.parse().expect("it has Rust's tokens");
    let errors = expand(tokens).map(|written| written.to_string()).expect_err("it is refused");
    let lines: Vec<&str> = program.lines().collect();
    let text = |error: &syn::Error| {
        let (start, end) = (error.span().start(), error.span().end());
        assert_eq!(start.line, end.line, "{error}");
        lines[start.line - 1][start.column..end.column].to_owned()
    };
    errors.into_iter().map(|error| (error.to_string(), text(&error))).collect()
}

/// The one error for a field that stands in a structure.
fn of_field(field: &str) -> (String, String) {
    let errors = refused(parameters::expand, &format!("struct Window {{\n{field}\n}}"));
    let [error] = <[_; 1]>::try_from(errors).expect("one error");
    error
}

#[test]
fn wrong_attributes_are_told_where_they_stand() {
    let cases = [
        (
            "/// A\n#[parameter(defualt = 1)] side: usize",
            "there are `default = …`, `range = …` and `flatten`",
            "defualt",
        ),
        ("#[parameter(flatten, default = 1)] side: Side", "defaults and ranges of its own", "default"),
        ("#[parameter(range = 1.., flatten)] side: Side", "defaults and ranges of its own", "range"),
        ("/// A\n#[parameter(flatten = 1)] side: Side", "expected `,`", "="),
        ("/// A\n#[parameter(default = 1, default = 2)] side: usize", "it is given twice", "default"),
        ("/// A\n#[parameter(range = 1.., range = 2..)] side: usize", "it is given twice", "range"),
        ("/// A\n#[parameter(range = 64)] side: usize", "such as 1..=64", "64"),
        ("/// A\n#[parameter(range = ..)] side: usize", "leave the range out", ".."),
        ("/// A\n#[parameter(default)] side: usize", "expected `=`", ")"),
        ("/// A\n#[parameter(default = Side::Left)] side: usize", "a default is a number", "Side::Left"),
        ("/// A\n#[parameter(default = 1.5)] side: usize", "the default 1.5 is no usize", "default = 1.5"),
        ("/// A\n#[parameter(default = -1)] side: usize", "the default -1 is no usize", "default = -1"),
        ("/// A\n#[parameter(default = 1)] side: bool", "the default 1 is no bool", "default = 1"),
        ("/// A\n#[parameter(default = \"x\")] side: f64", "the default x is no f64", "default = \"x\""),
        ("/// A\n#[parameter(default = 0, range = 1..=64)] side: usize", "the default 0 is not in", "1..=64"),
        ("/// A\n#[parameter(default = 1.0, range = 0.0..1.0)] side: f64", "the default 1.0 is not in", "0.0..1.0"),
        ("/// A\n#[parameter(range = -1..=1, default = -2)] side: isize", "-2 is not in the range -1..=1", "-1..=1"),
        ("/// A\n#[parameter = 1] side: usize", "expected parentheses", "="),
        ("#[parameter(default = 1)] side: usize", "`side` has no documentation", "side"),
        ("///\n side: usize", "`side` has no documentation", "side"),
    ];
    for (field, said, place) in cases {
        let (error, at) = of_field(field);
        assert!(error.contains(said), "{field}: {error}");
        assert_eq!(at, place, "{field}: {error}");
    }
}

#[test]
fn all_errors_are_told_at_once() {
    let program = "struct Window {\n/// A\n#[parameter(range = 1)] side: usize,\nbare: usize,\n/// C\nfine: usize }";
    let errors = refused(parameters::expand, program);
    let places: Vec<&str> = errors.iter().map(|(_, place)| place.as_str()).collect();
    assert_eq!(places, ["1", "bare"]);
}

#[test]
fn defaults_at_the_ends_of_a_range_and_other_ends_are_taken() {
    for attribute in [
        "default = 1, range = 1..=64",
        "default = 64, range = 1..=64",
        "default = 63, range = ..64",
        "default = 0, range = FIRST..1 << 3",
        "default = -1.5e-3, range = -2.0..",
        "default = None, range = 1..",
        "default = \"(1, 2)\", range = 1..",
        "",
    ] {
        let program = format!("struct Window {{ /** A */ #[parameter({attribute})] side: Side }}");
        let written = parameters::expand(program.parse().unwrap());
        assert!(written.is_ok(), "{attribute}: {written:?}");
    }
}

#[test]
fn other_things_than_structures_and_choices_are_refused() {
    let of = |program| refused(parameters::expand, program).remove(0);
    assert!(of("struct Pair(usize, usize);").0.contains("named fields"));
    assert_eq!(of("enum Side { Left }").1, "Side");
    assert_eq!(of("#[parameter(default = 1)] struct Window { }").0, "`#[parameter(…)]` belongs to a field");
    let of = |program| refused(choices::expand, program).remove(0);
    assert_eq!(of("struct Side { }").1, "Side");
    assert_eq!(of("enum Side { }").0, "there is no choice");
    assert_eq!(of("enum Side { Left, Other(usize) }"), ("a choice has a name and no fields".into(), "Other".into()));
    assert_eq!(of("enum Side { Left, #[parameter(name = \"left\")] Right }").0, "two choices are named left");
    assert_eq!(of("enum Side { #[parameter(nam = \"left\")] Right }").1, "nam");
}

#[test]
fn the_first_paragraph_is_the_text_and_names_are_written_small() {
    let program = "struct Of {\n/// The side\n/// of a window.\n///\n/// More of it.\nr#type: usize }";
    let written = parameters::expand(program.parse().unwrap()).unwrap().to_string();
    assert!(written.contains("about : \"The side of a window\""), "{written}");
    assert!(written.contains("name : \"type\""), "{written}");
    let program = "enum Side { OuterLeft, #[parameter(name = \"R\")] Right }";
    let written = choices::expand(program.parse().unwrap()).unwrap().to_string();
    assert!(written.contains("\"outer_left, R\""), "{written}");
}
