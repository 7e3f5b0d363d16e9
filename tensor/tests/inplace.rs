//! Gradients that are written over the gradient by the output: where memory is shared and where
//! not, the bits are the same.

mod common;

use common::Draws;
use seriatim::{Context, Engine, Kind};
use seriatim_tensor::autograd;
use seriatim_tensor::operator::{binary_map, unary_map, BinaryGradient, Inplace, Op, SimpleOp, UnaryGradient};
use seriatim_tensor::{BlobMut, DType, NDArray, OpReq, Runtime, Shape, Step};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::Arc;

/// How many gradients were written over what their function reads.
#[derive(Clone, Default)]
struct Shared(Arc<AtomicUsize>);

impl Shared {
    /// Counts a result that gives no slice although all of it is there.
    fn count(&self, out: &mut BlobMut<'_>, req: OpReq) {
        if !req.is_null() && out.as_mut_slice::<f64>().is_none() {
            self.0.fetch_add(1, SeqCst);
        }
    }

    fn take(&self) -> usize {
        self.0.swap(0, SeqCst)
    }
}

/// Twice: sin, of two kinds of gradients, and a product, each with the option or without.
struct Ops {
    sine: Op,
    exponential: Op,
    product: Op,
    shared: Shared,
}

fn ops(prefix: &str, inplace: Inplace) -> Ops {
    let shared = Shared::default();
    let [sine, exponential, product] = ["sin", "exp", "mul"].map(|name| &*format!("{prefix} {name}").leak());
    let counted = shared.clone();
    SimpleOp::unary(sine, |x, _, out, req| unary_map(x.0, out, req, f64::sin))
        .gradient_by_input(move |g, x, _, out, req| {
            counted.count(out, req);
            binary_map(g.0, x.0, out, req, |g, x| g * x.cos())
        })
        .inplace(inplace)
        .register()
        .unwrap();
    let counted = shared.clone();
    SimpleOp::unary(exponential, |x, _, out, req| unary_map(x.0, out, req, f64::exp))
        .unary_gradient(UnaryGradient::T1(Box::new(move |g, y, _, out, req| {
            counted.count(out, req);
            binary_map(g.0, y.0, out, req, |g, y| g * y)
        })))
        .inplace(inplace)
        .register()
        .unwrap();
    let counted = shared.clone();
    SimpleOp::binary(product, |a, b, _, out, req| binary_map(a.0, b.0, out, req, |a, b| a * b))
        .binary_shape(|lhs: &Shape, rhs: &Shape, _, _| lhs.broadcast(rhs))
        .binary_gradient(BinaryGradient::T2(Box::new(move |g, a, b, _, ([lhs, rhs], req)| {
            counted.count(lhs, req[0]);
            // The second first: the first one is written over the gradient that both read.
            binary_map(g.0, a.0, rhs, req[1], |g, a| g * a)?;
            if lhs.shape() == g.0.shape() {
                return binary_map(g.0, b.0, lhs, req[0], |g, b| g * b);
            }
            let sum: f64 = g.0.to_vec::<f64>().iter().zip(b.0.to_vec::<f64>()).map(|(g, b)| g * b).sum();
            lhs.writer(req[0]).put(&[sum]);
            Ok(())
        })))
        .inplace(inplace)
        .register()
        .unwrap();
    let of = |name| Op::new(name, &[]).unwrap();
    Ops { sine: of(sine), exponential: of(exponential), product: of(product), shared }
}

fn runtime() -> Runtime {
    Runtime::new(&Engine::builder().kind(Kind::Naive).build().unwrap())
}

fn bits(array: &NDArray) -> Vec<u64> {
    array.to_vec::<f64>().unwrap().into_iter().map(f64::to_bits).collect()
}

/// The blocks that a closure asks the storage for.
fn blocks(runtime: &Runtime, closure: impl FnOnce()) -> usize {
    let requests = || runtime.statistics(Context::cpu(0)).unwrap().requests;
    let before = requests();
    closure();
    requests() - before
}

/// With the option and without, side by side.
fn both(prefix: &str) -> [Ops; 2] {
    [ops(&format!("{prefix} over"), Inplace::OutIn), ops(&format!("{prefix} beside"), Inplace::No)]
}

fn drawn(runtime: &Runtime, seed: u64) -> NDArray {
    let mut draws = Draws::new(seed);
    let values: Vec<f64> = (0..1000).map(|_| draws.below(2000) as f64 / 1000.0 - 1.0).collect();
    let array = runtime.from_slice(&values, [1000]).unwrap();
    array.attach_grad(OpReq::Write).unwrap();
    array
}

