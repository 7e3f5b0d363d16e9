//! The registry, parameters, and operators of programs: with auxiliary states, with resources, with
//! several outputs, and simple ones of every kind of gradient.

mod common;

use common::{runtime, runtimes};
use seriatim::{Context, Kind};
use seriatim_tensor::operator::{
    assign_shape, binary_map, list_all_ops, register, unary_map, BinaryGradient, Given, Op, OpContext, Operator,
    OperatorProperty, SimpleOp, UnaryGradient,
};
use seriatim_tensor::resource::ResourceRequest;
use seriatim_tensor::{autograd, Blob, BlobMut, DType, Error, ErrorKind, NDArray, OpReq, Shape};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// The element-wise functions that the design names.
const UNARY: &str = "negative reciprocal abs sign rint ceil floor trunc fix round square sqrt rsqrt cbrt rcbrt exp \
                     expm1 log log2 log10 log1p sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arccosh arctanh \
                     degrees radians gamma gammaln";

#[test]
fn the_operators_of_this_storey_are_registered() {
    let all = list_all_ops();
    let has = |name: &str| all.iter().any(|(known, about)| *known == name && !about.is_empty());
    let binary =
        "add sub mul div power maximum minimum hypot equal not_equal greater greater_equal lesser lesser_equal";
    for name in UNARY.split_whitespace().map(str::to_owned).chain(binary.split(' ').map(|n| format!("broadcast_{n}"))) {
        assert!(has(&name), "{name}");
    }
    for name in ["_rminus_scalar", "_rdiv_scalar", "_rpower_scalar", "_plus_scalar", "smooth_l1", "SoftmaxOutput"] {
        assert!(has(name), "{name}");
    }
}

/// The parameters of a call.
type Parameters = &'static [(&'static str, &'static str)];

#[test]
fn parameters_come_back_and_wrong_ones_are_refused() {
    let cases: [(&str, Parameters); 10] = [
        ("FullyConnected", &[("num_hidden", "7"), ("no_bias", "True")]),
        ("sum", &[("axis", "(0, -1)"), ("keepdims", "1")]),
        ("dot", &[("transpose_a", "true")]),
        ("softmax", &[("axis", "0"), ("temperature", "2.5")]),
        ("SoftmaxOutput", &[("normalization", "valid")]),
        ("Activation", &[("act_type", "tanh")]),
        ("Cast", &[("dtype", "float16")]),
        ("sgd_mom_update", &[("lr", "0.1"), ("momentum", "0.9")]),
        ("adam_update", &[("lr", "clock"), ("beta2", "0.5"), ("epsilon", "1e-6")]),
        ("rmsprop_update", &[("lr", "0.1"), ("clip_weights", "2")]),
    ];
    for (name, parameters) in cases {
        let written = Op::new(name, parameters).unwrap().property().get_params();
        let given: Vec<(&str, &str)> = written.iter().map(|(name, text)| (*name, text.as_str())).collect();
        assert_eq!(Op::new(name, &given).unwrap().property().get_params(), written, "{name}");
    }
    let wrong: [(&str, Parameters, &str); 7] = [
        ("FullyConnected", &[], "'num_hidden' is missing"),
        ("FullyConnected", &[("num_hidden", "0")], "in 1.."),
        ("FullyConnected", &[("num_hidden", "two")], "ill-formed"),
        ("FullyConnected", &[("num_hidden", "2"), ("hidden", "2")], "no parameter 'hidden'; known are: num_hidden"),
        ("Activation", &[("act_type", "rely")], "relu, sigmoid, tanh"),
        ("sgd_mom_update", &[("lr", "1"), ("momentum", "1.0")], "out of its range"),
        ("exp", &[("scalar", "1")], "no parameter 'scalar'"),
    ];
    for (name, parameters, said) in wrong {
        let error = Op::new(name, parameters).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadParameter);
        assert!(error.to_string().contains(said) && error.to_string().contains(name), "{error}");
    }
}

