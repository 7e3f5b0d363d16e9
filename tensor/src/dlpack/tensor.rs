//! `Tensor`: the owner of a `DLManagedTensorVersioned`, which calls its deleter once.
//!
//! `export.rs` makes one, `import.rs` keeps one in an array. Programs exchange it for pointers. A
//! structure of the time before DLPack 1.0 is wrapped, so there is one form inside.

use crate::dlpack::structs::{DLManagedTensor, DLManagedTensorVersioned, DLTensor, FLAG_READ_ONLY, VERSION};
use crate::error::{Error, ErrorKind};
use crate::storage::memory::Foreign;
use std::any::Any;
use std::fmt;
use std::ptr::NonNull;

/// A tensor of DLPack that this value owns. Dropping it calls the deleter.
///
/// It may be dropped on any thread.
///
/// ```
/// use seriatim_tensor::NDArray;
/// let x = NDArray::from_slice(&[1u8, 2], [2])?;
/// let lent = x.to_dlpack()?;
/// assert!(lent.is_read_only());
/// drop(lent);
/// x.fill(3u8)?;
/// assert_eq!(x.to_vec::<u8>()?, [3, 3]);
/// # Ok::<(), seriatim_tensor::Error>(())
/// ```
pub struct Tensor(NonNull<DLManagedTensorVersioned>);

// SAFETY: by the contract of `from_raw` the deleter may be called on any thread, and nobody else
// uses the structure.
unsafe impl Send for Tensor {}
// SAFETY: a shared tensor only reads the structure.
unsafe impl Sync for Tensor {}

/// What an exported tensor points to. Dropping `_held` ends the loan.
struct Export<M> {
    managed: M,
    shape: Vec<i64>,
    strides: Vec<i64>,
    _held: Box<dyn Any + Send + Sync>,
}

/// A structure of an earlier version that is shown as one of 1.0.
struct Wrapped(NonNull<DLManagedTensor>);

// SAFETY: by the contract of `from_raw_unversioned`, as for `Tensor`.
unsafe impl Send for Wrapped {}
// SAFETY: nothing is done by a shared reference.
unsafe impl Sync for Wrapped {}

impl Drop for Wrapped {
    fn drop(&mut self) {
        // SAFETY: by the contract of `from_raw_unversioned` the structure is there until its
        // deleter is called, which is here, once.
        unsafe {
            if let Some(deleter) = self.0.as_ref().deleter {
                deleter(self.0.as_ptr());
            }
        }
    }
}

unsafe extern "C" fn delete_versioned(managed: *mut DLManagedTensorVersioned) {
    // SAFETY: `Tensor::export` has put a box there, and the deleter is called once.
    drop(unsafe { Box::from_raw((*managed).manager_ctx.cast::<Export<DLManagedTensorVersioned>>()) });
}

unsafe extern "C" fn delete_unversioned(managed: *mut DLManagedTensor) {
    // SAFETY: `Tensor::into_raw_unversioned` has put a box there, and the deleter is called once.
    drop(unsafe { Box::from_raw((*managed).manager_ctx.cast::<Export<DLManagedTensor>>()) });
}

impl Tensor {
    /// Takes a structure of DLPack 1.0 over, from another library or from
    /// [`into_raw`](Tensor::into_raw).
    ///
    /// # Safety
    /// The structure is as DLPack describes it, and the caller gives it away: nobody else calls its
    /// deleter. The deleter may be called on any thread. Until then the memory is there for
    /// all elements and initialised, truth values are 0 or 1, and nobody writes to it. If the
    /// flags do not say that it is read only, nobody reads it either.
    ///
    /// ```
    /// use seriatim_tensor::{dlpack::Tensor, NDArray};
    /// let raw = NDArray::from_slice(&[1u8], [1])?.to_dlpack()?.into_raw();
    /// // SAFETY: it comes from `into_raw`, and is used once.
    /// drop(unsafe { Tensor::from_raw(raw) });
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub unsafe fn from_raw(managed: NonNull<DLManagedTensorVersioned>) -> Tensor {
        Tensor(managed)
    }

