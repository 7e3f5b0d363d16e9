//! Every operator: forward in every write mode, and its gradients by central differences in `f64`,
//! on random shapes, on views, with inputs that broadcast. Inputs keep away from kinks, and from
//! each other where they would be ties.

mod common;

use common::Draws;
use seriatim_tensor::operator::{list_all_ops, Op};
use seriatim_tensor::{autograd, DType, NDArray, OpReq};
use std::collections::BTreeSet;

/// Inputs of one call.
struct Case {
    parameters: Vec<(&'static str, String)>,
    shapes: Vec<Vec<usize>>,
    /// From where to where inputs are drawn.
    range: (f64, f64),
    /// How many of the inputs have gradients.
    by: usize,
}

fn case(shapes: &[&[usize]], range: (f64, f64)) -> Case {
    let shapes: Vec<Vec<usize>> = shapes.iter().map(|shape| shape.to_vec()).collect();
    Case { parameters: Vec::new(), by: shapes.len(), shapes, range }
}

fn with(mut case: Case, parameters: &[(&'static str, &str)]) -> Case {
    case.parameters = parameters.iter().map(|(name, text)| (*name, (*text).to_owned())).collect();
    case
}

/// Where a unary function is smooth.
fn domain(name: &str) -> (f64, f64) {
    match name {
        "arcsin" | "arccos" | "arctanh" => (-0.9, 0.9),
        "arccosh" => (1.2, 3.0),
        "reciprocal" | "sqrt" | "rsqrt" | "cbrt" | "rcbrt" | "log" | "log2" | "log10" | "log1p" | "gamma"
        | "gammaln" | "abs" | "sign" | "relu" | "softsign" | "max" | "min" | "norm" | "prod" => (0.3, 2.4),
        "rint" | "ceil" | "floor" | "trunc" | "fix" | "round" => (0.1, 0.4),
        _ => (-1.2, 1.3),
    }
}

/// The cases of an operator; none for one that this test does not know.
fn cases(name: &str, draws: &mut Draws) -> Option<Vec<Case>> {
    let scalar = |text| move |case| with(case, &[("scalar", text)]);
    let shape = draws.shape();
    let two: Vec<Case> = vec![case(&[&shape, &shape], (0.4, 1.9)), case(&[&[2, 3], &[2, 3]], (0.4, 1.9))];
    let broadcast = [(&[2, 3][..], &[3][..]), (&[2, 1, 2], &[3, 1]), (&[], &[2, 2]), (&[2, 2], &[2, 2]), (&[1], &[4])];
    Some(match name {
        "sum" | "mean" | "prod" | "max" | "min" | "norm" => {
            let range = if name == "prod" { (0.9, 1.1) } else { domain(name) };
            let of = |shape: &[usize], parameters: &[(&'static str, &str)]| with(case(&[shape], range), parameters);
            vec![
                of(&shape, &[]),
                of(&[2, 3, 4], &[("axis", "1")]),
                of(&[2, 3, 4], &[("axis", "(0,-1)"), ("keepdims", "true")]),
                of(&[2, 3, 4], &[("axis", "1"), ("exclude", "true")]),
                of(&[3, 300], &[("axis", "1")]),
            ]
        }
        "broadcast_to" => vec![
            with(case(&[&[2, 1]], (-1.0, 1.0)), &[("shape", "(2,3)")]),
            with(case(&[&[]], (-1.0, 1.0)), &[("shape", "(4,)")]),
        ],
        "dot" => {
            let (no, yes) = ("false", "true");
            let turned = |a, b, shapes: [&[usize]; 2]| {
                with(case(&shapes, (-1.0, 1.0)), &[("transpose_a", a), ("transpose_b", b)])
            };
            vec![
                turned(no, no, [&[2, 3], &[3, 4]]),
                turned(yes, no, [&[3, 2], &[3, 4]]),
                turned(no, yes, [&[2, 3], &[4, 3]]),
                turned(yes, yes, [&[3, 2], &[4, 3]]),
                turned(no, no, [&[5], &[5]]),
                turned(no, no, [&[2, 2, 3], &[3, 2]]),
                turned(no, no, [&[7, 40], &[40, 33]]),
            ]
        }
        "batch_dot" => vec![
            case(&[&[2, 3, 4], &[2, 4, 2]], (-1.0, 1.0)),
            with(case(&[&[2, 4, 3], &[2, 2, 4]], (-1.0, 1.0)), &[("transpose_a", "true"), ("transpose_b", "true")]),
        ],
        "FullyConnected" => vec![
            with(case(&[&[4, 3], &[2, 3], &[2]], (-1.0, 1.0)), &[("num_hidden", "2")]),
            with(case(&[&[4, 3, 2], &[2, 6]], (-1.0, 1.0)), &[("num_hidden", "2"), ("no_bias", "true")]),
            with(case(&[&[2, 3, 4], &[5, 4], &[5]], (-1.0, 1.0)), &[("num_hidden", "5"), ("flatten", "false")]),
        ],
        "softmax" | "log_softmax" => vec![
            case(&[&[3, 4]], (-2.0, 2.0)),
            with(case(&[&[2, 3, 2]], (-2.0, 2.0)), &[("axis", "1"), ("temperature", "0.7")]),
        ],
        "Activation" => ["relu", "sigmoid", "tanh", "softrelu", "softsign"]
            .map(|function| with(case(&[&shape], (0.2, 1.5)), &[("act_type", function)]))
            .into(),
        "Cast" => vec![with(case(&[&shape], (-1.0, 1.0)), &[("dtype", "float64")])],
        "smooth_l1" => vec![
            scalar("1.5")(case(&[&shape], (-0.4, 0.4))),
            scalar("1.5")(case(&[&shape], (0.5, 2.0))),
            scalar("1.5")(case(&[&shape], (-2.0, -0.5))),
        ],
        // Their gradients are not by their values: tests of their own below.
        "SoftmaxOutput" | "BlockGrad" => Vec::new(),
        // No gradient.
        "sgd_update" => vec![with(case(&[&[3], &[3]], (-1.0, 1.0)), &[("lr", "0.1"), ("wd", "0.01")])],
        _ if name.ends_with("_update") => Vec::new(),
        "argmax" | "argmin" => Vec::new(),
        _ if name.ends_with("_scalar") => {
            vec![scalar("1.2")(case(&[&shape], (1.3, 2.0))), scalar("1.2")(case(&[&[2, 300]], (0.2, 1.1)))]
        }
        _ if name.starts_with("broadcast_") => {
            broadcast.map(|(one, other)| case(&[one, other], (0.4, 1.9))).into_iter().collect()
        }
        _ => match Op::new(name, &[]).ok()?.property().list_arguments().len() {
            1 => vec![case(&[&shape], domain(name)), case(&[&[2, 300]], domain(name))],
            2 => two,
            _ => return None,
        },
    })
}

/// An array of these values; the same values in a view if `viewed`: every other row of a larger
/// array, with the axes turned around.
fn array(values: &[f64], shape: &[usize], viewed: bool) -> NDArray {
    if !viewed || shape.is_empty() {
        return NDArray::from_slice(values, shape).unwrap();
    }
    let mut large: Vec<usize> = shape.iter().rev().copied().collect();
    large[0] *= 2;
    let view = NDArray::zeros(&large[..], DType::F64).unwrap().slice(0, 1, large[0], 2).unwrap();
    let view = view.transpose().unwrap();
    view.copy_from_slice(values).unwrap();
    assert_eq!(view.shape().dims(), shape);
    view
}

fn near(one: f64, other: f64, tolerance: f64) -> bool {
    (one - other).abs() <= tolerance * (1.0 + other.abs()) || one.to_bits() == other.to_bits()
}

fn forward(op: &Op, inputs: &[NDArray]) -> Vec<f64> {
    op.invoke(&inputs.iter().collect::<Vec<_>>()).unwrap().to_vec().unwrap()
}

#[test]
fn every_operator_writes_as_it_is_asked_to() {
    let mut draws = Draws::new(1);
    for (name, _) in list_all_ops() {
        let cases = cases(name, &mut draws).unwrap_or_else(|| panic!("no case for '{name}'"));
        for case in cases {
            let parameters: Vec<(&str, &str)> = case.parameters.iter().map(|(n, t)| (*n, t.as_str())).collect();
            let op = Op::new(name, &parameters).unwrap();
            let values: Vec<Vec<f64>> = case
                .shapes
                .iter()
                .map(|shape| draws.values(shape.iter().product(), case.range.0, case.range.1))
                .collect();
            let inputs = |viewed| -> Vec<NDArray> {
                values.iter().zip(&case.shapes).map(|(values, shape)| array(values, shape, viewed)).collect()
            };
            let (whole, views) = (inputs(false), inputs(true));
            let expected = forward(&op, &whole);
            assert_eq!(forward(&op, &views), expected, "{name}: views have the same bits");
            let shape = op.invoke(&whole.iter().collect::<Vec<_>>()).unwrap().shape();
            for inputs in [&whole, &views] {
                for viewed in [false, true] {
                    for req in [OpReq::Null, OpReq::Write, OpReq::Inplace, OpReq::Add] {
                        let out = array(&vec![7.0; expected.len()], shape.dims(), viewed);
                        op.invoke_into(&inputs.iter().collect::<Vec<_>>(), &[(&out, req)]).unwrap();
                        for (value, expected) in out.to_vec::<f64>().unwrap().iter().zip(&expected) {
                            let right = match req {
                                OpReq::Null => 7.0,
                                OpReq::Add => 7.0 + expected,
                                _ => *expected,
                            };
                            assert_eq!(value.to_bits(), right.to_bits(), "{name} {req:?} {viewed}");
                        }
                    }
                }
            }
            // Into its own first input, also where the operator cannot work in place.
            if shape == whole[0].shape() && whole[0].dtype() == DType::F64 {
                for inputs in [&whole, &views] {
                    let inputs: Vec<&NDArray> = inputs.iter().collect();
                    let kept = inputs[0].to_vec::<f64>().unwrap();
                    op.invoke_into(&inputs, &[(inputs[0], OpReq::Inplace)]).unwrap();
                    assert_eq!(inputs[0].to_vec::<f64>().unwrap(), expected, "{name} in place");
                    inputs[0].copy_from_slice(&kept).unwrap();
                }
            }
        }
    }
}

/// The gradients by all inputs that have one, by central differences of Σ weight · output.
fn differences(op: &Op, values: &[Vec<f64>], shapes: &[Vec<usize>], weights: &[f64], by: usize) -> Vec<Vec<f64>> {
    let total = |values: &[Vec<f64>]| -> f64 {
        let inputs: Vec<NDArray> =
            values.iter().zip(shapes).map(|(values, shape)| array(values, shape, false)).collect();
        forward(op, &inputs).iter().zip(weights).map(|(value, weight)| value * weight).sum()
    };
    let mut found = Vec::new();
    for input in 0..by {
        // Of many elements some are enough.
        let step = values[input].len().div_ceil(24);
        let mut gradient = vec![f64::NAN; values[input].len()];
        for element in (0..values[input].len()).step_by(step) {
            let width = 1e-5;
            let mut moved = values.to_vec();
            moved[input][element] += width;
            let up = total(&moved);
            moved[input][element] -= 2.0 * width;
            gradient[element] = (up - total(&moved)) / (2.0 * width);
        }
        found.push(gradient);
    }
    found
}

#[test]
fn every_gradient_equals_its_differences() {
    let mut draws = Draws::new(2);
    let mut without = BTreeSet::new();
    for (name, _) in list_all_ops() {
        for case in cases(name, &mut draws).unwrap() {
            let parameters: Vec<(&str, &str)> = case.parameters.iter().map(|(n, t)| (*n, t.as_str())).collect();
            let op = Op::new(name, &parameters).unwrap();
            if !op.property().has_gradient() {
                without.insert(name);
                continue;
            }
            let values: Vec<Vec<f64>> = case
                .shapes
                .iter()
                .map(|shape| draws.values(shape.iter().product(), case.range.0, case.range.1))
                .collect();
            let whole: Vec<NDArray> =
                values.iter().zip(&case.shapes).map(|(values, shape)| array(values, shape, false)).collect();
            let out = op.invoke(&whole.iter().collect::<Vec<_>>()).unwrap();
            let weights = draws.values(out.size(), 0.5, 1.5);
            let expected = differences(&op, &values, &case.shapes, &weights, case.by);
            // The gradients by the inputs, each in every mode, from arrays and from views of them,
            // with a gradient by the output that is a view or not.
            for (turn, req) in [OpReq::Write, OpReq::Add, OpReq::Null, OpReq::Write].into_iter().enumerate() {
                let mut leaves = Vec::new();
                let by_out = array(&weights, out.shape().dims(), turn % 2 == 1);
                for (number, (values, shape)) in values.iter().zip(&case.shapes).enumerate() {
                    // A leaf holds the values in an order that a view turns around.
                    let leaf = array(values, shape, true).transpose().unwrap().copy().unwrap();
                    let req = if number == 0 { req } else { OpReq::Write };
                    leaf.attach_grad(req).unwrap();
                    if req != OpReq::Write {
                        leaf.grad().unwrap().fill(3.0).unwrap();
                    }
                    leaves.push(leaf);
                }
                let out = autograd::record(|| {
                    let views: Vec<NDArray> = leaves.iter().map(|leaf| leaf.transpose().unwrap()).collect();
                    op.invoke(&views.iter().collect::<Vec<_>>()).unwrap()
                });
                autograd::backward_with(&[(&out, Some(&by_out))], false).unwrap();
                for (number, expected) in expected.iter().enumerate() {
                    let found: Vec<f64> = leaves[number].grad().unwrap().transpose().unwrap().to_vec().unwrap();
                    for (found, expected) in found.iter().zip(expected).filter(|(_, expected)| !expected.is_nan()) {
                        let right = match req {
                            OpReq::Null if number == 0 => 3.0,
                            OpReq::Add if number == 0 => 3.0 + expected,
                            _ => *expected,
                        };
                        assert!(
                            near(*found, right, 2e-7),
                            "{name} {:?} by {number} {req:?}: {found}, {right}",
                            case.shapes
                        );
                    }
                }
            }
        }
    }
    assert!(without.contains("broadcast_equal") && without.contains("sgd_update"), "{without:?}");
    assert!(!without.contains("exp") && !without.contains("dot"), "{without:?}");
}

#[test]
fn the_differences_notice_a_wrong_gradient() {
    let (values, shapes) = (vec![vec![0.3, 0.9]], vec![vec![2]]);
    let sine = Op::new("sin", &[]).unwrap();
    let right = differences(&sine, &values, &shapes, &[1.0, 1.0], 1);
    assert!(near(right[0][0], 0.3f64.cos(), 2e-7) && !near(right[0][0], 0.3f64.cos() * 1.000_01, 2e-7));
}

#[test]
fn the_softmax_output_has_the_gradient_of_the_cross_entropy() {
    let values = Draws::new(3).values(12, -2.0, 2.0);
    let labels = [2.0, -1.0, 0.0];
    // Σ -log softmax of the labels that count, whose gradient is found by differences.
    let entropy = |values: &[f64]| -> f64 {
        let log = NDArray::from_slice(values, [3, 4]).unwrap().log_softmax().unwrap().to_vec::<f64>().unwrap();
        -(log[2] + log[8])
    };
    let of = |parameters: &[(&str, &str)]| {
        let (data, label) = (NDArray::from_slice(&values, [3, 4]).unwrap(), NDArray::from_slice(&labels, [3]).unwrap());
        data.attach_grad(OpReq::Write).unwrap();
        let op = Op::new("SoftmaxOutput", parameters).unwrap();
        let out = autograd::record(|| op.invoke(&[&data, &label])).unwrap();
        autograd::backward(&[&out]).unwrap();
        let softmax = data.softmax().unwrap().to_vec::<f64>().unwrap();
        assert_eq!(out.to_vec::<f64>().unwrap(), softmax);
        data.grad().unwrap().to_vec::<f64>()
    };
    for (normalization, divisor) in [("null", 1.0), ("batch", 3.0), ("valid", 2.0)] {
        let gradient = of(&[("use_ignore", "true"), ("grad_scale", "0.5"), ("normalization", normalization)]).unwrap();
        for at in 0..12 {
            let (mut up, mut down) = (values.clone(), values.clone());
            (up[at], down[at]) = (up[at] + 1e-5, down[at] - 1e-5);
            let expected = (entropy(&up) - entropy(&down)) / 2e-5 * 0.5 / divisor;
            assert!(near(gradient[at], expected, 1e-8), "{at}: {} {expected}", gradient[at]);
        }
    }
    let error = of(&[]).unwrap_err();
    assert_eq!(error.kind(), seriatim_tensor::ErrorKind::OutOfRange);
    assert!(error.to_string().contains("label -1") && error.to_string().contains("[3, 4]"), "{error}");
}

#[test]
fn gradients_of_values_that_are_used_often_are_added() {
    let x = NDArray::from_slice(&[1.5f64, -0.5], [2]).unwrap();
    x.attach_grad(OpReq::Write).unwrap();
    for _ in 0..2 {
        // x² + x · (x + x) + x[1..], the last by broadcasting.
        let y = autograd::record(|| -> Result<NDArray, seriatim_tensor::Error> {
            let square = x.mul(&x)?;
            let more = x.mul(&x.add(&x)?)?;
            square.add(&more)?.add(&x.slice(0, 1, 2, 1)?)
        })
        .unwrap();
        autograd::backward(&[&y]).unwrap();
        assert_eq!(x.grad().unwrap().to_vec::<f64>().unwrap(), [9.0, -3.0 + 2.0]);
    }
    let z = autograd::record(|| x.square()).unwrap();
    autograd::backward_with(&[(&z, None)], true).unwrap();
    autograd::backward(&[&z, &z]).unwrap();
    assert_eq!(x.grad().unwrap().to_vec::<f64>().unwrap(), [6.0, -2.0]);
}
