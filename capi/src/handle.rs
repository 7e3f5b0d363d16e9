//! What C's handle of a completion says, and how its first use is told from a second one. The
//! places are those of `stock.rs`, and `completion.rs` has the functions that C calls. The models
//! of `loom-tests/tests/handles.rs` run this file.
//!
//! A handle is no address. It has the number of a place, and a generation that is new each time the
//! place is lent: C's handle is the state of the place without its flags. C's use of a handle
//! compares it with the state, and sets [`USED`] in the same step. So of several uses one succeeds,
//! also of two at once, and those that come when the place is lent again are told apart. Nothing is
//! freed, so any value that C hands over may be looked up.
//!
//! A generation comes again when its place has been lent 2^32 times (256 times on 32 bits). An old
//! handle is taken for the one in use if the place was lent exactly so often since, or a multiple.
//!
//! Two share a place that is lent: C, and the frame of the function that C was called with. The
//! frame needs it only if the function unwinds: nobody can know whether the function has given the
//! handle away by then, so the first of them ends the operation.

use crate::stock::Content;
use crate::sync::{AtomicPtr, AtomicUsize, Ordering::*};
use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::mem::{transmute_copy, ManuallyDrop, MaybeUninit};

/// The completion was taken: by C, or by a frame that unwinds.
const TAKEN: usize = 1;
/// C has used its handle.
const USED: usize = 2;
/// The function has returned, or unwound.
const RETURNED: usize = 4;
/// The argument is the frame's, which has ended the operation.
const EMPTY: usize = 8;

/// The lowest bits of a state are flags, then comes the number of the place. On 64 bits a number
/// times 64, the size of a place, is then half of the state.
const FLAG_BITS: u32 = if usize::BITS == 64 { 6 } else { 4 };
const NUMBER_BITS: u32 = if usize::BITS == 64 { 26 } else { 20 };
const FLAGS: usize = (1 << FLAG_BITS) - 1;
/// Added for each generation.
const GENERATION: usize = 1 << (FLAG_BITS + NUMBER_BITS);

/// Why a handle is refused.
#[derive(Debug, PartialEq, Eq)]
pub enum Refused {
    /// It was used before, or is none.
    Used,
    /// The frame has ended the operation, because the function unwound.
    Ended,
}

/// A type that can lie in a place as a completion.
///
/// # Safety
/// A value is three words, of which all bytes are initialised.
pub unsafe trait ThreeWords: Send {}

/// A value that is read and written word by word. A thread that uses an old handle may read it
/// while another thread writes it; such a read is not made use of.
struct Words<C>([AtomicPtr<()>; 3], PhantomData<C>);

impl<C: ThreeWords> Words<C> {
    #[inline]
    fn store(&self, value: C) {
        const { assert!(size_of::<C>() == size_of::<[*mut (); 3]>()) };
        // SAFETY: the trait's contract. The value is not dropped here, so it has moved.
        let words: [*mut (); 3] = unsafe { transmute_copy(&ManuallyDrop::new(value)) };
        for (place, word) in self.0.iter().zip(words) {
            // Relaxed: whose handle is right comes after the state.
            place.store(word, Relaxed);
        }
    }

    #[inline]
    fn load(&self) -> MaybeUninit<C> {
        // Relaxed: as above.
        let words = [self.0[0].load(Relaxed), self.0[1].load(Relaxed), self.0[2].load(Relaxed)];
        // SAFETY: the sizes are equal, and nothing is said of the value.
        unsafe { transmute_copy(&words) }
    }
}

/// What lies in a place: a completion, and the argument of its operation.
pub struct Lent<C, A> {
    /// The generation, the number of the place, and the sum of the flags.
    state: AtomicUsize,
    /// The one that sets [`TAKEN`] takes it.
    completion: Words<C>,
    /// Lives until the function has returned and the completion is used, whichever is later.
    /// The one that adds the second of [`USED`] and [`RETURNED`] takes it, unless it is [`EMPTY`].
    argument: UnsafeCell<MaybeUninit<A>>,
}

// SAFETY: completions and arguments may be used on any thread, and the state says by which.
unsafe impl<C: Send, A: Send> Sync for Lent<C, A> {}

impl<C: ThreeWords + 'static, A: Send + 'static> Content for Lent<C, A> {
    const LAST: u32 = (1 << NUMBER_BITS) - 1;

