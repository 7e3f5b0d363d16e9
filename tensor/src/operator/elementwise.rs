//! The operators that work element by element: those of `kernel/unary.rs` and `kernel/binary.rs`,
//! copies, and `smooth_l1`.
//!
//! Used by `mod.rs`, which puts them into the registry.

#![forbid(unsafe_code)]

use crate::dtype::{DType, Element};
use crate::error::Error;
use crate::kernel::{binary, unary};
use crate::ndarray::access::{Blob, BlobMut};
use crate::operator::map::{copy, map, map_in_parts};
use crate::operator::parts::Workers;
use crate::operator::property::{OpContext, FLOATS, NUMBERS};
use crate::operator::reduction::sum_to;
use crate::operator::simple::SimpleOp;
use crate::operator::simple_kinds::{BinaryGradient, Inplace, UnaryGradient};
use crate::request::OpReq;
use crate::shape::{Layout, Shape};

/// Applies a function to each element, in `f64` for arrays of `f64` and in `f32` for other floats.
/// For operators of programs.
///
/// # Errors
/// None for arrays of one shape.
pub fn unary_map(x: Blob<'_>, out: &mut BlobMut<'_>, req: OpReq, f: impl Fn(f64) -> f64) -> Result<(), Error> {
    map::<f64>(&[x], out, req, |x, out| out.iter_mut().zip(x[0]).for_each(|(out, x)| *out = f(*x)))
}

/// Applies a function to each two elements of arrays that broadcast to the shape of `out`.
///
/// # Errors
/// [`ShapeMismatch`](crate::ErrorKind::ShapeMismatch) if they do not.
pub fn binary_map(
    a: Blob<'_>,
    b: Blob<'_>,
    out: &mut BlobMut<'_>,
    req: OpReq,
    f: impl Fn(f64, f64) -> f64,
) -> Result<(), Error> {
    map::<f64>(&[a, b], out, req, |x, out| {
        out.iter_mut().zip(x[0]).zip(x[1]).for_each(|((out, a), b)| *out = f(*a, *b));
    })
}

/// Whether elements are computed as `f64`.
fn is_double(dtype: DType) -> bool {
    dtype == DType::F64
}

/// The function of a table's entry on an array.
pub(super) fn unary_forward(
    entry: &unary::Unary,
    workers: Workers<'_>,
    x: Blob<'_>,
    out: &mut BlobMut<'_>,
    req: OpReq,
) -> Result<(), Error> {
    match is_double(x.dtype()) {
        true => map_in_parts::<f64>(workers, &[x], out, req, |x, out| (entry.f64.0)(x[0], out)),
        false => map_in_parts::<f32>(workers, &[x], out, req, |x, out| (entry.f32.0)(x[0], out)),
    }
}

/// Its gradient, of that by the result, and the operand or the result.
pub(super) fn unary_backward(
    entry: &unary::Unary,
    workers: Workers<'_>,
    inputs: [Blob<'_>; 2],
    out: &mut BlobMut<'_>,
    req: OpReq,
) -> Result<(), Error> {
    match is_double(inputs[0].dtype()) {
        true => map_in_parts::<f64>(workers, &inputs, out, req, |x, out| (entry.f64.1)(x[0], x[1], out)),
        false => map_in_parts::<f32>(workers, &inputs, out, req, |x, out| (entry.f32.1)(x[0], x[1], out)),
    }
}

fn of_unary(entry: &'static unary::Unary) -> SimpleOp {
    let gradient = match entry.uses {
        unary::Uses::Nothing => UnaryGradient::T0(Box::new(move |g, env, out, req| {
            unary_backward(entry, env.ctx.workers(), [g.0, g.0], out, req)
        })),
        unary::Uses::Input => UnaryGradient::T2(Box::new(move |g, x, env, out, req| {
            unary_backward(entry, env.ctx.workers(), [g.0, x.0], out, req)
        })),
        unary::Uses::Output => UnaryGradient::T1(Box::new(move |g, y, env, out, req| {
            unary_backward(entry, env.ctx.workers(), [g.0, y.0], out, req)
        })),
    };
    SimpleOp::unary(entry.name, move |x, env, out, req| unary_forward(entry, env.ctx.workers(), x.0, out, req))
        .unary_gradient(gradient)
        .inplace(Inplace::InOut)
        .describe(entry.about)
}

/// The function of a table's entry on two arrays, or on an array and a scalar.
fn forward(
    entry: &binary::Binary,
    workers: Workers<'_>,
    a: Blob<'_>,
    b: Side<'_>,
    out: &mut BlobMut<'_>,
    req: OpReq,
) -> Result<(), Error> {
    match (a.dtype(), entry.i64) {
        (DType::F64, _) => b.apply::<f64>(workers, a, out, req, entry.f64.forward),
        (dtype, Some(whole)) if !dtype.is_float() => b.apply::<i64>(workers, a, out, req, whole),
        _ => b.apply::<f32>(workers, a, out, req, entry.f32.forward),
    }
}

/// The other operand of an array.
#[derive(Clone, Copy)]
enum Side<'a> {
    Array(Blob<'a>),
    Scalar(f64),
    /// A scalar that comes first.
    ScalarFirst(f64),
}

impl Side<'_> {
    fn apply<W: Element>(
        self,
        workers: Workers<'_>,
        a: Blob<'_>,
        out: &mut BlobMut<'_>,
        req: OpReq,
        f: binary::Forward<W>,
    ) -> Result<(), Error> {
        match self {
            Side::Array(b) => map_in_parts::<W>(workers, &[a, b], out, req, |x, out| f(x[0], x[1], out)),
            Side::Scalar(scalar) => {
                map_in_parts::<W>(workers, &[a], out, req, |x, out| with_scalar(scalar, x[0], out, f))
            }
            Side::ScalarFirst(scalar) => map_in_parts::<W>(workers, &[a], out, req, |x, out| {
                with_scalar(scalar, x[0], out, |a, b, out| f(b, a, out));
            }),
        }
    }
}

