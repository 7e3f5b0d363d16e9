//! Products of matrices as operators: `dot`, `batch_dot` and `FullyConnected`.
//!
//! `products.rs` computes them.

#![forbid(unsafe_code)]

use crate::dtype::DType;
use crate::error::{Error, ErrorKind};
use crate::kernel::bias;
use crate::kernel::gemm::{Real, Sizes};
use crate::kernel::tiny::is_tiny;
use crate::ndarray::access::{Blob, BlobMut};
use crate::operator::map::map;
use crate::operator::parameters::Parameters;
use crate::operator::products::{products, tiny_product, Factor};
use crate::operator::property::{assign_shape, Given, OpContext, Operator, OperatorProperty};
use crate::operator::reduction::sum_to;
use crate::operator::registry::Maker;
use crate::operator::Builtin;
use crate::request::OpReq;
use crate::shape::{Layout, Shape};
use seriatim::Context;
use smallvec::SmallVec;

/// Of `dot` and `batch_dot`.
#[derive(Clone, Debug, Parameters)]
pub(crate) struct DotParameters {
    /// Whether the first array is transposed first.
    #[parameter(default = false)]
    pub transpose_a: bool,
    /// Whether the second array is transposed first.
    #[parameter(default = false)]
    pub transpose_b: bool,
}

/// Of `FullyConnected`.
#[derive(Clone, Debug, Parameters)]
pub(crate) struct DenseParameters {
    /// How many outputs there are for each row.
    #[parameter(range = 1..)]
    pub num_hidden: usize,
    /// Whether there is no bias.
    #[parameter(default = false)]
    pub no_bias: bool,
    /// Whether all axes but the first are one.
    #[parameter(default = true)]
    pub flatten: bool,
}

/// How arrays are taken as matrices, one for each of `count`.
#[derive(Clone, Debug)]
struct Dot {
    parameters: DotParameters,
    is_batch: bool,
}

impl Dot {
    /// How many products there are, their sizes, and the shape of the result.
    fn plan(&self, lhs: &Shape, rhs: &Shape) -> Result<(usize, Sizes, Shape), Error> {
        let wrong = |why: &str| Err(Error::new(ErrorKind::ShapeMismatch, format!("shapes {lhs} and {rhs}: {why}")));
        let DotParameters { transpose_a, transpose_b } = self.parameters;
        let (a, b) = (lhs.dims(), rhs.dims());
        if self.is_batch {
            let ([count, a0, a1], [count_b, b0, b1]) = (a, b) else { return wrong("both must have three axes") };
            let (m, k) = if transpose_a { (*a1, *a0) } else { (*a0, *a1) };
            let (inner, n) = if transpose_b { (*b1, *b0) } else { (*b0, *b1) };
            if count != count_b || k != inner {
                return wrong("the first axes, or the inner ones, differ");
            }
            return Ok((*count, Sizes { m, k, n }, Shape::new(&[*count, m, n])?));
        }
        if a.is_empty() || b.is_empty() {
            return wrong("both must have an axis");
        }
        // The inner axis is the last of the first array and the first of the second, or the other
        // ends where they are transposed. The others become one.
        let (inner_a, outer_a) = if transpose_a { (a[0], &a[1..]) } else { (a[a.len() - 1], &a[..a.len() - 1]) };
        let (inner_b, outer_b) = if transpose_b { (b[b.len() - 1], &b[..b.len() - 1]) } else { (b[0], &b[1..]) };
        if inner_a != inner_b {
            return wrong("the inner axes differ");
        }
        let sizes = Sizes { m: outer_a.iter().product(), k: inner_a, n: outer_b.iter().product() };
        let dims = [outer_a, outer_b].concat();
        Ok((1, sizes, Shape::new(if dims.is_empty() { &[1] } else { &dims })?))
    }
}

impl OperatorProperty for Dot {
    fn get_params(&self) -> Vec<(&'static str, String)> {
        self.parameters.params()
    }

    fn list_arguments(&self) -> Vec<&'static str> {
        vec!["lhs", "rhs"]
    }

    fn infer_shape(
        &self,
        in_shape: &mut [Option<Shape>],
        out_shape: &mut [Option<Shape>],
        _: &mut [Option<Shape>],
    ) -> Result<bool, Error> {
        let [Some(lhs), Some(rhs)] = in_shape else { return Ok(false) };
        assign_shape("output", &mut out_shape[0], self.plan(lhs, rhs)?.2).map(|()| true)
    }

    fn declare_backward_dependency(&self, out_grad: &[usize], in_data: &[usize], _: &[usize]) -> Vec<usize> {
        [out_grad, in_data].concat()
    }

    fn create_operator(&self, _: Context) -> Result<Box<dyn Operator>, Error> {
        Ok(Box::new(self.clone()))
    }
}

