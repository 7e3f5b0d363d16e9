//! Structures with `#[derive(Parameters)]`: what a field can be, how it is read, written and
//! described, and what is refused. `macros/src/tests.rs` has what does not compile.

use seriatim_tensor::operator::{
    list_all_ops, list_parameters, unary_map, Axes, Dims, Op, ParameterType, Places, SimpleOp,
};
use seriatim_tensor::{Choices, DType, ErrorKind, Parameters, Shape};

/// What becomes of a window.
#[derive(Choices, Clone, Copy, PartialEq, Debug)]
enum Kind {
    Max,
    MeanOfAll,
    #[parameter(name = "NORM")]
    Norm,
}

/// One field of each kind.
#[derive(Parameters, Clone, PartialEq, Debug)]
struct All {
    /// A number of things,
    /// in two lines.
    ///
    /// And another paragraph, which is not listed.
    #[parameter(range = 1..=64)]
    count: usize,
    /// A place.
    #[parameter(default = -1, range = -4..4)]
    place: isize,
    /// A share
    #[parameter(default = 0.5, range = 0.0..1.0)]
    share: f64,
    /// An `f32`.
    #[parameter(default = 1e-3)]
    small: f32,
    /// A switch.
    #[parameter(default = true)]
    switch: bool,
    /// A choice.
    #[parameter(default = "mean_of_all")]
    kind: Kind,
    /// A choice or none.
    #[parameter(default = None)]
    other: Option<Kind>,
    /// An order or none.
    #[parameter(default = None, range = 1..)]
    order: Option<usize>,
    /// Sizes.
    #[parameter(default = "()", range = 1..=16)]
    sizes: Dims,
    /// Axes.
    #[parameter(default = None)]
    axes: Axes,
    /// Places.
    #[parameter(default = "(1, None)")]
    places: Places,
    /// A shape.
    #[parameter(default = "(2, 3)")]
    shape: Shape,
    /// Two numbers.
    #[parameter(default = "(0.1, 0.9)", range = 0.0..=1.0)]
    pair: [f64; 2],
    /// A type.
    #[parameter(default = "float32")]
    dtype: DType,
    /// A keyword of Rust as a name.
    #[parameter(default = "text")]
    r#type: String,
}

const ONE: &[(&str, &str)] = &[("count", "1")];

#[test]
fn every_kind_of_field_is_read_written_and_described() {
    let all = All::init(ONE).unwrap();
    let expected = All {
        count: 1,
        place: -1,
        share: 0.5,
        small: 1e-3,
        switch: true,
        kind: Kind::MeanOfAll,
        other: None,
        order: None,
        sizes: Dims::default(),
        axes: Axes(None),
        places: Places([Some(1), None].into_iter().collect()),
        shape: Shape::new(&[2, 3]).unwrap(),
        pair: [0.1, 0.9],
        dtype: DType::F32,
        r#type: "text".into(),
    };
    assert_eq!(all, expected);
    // Of a name that is given twice the last counts.
    let given = [
        ("count", "7"),
        ("count", "64"),
        ("place", "3"),
        ("share", "0.25"),
        ("small", "2"),
        ("switch", "False"),
        ("kind", "NORM"),
        ("other", "max"),
        ("order", "3"),
        ("sizes", "(16, 1)"),
        ("axes", "(0, -1)"),
        ("places", "()"),
        ("shape", "()"),
        ("pair", "[1, 0]"),
        ("dtype", "int8"),
        ("type", "other"),
    ];
    let all = All::init(&given).unwrap();
    assert_eq!((all.count, all.kind, all.other, all.order), (64, Kind::Norm, Some(Kind::Max), Some(3)));
    assert_eq!((all.sizes.0.as_slice(), all.pair, all.shape.rank()), (&[16, 1][..], [1.0, 0.0], 0));
    for all in [expected, all] {
        let written = all.params();
        let given: Vec<(&str, &str)> = written.iter().map(|(name, text)| (*name, text.as_str())).collect();
        assert_eq!(All::init(&given).unwrap(), all);
    }
    let fields = All::fields();
    let lines: Vec<String> = fields.iter().map(|field| field.line()).collect();
    assert_eq!(lines[0], "count (a whole number from 0 in 1..=64, required): A number of things, in two lines");
    assert_eq!(lines[1], "place (a whole number in -4..4, by default -1): A place");
    assert_eq!(lines[2], "share (a number in 0.0..1.0, by default 0.5): A share");
    assert_eq!(lines[5], "kind (max, mean_of_all, NORM, by default mean_of_all): A choice");
    assert_eq!(lines[6], "other (max, mean_of_all, NORM or None, by default None): A choice or none");
    assert_eq!(lines[14], "type (a text, by default text): A keyword of Rust as a name");
    assert_eq!((fields[1].default, fields[1].range, fields[4].range), (Some("-1"), "-4..4", ".."));
}

