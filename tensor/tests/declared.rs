//! What operators declare: shapes and types that follow, arrays that a backward pass needs, and
//! resources. Where a declaration is about a graph, it is looked up in the recorded nodes of a
//! captured step.

mod common;

use common::cases::cases;
use common::{nodes, runtime, Draws};
use seriatim::{Device, Kind};
use seriatim_tensor::operator::{binary_map, list_all_ops, unary_map, BinaryGradient, Op, SimpleOp, TwoGradients};
use seriatim_tensor::resource::ResourceRequest;
use seriatim_tensor::{autograd, DType, Distribution, Error, ErrorKind, NDArray, OpReq, Shape, Step};
use std::sync::Mutex;

type Parameters = &'static [(&'static str, &'static str)];

/// A call of an operator, and which of its input and its output the backward pass keeps.
type Kept = (&'static str, Parameters, &'static [&'static [usize]], [bool; 2]);

/// The gradients by both operands.
type ByBoth = fn(f64, f64) -> [f64; 2];

/// Captures a call of an operator, then writes over its input and its output, then the backward
/// pass. Says whether the backward pass has to follow what is written over each: so which of them
/// are kept for it. What it does not keep, a planner may give to others.
fn keeps(name: &str, parameters: Parameters, shapes: &[&[usize]]) -> [bool; 2] {
    let runtime = runtime(Kind::Naive, 0);
    let op = Op::new(name, parameters).unwrap();
    let inputs: Vec<NDArray> = shapes.iter().map(|shape| runtime.ones(shape, DType::F32).unwrap()).collect();
    inputs[0].attach_grad(OpReq::Write).unwrap();
    let step = Step::capture_on(&runtime, &[], |_| {
        let y = autograd::record(|| op.invoke(&inputs.iter().collect::<Vec<_>>()))?;
        inputs[0].fill_random(Distribution::Uniform { low: 2.0, high: 3.0 })?;
        y.copy_from_slice(&vec![5.0f32; y.size()])?;
        autograd::backward(&[&y])
    })
    .unwrap();
    let (names, edges) = nodes(step.graph());
    let node = |name: &str| {
        let found: Vec<usize> = (0..names.len()).filter(|node| names[*node] == name).collect();
        assert_eq!(found.len(), 1, "'{name}' in {names:?}");
        found[0]
    };
    let backward = node(&format!("{name} backward"));
    ["random", "copy from slice"].map(|over| edges.contains(&(node(over), backward)))
}

#[test]
fn a_backward_pass_keeps_what_its_kind_says() {
    let [nothing, input, output, both] = [[false, false], [true, false], [false, true], [true, true]];
    let cases: [Kept; 9] = [
        ("negative", &[], &[&[3]], nothing),
        ("exp", &[], &[&[3]], output),
        ("sin", &[], &[&[3]], input),
        ("elemwise_add", &[], &[&[3], &[3]], nothing),
        ("elemwise_mul", &[], &[&[3], &[3]], input),
        // Its output is dead behind the operations that read it.
        ("FullyConnected", &[("num_hidden", "2")], &[&[3, 4], &[2, 4], &[2]], input),
        ("Pooling", &[("kernel", "(2,2)")], &[&[1, 1, 4, 4]], both),
        ("softmax", &[], &[&[2, 3]], output),
        // It keeps its mask, a hidden output.
        ("Dropout", &[], &[&[3]], nothing),
    ];
    for (name, parameters, shapes, expected) in cases {
        assert_eq!(keeps(name, parameters, shapes), expected, "{name}");
    }
}

#[test]
fn what_is_not_kept_may_be_written_over() {
    // The gradient is that of the values before, where they are not needed any more.
    let gradient = |name: &str, over_input: bool, over_output: bool| {
        let x = NDArray::from_slice(&[0.25f64, 0.5, 2.0], [3]).unwrap();
        x.attach_grad(OpReq::Write).unwrap();
        let y = autograd::record(|| Op::new(name, &[])?.invoke(&[&x])).unwrap();
        if over_input {
            x.fill(f64::NAN).unwrap();
        }
        if over_output {
            y.fill(f64::NAN).unwrap();
        }
        autograd::backward(&[&y]).unwrap();
        x.grad().unwrap().to_vec::<f64>().unwrap()
    };
    for (name, over) in [("negative", (true, true)), ("exp", (true, false)), ("sin", (false, true))] {
        assert_eq!(gradient(name, over.0, over.1), gradient(name, false, false), "{name}");
    }
    assert!(gradient("exp", false, true)[0].is_nan() && gradient("sin", true, false)[0].is_nan());
}

#[test]
fn workspaces_of_a_captured_step_order_nothing() {
    SimpleOp::unary("with a workspace", |x, env, out, req| {
        let space = env.ctx.requested[0].get_space::<f32>(x.0.size())?;
        x.0.reader().fill(space);
        out.writer(req).put(space);
        Ok(())
    })
    .resource_requests(&[ResourceRequest::TempSpace])
    .register()
    .unwrap();
    let (runtime, op) = (runtime(Kind::Naive, 0), Op::new("with a workspace", &[]).unwrap());
    let x = runtime.ones([4], DType::F32).unwrap();
    let mut step = Step::capture(&[&x], |inputs| {
        let both = [op.invoke(&[&inputs[0]])?, op.invoke(&[&inputs[0]])?];
        let after = op.invoke(&[&both[1]])?;
        Ok((both, after))
    })
    .unwrap();
    let (names, edges) = nodes(step.graph());
    assert_eq!(names, ["with a workspace"; 3]);
    assert_eq!(edges.into_iter().collect::<Vec<_>>(), [(1, 2)]);
    assert_eq!(step.run(&[&x]).unwrap().1.to_vec::<f32>().unwrap(), [1.0; 4]);
}

#[test]
fn shapes_follow_or_are_refused_for_every_operator() {
    let mut draws = Draws::new(3);
    for (name, _) in list_all_ops() {
        // Tests beside this one may register others.
        let Some(cases) = cases(name, &mut draws) else { continue };
        for case in cases {
            let op = Op::new(name, &case.parameters()).unwrap();
            let property = op.property();
            let known = |shapes: &[Vec<usize>]| -> Vec<Option<Shape>> {
                shapes.iter().map(|shape| Some(Shape::new(shape).unwrap())).collect()
            };
            let states: Vec<Vec<usize>> = case.states.iter().map(|(shape, _)| shape.clone()).collect();
            let infer = |out: &mut [Option<Shape>]| {
                property.infer_shape(&mut known(&case.shapes), out, &mut vec![None; states.len()])
            };
            let mut found = vec![None; property.num_outputs()];
            assert!(infer(&mut found).unwrap(), "{name}");
            let mut again = found.clone();
            assert!(infer(&mut again).unwrap(), "{name}: what follows goes together");
            assert_eq!(again, found, "{name}");
            // An output of another shape is an error that names both.
            let right = found[0].unwrap();
            let wrong = Shape::new(&[right.dims(), &[7]].concat()).unwrap();
            let mut wrongs = vec![None; found.len()];
            wrongs[0] = Some(wrong);
            let error = infer(&mut wrongs).expect_err(name);
            assert_eq!(error.kind(), ErrorKind::ShapeMismatch, "{name}: {error}");
            let text = error.to_string();
            assert!(text.contains(&wrong.to_string()) && text.contains(&right.to_string()), "{name}: {text}");
            // Without anything known nothing follows, and nothing is wrong.
            let mut nothing = vec![None; case.shapes.len()];
            let mut out = vec![None; found.len()];
            let done = property.infer_shape(&mut nothing, &mut out, &mut vec![None; states.len()]);
            assert!(!done.unwrap(), "{name}");
        }
    }
}

#[test]
fn types_follow_in_a_program_of_several() {
    let runtime = runtime(Kind::Naive, 0);
    let of = |shape: &[usize], dtype| runtime.ones(shape, dtype).unwrap();
    let call = |name: &str, parameters: Parameters, inputs: &[&NDArray]| -> Result<NDArray, Error> {
        Op::new(name, parameters)?.invoke(inputs)
    };
    let (ids, weight) = (of(&[2, 3], DType::I64), of(&[5, 4], DType::F16));
    let dense = of(&[2, 12], DType::F32);
    let step = Step::capture(&[&ids], |inputs| {
        let rows = call("Embedding", &[("input_dim", "5"), ("output_dim", "4")], &[&inputs[0], &weight])?;
        let wide = rows.astype(DType::F32)?;
        let out = call("FullyConnected", &[("num_hidden", "2"), ("no_bias", "1")], &[&wide, &dense])?;
        let best = call("argmax", &[("axis", "1")], &[&out])?;
        let hot = call("one_hot", &[("depth", "2"), ("dtype", "uint8")], &[&best])?;
        let chosen = call("where", &[], &[&hot, &out, &out.square()?])?;
        let picked = call("pick", &[], &[&chosen, &best.astype(DType::I32)?])?;
        Ok(vec![rows, wide, out, best, hot, chosen, picked])
    })
    .unwrap();
    let found: Vec<DType> = step.returned().iter().map(NDArray::dtype).collect();
    use DType::{F16, F32, F64, I32, U8};
    assert_eq!(found, [F16, F32, F32, F32, U8, F32, F32]);
    // Types that do not go together are found in the call, with both names.
    let wrong: [(&str, Parameters, &[&NDArray]); 4] = [
        ("elemwise_add", &[], &[&of(&[2], F32), &of(&[2], F64)]),
        ("FullyConnected", &[("num_hidden", "2"), ("no_bias", "1")], &[&of(&[2, 12], F64), &dense]),
        ("where", &[], &[&of(&[2], I32), &of(&[2], F64), &of(&[2], F32)]),
        ("Concat", &[("num_args", "2")], &[&of(&[1, 2], F64), &of(&[1, 2], F32)]),
    ];
    for (name, parameters, inputs) in wrong {
        let error = call(name, parameters, inputs).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnsupportedType, "{name}: {error}");
        assert!(error.to_string().contains("float32") && error.to_string().contains("float64"), "{error}");
    }
}

#[test]
fn a_binary_operator_has_its_own_shape_function() {
    /// The shape that both broadcast to.
    fn together(lhs: &Shape, rhs: &Shape) -> Result<Shape, Error> {
        let rank = lhs.rank().max(rhs.rank());
        let of = |shape: &Shape, axis: usize| {
            let missing = rank - shape.rank();
            if axis < missing {
                1
            } else {
                shape.dims()[axis - missing]
            }
        };
        let dims: Result<Vec<usize>, Error> = (0..rank)
            .map(|axis| match (of(lhs, axis), of(rhs, axis)) {
                (one, other) if one == other || other == 1 => Ok(one),
                (1, other) => Ok(other),
                _ => Err(Error::new(ErrorKind::ShapeMismatch, format!("{lhs} and {rhs} do not go together here"))),
            })
            .collect();
        Shape::new(&dims?)
    }
    SimpleOp::binary("own broadcasting", |a, b, _, out, req| {
        let shape = out.shape();
        // The place of an element in an operand: axes of size 1 do not count.
        let place = |of: Shape, at: usize| {
            let (mut left, mut place, mut stride) = (at, 0, 1);
            for axis in (0..shape.rank()).rev() {
                let index = left % shape.dims()[axis];
                left /= shape.dims()[axis];
                if let Some(own) = (axis + of.rank()).checked_sub(shape.rank()) {
                    place += if of.dims()[own] == 1 { 0 } else { index * stride };
                    stride *= of.dims()[own];
                }
            }
            place
        };
        let (lhs, rhs) = (a.0.to_vec::<f64>(), b.0.to_vec::<f64>());
        let values: Vec<f64> =
            (0..shape.size()).map(|at| lhs[place(a.0.shape(), at)] * rhs[place(b.0.shape(), at)]).collect();
        out.writer(req).put(&values);
        Ok(())
    })
    .binary_shape(|lhs, rhs, _, _| together(lhs, rhs))
    .register()
    .unwrap();
    let (own, known) = (Op::new("own broadcasting", &[]).unwrap(), Op::new("broadcast_mul", &[]).unwrap());
    let mut draws = Draws::new(12);
    let mut of = |shape: &[usize]| {
        let values = draws.values(shape.iter().product(), -2.0, 2.0);
        NDArray::from_slice(&values, shape).unwrap()
    };
    for (lhs, rhs) in [(&[2, 3][..], &[3][..]), (&[4, 1, 2], &[3, 1]), (&[], &[2, 2]), (&[5], &[5]), (&[1], &[0, 3])] {
        let (a, b) = (of(lhs), of(rhs));
        let (found, expected) = (own.invoke(&[&a, &b]).unwrap(), known.invoke(&[&a, &b]).unwrap());
        assert_eq!(found.shape(), expected.shape());
        assert_eq!(found.to_vec::<f64>().unwrap(), expected.to_vec::<f64>().unwrap(), "{lhs:?} {rhs:?}");
    }
    let error = own.invoke(&[&of(&[2]), &of(&[3])]).unwrap_err();
    assert!(error.kind() == ErrorKind::ShapeMismatch && error.to_string().contains("go together here"), "{error}");
    // The default wants both equal.
    SimpleOp::binary("equal shapes", |a, b, _, out, req| binary_map(a.0, b.0, out, req, |a, b| a * b))
        .register()
        .unwrap();
    let error = Op::new("equal shapes", &[]).unwrap().invoke(&[&of(&[2]), &of(&[1])]).unwrap_err();
    assert!(error.to_string().contains("[2]") && error.to_string().contains("[1]"), "{error}");
}

/// Notes how both gradients were to be written.
static REQUESTS: Mutex<Vec<[OpReq; 2]>> = Mutex::new(Vec::new());

/// Writes two gradients.
fn write(
    ([lhs, rhs], req): TwoGradients<'_, '_>,
    of: impl Fn(&mut seriatim_tensor::BlobMut<'_>, OpReq, usize) -> Result<(), Error>,
) -> Result<(), Error> {
    REQUESTS.lock().unwrap().push(req);
    of(lhs, req[0], 0)?;
    of(rhs, req[1], 1)
}

#[test]
fn one_gradient_of_two_is_left_out_and_the_other_added() {
    SimpleOp::binary("plus", |a, b, _, out, req| binary_map(a.0, b.0, out, req, |a, b| a + b))
        .binary_gradient(BinaryGradient::T0(Box::new(|g, _, both| {
            write(both, |to, req, _| unary_map(g.0, to, req, |g| g))
        })))
        .register()
        .unwrap();
    SimpleOp::binary("exp of the sum", |a, b, _, out, req| binary_map(a.0, b.0, out, req, |a, b| (a + b).exp()))
        .binary_gradient(BinaryGradient::T1(Box::new(|g, y, _, both| {
            write(both, |to, req, _| binary_map(g.0, y.0, to, req, |g, y| g * y))
        })))
        .register()
        .unwrap();
    SimpleOp::binary("times", |a, b, _, out, req| binary_map(a.0, b.0, out, req, |a, b| a * b))
        .binary_gradient(BinaryGradient::T2(Box::new(|g, a, b, _, both| {
            write(both, |to, req, at| {
                let other = if at == 0 { b.0 } else { a.0 };
                binary_map(g.0, other, to, req, |g, other| g * other)
            })
        })))
        .register()
        .unwrap();
    let gradients: [(&str, ByBoth); 6] = [
        ("plus", |_, _| [1.0; 2]),
        ("exp of the sum", |a, b| [(a + b).exp(); 2]),
        ("times", |a, b| [b, a]),
        // Those of the crate.
        ("elemwise_add", |_, _| [1.0; 2]),
        ("_hypot", |a, b| [a / a.hypot(b), b / a.hypot(b)]),
        ("elemwise_mul", |a, b| [b, a]),
    ];
    for (name, by) in gradients {
        let op = Op::new(name, &[]).unwrap();
        for left_out in [0, 1] {
            let added = 1 - left_out;
            let inputs = [0.5, 1.5].map(|value| NDArray::from_slice(&[value], [1]).unwrap());
            inputs[left_out].attach_grad(OpReq::Null).unwrap();
            inputs[added].attach_grad(OpReq::Add).unwrap();
            inputs[added].grad().unwrap().fill(100.0).unwrap();
            REQUESTS.lock().unwrap().clear();
            for _ in 0..2 {
                let y = autograd::record(|| op.invoke(&[&inputs[0], &inputs[1]])).unwrap();
                autograd::backward(&[&y]).unwrap();
            }
            let found = inputs[added].grad().unwrap().as_scalar::<f64>().unwrap();
            let expected = 100.0 + 2.0 * by(0.5, 1.5)[added];
            assert!((found - expected).abs() < 1e-12, "{name}: {found} for {expected}");
            let mut asked = [OpReq::Null; 2];
            asked[added] = OpReq::Add;
            let seen = REQUESTS.lock().unwrap().clone();
            assert!(
                seen.iter().all(|req| *req == asked) && (seen.len() == 2 || name.contains('_')),
                "{name}: {seen:?}"
            );
        }
    }
}

#[test]
fn an_operator_says_for_which_devices_it_is() {
    let one = |name, devices: &'static [Device]| {
        SimpleOp::unary(name, |x, _, out, req| unary_map(x.0, out, req, |x| x + 1.0))
            .devices(devices)
            .describe("One more")
            .register()
            .unwrap();
    };
    one("for both", &[Device::Cpu, Device::Gpu]);
    one("for the other", &[Device::Gpu]);
    let x = NDArray::from_slice(&[1.0f32], [1]).unwrap();
    assert_eq!(Op::new("for both", &[]).unwrap().invoke(&[&x]).unwrap().as_scalar::<f32>().unwrap(), 2.0);
    let error = Op::new("for the other", &[]).unwrap().invoke(&[&x]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnsupportedContext, "{error}");
    assert!(error.to_string().contains("'for the other'") && error.to_string().contains("cpu(0)"), "{error}");
    let all = list_all_ops();
    assert!(["for both", "for the other"].iter().all(|name| all.iter().any(|op| op == &(*name, "One more".into()))));
}