/// Takes the least and the greatest off, keeps how often it ran in an auxiliary state, and asks for
/// both resources in an order of its own.
#[derive(Clone)]
struct Odd {
    requests: [ResourceRequest; 2],
}

impl OperatorProperty for Odd {
    fn list_outputs(&self) -> Vec<&'static str> {
        vec!["noise", "doubled", "hidden"]
    }

    fn num_visible_outputs(&self) -> usize {
        2
    }

    fn list_auxiliary_states(&self) -> Vec<&'static str> {
        vec!["count"]
    }

    fn infer_shape(
        &self,
        in_shape: &mut [Option<Shape>],
        out_shape: &mut [Option<Shape>],
        aux_shape: &mut [Option<Shape>],
    ) -> Result<bool, Error> {
        let Some(shape) = in_shape[0] else { return Ok(false) };
        for out in out_shape {
            assign_shape("output", out, shape)?;
        }
        assign_shape("count", &mut aux_shape[0], Shape::SCALAR).map(|()| true)
    }

    fn forward_resource(&self) -> Vec<ResourceRequest> {
        self.requests.to_vec()
    }

    fn has_gradient(&self) -> bool {
        false
    }

    fn create_operator(&self, _: Context) -> Result<Box<dyn Operator>, Error> {
        Ok(Box::new(self.clone()))
    }
}

static INSIDE: AtomicUsize = AtomicUsize::new(0);