    /// Gives the structure away, to another library, which calls its deleter, once.
    ///
    /// ```
    /// use seriatim_tensor::NDArray;
    /// let raw = NDArray::from_slice(&[1u8], [1])?.to_dlpack()?.into_raw();
    /// // SAFETY: the structure is there until its deleter is called, here.
    /// unsafe { (raw.as_ref().deleter.unwrap())(raw.as_ptr()) };
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn into_raw(self) -> NonNull<DLManagedTensorVersioned> {
        std::mem::ManuallyDrop::new(self).0
    }

    /// Takes a structure of the time before DLPack 1.0 over. It counts as one that may be changed.
    ///
    /// # Safety
    /// That of [`from_raw`](Tensor::from_raw).
    ///
    /// ```
    /// use seriatim_tensor::{dlpack::Tensor, NDArray};
    /// let raw = NDArray::from_slice(&[1u8], [1])?.to_dlpack_mut()?.into_raw_unversioned()?;
    /// // SAFETY: it comes from `into_raw_unversioned`, and is used once.
    /// assert!(!unsafe { Tensor::from_raw_unversioned(raw) }.is_read_only());
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub unsafe fn from_raw_unversioned(managed: NonNull<DLManagedTensor>) -> Tensor {
        // SAFETY: as the caller says.
        let of = unsafe { &managed.as_ref().dl_tensor };
        let (dl_tensor, held) = (copy(of), Box::new(Wrapped(managed)));
        Tensor::own(dl_tensor, 0, (Vec::new(), Vec::new()), held)
    }

    /// Gives the tensor away as a structure of the time before DLPack 1.0, for libraries that know
    /// no other. They call its deleter, once.
    ///
    /// # Errors
    /// [`ReadOnly`](ErrorKind::ReadOnly) if the tensor is: the old structure cannot say so.
    ///
    /// ```
    /// use seriatim_tensor::{ErrorKind, NDArray};
    /// let x = NDArray::from_slice(&[1u8], [1])?;
    /// assert_eq!(x.to_dlpack()?.into_raw_unversioned().unwrap_err().kind(), ErrorKind::ReadOnly);
    /// let raw = x.to_dlpack_mut()?.into_raw_unversioned()?;
    /// // SAFETY: the structure is there until its deleter is called, here.
    /// unsafe { (raw.as_ref().deleter.unwrap())(raw.as_ptr()) };
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn into_raw_unversioned(self) -> Result<NonNull<DLManagedTensor>, Error> {
        if self.is_read_only() {
            let message = "a tensor of DLPack before 1.0 cannot be read only: export it by to_dlpack_mut";
            return Err(Error::new(ErrorKind::ReadOnly, message));
        }
        let dl_tensor = copy(self.dl_tensor());
        let managed = DLManagedTensor { dl_tensor, manager_ctx: std::ptr::null_mut(), deleter: None };
        let export = Export { managed, shape: Vec::new(), strides: Vec::new(), _held: Box::new(self) };
        let export = Box::into_raw(Box::new(export));
        // SAFETY: the box was just made, and nobody else has it.
        unsafe {
            (*export).managed.manager_ctx = export.cast();
            (*export).managed.deleter = Some(delete_unversioned);
            Ok(NonNull::new_unchecked(&raw mut (*export).managed))
        }
    }

    /// Whether the memory may not be changed.
    ///
    /// ```
    /// use seriatim_tensor::NDArray;
    /// assert!(!NDArray::from_slice(&[1u8], [1])?.to_dlpack_mut()?.is_read_only());
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn is_read_only(&self) -> bool {
        self.managed().flags & FLAG_READ_ONLY != 0
    }

