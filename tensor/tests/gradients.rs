//! Every operator: forward in every write mode, and its gradients by central differences in `f64`,
//! on random shapes, on views, with inputs that broadcast. Inputs keep away from kinks, and from
//! each other where they would be ties.

mod common;

use common::cases::{cases, Case};
use common::Draws;
use seriatim_tensor::operator::{list_all_ops, Op};
use seriatim_tensor::{autograd, DType, ErrorKind, NDArray, OpReq, Runtime, Shape};
use std::collections::BTreeSet;

/// An array of these values; the same values in a view if `viewed`: every other row of a larger
/// array, with the axes turned around.
fn array(values: &[f64], shape: &[usize], viewed: bool) -> NDArray {
    if !viewed || shape.is_empty() || values.is_empty() {
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

/// The visible outputs. Auxiliary states are made anew, and random numbers are the same each time:
/// no other test of this file draws any.
fn outputs(op: &Op, case: &Case, inputs: &[NDArray]) -> Vec<NDArray> {
    let mut draws = Draws::new(4);
    let states: Vec<NDArray> = case
        .states
        .iter()
        .map(|(shape, of)| array(&of.values(&mut draws, shape.iter().product()), shape, false))
        .collect();
    if autograd::is_training() {
        Runtime::global().unwrap().seed(6).unwrap();
    }
    op.invoke_all(&inputs.iter().chain(&states).collect::<Vec<_>>()).unwrap().into_vec()
}

fn values(arrays: &[NDArray]) -> Vec<f64> {
    arrays.iter().flat_map(|array| array.to_vec::<f64>().unwrap()).collect()
}

/// The shapes and types of all outputs, hidden ones too.
fn made(op: &Op, case: &Case) -> Vec<(Shape, DType)> {
    let property = op.property();
    let mut inputs: Vec<_> = case.shapes.iter().map(|shape| Some(Shape::new(shape).unwrap())).collect();
    let mut states: Vec<_> = case.states.iter().map(|(shape, _)| Some(Shape::new(shape).unwrap())).collect();
    let (mut shapes, mut types) = (vec![None; property.num_outputs()], vec![None; property.num_outputs()]);
    assert!(property.infer_shape(&mut inputs, &mut shapes, &mut states).unwrap());
    let (mut of_inputs, mut of_states) = (vec![Some(DType::F64); inputs.len()], vec![Some(DType::F64); states.len()]);
    assert!(property.infer_type(&mut of_inputs, &mut types, &mut of_states).unwrap());
    shapes.into_iter().flatten().zip(types.into_iter().flatten()).collect()
}

#[test]
fn every_operator_writes_as_it_is_asked_to() {
    let mut draws = Draws::new(1);
    for (name, _) in list_all_ops() {
        let cases = cases(name, &mut draws).unwrap_or_else(|| panic!("no case for '{name}'"));
        for case in cases {
            let op = Op::new(name, &case.parameters()).unwrap();
            let drawn: Vec<Vec<f64>> = case
                .shapes
                .iter()
                .zip(&case.inputs)
                .map(|(shape, of)| of.values(&mut draws, shape.iter().product()))
                .collect();
            let inputs = |viewed| -> Vec<NDArray> {
                drawn.iter().zip(&case.shapes).map(|(values, shape)| array(values, shape, viewed)).collect()
            };
            let (whole, views, made) = (inputs(false), inputs(true), made(&op, &case));
            let visible = op.property().num_visible_outputs();
            let results = outputs(&op, &case, &whole);
            let expected: Vec<Vec<f64>> = results.iter().map(|out| out.to_vec().unwrap()).collect();
            assert_eq!(values(&outputs(&op, &case, &views)), expected.concat(), "{name}: views have the same bits");
            let states = || {
                let mut draws = Draws::new(4);
                let each = case.states.iter();
                each.map(|(shape, of)| array(&of.values(&mut draws, shape.iter().product()), shape, false))
                    .collect::<Vec<_>>()
            };
            // Hidden outputs are written, visible ones as the request says.
            let hidden = || -> Vec<NDArray> {
                made[visible..].iter().map(|(shape, dtype)| NDArray::empty(shape, *dtype).unwrap()).collect()
            };
            for inputs in [&whole, &views] {
                for viewed in [false, true] {
                    for req in [OpReq::Null, OpReq::Write, OpReq::Inplace, OpReq::Add] {
                        let shown: Vec<NDArray> = expected
                            .iter()
                            .zip(&results)
                            .map(|(values, out)| array(&vec![7.0; values.len()], out.shape().dims(), viewed))
                            .collect();
                        let (states, hidden) = (states(), hidden());
                        let to: Vec<(&NDArray, OpReq)> = shown
                            .iter()
                            .map(|out| (out, req))
                            .chain(hidden.iter().map(|out| (out, OpReq::Write)))
                            .collect();
                        op.invoke_into(&inputs.iter().chain(&states).collect::<Vec<_>>(), &to).unwrap();
                        for (value, expected) in values(&shown).iter().zip(expected.concat()) {
                            let right = match req {
                                OpReq::Null => 7.0,
                                OpReq::Add => 7.0 + expected,
                                _ => expected,
                            };
                            assert_eq!(value.to_bits(), right.to_bits(), "{name} {req:?} {viewed}");
                        }
                    }
                }
            }
            // Into its own first input, also where the operator cannot work in place.
            if visible == 1 && results[0].shape() == whole[0].shape() && results[0].dtype() == DType::F64 {
                for inputs in [&whole, &views] {
                    let (states, hidden) = (states(), hidden());
                    let arguments: Vec<&NDArray> = inputs.iter().chain(&states).collect();
                    let kept = inputs[0].to_vec::<f64>().unwrap();
                    let to = [(&inputs[0], OpReq::Inplace)];
                    let to: Vec<_> = to.into_iter().chain(hidden.iter().map(|out| (out, OpReq::Write))).collect();
                    op.invoke_into(&arguments, &to).unwrap();
                    assert_eq!(inputs[0].to_vec::<f64>().unwrap(), expected[0], "{name} in place");
                    inputs[0].copy_from_slice(&kept).unwrap();
                }
            }
        }
    }
}

/// The gradients by inputs that have one, by central differences of Σ weight · output. Operators
/// run to train, as they do while gradients are recorded.
fn differences(op: &Op, case: &Case, drawn: &[Vec<f64>], weights: &[f64]) -> Vec<(usize, Vec<f64>)> {
    let total = |drawn: &[Vec<f64>]| -> f64 {
        let inputs: Vec<NDArray> =
            drawn.iter().zip(&case.shapes).map(|(values, shape)| array(values, shape, false)).collect();
        let out = values(&autograd::train_mode(|| outputs(op, case, &inputs)));
        out.iter().zip(weights).map(|(value, weight)| value * weight).sum()
    };
    let mut found = Vec::new();
    for input in &case.by {
        // Of many elements some are enough.
        let step = drawn[*input].len().div_ceil(24).max(1);
        let mut gradient = vec![f64::NAN; drawn[*input].len()];
        for element in (0..drawn[*input].len()).step_by(step) {
            let width = 1e-5;
            let mut moved = drawn.to_vec();
            moved[*input][element] += width;
            let up = total(&moved);
            moved[*input][element] -= 2.0 * width;
            gradient[element] = (up - total(&moved)) / (2.0 * width);
        }
        found.push((*input, gradient));
    }
    found
}

#[test]
fn every_gradient_equals_its_differences() {
    let mut draws = Draws::new(2);
    let mut without = BTreeSet::new();
    for (name, _) in list_all_ops() {
        for case in cases(name, &mut draws).unwrap().into_iter().filter(|case| case.is_checked) {
            let op = Op::new(name, &case.parameters()).unwrap();
            if !op.property().has_gradient() {
                without.insert(name);
                continue;
            }
            let drawn: Vec<Vec<f64>> = case
                .shapes
                .iter()
                .zip(&case.inputs)
                .map(|(shape, of)| of.values(&mut draws, shape.iter().product()))
                .collect();
            let whole: Vec<NDArray> =
                drawn.iter().zip(&case.shapes).map(|(values, shape)| array(values, shape, false)).collect();
            let results = outputs(&op, &case, &whole);
            let weights: Vec<Vec<f64>> = results.iter().map(|out| draws.values(out.size(), 0.5, 1.5)).collect();
            let mut expected = differences(&op, &case, &drawn, &weights.concat());
            // By places there is no gradient.
            for input in (0..drawn.len()).filter(|input| !case.by.contains(input)) {
                expected.push((input, vec![0.0; drawn[input].len()]));
            }
            // The gradients by the inputs, each in every mode, from arrays and from views of them,
            // with a gradient by the output that is a view or not.
            for (turn, req) in [OpReq::Write, OpReq::Add, OpReq::Null, OpReq::Write].into_iter().enumerate() {
                let mut leaves = Vec::new();
                let by_out: Vec<NDArray> = results
                    .iter()
                    .zip(&weights)
                    .map(|(out, weights)| array(weights, out.shape().dims(), turn % 2 == 1))
                    .collect();
                for (number, (values, shape)) in drawn.iter().zip(&case.shapes).enumerate() {
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
                    outputs(&op, &case, &views)
                });
                let heads: Vec<(&NDArray, Option<&NDArray>)> = out.iter().zip(by_out.iter().map(Some)).collect();
                autograd::backward_with(&heads, false).unwrap();
                for (number, expected) in &expected {
                    let found: Vec<f64> = leaves[*number].grad().unwrap().transpose().unwrap().to_vec().unwrap();
                    for (found, expected) in found.iter().zip(expected).filter(|(_, expected)| !expected.is_nan()) {
                        let right = match req {
                            OpReq::Null if *number == 0 => 3.0,
                            OpReq::Add if *number == 0 => 3.0 + expected,
                            _ => *expected,
                        };
                        assert!(
                            near(*found, right, 2e-7),
                            "{name} {:?} {:?} by {number} {req:?}: {found}, {right}",
                            case.parameters,
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
fn every_operator_gives_its_parameters_back() {
    let mut draws = Draws::new(7);
    for (name, _) in list_all_ops() {
        for case in cases(name, &mut draws).unwrap() {
            let written = Op::new(name, &case.parameters()).unwrap().property().get_params();
            let given: Vec<(&str, &str)> = written.iter().map(|(name, text)| (*name, text.as_str())).collect();
            let again = Op::new(name, &given).unwrap();
            assert_eq!(again.property().get_params(), written, "{name}");
            let error = Op::new(name, &[("no_such_parameter", "1")]).unwrap_err();
            assert!(error.to_string().contains(name), "{error}");
        }
    }
}

/// How far results may be from those of `f64` on the same inputs.
fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => 0.0,
        DType::F32 => 1e-4,
        DType::F16 => 0.02,
        _ => 0.1,
    }
}

#[test]
fn every_operator_has_the_types_that_it_lists_and_no_other() {
    let mut draws = Draws::new(8);
    for (name, _) in list_all_ops() {
        // In f64, results of a `dtype` of its own have another type.
        for case in cases(name, &mut draws).unwrap().into_iter().filter(|_| name != "Cast") {
            let op = Op::new(name, &case.parameters()).unwrap();
            for dtype in DType::ALL {
                let property = op.property();
                let mut types = vec![None; case.shapes.len()];
                let (mut outs, mut of_states) = (vec![None; property.num_outputs()], vec![None; case.states.len()]);
                types[0] = Some(dtype);
                let is_known = property.infer_type(&mut types, &mut outs, &mut of_states);
                assert!(is_known.is_ok() || !property.types().contains(&dtype), "{name} {dtype}: {is_known:?}");
                let mut draw = |of: &[usize], from: common::cases::Draw, dtype: Option<DType>| {
                    let values = from.values(&mut draws, of.iter().product());
                    array(&values, of, true).astype(dtype.unwrap_or(DType::I32)).unwrap()
                };
                let inputs = case.shapes.iter().zip(&case.inputs).zip(&types);
                let mut inputs: Vec<NDArray> = inputs.map(|((shape, of), dtype)| draw(shape, *of, *dtype)).collect();
                inputs.extend(case.states.iter().zip(&of_states).map(|((shape, of), dtype)| draw(shape, *of, *dtype)));
                let result = op.invoke_all(&inputs.iter().collect::<Vec<_>>());
                if !property.types().contains(&dtype) {
                    let error = result.unwrap_err();
                    assert_eq!(error.kind(), ErrorKind::UnsupportedType, "{name} {dtype}: {error}");
                    continue;
                }
                let results = result.unwrap_or_else(|error| panic!("{name} {dtype}: {error}"));
                if !dtype.is_float() {
                    results.iter().for_each(|out| out.wait_to_read().unwrap());
                    continue;
                }
                let exact: Vec<NDArray> = inputs.iter().map(|array| array.astype(DType::F64).unwrap()).collect();
                let exact = op.invoke_all(&exact.iter().collect::<Vec<_>>()).unwrap();
                for (result, exact) in results.iter().zip(&exact) {
                    let found = result.astype(DType::F64).unwrap().to_vec::<f64>().unwrap();
                    let exact = exact.astype(DType::F64).unwrap().to_vec::<f64>().unwrap();
                    for (found, exact) in found.iter().zip(&exact) {
                        assert!(near(*found, *exact, tolerance(dtype)), "{name} {dtype}: {found}, {exact}");
                    }
                }
            }
        }
    }
}

#[test]
fn the_differences_notice_a_wrong_gradient() {
    let case = cases("sin", &mut Draws::new(5)).unwrap().swap_remove(1);
    let drawn = vec![case.inputs[0].values(&mut Draws::new(5), 600)];
    let found = differences(&Op::new("sin", &[]).unwrap(), &case, &drawn, &[1.0; 600]);
    let right = drawn[0][0].cos();
    assert!(near(found[0].1[0], right, 2e-7) && !near(found[0].1[0], right * 1.000_01, 2e-7));
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
fn gradients_stop_at_what_is_detached_and_at_what_has_one() {
    let x = NDArray::from_slice(&[3.0f64, 4.0], [2]).unwrap();
    x.attach_grad(OpReq::Write).unwrap();
    let before = x.reshape([2, 1]).unwrap();
    let of_x = || x.grad().unwrap().to_vec::<f64>().unwrap();
    autograd::backward(&[&autograd::record(|| x.detach().mul(&x)).unwrap()]).unwrap();
    assert_eq!(of_x(), [3.0, 4.0]);
    // Views in a recording have gradients, and others have none.
    autograd::backward(&[&autograd::record(|| x.reshape([2, 1])?.mul(&before)).unwrap()]).unwrap();
    assert_eq!(of_x(), [3.0, 4.0]);
    for without in [x.detach(), before] {
        assert_eq!(without.grad().unwrap_err().kind(), ErrorKind::NotRecorded);
        let out = autograd::record(|| without.square()).unwrap();
        assert_eq!(autograd::backward(&[&out]).unwrap_err().kind(), ErrorKind::NotRecorded);
        assert_eq!(without.attach_grad(OpReq::Write).unwrap_err().kind(), ErrorKind::Recording);
    }
    // An array that was computed has a gradient from now on, and what it was computed from has not.
    let y = autograd::record(|| x.square()).unwrap();
    y.attach_grad(OpReq::Write).unwrap();
    let z = autograd::record(|| y.mul_scalar(2.0)?.add(&x)).unwrap();
    autograd::backward(&[&z]).unwrap();
    assert_eq!((y.grad().unwrap().to_vec::<f64>().unwrap(), of_x()), (vec![2.0; 2], vec![1.0; 2]));
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
    // A value between: h = 2 x in h² + 3 h + h x.
    let y = autograd::record(|| -> Result<NDArray, seriatim_tensor::Error> {
        let h = x.mul_scalar(2.0)?;
        h.square()?.add(&h.mul_scalar(3.0)?)?.add(&h.mul(&x)?)
    })
    .unwrap();
    autograd::backward(&[&y]).unwrap();
    assert_eq!(x.grad().unwrap().to_vec::<f64>().unwrap(), [24.0, 2.0 * (-2.0 + 3.0 - 0.5) - 1.0]);
}
