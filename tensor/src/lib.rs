//! Arrays whose operations order themselves, on the engine [`seriatim`].
//!
//! A call on an [`NDArray`] returns before its work is done: it pushes an operation that names the
//! arrays which it reads and changes. Reading values waits for what they depend on, and returns the
//! error of an operation that failed on the way.
//!
//! ```
//! use seriatim_tensor::{autograd, NDArray, OpReq};
//! let x = NDArray::from_slice(&[1.0f32, 2.0, 3.0], [3])?;
//! x.attach_grad(OpReq::Write)?;
//! let y = autograd::record(|| x.square()?.sum())?;
//! autograd::backward(&[&y])?;
//! assert_eq!(y.as_scalar::<f32>()?, 14.0);
//! assert_eq!(x.grad()?.to_vec::<f32>()?, [2.0, 4.0, 6.0]);
//! # Ok::<(), seriatim_tensor::Error>(())
//! ```
//!
//! | to | see |
//! |---|---|
//! | make arrays, read values | [`NDArray`], [`Runtime`], [`DType`] |
//! | call operators by name, list them | [`operator::Op`], [`operator::list_all_ops`], [`operator::list_parameters`] |
//! | add an operator | [`operator::SimpleOp`], [`operator::OperatorProperty`], [`derive@Parameters`] |
//! | compute gradients | [`autograd`] |
//! | train | [`optimizer`], [`initializer`], [`metric`] |
//! | make a step that costs little | [`Step`], [`Parameter`] |
//! | draw random numbers | [`Runtime::random`], [`Distribution`], [`resource::Philox`] |
//! | record what single calls do | [`profiled()`] |
//! | limit and watch memory | [`storage::Storage`] |
//! | put arrays on GPUs | [`Runtime::empty_in`], [`NDArray::as_in_context`] |
//! | read and write files | [`Format`], [`load_npz`], [`load_safetensors`], [`load_params`] |
//! | share memory with others | [`dlpack`], [`NDArray::to_dlpack`], [`Runtime::from_dlpack`] |
//!
//! **Order.** What is pushed on an array runs in push order, on whatever engine and with however
//! many workers, and gives the same bits. **Cost.** In steady state a call allocates nothing and
//! takes no lock, if it is one of an [`operator::Op`] that is kept, or of a method without
//! parameters, such as [`NDArray::add`]. Methods with some, such as [`NDArray::topk`], make their
//! `Op` first: some 2 µs, with allocations. **Waits** belong outside of operations, as the engine
//! has it.

#![deny(missing_docs, missing_debug_implementations)]

// The derive macros write paths as a program has them.
extern crate self as seriatim_tensor;

// A folder imports from those to its right: dlpack → serialize → step → initializer → metric →
// optimizer → autograd → operator → ndarray → resource → storage → kernel → request → shape → dtype
// → error. `tests/structure.rs` holds the source to it.
mod dtype;
mod error;
mod kernel;
mod ndarray;
mod request;
mod serialize;
mod shape;

pub mod autograd;
pub mod dlpack;
pub mod initializer;
pub mod metric;
pub mod operator;
pub mod optimizer;
pub mod resource;
pub mod step;
pub mod storage;

pub use dtype::{DType, Element, Number};
pub use error::{Error, ErrorKind};
pub use ndarray::access::{Blob, BlobMut};
pub use ndarray::array::NDArray;
pub use ndarray::cursor::{Reader, Writer};
pub use ndarray::parameter::Parameter;
pub use ndarray::profiled::profiled;
pub use ndarray::runtime::{Runtime, RuntimeBuilder};
pub use operator::{Choices, Parameters};
pub use request::OpReq;
pub use resource::Distribution;
pub use serialize::{
    load_npz, load_params, load_safetensors, save_npz, save_npz_compressed, save_params, save_safetensors, Format,
};
pub use shape::{Shape, MAX_RANK};
pub use step::Step;

/// The programs of the README, which the tests of the documentation compile and run.
#[cfg(doctest)]
mod programs {
    #[doc = include_str!("../README.md")]
    struct Readme;
}
