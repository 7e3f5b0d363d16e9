//! The structures of `dlpack.h`, version 1.0, with its names, and the types of elements in its
//! numbers. Used by the files beside this one, and by programs that pass pointers on.

#![forbid(unsafe_code)]

use crate::dtype::DType;
use std::ffi::c_void;

/// The type of a device that is the processor (`kDLCPU`).
pub const CPU: i32 = 1;

/// The type of a device that is a GPU by CUDA (`kDLCUDA`).
pub const CUDA: i32 = 2;
/// The type of a device that is pinned memory of the processor (`kDLCUDAHost`).
pub const CUDA_HOST: i32 = 3;
/// The bit of [`DLManagedTensorVersioned::flags`] by which nobody may change the memory.
pub const FLAG_READ_ONLY: u64 = 1;
/// The bit of [`DLManagedTensorVersioned::flags`] by which the producer has made a copy.
pub const FLAG_IS_COPIED: u64 = 2;

/// The version that tensors are written in.
pub(super) const VERSION: DLPackVersion = DLPackVersion { major: 1, minor: 0 };

/// The version of the structures.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DLPackVersion {
    /// Structures of another one have another layout.
    pub major: u32,
    /// Grows by what is compatible.
    pub minor: u32,
}

/// Where memory is.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DLDevice {
    /// The type, such as [`CPU`].
    pub device_type: i32,
    /// Which one of the type.
    pub device_id: i32,
}

/// The type of elements.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DLDataType {
    /// 0 for whole numbers with a sign, 1 without, 2 floats, 4 `bfloat`, 6 truth values.
    pub code: u8,
    /// Bits of a number.
    pub bits: u8,
    /// Numbers of an element: 1, unless it is a vector.
    pub lanes: u16,
}

/// Where elements lie, without an owner.
#[repr(C)]
#[derive(Debug)]
pub struct DLTensor {
    /// The memory; null if there are no elements.
    pub data: *mut c_void,
    /// The device of the memory.
    pub device: DLDevice,
    /// How many dimensions there are.
    pub ndim: i32,
    /// The type of the elements.
    pub dtype: DLDataType,
    /// The sizes, as many as `ndim`.
    pub shape: *mut i64,
    /// The steps from one element to the next, counted in elements; null if they lie one after the
    /// other.
    pub strides: *mut i64,
    /// Where the first element is, from `data` on.
    pub byte_offset: u64,
}

/// A tensor with an owner, as before DLPack 1.0.
#[repr(C)]
#[derive(Debug)]
pub struct DLManagedTensor {
    /// The elements.
    pub dl_tensor: DLTensor,
    /// The producer's.
    pub manager_ctx: *mut c_void,
    /// Called once, with the tensor, when nobody uses it any more.
    pub deleter: Option<unsafe extern "C" fn(*mut DLManagedTensor)>,
}

/// A tensor with an owner and a version, of DLPack 1.0.
#[repr(C)]
#[derive(Debug)]
pub struct DLManagedTensorVersioned {
    /// Of another major version only this, `manager_ctx` and `deleter` may be looked at.
    pub version: DLPackVersion,
    /// The producer's.
    pub manager_ctx: *mut c_void,
    /// Called once, with the tensor, when nobody uses it any more.
    pub deleter: Option<unsafe extern "C" fn(*mut DLManagedTensorVersioned)>,
    /// [`FLAG_READ_ONLY`] and others.
    pub flags: u64,
    /// The elements.
    pub dl_tensor: DLTensor,
}

impl DLDataType {
    /// The number of a type.
    pub(super) const fn of(dtype: DType) -> DLDataType {
        let code = match dtype {
            DType::I8 | DType::I32 | DType::I64 => 0,
            DType::U8 => 1,
            DType::F32 | DType::F64 | DType::F16 => 2,
            DType::Bf16 => 4,
            DType::Bool => 6,
        };
        DLDataType { code, bits: 8 * dtype.size() as u8, lanes: 1 }
    }

    /// The type of a number, if arrays have it.
    pub(super) fn dtype(self) -> Option<DType> {
        DType::ALL.into_iter().find(|dtype| DLDataType::of(*dtype) == self)
    }
}
