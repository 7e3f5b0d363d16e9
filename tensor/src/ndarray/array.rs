//! `NDArray`: an array whose operations run later, in the order in which they were pushed.
//!
//! This file has what an array is, and how it ends. `create.rs` makes arrays, `transfer.rs` takes
//! values in and out, `access.rs` is how operations reach the elements. What operators do with
//! arrays is in `src/operator/`.

use crate::dtype::DType;
use crate::error::{Error, ErrorKind};
use crate::ndarray::capturing;
use crate::ndarray::chunk::{Chunk, Placed, Whole};
use crate::ndarray::ending::{this_thread, Ended};
use crate::ndarray::runtime::Runtime;
use crate::ndarray::view::View;
use crate::shape::{Layout, Shape};
use crate::storage::memory::Memory;
use crate::storage::Tag;
use seriatim::{Context, Variable};
use std::fmt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// An array of up to eight dimensions. Calls on it return before the work is done; reading its
/// values waits for what they depend on.
///
/// A handle: clones are the same array. Views, such as those of [`slice`](NDArray::slice), share
/// its memory and its engine variable: what is written through one is read through the other, in
/// push order. The last handle that is dropped pushes an operation that frees the memory behind all
/// others on it.
///
/// ```
/// use seriatim_tensor::NDArray;
/// let x = NDArray::from_slice(&[1.0f32, 2.0, 3.0, 4.0], [2, 2])?;
/// let y = x.mul(&x)?.add_scalar(1.0)?;
/// assert_eq!(y.to_vec::<f32>()?, [2.0, 5.0, 10.0, 17.0]);
/// # Ok::<(), seriatim_tensor::Error>(())
/// ```
pub struct NDArray {
    owner: Owner,
    /// Which value it is: clones have the same number, views another one.
    id: u64,
}

/// The number of no view: records are numbered from 1.
const WHOLE: u32 = 0;

/// One of those who keep a chunk, and the view of it if it is one.
struct Owner {
    /// Keeps the record of the chunk, which does not move.
    runtime: Runtime,
    chunk: NonNull<Chunk>,
    view: u32,
}

// SAFETY: a `Chunk` is `Sync`, and an owner gives out nothing but shared references to it.
unsafe impl Send for Owner {}
// SAFETY: as above.
unsafe impl Sync for Owner {}

impl Owner {
    #[inline]
    fn chunk(&self) -> &Chunk {
        // SAFETY: it is a record of the runtime, and those stay as long as the runtime.
        unsafe { self.chunk.as_ref() }
    }

    #[inline]
    fn view(&self) -> Option<&View> {
        (self.view != WHOLE).then(|| self.runtime.views().get(self.view))
    }
}

impl Clone for Owner {
    fn clone(&self) -> Owner {
        self.chunk().owners.share();
        self.view().into_iter().for_each(|view| view.owners.share());
        Owner { runtime: self.runtime.clone(), ..*self }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        if self.view().is_some_and(|view| view.owners.leave()) {
            self.runtime.views().give(self.view);
        }
        if self.chunk().owners.leave() {
            Ended::new(&self.runtime, self.chunk().whole().number).end();
        }
    }
}

/// The next number of a value.
fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Relaxed)
}

#[cold]
fn too_many() -> Error {
    Error::new(ErrorKind::OutOfMemory, "there are more than two thousand million arrays: drop some")
}

impl NDArray {
    /// An array in new memory. That of a device is made here; other memory is made by the first
    /// operation that writes to it.
    pub(crate) fn new(runtime: &Runtime, shape: Shape, dtype: DType, context: Context) -> Result<NDArray, Error> {
        NDArray::of_layout(runtime, Layout::contiguous(shape), (dtype, shape.size()), context)
    }

    /// The same, where the layout shows some of so many elements.
    fn of_layout(
        runtime: &Runtime,
        layout: Layout,
        (dtype, elements): (DType, usize),
        context: Context,
    ) -> Result<NDArray, Error> {
        let placed = runtime.place(layout.shape, dtype, context)?;
        let is_captured = capturing::is_active();
        // The variables of a graph are its own, and some become private.
        let kept = if placed.is_some() || is_captured { None } else { runtime.take_kept() };
        let (number, variable) = match kept {
            Some(kept) => kept,
            None => {
                let number = runtime.chunks().take().ok_or_else(too_many)?;
                (number, placed.as_ref().map_or_else(|| runtime.engine().new_variable(), Placed::variable))
            }
        };
        let chunk = runtime.chunks().get(number);
        let whole = Whole { number, variable, dtype, context, layout, elements };
        // SAFETY: the record was just taken, and its first owner is made below.
        unsafe { chunk.begin(Tag::current(), this_thread(), whole) };
        // SAFETY: as above.
        placed.into_iter().for_each(|placed| unsafe { chunk.place(placed) });
        let array =
            NDArray { owner: Owner { runtime: runtime.clone(), chunk: chunk.into(), view: WHOLE }, id: next_id() };
        if is_captured {
            capturing::keep(&array)?;
        }
        Ok(array)
    }

    /// An array in memory that is there already. The layout's extent lies within `elements`, which
    /// the memory has from its first byte on, and which are of the type.
    pub(crate) fn in_memory(
        runtime: &Runtime,
        layout: Layout,
        of: (DType, usize),
        memory: Memory,
    ) -> Result<NDArray, Error> {
        let array = NDArray::of_layout(runtime, layout, of, Context::cpu(0))?;
        // SAFETY: all operations that have named the variable have ended, and no other thread has
        // the array. The pushes of those to come order them behind this.
        *unsafe { array.chunk().memory_mut() } = Some(memory);
        Ok(array)
    }

