//! Reductions: a value to which many operations add parts at once, each in one of several copies,
//! which are combined before the value is next read or changed.
//!
//! `Engine::reduction` and `Engine::ordered_reduction` make one here, on any thread; `reduce.rs`
//! lends it to operations. The value and each copy are [`Value`]s (`value.rs`), so all that holds
//! of these holds here: there is nothing of reductions in the engine. An operation that reduces
//! reads the value's variable, by which it keeps its place, and changes one copy: it commutes on
//! it, or writes it if the reduction is ordered. Any other use *writes* the value's variable, so it
//! comes after all that reduce before it, and is alone; and it reads those of the copies, whose
//! marks tell of operations that have failed. The first such use combines the copies, at its start,
//! on its thread.
//!
//! **Why this is sound.** An operation that writes the value's variable is the only one that
//! reaches any of it, since each that changes a copy reads that variable. Of operations that
//! reduce, those with one copy run one at a time.

use crate::api::engine::Engine;
use crate::api::typed::guard::ReadGuard;
use crate::api::typed::resources::Keepers;
use crate::api::typed::value::Value;
use crate::engine::claims::order;
use crate::engine::request::Claim;
use crate::error::{Error, ErrorKind};
use crate::operation::access::Mode;
use crate::operation::closure::catch;
use crate::variable::handle::Variable;
use std::fmt;
use std::mem::replace;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

/// Copies for each worker, in a reduction that is not ordered: so many that two operations that run
/// at once seldom have the same.
const COPIES_PER_WORKER: usize = 4;

/// The most copies of an ordered reduction: a use of its value names all of them.
const MOST_COPIES: usize = 1 << 16;

/// A value to which operations add parts at once, from [`Engine::reduction`] or
/// [`Engine::ordered_reduction`].
///
/// An operation that names [`Reduce(&sum)`](crate::Reduce) is lent one of several copies, as a
/// `&mut T`, and adds its part to what it finds there. Copies begin as the *identity*. One that
/// names `&sum` or [`Write(&sum)`](crate::Write) is lent the value itself: all parts of the
/// operations before it are combined into it then, and the copies begin anew.
/// [`read`](Reduction::read) does the same outside of operations.
///
/// If an operation that reduces fails or is skipped, what reads the value is skipped, as behind a
/// write. Reads of a reduction run one at a time, and count as changes of the value: its version
/// steps.
///
/// ```
/// use seriatim::{Engine, Reduce, Write};
/// let engine = Engine::new()?;
/// let blocks = [[1, 2], [3, 4], [5, 6]].map(|block| engine.value(block));
/// let sum = engine.reduction(|| 0, |sum, part| *sum += part);
/// for block in &blocks {
///     engine.op("sum").run((block, Reduce(&sum)), |(block, sum)| *sum += block[0] + block[1])?;
/// }
/// assert_eq!(*sum.read()?, 21);
/// # Ok::<(), seriatim::Error>(())
/// ```
pub struct Reduction<T> {
    pub(super) whole: Value<ReducedValue<T>>,
    pub(super) copies: Vec<Value<T>>,
    /// How many operations were pushed that reduce.
    pub(super) pushed: AtomicUsize,
    pub(super) is_ordered: bool,
}

/// Combines a part into another.
type Combine<T> = Box<dyn Fn(&mut T, T) + Send>;

/// The value, and what combines the copies.
pub struct ReducedValue<T> {
    pub(super) total: T,
    identity: Box<dyn Fn() -> T + Send>,
    combine: Combine<T>,
    /// Where the copies are. Their values are kept by those who may come here.
    copies: Vec<CopyPlace<T>>,
    /// Whether any copy was lent since the last time.
    pub(super) is_parted: AtomicBool,
}

/// The address of a copy.
struct CopyPlace<T>(NonNull<T>);

// SAFETY: it is followed by one thread at a time, which may be any: values are `Send`.
unsafe impl<T: Send> Send for CopyPlace<T> {}
// SAFETY: as above; a shared place gives out nothing.
unsafe impl<T: Send> Sync for CopyPlace<T> {}

