//! `NDArray`: an array whose operations run later, in the order in which they were pushed.
//!
//! This file has what an array is, and how it ends. `create.rs` makes arrays, `transfer.rs` takes
//! values in and out, `access.rs` is how operations reach the elements. What operators do with
//! arrays is in `src/operator/`.

use crate::dtype::DType;
use crate::error::{Error, ErrorKind};
use crate::ndarray::capturing;
use crate::ndarray::chunk::{Chunk, Placed};
use crate::ndarray::runtime::Runtime;
use crate::shape::{Layout, Shape};
use crate::storage::memory::Memory;
use crate::storage::Tag;
use seriatim::{Context, Variable};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// An array of up to eight dimensions. Calls on it return before the work is done; reading its
/// values waits for what they depend on.
///
/// A handle: clones are the same array. Views, such as those of [`slice`](NDArray::slice), share
/// its memory and its engine variable: what is written through one is read through the other, in
/// push order. The last handle that is dropped pushes the deletion of the variable, which frees the
/// memory behind all operations on it.
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
    variable: Variable,
    dtype: DType,
    context: Context,
    layout: Layout,
    /// The elements of the whole chunk.
    elements: usize,
    /// Which value it is: clones have the same number, views another one.
    id: u64,
}

/// One of those who keep a chunk.
struct Owner {
    runtime: Runtime,
    number: u32,
    variable: Variable,
}

impl Owner {
    fn chunk(&self) -> &Chunk {
        self.runtime.chunks().get(self.number)
    }
}

impl Clone for Owner {
    fn clone(&self) -> Owner {
        self.chunk().share();
        Owner { runtime: self.runtime.clone(), ..*self }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        if !self.chunk().leave() {
            return;
        }
        let (runtime, number, tag) = (self.runtime.clone(), self.number, self.chunk().tag());
        let free = move || {
            // SAFETY: the last owner is gone. If the variable is private, the graph is gone that
            // had one, and with it all operations that name the variable; else the deletion comes
            // after them. Views and arrays that are attached have chunks of their own.
            let (memory, placed, attached) = unsafe { runtime.chunks().get(number).clear() };
            placed.iter().for_each(|placed| runtime.end_placed(placed, tag));
            drop((memory, placed));
            runtime.chunks().give(number);
            drop(attached);
        };
        // Operations of a device have shares of its memory, and do not name the chunk. The last
        // share that is dropped deletes the variable.
        if self.chunk().is_private() || matches!(self.chunk().placed(), Some(Placed::Device(_))) {
            return free();
        }
        let free = move |_: &seriatim::RunContext<'_>| free();
        if self.runtime.engine().delete_variable(free, Context::cpu(0), self.variable).is_err() {
            self.runtime.lose();
        }
    }
}

/// The next number of a value.
fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Relaxed)
}

impl NDArray {
    /// An array in new memory. That of a device is made here; other memory is made by the first
    /// operation that writes to it.
    pub(crate) fn new(runtime: &Runtime, shape: Shape, dtype: DType, context: Context) -> Result<NDArray, Error> {
        let placed = runtime.place(shape, dtype, context)?;
        let number = runtime.chunks().take().ok_or_else(|| {
            Error::new(ErrorKind::OutOfMemory, "there are more than two thousand million arrays: drop some")
        })?;
        let chunk = runtime.chunks().get(number);
        chunk.begin(Tag::current());
        let variable = placed.as_ref().map_or_else(|| runtime.engine().new_variable(), Placed::variable);
        // SAFETY: the record was just taken, and its first owner is made below.
        placed.into_iter().for_each(|placed| unsafe { chunk.place(placed) });
        let owner = Owner { runtime: runtime.clone(), number, variable };
        let layout = Layout::contiguous(shape);
        let array = NDArray { owner, variable, dtype, context, layout, elements: shape.size(), id: next_id() };
        if capturing::is_active() {
            capturing::keep(&array)?;
        }
        Ok(array)
    }

    /// An array in memory that is there already. The layout's extent lies within `elements`, which
    /// the memory has from its first byte on, and which are of the type.
    pub(crate) fn in_memory(
        runtime: &Runtime,
        layout: Layout,
        (dtype, elements): (DType, usize),
        memory: Memory,
    ) -> Result<NDArray, Error> {
        let mut array = NDArray::new(runtime, layout.shape, dtype, Context::cpu(0))?;
        // SAFETY: no operation has named the new variable yet, and no other thread has the array.
        // The pushes of those to come order them behind this.
        *unsafe { array.chunk().memory_mut() } = Some(memory);
        (array.layout, array.elements) = (layout, elements);
        Ok(array)
    }

    /// The same memory, shown in another way.
    pub(crate) fn viewed(&self, layout: Layout) -> NDArray {
        debug_assert!(layout.extent().1 <= self.elements || layout.shape.size() == 0);
        NDArray { layout, id: next_id(), ..self.clone() }
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
        self.variable
    }

    /// The sizes of its dimensions.
    ///
    /// ```
    /// # use seriatim_tensor::{DType, NDArray};
    /// assert_eq!(NDArray::empty([2, 3], DType::F32)?.shape().dims(), [2, 3]);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn shape(&self) -> Shape {
        self.layout.shape
    }

    /// How many dimensions it has.
    ///
    /// ```
    /// # use seriatim_tensor::{DType, NDArray};
    /// assert_eq!(NDArray::empty([2, 3], DType::F32)?.ndim(), 2);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn ndim(&self) -> usize {
        self.layout.shape.rank()
    }

    /// How many elements it has.
    ///
    /// ```
    /// # use seriatim_tensor::{DType, NDArray};
    /// assert_eq!(NDArray::empty([2, 3], DType::F32)?.size(), 6);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn size(&self) -> usize {
        self.layout.shape.size()
    }

    /// The type of its elements.
    ///
    /// ```
    /// # use seriatim_tensor::{DType, NDArray};
    /// assert_eq!(NDArray::empty([2], DType::I8)?.dtype(), DType::I8);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Where its memory is.
    ///
    /// ```
    /// # use seriatim_tensor::{DType, NDArray};
    /// assert_eq!(NDArray::empty([2], DType::I8)?.context(), seriatim::Context::cpu(0));
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn context(&self) -> Context {
        self.context
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
        self.layout.is_contiguous()
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
        Ok(self.runtime().engine().wait_for_var(self.variable)?)
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
        Ok(self.runtime().engine().wait_until_unused(self.variable)?)
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn elements(&self) -> usize {
        self.elements
    }

    /// The number of its chunk among those of the runtime.
    pub(crate) fn number(&self) -> u32 {
        self.owner.number
    }

    pub(crate) fn chunk(&self) -> &Chunk {
        self.owner.chunk()
    }
}

impl Clone for NDArray {
    fn clone(&self) -> NDArray {
        NDArray { owner: self.owner.clone(), ..*self }
    }
}

impl fmt::Debug for NDArray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NDArray({} {}, {:?})", self.dtype, self.shape(), self.variable)
    }
}