    /// A tensor whose shape and strides are kept with it, unless they are empty. Its deleter drops
    /// `held`.
    pub(super) fn own(
        dl_tensor: DLTensor,
        flags: u64,
        (shape, strides): (Vec<i64>, Vec<i64>),
        held: Box<dyn Any + Send + Sync>,
    ) -> Tensor {
        let managed = DLManagedTensorVersioned {
            version: VERSION,
            manager_ctx: std::ptr::null_mut(),
            deleter: Some(delete_versioned),
            flags,
            dl_tensor,
        };
        let export = Box::into_raw(Box::new(Export { managed, shape, strides, _held: held }));
        // SAFETY: the box was just made, and nobody else has it. Vectors stay where they are.
        unsafe {
            let Export { managed, shape, strides, .. } = &mut *export;
            managed.manager_ctx = export.cast();
            if !shape.is_empty() {
                (managed.dl_tensor.shape, managed.dl_tensor.strides) = (shape.as_mut_ptr(), strides.as_mut_ptr());
            }
            Tensor(NonNull::new_unchecked(&raw mut (*export).managed))
        }
    }

    pub(super) fn managed(&self) -> &DLManagedTensorVersioned {
        // SAFETY: the structure is there until the deleter is called, when this is dropped.
        unsafe { self.0.as_ref() }
    }

    pub(super) fn dl_tensor(&self) -> &DLTensor {
        &self.managed().dl_tensor
    }

    /// The sizes of a tensor of our version, and the strides if it has any.
    pub(super) fn sizes(&self) -> (&[i64], Option<&[i64]>) {
        let DLTensor { ndim, shape, strides, .. } = *self.dl_tensor();
        let list = |first: *mut i64| match usize::try_from(ndim) {
            // SAFETY: by the contract of `from_raw` there are `ndim` numbers.
            Ok(count) if count > 0 && !first.is_null() => Some(unsafe { std::slice::from_raw_parts(first, count) }),
            _ => None,
        };
        (list(shape).unwrap_or_default(), list(strides))
    }
}

/// A tensor as the memory of an array.
struct Lent {
    /// The first byte that the array may use.
    first: NonNull<u8>,
    tensor: Tensor,
}

// SAFETY: the address is one in the memory of the tensor, which is `Send`.
unsafe impl Send for Lent {}
// SAFETY: a shared value gives out the address only.
unsafe impl Sync for Lent {}

// SAFETY: by the contract of `from_raw` the memory is there until the deleter is called, which is
// when this is dropped, on any thread. `Runtime::from_dlpack` has checked the alignment.
unsafe impl Foreign for Lent {
    fn address(&self) -> NonNull<u8> {
        self.first
    }

    fn is_read_only(&self) -> bool {
        self.tensor.is_read_only()
    }
}

impl Tensor {
    /// The tensor as the memory of an array, which begins `from` bytes behind the first element. It
    /// is aligned to elements of so many bytes.
    pub(super) fn into_memory(self, from: isize, element: usize) -> Result<Box<dyn Foreign>, Error> {
        let DLTensor { data, byte_offset, .. } = *self.dl_tensor();
        let offset = usize::try_from(byte_offset).ok().filter(|offset| *offset <= isize::MAX as usize);
        let first = offset
            .filter(|_| !data.is_null())
            .and_then(|offset| NonNull::new(data.cast::<u8>().wrapping_add(offset).wrapping_offset(from)));
        match first {
            Some(first) if first.addr().get() % element == 0 => Ok(Box::new(Lent { first, tensor: self })),
            _ => {
                let message = format!(
                    "not a tensor of DLPack that arrays can have: its memory at {data:?} + {byte_offset} is none, or is \
                     not aligned to elements of {element} bytes: copy it"
                );
                Err(Error::new(ErrorKind::BadFormat, message))
            }
        }
    }
}

/// The same place, without an owner.
fn copy(of: &DLTensor) -> DLTensor {
    DLTensor { ..*of }
}

impl Drop for Tensor {
    fn drop(&mut self) {
        // SAFETY: by the contract of `from_raw` the deleter is called by this owner alone, once.
        unsafe {
            if let Some(deleter) = self.managed().deleter {
                deleter(self.0.as_ptr());
            }
        }
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DLManagedTensorVersioned { version, flags, .. } = self.managed();
        write!(f, "Tensor(DLPack {}.{}, flags {flags:#x})", version.major, version.minor)
    }
}