impl Operator for Odd {
    fn forward(
        &self,
        ctx: &mut OpContext<'_, '_>,
        in_data: &[Blob<'_>],
        req: &[OpReq],
        out_data: &mut [BlobMut<'_>],
        aux_states: &mut [BlobMut<'_>],
    ) -> Result<(), Error> {
        assert_eq!(req.len(), out_data.len());
        assert_eq!(INSIDE.fetch_add(1, SeqCst), 0, "operations with one resource run one after the other");
        aux_states[0].writer::<f64>(OpReq::Add).put(&[1.0]);
        for resource in ctx.requested.iter_mut() {
            match resource.request() {
                ResourceRequest::Random => {
                    assert_eq!(resource.get_space::<f32>(1).unwrap_err().kind(), ErrorKind::BadParameter);
                    let draw = rand_core::RngCore::next_u32(resource.get_random()?);
                    unary_map(in_data[0], &mut out_data[0], req[0], |_| f64::from(draw))?;
                }
                _ => {
                    assert!(resource.get_random().is_err());
                    let space = resource.get_space::<f64>(in_data[0].size())?;
                    in_data[0].reader().fill(space);
                    space.iter_mut().for_each(|value| *value *= 2.0);
                    out_data[1].writer(req[1]).put(space);
                }
            }
        }
        INSIDE.fetch_sub(1, SeqCst);
        Ok(())
    }
}

#[test]
fn an_operator_has_outputs_states_and_resources() {
    let mut noise = Vec::new();
    for requests in [ResourceRequest::Random, ResourceRequest::TempSpace].map(|first| {
        let second =
            if first == ResourceRequest::Random { ResourceRequest::TempSpace } else { ResourceRequest::Random };
        [first, second]
    }) {
        for (name, runtime) in runtimes() {
            let odd = Op::of_property("odd", Box::new(Odd { requests })).unwrap();
            runtime.seed(1).unwrap();
            let count = runtime.zeros([0usize; 0], DType::F32).unwrap();
            let x = runtime.arange(0.0, 3.0, 1.0, DType::F32).unwrap();
            let mut drawn = Vec::new();
            for _ in 0..20 {
                let outputs = odd.invoke_all(&[&x, &count]).unwrap();
                assert_eq!(outputs.len(), 2);
                assert_eq!(outputs[1].to_vec::<f32>().unwrap(), [0.0, 2.0, 4.0]);
                drawn.extend(outputs[0].to_vec::<f32>().unwrap());
            }
            assert_eq!(count.as_scalar::<f32>().unwrap(), 20.0, "{name}");
            noise.push(drawn);
        }
    }
    assert!(noise.windows(2).all(|pair| pair[0] == pair[1]), "the same draws on every engine");
    assert_ne!(noise[0][0], noise[0][3]);
}

#[test]
fn a_gradient_through_an_operator_without_one_is_refused() {
    let x = NDArray::from_slice(&[1.0f32, 2.0], [2]).unwrap();
    x.attach_grad(OpReq::Write).unwrap();
    let y = autograd::record(|| x.equal(&x.square()?)).unwrap();
    let error = autograd::backward(&[&y]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoGradient);
    assert!(error.to_string().contains("'elemwise_equal'") || error.to_string().contains("'_equal'"), "{error}");
    let error = autograd::record(|| x.add_scalar_assign(1.0)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Recording);
    assert_eq!(autograd::backward(&[&x.square().unwrap()]).unwrap_err().kind(), ErrorKind::NotRecorded);
    assert_eq!(x.at(0).unwrap().attach_grad(OpReq::Write).unwrap_err().kind(), ErrorKind::Recording);
    assert_eq!(x.attach_grad(OpReq::Write).unwrap_err().kind(), ErrorKind::Recording);
    let whole = NDArray::from_slice(&[1], [1]).unwrap();
    assert_eq!(whole.attach_grad(OpReq::Write).unwrap_err().kind(), ErrorKind::UnsupportedType);
    // Nothing is recorded any more.
    assert!(!autograd::is_recording());
    let blocked = Op::new("BlockGrad", &[]).unwrap();
    let z = autograd::record(|| blocked.invoke(&[&x.square()?])?.add(&x)).unwrap();
    autograd::backward(&[&z]).unwrap();
    assert_eq!(x.grad().unwrap().to_vec::<f32>().unwrap(), [1.0, 1.0]);
}

#[test]
fn arrays_in_two_places_of_a_call_are_kept_apart() {
    let update = Op::new("sgd_mom_update", &[("lr", "0.1")]).unwrap();
    let x = NDArray::from_slice(&[1.0f64, 2.0], [2]).unwrap();
    let grad = x.copy().unwrap();
    for state in [&x, &grad] {
        let error = update.invoke_into(&[&x, &grad, state], &[(&x, OpReq::Inplace)]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WrongArguments, "{error}");
    }
    // The gradient that is written is also read: as if it were read first.
    x.attach_grad(OpReq::Write).unwrap();
    let old = x.grad().unwrap();
    old.copy_from_slice(&[5.0f64, 7.0]).unwrap();
    let dot = Op::new("dot", &[]).unwrap();
    let y = autograd::record(|| dot.invoke(&[&x, &old])).unwrap();
    autograd::backward(&[&y]).unwrap();
    assert_eq!(old.to_vec::<f64>().unwrap(), [5.0, 7.0]);
    let z = autograd::record(|| dot.invoke(&[&x, &x])).unwrap();
    autograd::backward(&[&z]).unwrap();
    assert_eq!(old.to_vec::<f64>().unwrap(), [2.0, 4.0]);
}

#[test]
fn a_panic_while_recording_leaves_the_thread_as_it_was() {
    let panicked = std::panic::catch_unwind(|| autograd::record(|| panic!("in a closure")));
    assert!(panicked.is_err() && !autograd::is_recording() && !autograd::is_training());
}

#[test]
fn simple_operators_have_gradients_of_every_kind() {
    let double = |g: Blob<'_>, out: &mut BlobMut<'_>, req| unary_map(g, out, req, |g| 2.0 * g);
    SimpleOp::unary("t0", |x, _, out, req| unary_map(x.0, out, req, |x| 2.0 * x))
        .unary_gradient(UnaryGradient::T0(Box::new(move |g, _, out, req| double(g.0, out, req))))
        .register()
        .unwrap();
    SimpleOp::unary("t1", |x, _, out, req| unary_map(x.0, out, req, f64::exp))
        .unary_gradient(UnaryGradient::T1(Box::new(|g, y, _, out, req| binary_map(g.0, y.0, out, req, |g, y| g * y))))
        .register()
        .unwrap();
    SimpleOp::binary("b1", |a, b, _, out, req| binary_map(a.0, b.0, out, req, |a, b| (a + b).exp()))
        .binary_gradient(BinaryGradient::T1(Box::new(|g, y, _, ([lhs, rhs], req)| {
            binary_map(g.0, y.0, lhs, req[0], |g, y| g * y)?;
            binary_map(g.0, y.0, rhs, req[1], |g, y| g * y)
        })))
        .register()
        .unwrap();
    let gradient = |name: &str, inputs: &[&NDArray]| {
        let op = Op::new(name, &[]).unwrap();
        inputs.iter().for_each(|input| input.attach_grad(OpReq::Write).unwrap());
        let y = autograd::record(|| op.invoke(inputs)).unwrap();
        autograd::backward(&[&y]).unwrap();
        inputs.iter().map(|input| input.grad().unwrap().as_scalar::<f64>().unwrap()).collect::<Vec<_>>()
    };
    let of = |value: f64| NDArray::from_slice(&[value], [1]).unwrap();
    assert_eq!(gradient("t0", &[&of(3.0)]), [2.0]);
    assert_eq!(gradient("t1", &[&of(0.5)]), [0.5f64.exp()]);
    assert_eq!(gradient("b1", &[&of(0.25), &of(0.5)]), [0.75f64.exp(); 2]);
    // What a kind does not use is not declared.
    let needs = |name: &str| Op::new(name, &[]).unwrap().property().declare_backward_dependency(&[0], &[1], &[2]);
    assert_eq!((needs("t0"), needs("exp"), needs("sin")), (vec![0], vec![0, 2], vec![0, 1]));
    let dense = Op::new("FullyConnected", &[("num_hidden", "2")]).unwrap();
    assert_eq!(dense.property().declare_backward_dependency(&[0], &[1, 2, 3], &[4]), [0, 1, 2]);
}

#[test]
fn keywords_scalars_and_names_are_checked() {
    let both = SimpleOp::unary("both", |x, _, out, req| unary_map(x.0, out, req, |x| x));
    let error = both.enable_scalar(true).enable_kwargs(true).register().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BadParameter);
    SimpleOp::unary("keyed", |x, env, out, req| {
        let factor: f64 = env.kwargs[0].1.parse().unwrap_or(f64::NAN);
        unary_map(x.0, out, req, |x| x * factor)
    })
    .unary_shape(|shape, _, kwargs| match kwargs {
        [(name, _)] if name == "factor" => Ok(*shape),
        _ => Err(Error::new(ErrorKind::BadParameter, "the keyword 'factor' is missing")),
    })
    .enable_kwargs(true)
    .register()
    .unwrap();
    let x = NDArray::from_slice(&[1.5f32], [1]).unwrap();
    assert_eq!(Op::new("keyed", &[("factor", "2")]).unwrap().invoke(&[&x]).unwrap().as_scalar::<f32>().unwrap(), 3.0);
    let error = Op::new("keyed", &[]).unwrap().invoke(&[&x]).unwrap_err();
    assert!(error.kind() == ErrorKind::BadParameter && error.to_string().contains("'factor'"), "{error}");
    let again = register("exp", "", |()| Err(Error::new(ErrorKind::Io, "")));
    assert_eq!(again.unwrap_err().kind(), ErrorKind::AlreadyRegistered);
    let error = Op::new("Exp", &[]).unwrap_err();
    assert!(error.kind() == ErrorKind::UnknownOperator && error.to_string().contains("\"exp\""), "{error}");
    assert_eq!(Op::new("exp", &[]).unwrap().invoke(&[&x, &x]).unwrap_err().kind(), ErrorKind::WrongArguments);
}

#[test]
fn the_smooth_l1_loss_is_as_the_document_has_it() {
    let op = Op::new("smooth_l1", &[("scalar", "2")]).unwrap();
    let inputs = [0.0, 0.25, -0.25, 0.250_001, 3.0, -3.0, f64::INFINITY, f64::NEG_INFINITY];
    let x = NDArray::from_slice(&inputs, [8]).unwrap();
    let expected = inputs.map(|x| {
        let sigma2 = 4.0;
        match x {
            x if x > 1.0 / sigma2 => x - 0.5 / sigma2,
            x if x < -1.0 / sigma2 => -x - 0.5 / sigma2,
            x => 0.5 * x * x * sigma2,
        }
    });
    assert_eq!(op.invoke(&[&x]).unwrap().to_vec::<f64>().unwrap(), expected);
    // loss = outside · f(inside · (data - label)), whose gradient is composed.
    let of = |values: &[f64]| NDArray::from_slice(values, [3]).unwrap();
    let (data, label, inside, outside) =
        (of(&[0.1, 2.0, -2.0]), of(&[0.0, 0.5, 0.5]), of(&[1.0, 0.5, 1.0]), of(&[2.0, 1.0, 0.0]));
    data.attach_grad(OpReq::Write).unwrap();
    let loss = autograd::record(|| outside.mul(&op.invoke(&[&inside.mul(&data.sub(&label)?)?])?)).unwrap();
    autograd::backward(&[&loss]).unwrap();
    assert_eq!(data.grad().unwrap().to_vec::<f64>().unwrap(), [2.0 * 0.1 * 4.0, 0.5, 0.0]);
}

#[test]
fn a_backward_pass_has_only_what_is_declared() {
    struct Undeclared;
    impl OperatorProperty for Undeclared {
        fn infer_shape(
            &self,
            in_shape: &mut [Option<Shape>],
            out_shape: &mut [Option<Shape>],
            _: &mut [Option<Shape>],
        ) -> Result<bool, Error> {
            out_shape[0] = in_shape[0];
            Ok(in_shape[0].is_some())
        }

        fn declare_backward_dependency(&self, out_grad: &[usize], _: &[usize], _: &[usize]) -> Vec<usize> {
            out_grad.to_vec()
        }

        fn create_operator(&self, _: Context) -> Result<Box<dyn Operator>, Error> {
            Ok(Box::new(Undeclared))
        }
    }
    impl Operator for Undeclared {
        fn forward(
            &self,
            _: &mut OpContext<'_, '_>,
            in_data: &[Blob<'_>],
            req: &[OpReq],
            out_data: &mut [BlobMut<'_>],
            _: &mut [BlobMut<'_>],
        ) -> Result<(), Error> {
            unary_map(in_data[0], &mut out_data[0], req[0], |x| x)
        }

        fn backward(
            &self,
            _: &mut OpContext<'_, '_>,
            _: Given<'_>,
            in_data: Given<'_>,
            _: Given<'_>,
            _: &[OpReq],
            _: &mut [BlobMut<'_>],
            _: &mut [BlobMut<'_>],
        ) -> Result<(), Error> {
            in_data.get(0).map(|_| ())
        }
    }
    let runtime = runtime(Kind::PerDevice, 1);
    let x = runtime.ones([2], DType::F32).unwrap();
    x.attach_grad(OpReq::Write).unwrap();
    let op = Op::of_property("undeclared", Box::new(Undeclared)).unwrap();
    let y = autograd::record(|| op.invoke(&[&x])).unwrap();
    autograd::backward(&[&y]).unwrap();
    let error = x.grad().unwrap().wait_to_read().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WrongArguments);
    assert!(error.to_string().contains("'undeclared backward'"), "{error}");
}