    /// The same memory, shown in another way.
    pub(crate) fn viewed(&self, layout: Layout) -> Result<NDArray, Error> {
        debug_assert!(layout.extent().1 <= self.elements() || layout.shape.size() == 0);
        let runtime = self.runtime();
        let view = runtime.views().take().ok_or_else(too_many)?;
        // SAFETY: the record was just taken, and its first owner is made below.
        unsafe { runtime.views().get(view).begin(layout) };
        self.chunk().owners.share();
        let owner = Owner { runtime: runtime.clone(), chunk: self.owner.chunk, view };
        Ok(NDArray { owner, id: next_id() })
    }

    /// The same memory, shown in the same way, as another value.
    pub(crate) fn anew(&self) -> NDArray {
        NDArray { owner: self.owner.clone(), id: next_id() }
    }

    /// Its runtime.
    ///
    /// ```
    /// let x = seriatim_tensor::NDArray::from_slice(&[1u8], [1])?;
    /// x.runtime().wait_all()?;
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn runtime(&self) -> &Runtime {
        &self.owner.runtime
    }

    /// Its engine variable, to be declared by operations of the program's own. Views have the same.
    ///
    /// ```
    /// let x = seriatim_tensor::NDArray::from_slice(&[1u8, 2], [2])?;
    /// assert_eq!(x.var(), x.slice(0, 0, 1, 1)?.var());
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn var(&self) -> Variable {
        self.chunk().make_known();
        self.variable()
    }

    /// The same, for operations that are pushed while the array is there.
    #[inline]
    pub(crate) fn variable(&self) -> Variable {
        self.chunk().whole().variable
    }

    /// The sizes of its dimensions.
    ///
    /// ```
    /// # use seriatim_tensor::{DType, NDArray};
    /// assert_eq!(NDArray::empty([2, 3], DType::F32)?.shape().dims(), [2, 3]);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn shape(&self) -> Shape {
        self.layout().shape
    }

    /// How many dimensions it has.
    ///
    /// ```
    /// # use seriatim_tensor::{DType, NDArray};
    /// assert_eq!(NDArray::empty([2, 3], DType::F32)?.ndim(), 2);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn ndim(&self) -> usize {
        self.layout().shape.rank()
    }

    /// How many elements it has.
    ///
    /// ```
    /// # use seriatim_tensor::{DType, NDArray};
    /// assert_eq!(NDArray::empty([2, 3], DType::F32)?.size(), 6);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn size(&self) -> usize {
        self.layout().shape.size()
    }

    /// The type of its elements.
    ///
    /// ```
    /// # use seriatim_tensor::{DType, NDArray};
    /// assert_eq!(NDArray::empty([2], DType::I8)?.dtype(), DType::I8);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn dtype(&self) -> DType {
        self.chunk().whole().dtype
    }

    /// Where its memory is.
    ///
    /// ```
    /// # use seriatim_tensor::{DType, NDArray};
    /// assert_eq!(NDArray::empty([2], DType::I8)?.context(), seriatim::Context::cpu(0));
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn context(&self) -> Context {
        self.chunk().whole().context
    }

    /// Whether its elements lie one after the other in memory, the last axis fastest.
    ///
    /// ```
    /// # use seriatim_tensor::NDArray;
    /// let x = NDArray::from_slice(&[1, 2, 3, 4, 5, 6], [2, 3])?;
    /// assert!(x.is_contiguous() && !x.transpose()?.is_contiguous());
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn is_contiguous(&self) -> bool {
        self.layout().is_contiguous()
    }

    /// Waits until all writes that were pushed before are done (`WaitToRead`).
    ///
    /// # Errors
    /// The error of the operation that should have written the array, or of one that it depends on.
    /// It names the operator, shapes and types. The wait takes it: a second wait succeeds.
    ///
    /// ```
    /// # use seriatim_tensor::NDArray;
    /// NDArray::from_slice(&[1, 2], [2])?.wait_to_read()?;
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn wait_to_read(&self) -> Result<(), Error> {
        capturing::refuse("an array is waited for")?;
        Ok(self.runtime().engine().wait_for_var(self.variable())?)
    }

    /// Waits until all operations that use the array and were pushed before are done, reads
    /// included (`WaitToWrite`).
    ///
    /// # Errors
    /// Those of [`wait_to_read`](NDArray::wait_to_read).
    ///
    /// ```
    /// # use seriatim_tensor::NDArray;
    /// NDArray::from_slice(&[1, 2], [2])?.wait_to_write()?;
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn wait_to_write(&self) -> Result<(), Error> {
        capturing::refuse("an array is waited for")?;
        Ok(self.runtime().engine().wait_until_unused(self.variable())?)
    }

    #[inline]
    pub(crate) fn layout(&self) -> &Layout {
        match self.owner.view() {
            None => &self.chunk().whole().layout,
            Some(view) => view.layout(),
        }
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn elements(&self) -> usize {
        self.chunk().whole().elements
    }

    /// Whether it was made as a view.
    #[inline]
    pub(crate) fn is_view(&self) -> bool {
        self.owner.view != WHOLE
    }

    /// The number of its chunk among those of the runtime.
    pub(crate) fn number(&self) -> u32 {
        self.chunk().whole().number
    }

    pub(crate) fn chunk(&self) -> &Chunk {
        self.owner.chunk()
    }
}

impl Clone for NDArray {
    fn clone(&self) -> NDArray {
        NDArray { owner: self.owner.clone(), id: self.id }
    }
}

impl fmt::Debug for NDArray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NDArray({} {}, {:?})", self.dtype(), self.shape(), self.variable())
    }
}