#[test]
fn a_gradient_of_one_operand_is_written_over_that_by_the_output() {
    let runtime = runtime();
    let [over, beside] = both("unary").map(|ops| {
        let x = drawn(&runtime, 1);
        let y = autograd::record(|| {
            let y = ops.sine.invoke(&[&ops.exponential.invoke(&[&ops.sine.invoke(&[&x])?])?])?;
            ops.exponential.invoke(&[&y])
        })
        .unwrap();
        let count = blocks(&runtime, || autograd::backward(&[&y]).unwrap());
        (bits(&x.grad().unwrap()), count, ops.shared.take())
    });
    assert_eq!(over.0, beside.0);
    // Four gradients: the first one's memory serves three, and the last goes to what is attached.
    assert_eq!((over.2, beside.2), (3, 0));
    assert_eq!(beside.1 - over.1, 3);
}

#[test]
fn a_gradient_of_the_first_operand_is_written_over_that_by_the_output() {
    let runtime = runtime();
    let [over, beside] = both("binary").map(|ops| {
        let (x, y) = (drawn(&runtime, 1), drawn(&runtime, 2));
        let z = autograd::record(|| ops.product.invoke(&[&ops.product.invoke(&[&ops.sine.invoke(&[&x])?, &y])?, &y]));
        let z = z.unwrap();
        let count = blocks(&runtime, || autograd::backward(&[&z]).unwrap());
        ([&x, &y].map(|input| bits(&input.grad().unwrap())), count, ops.shared.take())
    });
    assert_eq!(over.0, beside.0);
    assert_eq!((over.2, beside.2, beside.1 - over.1), (2, 0, 2));
}

#[test]
fn where_memory_cannot_be_shared_the_bits_are_the_same() {
    let runtime = runtime();
    let [over, beside] = both("apart").map(|ops| {
        let (x, y) = (drawn(&runtime, 1), drawn(&runtime, 2));
        let one = runtime.from_slice(&[0.7f64], [1]).unwrap();
        one.attach_grad(OpReq::Add).unwrap();
        let given = runtime.from_slice(&vec![0.5f64; 1000], [1000]).unwrap();
        let mut seen = Vec::new();
        // A value that is used twice, whose second gradient is added; one operand that is both.
        let z = autograd::record(|| {
            let twice = ops.sine.invoke(&[&x])?;
            let product = ops.product.invoke(&[&ops.exponential.invoke(&[&twice])?, &ops.sine.invoke(&[&twice])?])?;
            ops.product.invoke(&[&product, &product])?.mul(&y)
        })
        .unwrap();
        // Walked over twice: nothing has changed what was recorded, or what the program has given.
        for retain in [true, false] {
            autograd::backward_with(&[(&z, Some(&given))], retain).unwrap();
            seen.extend([&x, &y].map(|input| bits(&input.grad().unwrap())));
        }
        assert_eq!(given.to_vec::<f64>().unwrap(), [0.5; 1000]);
        assert_eq!(seen[..2], seen[2..]);
        // Nor has the last call, whose gradient would be written over the given one.
        let z = autograd::record(|| ops.exponential.invoke(&[&ops.sine.invoke(&[&x])?])).unwrap();
        autograd::backward_with(&[(&z, Some(&given))], false).unwrap();
        assert_eq!(given.to_vec::<f64>().unwrap(), [0.5; 1000]);
        ops.shared.take();
        // A first operand that is spread has another shape than the output.
        let z = autograd::record(|| ops.product.invoke(&[&ops.sine.invoke(&[&one])?, &x])).unwrap();
        autograd::backward(&[&z]).unwrap();
        assert_eq!(ops.shared.take(), 0);
        seen.push(bits(&one.grad().unwrap()));
        seen
    });
    assert_eq!(over, beside);
}

#[test]
fn a_captured_step_shares_the_same_memory() {
    let runtime = runtime();
    let [over, beside] = both("captured").map(|ops| {
        let x = drawn(&runtime, 1);
        let of = runtime.zeros([1000], DType::F64).unwrap();
        let mut step = Step::capture(&[&of], |inputs| {
            let y = autograd::record(|| {
                let y = ops.sine.invoke(&[&ops.product.invoke(&[&ops.exponential.invoke(&[&x])?, &inputs[0]])?])?;
                ops.exponential.invoke(&[&y])
            })?;
            autograd::backward(&[&y])?;
            Ok(y)
        })
        .unwrap();
        let mut seen = Vec::new();
        for seed in 2..5 {
            step.run(&[&drawn(&runtime, seed)]).unwrap();
            seen.push(bits(&x.grad().unwrap()));
        }
        (seen, ops.shared.take())
    });
    assert_eq!(over.0, beside.0);
    assert!(over.0[0] != over.0[1] && over.1 > 0 && beside.1 == 0);
}