impl Operator for Dot {
    fn forward(
        &self,
        ctx: &mut OpContext<'_, '_>,
        in_data: &[Blob<'_>],
        req: &[OpReq],
        out_data: &mut [BlobMut<'_>],
        _: &mut [BlobMut<'_>],
    ) -> Result<(), Error> {
        let DotParameters { transpose_a, transpose_b } = self.parameters;
        let (count, sizes, _) = self.plan(&in_data[0].shape(), &in_data[1].shape())?;
        let factors = ((&in_data[0], transpose_a), (&in_data[1], transpose_b));
        products(ctx, count, sizes, factors, &mut out_data[0], req[0])
    }

    fn backward(
        &self,
        ctx: &mut OpContext<'_, '_>,
        out_grad: Given<'_>,
        in_data: Given<'_>,
        _: Given<'_>,
        req: &[OpReq],
        in_grad: &mut [BlobMut<'_>],
        _: &mut [BlobMut<'_>],
    ) -> Result<(), Error> {
        let DotParameters { transpose_a, transpose_b } = self.parameters;
        let (grad, lhs, rhs) = (&out_grad.get(0)?, &in_data.get(0)?, &in_data.get(1)?);
        let (count, Sizes { m, k, n }, _) = self.plan(&lhs.shape(), &rhs.shape())?;
        let [by_lhs, by_rhs] = in_grad else { return Ok(()) };
        // With C = A B: dA = dC Bᵀ and dB = Aᵀ dC; transposed where the array is.
        match transpose_a {
            false => {
                products(ctx, count, Sizes { m, k: n, n: k }, ((grad, false), (rhs, !transpose_b)), by_lhs, req[0])?
            }
            true => {
                products(ctx, count, Sizes { m: k, k: n, n: m }, ((rhs, transpose_b), (grad, true)), by_lhs, req[0])?
            }
        }
        match transpose_b {
            false => {
                products(ctx, count, Sizes { m: k, k: m, n }, ((lhs, !transpose_a), (grad, false)), by_rhs, req[1])
            }
            true => {
                products(ctx, count, Sizes { m: n, k: m, n: k }, ((grad, true), (lhs, transpose_a)), by_rhs, req[1])
            }
        }
    }
}

#[derive(Clone, Debug)]
struct Dense(DenseParameters);

impl Dense {
    /// The sizes of the product for an input, and how many axes make its rows.
    fn plan(&self, data: &Shape) -> Result<(Sizes, usize), Error> {
        let dims = data.dims();
        let DenseParameters { num_hidden: n, flatten, .. } = self.0;
        if dims.is_empty() {
            return Err(Error::new(ErrorKind::ShapeMismatch, "'data' has no axis, and one of rows is needed"));
        }
        let rows = if flatten { 1 } else { dims.len() - 1 };
        let sizes = Sizes { m: dims[..rows].iter().product(), k: dims[rows..].iter().product(), n };
        Ok((sizes, rows))
    }
}

impl OperatorProperty for Dense {
    fn get_params(&self) -> Vec<(&'static str, String)> {
        self.0.params()
    }

    fn list_arguments(&self) -> Vec<&'static str> {
        if self.0.no_bias {
            vec!["data", "weight"]
        } else {
            vec!["data", "weight", "bias"]
        }
    }

    fn infer_shape(
        &self,
        in_shape: &mut [Option<Shape>],
        out_shape: &mut [Option<Shape>],
        _: &mut [Option<Shape>],
    ) -> Result<bool, Error> {
        let Some(data) = in_shape[0] else { return Ok(false) };
        let (sizes, rows) = self.plan(&data)?;
        let mut out = SmallVec::<[usize; 8]>::from_slice(&data.dims()[..rows]);
        out.push(sizes.n);
        let shape = Shape::new(&out)?;
        assign_shape("weight", &mut in_shape[1], Shape::new(&[sizes.n, sizes.k])?)?;
        if let Some(bias) = in_shape.get_mut(2) {
            assign_shape("bias", bias, Shape::new(&[sizes.n])?)?;
        }
        assign_shape("output", &mut out_shape[0], shape).map(|()| true)
    }

    /// The output is not needed: it may be freed once it is consumed. The weight is.
    fn declare_backward_dependency(&self, out_grad: &[usize], in_data: &[usize], _: &[usize]) -> Vec<usize> {
        [out_grad, &in_data[..2]].concat()
    }

    fn create_operator(&self, _: Context) -> Result<Box<dyn Operator>, Error> {
        Ok(Box::new(self.clone()))
    }
}

impl Operator for Dense {
    fn forward(
        &self,
        ctx: &mut OpContext<'_, '_>,
        in_data: &[Blob<'_>],
        req: &[OpReq],
        out_data: &mut [BlobMut<'_>],
        _: &mut [BlobMut<'_>],
    ) -> Result<(), Error> {
        let (sizes, _) = self.plan(&in_data[0].shape())?;
        let (factors, out) = (((&in_data[0], false), (&in_data[1], true)), &mut out_data[0]);
        let bias = in_data.get(2);
        if is_tiny(sizes, (false, true)) && !req[0].is_null() {
            return tiny_product(ctx, sizes, factors, bias, out, req[0]);
        }
        let Some(bias) = bias else { return products(ctx, 1, sizes, factors, out, req[0]) };
        // The product is made first, then the bias is added and the request is met.
        fn biased<T: Real>(
            ctx: &OpContext<'_, '_>,
            sizes: Sizes,
            bias: &Blob<'_>,
            factors: (Factor<'_>, Factor<'_>),
            out: &mut BlobMut<'_>,
            req: OpReq,
        ) -> Result<(), Error> {
            if let (true, Some(values), true) =
                (req.overwrites(), bias.as_slice::<T>(), out.as_mut_slice::<T>().is_some())
            {
                products(ctx, 1, sizes, factors, out, OpReq::Write)?;
                bias::to_rows(out.as_mut_slice::<T>().unwrap_or_default(), values);
                return Ok(());
            }
            let (mut product, layout) = (ctx.scratch::<T>(out.size())?, Layout::contiguous(out.shape()));
            let made = &mut BlobMut::of_slice(product.as_mut_slice(), &layout);
            products(ctx, 1, sizes, factors, made, OpReq::Write)?;
            map::<T>(&[Blob::of_slice(product.as_mut_slice(), &layout), *bias], out, req, |x, out| {
                out.iter_mut().zip(x[0]).zip(x[1]).for_each(|((out, a), b)| *out = *a + *b);
            })
        }
        if req[0].is_null() {
            return Ok(());
        }
        match out.dtype() {
            DType::F64 => biased::<f64>(ctx, sizes, bias, factors, out, req[0]),
            _ => biased::<f32>(ctx, sizes, bias, factors, out, req[0]),
        }
    }

    fn backward(
        &self,
        ctx: &mut OpContext<'_, '_>,
        out_grad: Given<'_>,
        in_data: Given<'_>,
        _: Given<'_>,
        req: &[OpReq],
        in_grad: &mut [BlobMut<'_>],
        _: &mut [BlobMut<'_>],
    ) -> Result<(), Error> {
        let (grad, data, weight) = (&out_grad.get(0)?, &in_data.get(0)?, &in_data.get(1)?);
        let (Sizes { m, k, n }, _) = self.plan(&data.shape())?;
        products(ctx, 1, Sizes { m, k: n, n: k }, ((grad, false), (weight, false)), &mut in_grad[0], req[0])?;
        products(ctx, 1, Sizes { m: n, k: m, n: k }, ((grad, true), (data, false)), &mut in_grad[1], req[1])?;
        match in_grad.get_mut(2) {
            Some(bias) => sum_to(ctx.workers(), grad, bias, req[2]),
            None => Ok(()),
        }
    }
}

/// All of them.
pub(super) fn all(add: &mut Builtin<'_>) {
    for (name, is_batch, about) in [
        ("dot", false, "The product over the last axis of the first array and the first of the second"),
        ("batch_dot", true, "Products of matrices, one for each place of the first axis"),
    ] {
        add(name, about, Maker::of(move |parameters: DotParameters| Ok(Box::new(Dot { parameters, is_batch }))));
    }
    let about = "Rows of the data times the transposed weight, plus the bias";
    add("FullyConnected", about, Maker::of(|parameters: DenseParameters| Ok(Box::new(Dense(parameters)))));
}
