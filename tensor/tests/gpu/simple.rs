//! Simple operators with a function of their own for GPUs, beside that for the processor.

use crate::implementations::{values, OnDevice, Queue, GPU};
use seriatim::{Context, Device};
use seriatim_tensor::operator::{binary_map, list_all_ops, unary_map, BinaryGradient, Op, SimpleOp, UnaryGradient};
use seriatim_tensor::{autograd, Error, ErrorKind, NDArray, OpReq, Runtime};

/// Registers simple operators with other functions for GPUs: with a gradient of another kind, with
/// no gradient there, and of two operands. Their names begin as said.
pub fn register(prefix: &str, queue: Queue) -> [&'static str; 3] {
    let names = ["square", "no gradient", "first"].map(|name| &*format!("{prefix} {name}").leak());
    let [unary, without, binary] = names;
    let square = |name, of_gpu: Option<UnaryGradient>| {
        SimpleOp::unary(name, |x, _, out, req| unary_map(x.0, out, req, |x| x * x))
            .unary_gradient(UnaryGradient::T2(Box::new(|g, x, _, out, req| {
                binary_map(g.0, x.0, out, req, |g, x| 2.0 * g * x)
            })))
            .unary_on(Device::Gpu, |_, _, _, _| Err(Error::new(ErrorKind::Io, "of two the last counts")), None)
            .unary_on(Device::Gpu, move |x, env, out, req| OnDevice(5.0, queue).queue(env.ctx, &x.0, out, req), of_gpu)
            .describe("Another function for another device")
    };
    let five = UnaryGradient::T0(Box::new(move |g, env, out, req| OnDevice(5.0, queue).queue(env.ctx, &g.0, out, req)));
    square(unary, Some(five)).register().unwrap();
    square(without, None).register().unwrap();
    SimpleOp::binary(binary, |a, b, _, out, req| binary_map(a.0, b.0, out, req, |a, b| a * b))
        .binary_gradient(BinaryGradient::T2(Box::new(|g, a, b, _, ([lhs, rhs], req)| {
            binary_map(g.0, b.0, lhs, req[0], |g, b| g * b)?;
            binary_map(g.0, a.0, rhs, req[1], |g, a| g * a)
        })))
        .binary_on(
            Device::Gpu,
            move |a, _, env, out, req| OnDevice(2.0, queue).queue(env.ctx, &a.0, out, req),
            Some(BinaryGradient::T0(Box::new(move |g, env, ([lhs, rhs], req)| {
                OnDevice(2.0, queue).queue(env.ctx, &g.0, lhs, req[0])?;
                OnDevice(0.0, queue).queue(env.ctx, &g.0, rhs, req[1])
            }))),
        )
        .describe("Of two operands")
        .register()
        .unwrap();
    let pinned = SimpleOp::unary("pinned", |x, _, out, req| unary_map(x.0, out, req, |x| x));
    let refused = pinned.unary_on(Device::CpuPinned, |_, _, _, _| Ok(()), None).register().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::BadParameter);
    let about = |name: &str| list_all_ops().into_iter().find(|(other, _)| *other == name).unwrap().1;
    let other = "Another function for another device";
    assert_eq!(names.map(about), [other, other, "Of two operands"]);
    names
}

/// Values and gradients are those of the device's functions.
pub fn each_device_has_its_functions(runtime: &Runtime, [unary, without, binary]: [&str; 3]) {
    let of = |values: &[f32], context| {
        let array = runtime.from_slice_in(values, [values.len()], context).unwrap();
        array.attach_grad(OpReq::Write).unwrap();
        array
    };
    let run = |op: &Op, inputs: &[&NDArray]| {
        let y = autograd::record(|| op.invoke(inputs)).unwrap();
        autograd::backward(&[&y]).unwrap();
        let grads = inputs.iter().map(|input| values(&input.grad().unwrap()));
        [values(&y)].into_iter().chain(grads).collect::<Vec<_>>()
    };
    let (cpu, op) = (Context::cpu(0), Op::new(unary, &[]).unwrap());
    assert_eq!(op.property().devices(), [Device::Cpu, Device::CpuPinned, Device::Gpu]);
    assert_eq!(run(&op, &[&of(&[3.0, 4.0], cpu)]), [[9.0, 16.0], [6.0, 8.0]]);
    assert_eq!(run(&op, &[&of(&[3.0, 4.0], GPU)]), [[15.0, 20.0], [5.0, 5.0]]);
    // What the gradient of either device needs is kept.
    assert_eq!(op.property().declare_backward_dependency(&[0], &[1], &[2]), [0, 1]);
    let op = Op::new(binary, &[]).unwrap();
    let both = |context| [of(&[3.0, 4.0], context), of(&[5.0, 6.0], context)];
    let ([a, b], [c, d]) = (both(cpu), both(GPU));
    assert_eq!(run(&op, &[&a, &b]), [[15.0, 24.0], [5.0, 6.0], [3.0, 4.0]]);
    assert_eq!(run(&op, &[&c, &d]), [[6.0, 8.0], [2.0, 2.0], [0.0, 0.0]]);
    // A function without a gradient there.
    let (op, x) = (Op::new(without, &[]).unwrap(), of(&[3.0, 4.0], GPU));
    let y = autograd::record(|| op.invoke(&[&x])).unwrap();
    assert_eq!(values(&y), [15.0, 20.0]);
    autograd::backward(&[&y]).unwrap();
    let error = x.grad().unwrap().wait_to_read().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoGradient);
    assert!(error.to_string().contains("gpu(0)"), "{error}");
    let _ = runtime.wait_all();
}