#[test]
fn values_of_another_type_or_range_are_refused_with_all_that_is_said_of_the_field() {
    let cases = [
        ("count", "0", "'count' = '0' is out of its range; it is count (a whole number from 0 in 1..=64, required)"),
        ("count", "65", "out of its range"),
        ("count", "-1", "ill-formed"),
        ("place", "4", "out of its range"),
        ("place", "-5", "out of its range"),
        ("share", "1", "out of its range"),
        ("share", "NaN", "out of its range"),
        ("switch", "yes", "true or false"),
        ("kind", "norm", "max, mean_of_all, NORM"),
        ("other", "none", "ill-formed"),
        ("order", "0", "out of its range"),
        ("sizes", "(1, 17)", "out of its range"),
        ("sizes", "(1, 0)", "out of its range"),
        ("shape", "(1, -1)", "ill-formed"),
        ("shape", "(1, 1, 1, 1, 1, 1, 1, 1, 1)", "at most 8 sizes"),
        ("pair", "(0.5, 1.5)", "out of its range"),
        ("pair", "(0.5)", "a list of 2 items, each a number"),
        ("pair", "(0.5, 0.5, 0.5)", "ill-formed"),
        ("type2", "1", "no parameter 'type2'; known are: count (a whole number"),
    ];
    for (name, text, said) in cases {
        let error = All::init(&[ONE, &[(name, text)]].concat()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadParameter);
        assert!(error.to_string().contains(said), "{name} = {text}: {error}");
    }
    let missing = All::init(&[]).unwrap_err().to_string();
    assert!(missing.contains("parameter 'count' is missing; it is count (a whole number"), "{missing}");
}

/// Generic structures, and those without a field.
#[derive(Parameters, Debug)]
struct Of<T: ParameterType> {
    /// A value.
    value: T,
}

#[derive(Parameters, Debug)]
struct Nothing {}

#[test]
fn structures_may_be_generic_or_empty() {
    assert_eq!(Of::<Kind>::init(&[("value", "max")]).unwrap().value, Kind::Max);
    assert_eq!(Of { value: 3u64 }.params(), [("value", "3".to_owned())]);
    assert_eq!(Nothing::init(&[]).unwrap().params(), []);
    assert_eq!(Nothing::init(&[("value", "1")]).unwrap_err().kind(), ErrorKind::BadParameter);
}

/// An operator is made with its defaults, or misses a field that is required: no default is of
/// another type, or out of its range.
#[test]
fn every_operator_takes_its_defaults() {
    let mut made = 0;
    for (name, _) in list_all_ops() {
        match Op::new(name, &[]) {
            Ok(_) => made += 1,
            Err(error) => {
                let said = error.to_string();
                let misses = said.contains("is missing") || said.contains("kernel has 0 dimensions");
                assert!(misses && !said.contains("is out of its range"), "{name}: {said}");
            }
        }
    }
    assert!(made > 60, "{made}");
}

/// Of [`Outer`].
#[derive(Parameters, PartialEq, Debug)]
struct Inner {
    /// The first of the inner ones.
    #[parameter(default = 2, range = 1..=4)]
    first: usize,
    /// The second of them.
    second: f64,
}