impl Engine {
    /// Makes a reduction whose parts are combined in any order: `combine` has to be associative and
    /// commutative. It begins as `identity()`, to which combining adds nothing.
    ///
    /// There are four copies for each worker of the processor. Operations that reduce commute on
    /// them: one whose other variables are late holds no other up.
    ///
    /// Worst case: that of [`value`](Engine::value) for each copy, and a call of `identity`.
    ///
    /// ```
    /// use seriatim::{Engine, Reduce};
    /// let engine = Engine::new()?;
    /// let most = engine.reduction(|| 0, |most: &mut u32, other| *most = other.max(*most));
    /// for number in [3, 7, 5] {
    ///     engine.op("compare").run(Reduce(&most), move |most| *most = number.max(*most))?;
    /// }
    /// assert_eq!(*most.read()?, 7);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn reduction<T: Send + 'static>(
        &self,
        identity: impl Fn() -> T + Send + 'static,
        combine: impl Fn(&mut T, T) + Send + 'static,
    ) -> Reduction<T> {
        let copies = COPIES_PER_WORKER * self.settings().cpu_workers.max(1);
        self.reduction_of(copies, false, Box::new(identity), Box::new(combine))
    }

    /// Makes a reduction whose result does not depend on the number of workers, nor on which of
    /// them runs what, to the last bit of a floating-point number. It has so many copies, of which
    /// the *i*-th operation that reduces gets number *i* mod `copies`, in push order. They are
    /// combined in a fixed tree: neighbours first, then pairs, and the whole into the value.
    /// `combine` has to be as good as associative; the order is always the same.
    ///
    /// As many operations run at once as there are copies, and one whose other variables are late
    /// holds up those behind it in its copy. All operations of one operator have one copy. With
    /// several threads that push, the order is that in which they happen to push.
    ///
    /// Worst case: that of [`reduction`](Engine::reduction).
    ///
    /// # Errors
    /// [`BadSetting`](ErrorKind::BadSetting) unless there are 1 to 65,536 copies. Nothing is made then.
    ///
    /// ```
    /// use seriatim::{Engine, Kind, Reduce};
    /// let sum = |engine: &Engine| -> Result<f64, seriatim::Error> {
    ///     let sum = engine.ordered_reduction(8, || 0.0, |sum, part: f64| *sum += part)?;
    ///     for number in 1..=100_u32 {
    ///         engine.op("add").run(Reduce(&sum), move |sum| *sum += 1.0 / f64::from(number))?;
    ///     }
    ///     Ok(*sum.read()?)
    /// };
    /// let (one, many) = (Engine::builder().kind(Kind::Naive), Engine::builder().cpu_workers(4));
    /// assert_eq!(sum(&one.build()?)?.to_bits(), sum(&many.build()?)?.to_bits());
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn ordered_reduction<T: Send + 'static>(
        &self,
        copies: usize,
        identity: impl Fn() -> T + Send + 'static,
        combine: impl Fn(&mut T, T) + Send + 'static,
    ) -> Result<Reduction<T>, Error> {
        if !(1..=MOST_COPIES).contains(&copies) {
            let text = format!(
                "an ordered reduction cannot have {copies} copies: give 1 to {MOST_COPIES}, and some four for each worker"
            );
            return Err(Error::new(ErrorKind::BadSetting, text));
        }
        Ok(self.reduction_of(copies, true, Box::new(identity), Box::new(combine)))
    }

    fn reduction_of<T: Send + 'static>(
        &self,
        copies: usize,
        is_ordered: bool,
        identity: Box<dyn Fn() -> T + Send>,
        combine: Combine<T>,
    ) -> Reduction<T> {
        let make = |_| if is_ordered { self.value(identity()) } else { self.commutative(identity()) };
        let copies: Vec<Value<T>> = (0..copies).map(make).collect();
        let places = copies.iter().map(|copy| CopyPlace(copy.place())).collect();
        let is_parted = AtomicBool::new(false);
        let whole = self.value(ReducedValue { total: identity(), identity, combine, copies: places, is_parted });
        Reduction { whole, copies, pushed: AtomicUsize::new(0), is_ordered }
    }
}

