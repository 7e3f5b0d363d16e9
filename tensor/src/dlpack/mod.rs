//! DLPack, by which libraries give each other arrays without a copy: PyTorch, NumPy, JAX, CuPy.
//!
//! `structs.rs` has the structures of DLPack 1.0 and of the versions before, `tensor.rs` an owner
//! of one, `export.rs` makes one of an array, and `import.rs` an array of one.
//!
//! **Out.** [`NDArray::to_dlpack`](crate::NDArray::to_dlpack) lends an array to be read, and
//! [`to_dlpack_mut`](crate::NDArray::to_dlpack_mut) to be changed. In push order the loan stands
//! where an operation would stand that reads or changes the array, and it ends when the deleter
//! runs, on any thread. Until then what is behind it waits: operations that change the array, and
//! `wait_all`.
//!
//! An array of a GPU is lent as one of CUDA (`kDLCUDA`), if CUDA's driver drives that. What is on
//! the GPU's streams is done then: the borrower may use any stream, and is done before the deleter
//! runs.
//!
//! **In.** [`Runtime::from_dlpack`](crate::Runtime::from_dlpack) makes an array in the memory of
//! the other library. The deleter is called behind the last operation on it, where the array's own
//! memory would be freed.
//!
//! ```
//! use seriatim_tensor::{dlpack::Tensor, NDArray, Runtime};
//! let x = NDArray::from_slice(&[1.0f32, 2.0, 3.0], [3])?;
//! // Another library would take the pointer from here, as a capsule of Python.
//! let lent = x.to_dlpack()?.into_raw();
//! // SAFETY: the pointer comes from `into_raw`, and is used once.
//! let taken = unsafe { Tensor::from_raw(lent) };
//! let y = Runtime::global()?.from_dlpack(taken)?;
//! assert_eq!(y.square()?.to_vec::<f32>()?, [1.0, 4.0, 9.0]);
//! # Ok::<(), seriatim_tensor::Error>(())
//! ```

mod export;
mod import;
mod structs;
mod tensor;

pub use structs::{
    DLDataType, DLDevice, DLManagedTensor, DLManagedTensorVersioned, DLPackVersion, DLTensor, CPU, CUDA, CUDA_HOST,
    FLAG_IS_COPIED, FLAG_READ_ONLY,
};
pub use tensor::Tensor;
