//! The names of arguments, auxiliary states and visible outputs beside those of MXNet 1.9.1, for
//! every operator that both have, in each form that its parameters give it.
//!
//! `scripts/mxnet-reference.sh` has made `data/mxnet-1.9.1-lists.txt`. Hidden outputs, such as the
//! mask of `Dropout`, show in neither.

use seriatim_tensor::operator::{list_all_ops, Op};
use std::collections::BTreeSet;
use std::path::Path;

/// Operators whose names differ by intent: with which parameters, and why.
const DIFFERENCES: &[(&str, &str, &str)] = &[
    ("LeakyReLU", "act_type=rrelu", "MXNet shows the mask, which is hidden here as that of Dropout"),
    ("make_loss", "", "it is MakeLoss here, whose output has the common name; MXNet says 'loss'"),
];

/// Operators of this crate without a line, and why.
const NOT_LISTED: &[(&str, &str)] = &[
    ("softrelu", "MXNet has it as an act_type of Activation only"),
    ("adamw_update", "MXNet's takes rescale_grad as an array"),
    ("adagrad_update", "MXNet has it for sparse gradients only"),
    ("_shuffle", "it has no case in scripts/mxnet_cases.py, as its numbers are random"),
];

struct Line {
    name: String,
    parameters: Vec<(String, String)>,
    /// Of arguments, states and visible outputs.
    names: [Vec<String>; 3],
}

fn lines() -> Vec<Line> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/mxnet-1.9.1-lists.txt");
    let text = std::fs::read_to_string(path).unwrap();
    let list = |text: &str, by: char| -> Vec<String> {
        let items = text.split(by).filter(|item| *item != "-");
        items.map(str::to_owned).collect()
    };
    let read = |line: &str| {
        let columns: Vec<&str> = line.split(' ').collect();
        let [name, parameters, arguments, states, outputs] = columns[..] else { panic!("not five columns: {line}") };
        let each = list(parameters, ';').into_iter();
        let pair = |text: String| {
            let (name, value) = text.split_once('=').expect("a name and a value");
            (name.to_owned(), value.to_owned())
        };
        let names = [arguments, states, outputs].map(|names| list(names, ','));
        Line { name: name.into(), parameters: each.map(pair).collect(), names }
    };
    text.lines().filter(|line| !line.starts_with('#')).map(read).collect()
}

/// The names of the arguments, states and visible outputs of an operator of this crate.
fn names(op: &Op) -> [Vec<&'static str>; 3] {
    let property = op.property();
    let mut outputs = property.list_outputs();
    outputs.truncate(property.num_visible_outputs());
    [property.list_arguments(), property.list_auxiliary_states(), outputs]
}

#[test]
fn names_of_arguments_states_and_outputs_are_those_of_mxnet() {
    let (mut compared, mut wrong, mut differing) = (0, Vec::new(), BTreeSet::new());
    for Line { name, parameters, names: expected } in lines() {
        let given: Vec<(&str, &str)> = parameters.iter().map(|(name, value)| (&**name, &**value)).collect();
        let op = Op::new(&name, &given).unwrap_or_else(|error| panic!("{name}: {error}"));
        let found = names(&op);
        compared += 1;
        if found == expected {
            continue;
        }
        let written: Vec<String> = given.iter().map(|(name, value)| format!("{name}={value}")).collect();
        match DIFFERENCES.iter().find(|(other, with, _)| *other == name && *with == written.join(";")) {
            Some((name, ..)) => _ = differing.insert(*name),
            None => wrong.push(format!("{name} {given:?}: {found:?}, and MXNet has {expected:?}")),
        }
    }
    assert!(wrong.is_empty(), "{} of {compared}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(compared > 150, "only {compared} lines");
    assert!(DIFFERENCES.iter().all(|(name, ..)| differing.contains(name)), "only {differing:?} differ");
}

#[test]
fn every_operator_has_a_line() {
    let listed: BTreeSet<String> = lines().into_iter().map(|line| line.name).collect();
    for (name, _) in list_all_ops() {
        let excused = NOT_LISTED.iter().any(|(other, _)| *other == name);
        assert!(listed.contains(name) != excused, "'{name}': give it a case in scripts/mxnet_cases.py, or a reason");
    }
}

#[test]
fn hidden_outputs_do_not_show() {
    let hidden = |name: &str, parameters: &[(&str, &str)]| {
        let op = Op::new(name, parameters).unwrap();
        let outputs = op.property().list_outputs();
        outputs[op.property().num_visible_outputs()..].to_vec()
    };
    assert_eq!(hidden("Dropout", &[]), ["mask"]);
    assert_eq!(hidden("BatchNorm", &[]).len(), 2);
    assert!(hidden("exp", &[]).is_empty());
}