    fn new(number: u32) -> Lent<C, A> {
        let word = || AtomicPtr::new(std::ptr::null_mut());
        Lent {
            // Nobody has a handle.
            state: AtomicUsize::new((number as usize) << FLAG_BITS | USED),
            completion: Words([word(), word(), word()], PhantomData),
            argument: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }
}

/// The number of the place that a handle is of.
#[inline]
pub fn number(handle: usize) -> u32 {
    ((handle & (GENERATION - 1)) >> FLAG_BITS) as u32
}

impl<C: ThreeWords, A> Lent<C, A> {
    /// Puts a completion and an argument there. Returns the handle for C, which is not 0. The frame
    /// then calls [`Lent::returned`] or [`Lent::unwound`].
    ///
    /// # Safety
    /// The place is the caller's, and is now lent.
    #[inline]
    pub unsafe fn lend(&self, completion: C, argument: A) -> usize {
        // Relaxed: the place is the caller's, so that no other thread changes the state.
        let handle = (self.state.load(Relaxed) & !FLAGS).wrapping_add(GENERATION);
        self.completion.store(completion);
        // SAFETY: by the contract. What was there was moved out.
        unsafe { (*self.argument.get()).write(argument) };
        // Release: pairs with the acquire in `take`.
        self.state.store(handle, Release);
        handle
    }

    /// Takes the completion by a handle, whichever that is. Calls `give_back` if nobody else uses
    /// the place any more; the argument is then gone when this returns.
    ///
    /// # Errors
    /// The handle was used before, or the operation has ended.
    #[inline]
    pub fn take(&self, handle: usize, give_back: impl FnOnce()) -> Result<C, Refused> {
        // Acquire: the completion is at least as new as the state, and the last one comes after all
        // that the frame has done.
        let mut state = self.state.load(Acquire);
        let completion = loop {
            if (state ^ handle) & !(TAKEN | RETURNED | EMPTY) != 0 {
                return Err(Refused::Used);
            }
            // Read before the exchange: the frame may give the place back right behind it.
            let completion = self.completion.load();
            // Release: pairs with the acquire of the frame, which comes after the read above and
            // after all that C has done with the argument. The state was acquired when found.
            match self.state.compare_exchange_weak(state, state | USED | TAKEN, Release, Acquire) {
                Ok(_) => break completion,
                Err(now) => state = now,
            }
        };
        if state & RETURNED != 0 {
            // SAFETY: both have done with the place.
            unsafe { self.end(state, give_back) };
        }
        if state & TAKEN != 0 {
            return Err(Refused::Ended);
        }
        // SAFETY: it is that of this handle, which nobody has taken before.
        Ok(unsafe { completion.assume_init() })
    }

    /// The function has returned. Otherwise as [`Lent::take`].
    ///
    /// # Safety
    /// The caller is the frame, which does not use the place again.
    #[inline]
    pub unsafe fn returned(&self, give_back: impl FnOnce()) {
        // Acquire and release: the last one comes after all that the other has done.
        let before = self.state.fetch_add(RETURNED, AcqRel);
        if before & USED != 0 {
            // SAFETY: both have done with the place.
            unsafe { self.end(before, give_back) };
        }
    }

    /// The function unwinds: ends the operation, if C has not, by dropping its completion.
    ///
    /// # Safety
    /// As [`Lent::returned`].
    #[cold]
    pub unsafe fn unwound(&self, give_back: impl FnOnce()) {
        let completion = self.completion.load();
        // Acquire and release: as in `take`.
        if self.state.fetch_or(TAKEN, AcqRel) & TAKEN != 0 {
            // SAFETY: by the contract.
            return unsafe { self.returned(give_back) };
        }
        // SAFETY: the frame has its share until the state says `RETURNED`. C's use is not the last
        // one before that, and finds `EMPTY` behind it.
        let argument = unsafe { (*self.argument.get()).assume_init_read() };
        // Acquire and release: as in `returned`.
        if self.state.fetch_add(RETURNED | EMPTY, AcqRel) & USED != 0 {
            give_back();
        }
        drop(argument);
        // SAFETY: this frame has taken it. The operation ends with the panic's message.
        drop(unsafe { completion.assume_init() });
    }

    /// Both have done with the place.
    ///
    /// # Safety
    /// The caller is the last one, and `state` has the flags of the other.
    #[inline]
    unsafe fn end(&self, state: usize, give_back: impl FnOnce()) {
        // SAFETY: nobody else uses the place, and whether the argument is there is looked at below.
        let argument = unsafe { self.argument.get().read() };
        give_back();
        if state & EMPTY == 0 {
            // SAFETY: `lend` has written it, and nobody has taken it.
            drop(unsafe { argument.assume_init() });
        }
    }
}