/// Has the fields of [`Inner`] between its own.
#[derive(Parameters, PartialEq, Debug)]
struct Outer {
    /// One before.
    #[parameter(default = true)]
    before: bool,
    #[parameter(flatten)]
    inner: Inner,
    /// One behind.
    #[parameter(default = 7)]
    behind: usize,
}

#[test]
fn fields_of_a_flat_structure_count_as_those_around_it() {
    let names: Vec<&str> = Outer::fields().iter().map(|field| field.name).collect();
    assert_eq!(names, ["before", "first", "second", "behind"]);
    let read = Outer::init(&[("behind", "8"), ("second", "0.5"), ("first", "3")]).unwrap();
    assert_eq!(read, Outer { before: true, inner: Inner { first: 3, second: 0.5 }, behind: 8 });
    let written = read.params();
    let given: Vec<(&str, &str)> = written.iter().map(|(name, text)| (*name, text.as_str())).collect();
    assert_eq!(given, [("before", "true"), ("first", "3"), ("second", "0.5"), ("behind", "8")]);
    assert_eq!(Outer::init(&given).unwrap(), read);
    // What is wrong is told as of any field, and a name that there is not with all that there are.
    for (given, said) in [
        (&[("first", "5"), ("second", "0")][..], "'first' = '5' is out of its range"),
        (&[], "'second' is missing"),
        (&[("third", "1"), ("second", "0")], "known are: before"),
        (&[("third", "1"), ("second", "0")], "; first (a whole number"),
    ] {
        let error = Outer::init(given).unwrap_err();
        assert!(error.kind() == ErrorKind::BadParameter && error.to_string().contains(said), "{error}");
    }
}

/// The registry says what an operator takes: that is what its errors list, what it writes, and what
/// it reads.
#[test]
fn every_operator_lists_its_parameters() {
    let mut listed = 0;
    // Those of the test below come and go beside this one.
    for (name, _) in list_all_ops().into_iter().filter(|(name, _)| !name.starts_with("with ")) {
        let fields = list_parameters(name).unwrap();
        let said = Op::new(name, &[("no such", "1")]).unwrap_err().to_string();
        let (_, known) = said.split_once("known are: ").unwrap_or_else(|| panic!("{name}: {said}"));
        for (at, field) in fields.iter().enumerate() {
            assert!(fields[..at].iter().all(|other| other.name != field.name), "{name} has two {}", field.name);
            assert!(known.contains(&field.line()), "{name} does not know {}: {said}", field.name);
            assert!(field.about.len() > 3 && !field.kind.is_empty(), "{name}: {field:?}");
        }
        if fields.is_empty() {
            assert!(known.is_empty(), "{name}: {known}");
        } else {
            // The first field is behind the colon, and each other one behind a semicolon.
            let lines: Vec<String> = fields.iter().map(|field| field.line()).collect();
            assert_eq!(known, lines.join("; "), "{name}");
        }
        if let Ok(op) = Op::new(name, &[]) {
            for (written, _) in op.property().get_params() {
                assert!(fields.iter().any(|field| field.name == written), "{name} writes {written}");
            }
        }
        listed += fields.len();
    }
    assert!(listed > 150, "{listed}");
    assert_eq!(list_parameters("no such").unwrap_err().kind(), ErrorKind::UnknownOperator);
}

/// A simple operator has a scalar, takes any keywords, or has no parameters.
#[test]
fn simple_operators_list_their_scalar() {
    let one = |name| SimpleOp::unary(name, |x, _, out, req| unary_map(x.0, out, req, |x| x));
    one("with a scalar").enable_scalar(true).register().unwrap();
    one("with keywords").enable_kwargs(true).register().unwrap();
    one("with nothing").register().unwrap();
    let fields = ["with a scalar", "with keywords", "with nothing"].map(|name| list_parameters(name).unwrap());
    assert_eq!(fields.each_ref().map(Vec::len), [1, 0, 0]);
    assert_eq!((fields[0][0].name, fields[0][0].default), ("scalar", Some("0")));
    assert!(Op::new("with a scalar", &[("scalar", "1.5")]).is_ok());
    assert!(Op::new("with a scalar", &[("scalar", "one")]).unwrap_err().to_string().contains(&fields[0][0].line()));
}