impl<T> ReducedValue<T> {
    /// Combines all copies into the value, in a fixed tree.
    ///
    /// # Safety
    /// The caller has the value to itself, and with it the copies, which are there.
    pub(super) unsafe fn combine(&mut self) {
        // Relaxed: who has set it comes before the caller.
        if !self.is_parted.swap(false, Relaxed) {
            return;
        }
        let take = |at: usize| {
            // SAFETY: by the contract. Copies are different values.
            replace(unsafe { &mut *self.copies[at].0.as_ptr() }, (self.identity)())
        };
        let mut stride = 1;
        while stride < self.copies.len() {
            for at in (0..self.copies.len() - stride).step_by(2 * stride) {
                let part = take(at + stride);
                // SAFETY: as above.
                (self.combine)(unsafe { &mut *self.copies[at].0.as_ptr() }, part);
            }
            stride *= 2;
        }
        let parts = take(0);
        (self.combine)(&mut self.total, parts);
    }
}

impl<T: Send + 'static> Reduction<T> {
    /// Waits until the operations that use the value and were pushed before have ended, combines
    /// what they have added, and reads the value. Like [`Value::read`], but operations that read
    /// the value wait for the guard as well.
    ///
    /// # Errors
    /// Those of [`Value::read`]; also the failure of an operation that was to add its part.
    /// [`OperationPanicked`](ErrorKind::OperationPanicked) if `identity` or `combine` panics: parts
    /// are missing then.
    ///
    /// ```
    /// use seriatim::{Engine, Reduce};
    /// let engine = Engine::new()?;
    /// let sum = engine.reduction(|| 0, |sum, part| *sum += part);
    /// engine.op("add").run(Reduce(&sum), |sum| *sum += 1)?;
    /// assert_eq!(*sum.read()?, 1);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn read(&self) -> Result<ReadGuard<'_, T>, Error> {
        let mut others: Vec<Claim> = Vec::with_capacity(self.copies.len() + 1);
        self.each_use(|variable, mode| others.push(Claim { variable, mode }));
        let guard = self.whole.guard_with(Mode::Write, order(&mut others), None)?;
        // SAFETY: the guard has the value to itself, which is behind all that reduce.
        let whole = unsafe { &mut *self.whole.place().as_ptr() };
        let outcome = catch(|| {
            // SAFETY: as above; this keeps the copies.
            unsafe { whole.combine() };
            Ok(())
        });
        if outcome.is_err() {
            let text = format!("the identity of {:?}, or what combines its parts, has panicked", self.whole.variable());
            return Err(Error::new(ErrorKind::OperationPanicked, text));
        }
        Ok(guard.read_at(NonNull::from(&mut whole.total)))
    }

    /// The variable that stands for the value: to order other operations with those that use it,
    /// and to look at its version. An operation that writes it comes behind all parts that were
    /// pushed before. One that reads it does not, since parts are reads of it as well: it comes
    /// behind uses of the value. A part that fails leaves no mark here. It reaches no value.
    ///
    /// ```
    /// use seriatim::{Engine, Reduce};
    /// let engine = Engine::new()?;
    /// let sum = engine.reduction(|| 0, |sum, part| *sum += part);
    /// engine.op("add").run(Reduce(&sum), |sum| *sum += 1)?;
    /// engine.wait_until_unused(sum.variable())?; // the part is added to its copy
    /// assert_eq!(engine.version(sum.variable())?, 0);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn variable(&self) -> Variable {
        self.whole.variable()
    }

    /// Calls `add` with each variable that a use of the whole value has, and how it has that.
    pub(super) fn each_use(&self, mut add: impl FnMut(Variable, Mode)) {
        add(self.whole.variable(), Mode::Write);
        self.copies.iter().for_each(|copy| add(copy.variable(), Mode::Read));
    }

    pub(super) fn keep_all(&self, kept: &mut Keepers) {
        kept.add(&self.whole);
        self.copies.iter().for_each(|copy| kept.add(copy));
    }
}

impl<T> fmt::Debug for ReducedValue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReducedValue")
    }
}

impl<T> fmt::Debug for Reduction<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reduction({:?}, {} copies)", self.whole.variable(), self.copies.len())
    }
}
