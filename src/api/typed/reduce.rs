//! `Reduce`: what operations are lent of a reduction: a copy, or the value behind all copies.
//!
//! `run.rs` enters and lends it, as all resources (`resources.rs`). `reduction.rs` has the value
//! and its copies, and says why this is sound.

use crate::api::typed::reduction::{ReducedValue, Reduction};
use crate::api::typed::resources::{Entering, Keepers, Lendable, Resources, Write};
use crate::operation::access::Mode;
use std::ptr::NonNull;
use std::sync::atomic::Ordering::Relaxed;

/// Says that an operation reduces: its closure is given a copy, as a `&mut`, to which it adds its
/// part. See [`Reduction`] and [`Resources`].
///
/// ```
/// use seriatim::{Engine, Reduce};
/// let engine = Engine::new()?;
/// let longest = engine.reduction(String::new, |longest, other| {
///     if other.len() > longest.len() {
///         *longest = other;
///     }
/// });
/// for word in ["a", "reduction", "of", "words"] {
///     engine.op("compare").run(Reduce(&longest), move |longest| {
///         if word.len() > longest.len() {
///             *longest = word.to_string();
///         }
///     })?;
/// }
/// assert_eq!(*longest.read()?, "reduction");
/// # Ok::<(), seriatim::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Reduce<V>(pub V);

/// The address of the whole, of an operation that uses the value.
#[derive(Debug)]
pub struct ReducedPlace<T>(NonNull<ReducedValue<T>>);

// SAFETY: it is followed by the operation, which has the value to itself, on whichever thread.
unsafe impl<T: Send> Send for ReducedPlace<T> {}
// SAFETY: as above; operations that share a place run one at a time.
unsafe impl<T: Send> Sync for ReducedPlace<T> {}

impl<T> ReducedPlace<T> {
    /// Combines the copies, and lends the value.
    ///
    /// # Safety
    /// An operation that has entered the whole is being called, until after `'a`, and was lent it
    /// once.
    #[allow(clippy::mut_from_ref)]
    unsafe fn lend<'a>(&self) -> &'a mut T {
        // SAFETY: by the contract.
        unsafe {
            let whole = &mut *self.0.as_ptr();
            whole.combine();
            &mut whole.total
        }
    }
}

/// The addresses of the copy that an operation changes, and of the whole.
#[derive(Debug)]
pub struct PartPlace<T> {
    whole: NonNull<ReducedValue<T>>,
    copy: NonNull<T>,
}

// SAFETY: the copy is changed by one operation at a time; of the whole only an atomic is used.
unsafe impl<T: Send> Send for PartPlace<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for PartPlace<T> {}

impl<T> Lendable for &Reduction<T> {}

impl<T: Send + 'static, W> Resources<W> for &Reduction<T> {
    type Item<'a> = &'a T;
    type Held = ReducedPlace<T>;

    fn enter(&self, entry: &mut Entering<'_>) -> ReducedPlace<T> {
        self.each_use(|variable, mode| entry.draft.add(variable, mode));
        ReducedPlace(self.whole.place())
    }

    fn keep(&self, kept: &mut Keepers) {
        self.keep_all(kept);
    }

    unsafe fn lend(held: &ReducedPlace<T>) -> &T {
        // SAFETY: by the contract; a second claim of the value was refused.
        unsafe { held.lend() }
    }
}

impl<T> Lendable for Write<&Reduction<T>> {}

impl<T: Send + 'static, W> Resources<W> for Write<&Reduction<T>> {
    type Item<'a> = &'a mut T;
    type Held = ReducedPlace<T>;

    fn enter(&self, entry: &mut Entering<'_>) -> ReducedPlace<T> {
        <&Reduction<T> as Resources<W>>::enter(&self.0, entry)
    }

    fn keep(&self, kept: &mut Keepers) {
        self.0.keep_all(kept);
    }

    #[allow(clippy::mut_from_ref)]
    unsafe fn lend(held: &ReducedPlace<T>) -> &mut T {
        // SAFETY: as above.
        unsafe { held.lend() }
    }
}

impl<T> Lendable for Reduce<&Reduction<T>> {}

impl<T: Send + 'static, W> Resources<W> for Reduce<&Reduction<T>> {
    type Item<'a> = &'a mut T;
    type Held = PartPlace<T>;

    fn enter(&self, entry: &mut Entering<'_>) -> PartPlace<T> {
        let of = self.0;
        // Relaxed: each gets a number of its own, in the order of the pushes of one thread.
        let copy = &of.copies[of.pushed.fetch_add(1, Relaxed) % of.copies.len()];
        entry.draft.add(of.whole.variable(), Mode::Read);
        match of.is_ordered {
            true => entry.draft.add(copy.variable(), Mode::Write),
            false => entry.draft.commute(copy.variable()),
        }
        PartPlace { whole: of.whole.place(), copy: copy.place() }
    }

    fn keep(&self, kept: &mut Keepers) {
        self.0.keep_all(kept);
    }

    #[allow(clippy::mut_from_ref)]
    unsafe fn lend(held: &PartPlace<T>) -> &mut T {
        // SAFETY: by the contract the operation has claimed both. An operation with a reference
        // to the whole is alone, so there is none now; the copy is this operation's, which was lent
        // it once. Relaxed: what asks comes after this operation.
        unsafe {
            (*held.whole.as_ptr()).is_parted.store(true, Relaxed);
            &mut *held.copy.as_ptr()
        }
    }
}