/// Calls `f` with a block that is full of the scalar as its second operand.
fn with_scalar<W: Element>(scalar: f64, x: &[W], out: &mut [W], f: impl Fn(&[W], &[W], &mut [W])) {
    const BLOCK: usize = 256;
    let block = [W::from_number(scalar.to_number()); BLOCK];
    for (x, out) in x.chunks(BLOCK).zip(out.chunks_mut(BLOCK)) {
        f(x, &block[..x.len()], out);
    }
}

/// The gradient by one operand, summed over the axes along which that was broadcast.
fn gradient_to(
    entry: &'static binary::Binary,
    is_lhs: bool,
    [g, a, b]: [Blob<'_>; 3],
    ctx: &OpContext<'_, '_>,
    out: &mut BlobMut<'_>,
    req: OpReq,
) -> Result<(), Error> {
    fn whole<W: Element>(
        [g, a, b]: [Blob<'_>; 3],
        ctx: &OpContext<'_, '_>,
        out: &mut BlobMut<'_>,
        req: OpReq,
        f: binary::Backward<W>,
    ) -> Result<(), Error> {
        let apply = |x: &[&[W]], out: &mut [W]| f(x[0], x[1], x[2], out);
        if req.is_null() || out.shape() == g.shape() {
            return map_in_parts::<W>(ctx.workers(), &[g, a, b], out, req, apply);
        }
        let mut scratch = ctx.scratch::<W>(g.size())?;
        let layout = Layout::contiguous(g.shape());
        let made = &mut BlobMut::of_slice(scratch.as_mut_slice(), &layout);
        map_in_parts::<W>(ctx.workers(), &[g, a, b], made, OpReq::Write, apply)?;
        sum_to(ctx.workers(), &Blob::of_slice(scratch.as_mut_slice(), &layout), out, req)
    }
    match is_double(g.dtype()) {
        true => whole::<f64>([g, a, b], ctx, out, req, if is_lhs { entry.f64.lhs } else { entry.f64.rhs }),
        false => whole::<f32>([g, a, b], ctx, out, req, if is_lhs { entry.f32.lhs } else { entry.f32.rhs }),
    }
}

fn of_two_arrays(entry: &'static binary::Binary, name: &'static str, broadcasts: bool) -> SimpleOp {
    let op = SimpleOp::binary(name, move |a, b, env, out, req| {
        forward(entry, env.ctx.workers(), a.0, Side::Array(b.0), out, req)
    });
    let op = match broadcasts {
        true => op.binary_shape(|lhs: &Shape, rhs: &Shape, _, _| lhs.broadcast(rhs)),
        false => op.inplace(Inplace::InOut),
    };
    let op = op.types(if entry.i64.is_some() { NUMBERS } else { FLOATS }).describe(entry.about);
    match (entry.is_comparison, entry.is_linear) {
        (true, _) => op,
        // The gradient by the value stands for the operands, which are not looked at.
        (false, true) => op.binary_gradient(BinaryGradient::T0(Box::new(move |g, env, ([lhs, rhs], req)| {
            gradient_to(entry, true, [g.0; 3], env.ctx, lhs, req[0])?;
            gradient_to(entry, false, [g.0; 3], env.ctx, rhs, req[1])
        }))),
        (false, false) => op.binary_gradient(BinaryGradient::T2(Box::new(move |g, a, b, env, ([lhs, rhs], req)| {
            gradient_to(entry, true, [g.0, a.0, b.0], env.ctx, lhs, req[0])?;
            gradient_to(entry, false, [g.0, a.0, b.0], env.ctx, rhs, req[1])
        }))),
    }
}

fn of_scalar(entry: &'static binary::Binary, name: &'static str, scalar_first: bool) -> SimpleOp {
    let side = move |scalar| if scalar_first { Side::ScalarFirst(scalar) } else { Side::Scalar(scalar) };
    let op = SimpleOp::unary(name, move |x, env, out, req| {
        forward(entry, env.ctx.workers(), x.0, side(env.scalar), out, req)
    })
    .enable_scalar(true)
    .inplace(Inplace::InOut)
    .types(if entry.i64.is_some() { NUMBERS } else { FLOATS })
    .describe(entry.about);
    fn one<W: Element>(
        scalar: f64,
        scalar_first: bool,
        (workers, [g, x]): (Workers<'_>, [Blob<'_>; 2]),
        out: &mut BlobMut<'_>,
        req: OpReq,
        of: &binary::Of<W>,
    ) -> Result<(), Error> {
        map_in_parts::<W>(workers, &[g, x], out, req, |inputs, out| {
            const BLOCK: usize = 256;
            let block = [W::from_number(scalar.to_number()); BLOCK];
            let blocks = inputs[0].chunks(BLOCK).zip(inputs[1].chunks(BLOCK)).zip(out.chunks_mut(BLOCK));
            for ((g, x), out) in blocks {
                match scalar_first {
                    true => (of.rhs)(g, &block[..x.len()], x, out),
                    false => (of.lhs)(g, x, &block[..x.len()], out),
                }
            }
        })
    }
    if entry.is_comparison {
        return op;
    }
    op.gradient_by_input(move |g, x, env, out, req| match is_double(x.0.dtype()) {
        true => one(env.scalar, scalar_first, (env.ctx.workers(), [g.0, x.0]), out, req, &entry.f64),
        false => one(env.scalar, scalar_first, (env.ctx.workers(), [g.0, x.0]), out, req, &entry.f32),
    })
}

/// The names of an entry's operators of two arrays, of two that broadcast, and of a scalar.
fn names(entry: &binary::Binary) -> [&'static str; 3] {
    match entry.name {
        "add" => ["elemwise_add", "broadcast_add", "_plus_scalar"],
        "sub" => ["elemwise_sub", "broadcast_sub", "_minus_scalar"],
        "mul" => ["elemwise_mul", "broadcast_mul", "_mul_scalar"],
        "div" => ["elemwise_div", "broadcast_div", "_div_scalar"],
        "power" => ["_power", "broadcast_power", "_power_scalar"],
        "maximum" => ["_maximum", "broadcast_maximum", "_maximum_scalar"],
        "minimum" => ["_minimum", "broadcast_minimum", "_minimum_scalar"],
        "hypot" => ["_hypot", "broadcast_hypot", "_hypot_scalar"],
        "equal" => ["_equal", "broadcast_equal", "_equal_scalar"],
        "not_equal" => ["_not_equal", "broadcast_not_equal", "_not_equal_scalar"],
        "greater" => ["_greater", "broadcast_greater", "_greater_scalar"],
        "greater_equal" => ["_greater_equal", "broadcast_greater_equal", "_greater_equal_scalar"],
        "lesser" => ["_lesser", "broadcast_lesser", "_lesser_scalar"],
        _ => ["_lesser_equal", "broadcast_lesser_equal", "_lesser_equal_scalar"],
    }
}

/// `smooth_l1` as design document 001 has it.
fn smooth_l1() -> SimpleOp {
    let value = |x: f64, sigma2: f64| {
        if x > 1.0 / sigma2 {
            x - 0.5 / sigma2
        } else if x < -1.0 / sigma2 {
            -x - 0.5 / sigma2
        } else {
            0.5 * x * x * sigma2
        }
    };
    let slope = |x: f64, sigma2: f64| {
        if x > 1.0 / sigma2 {
            1.0
        } else if x < -1.0 / sigma2 {
            -1.0
        } else {
            x * sigma2
        }
    };
    SimpleOp::unary("smooth_l1", move |x, env, out, req| {
        let sigma2 = env.scalar * env.scalar;
        unary_map(x.0, out, req, |x| value(x, sigma2))
    })
    .gradient_by_input(move |g, x, env, out, req| {
        let sigma2 = env.scalar * env.scalar;
        binary_map(g.0, x.0, out, req, |g, x| g * slope(x, sigma2))
    })
    .inplace(Inplace::OutIn)
    .enable_scalar(true)
    .describe("Calculate Smooth L1 Loss(lhs, scalar)")
}

/// All of them.
pub(super) fn all() -> impl Iterator<Item = SimpleOp> {
    let unary = unary::TABLE.iter().map(of_unary);
    let binary = binary::TABLE.iter().flat_map(|entry| {
        let [two, broadcast, scalar] = names(entry);
        let reversed = entry.reversed.map(|name| of_scalar(entry, name, true));
        [of_two_arrays(entry, two, false), of_two_arrays(entry, broadcast, true), of_scalar(entry, scalar, false)]
            .into_iter()
            .chain(reversed)
    });
    let pass = |name, about: &'static str| {
        SimpleOp::unary(name, |x, env, out, req| copy(env.ctx.workers(), &x.0, out, req))
            .types(&DType::ALL)
            .inplace(Inplace::InOut)
            .describe(about)
    };
    let through = UnaryGradient::T0(Box::new(|g, env, out, req| copy(env.ctx.workers(), &g.0, out, req)));
    let stopped = UnaryGradient::T0(Box::new(|g, _, out, req| unary_map(g.0, out, req, |_| 0.0)));
    let copies = [
        pass("_copy", "The same values in other memory").unary_gradient(through),
        pass("BlockGrad", "The same values, through which no gradient flows").unary_gradient(stopped),
    ];
    unary.chain(binary).chain(copies).chain([smooth_l1()])
}
