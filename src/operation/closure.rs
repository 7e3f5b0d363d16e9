//! Closure storage: small closures lie inside the operation block, larger ones in a box. A
//! [`Vtable`] has the functions that run or drop a stored closure.
//!
//! Pushes store closures (`src/engine/push/`, `erased_closure.rs`). `src/engine/execute.rs` runs or
//! drops them, and `src/engine/gpu/call.rs` those of devices, on the thread that has the operation.
//! A closure is run or dropped once, and no other thread touches it. One that runs inside its push
//! is not stored (`src/engine/inline/fast_path.rs`). Closures of operators and graphs lie elsewhere
//! (`src/api/operator.rs`, `src/engine/replay/program.rs`). The functions of asynchronous ones are
//! in `async_closure.rs`. Those with a result have a vtable of their own
//! (`src/engine/future/computed.rs`).

use crate::error::{Failure, Fault, Source};
use crate::operation::completion::Completion;
use crate::operation::context::RunContext;
use crate::operation::layout::{CLOSURE_ALIGN, INLINE_CLOSURE};
use crate::platform::cache_line::LINE;
use crate::util::spans;
use std::any::TypeId;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::mem::{align_of, size_of, ManuallyDrop};
use std::ops::{Deref, DerefMut};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Arc;

/// What a closure may return: nothing, or a `Result` with any error that threads can share, a text
/// included. Also nothing at all: a closure that only panics is accepted in every edition. Types of
/// other crates cannot have this trait: give a `Result`.
///
/// ```edition2024,no_run
/// # let engine = seriatim::Engine::new()?;
/// engine.op("of edition 2024").push(|_| panic!())?;
/// # Ok::<(), seriatim::Error>(())
/// ```
/// ```edition2021,no_run
/// # #![deny(dependency_on_unit_never_type_fallback)]
/// # let engine = seriatim::Engine::new()?;
/// engine.op("of edition 2021").push(|_| panic!())?;
/// # Ok::<(), seriatim::Error>(())
/// ```
///
/// ```
/// let engine = seriatim::Engine::new()?;
/// engine.op("quiet").push(|_| ())?;
/// engine.op("fallible").push(|_| std::fs::metadata("/").map(|_| ()))?;
/// engine.wait_for_all()?;
/// # Ok::<(), seriatim::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "an operation must return `()` or `Result<(), E>` with `E: Into<Box<dyn Error + Send + Sync>>`, not `{Self}`"
)]
pub trait IntoOutcome: Sealed {
    /// The error, if there is one.
    ///
    /// # Errors
    /// What the closure returned.
    ///
    /// ```
    /// use seriatim::IntoOutcome;
    /// assert!(().into_outcome().is_ok());
    /// assert_eq!(Err::<(), _>("no").into_outcome().unwrap_err().to_string(), "no");
    /// ```
    fn into_outcome(self) -> Result<(), Source>;
}

/// Keeps [`IntoOutcome`] to the types below, so that it can grow.
pub trait Sealed {}

impl Sealed for () {}
impl<E: Into<Source>> Sealed for Result<(), E> {}
impl Sealed for <fn() -> ! as Returns>::Value {}

impl IntoOutcome for () {
    #[inline]
    fn into_outcome(self) -> Result<(), Source> {
        Ok(())
    }
}

impl<E: Into<Source>> IntoOutcome for Result<(), E> {
    #[inline]
    fn into_outcome(self) -> Result<(), Source> {
        self.map_err(E::into)
    }
}

/// Names `!`, which is what `|_| panic!()` returns from edition 2024 on, and cannot be written
/// where a type stands.
#[doc(hidden)]
pub trait Returns {
    /// What the function returns.
    type Value;
}

impl<T> Returns for fn() -> T {
    type Value = T;
}

impl IntoOutcome for <fn() -> ! as Returns>::Value {
    fn into_outcome(self) -> Result<(), Source> {
        self
    }
}

/// The functions that run and drop a stored closure. Both take the closure out of its storage:
/// exactly one of them is called, once.
pub struct Vtable {
    pub run: Run,
    /// Drops the closure without running it: because of this failure, if there is one. Panics of
    /// its destructor are swallowed.
    pub discard: Discard,
    /// Which other closures are taken to run equally long.
    pub cost: Cost,
}

/// How an engine learns how long closures hold their threads (`src/engine/inline/policy.rs`).
#[derive(Clone, Copy)]
pub enum Cost {
    /// Closures with the same key take equally long, as far as is known: those of one type, or
    /// those to which the program gave one key. The function finds the key of a stored closure.
    Learned(unsafe fn(*const u8) -> u64),
    /// Nothing is learned by this: for synchronous closures of operators, which are all of one type
    /// and measure their calls themselves (`src/api/operator.rs`), and for those that
    /// `src/api/prepare.rs` pushes.
    Unknown,
}

/// The key of a type, the same wherever in the program it is asked for. The address of a vtable is
/// not: each part of a program that is compiled by itself has its own copy.
#[inline]
pub fn type_key<F: 'static>() -> u64 {
    /// Takes what the hash of a type writes, which is a hash already.
    struct WrittenHash(u64);

    impl Hasher for WrittenHash {
        #[inline]
        fn write(&mut self, bytes: &[u8]) {
            bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
        }

        #[inline]
        fn write_u64(&mut self, hash: u64) {
            self.0 = hash;
        }

        #[inline]
        fn finish(&self) -> u64 {
            self.0
        }
    }

    let mut taken = WrittenHash(0);
    TypeId::of::<F>().hash(&mut taken);
    taken.finish()
}

/// Calls a synchronous closure in its storage. Takes the closure out, or drops it if the call
/// unwinds; does not unwind itself.
pub type CallStored = unsafe fn(*mut u8, &RunContext<'_>) -> Result<(), Fault>;

/// Drops a closure in its storage.
pub type Discard = unsafe fn(*mut u8, Option<&Arc<Failure>>);

/// How to run a stored closure. No form unwinds.
#[derive(Clone, Copy)]
pub enum Run {
    /// The operation ends when the call returns.
    Sync(CallStored),
    /// The operation ends when its completion is used. An error here means that the call itself
    /// unwound. When this returns, the block may already be another operation's.
    Async(unsafe fn(*mut u8, &RunContext<'_>, Completion) -> Result<(), Fault>),
    /// A replay of a graph. The operation ends when the call returns, unless the call has asked for
    /// the completion: then it ends when that is used, and the block may be another operation's.
    Replay(unsafe fn(*mut u8, &RunContext<'_>, &mut dyn FnMut() -> Completion)),
    /// A part of a graph, on the worker of this number: its return ends no operation. When it
    /// returns, the block may already be in use again.
    Part(unsafe fn(*mut u8, Option<usize>)),
}

/// Whether closures of type `F` are stored inside the block.
pub const fn is_inline<F>() -> bool {
    size_of::<F>() <= INLINE_CLOSURE && align_of::<F>() <= CLOSURE_ALIGN
}

/// Takes a closure out of its storage.
///
/// # Safety
/// `storage` holds an `F`, or a box of it if [`is_inline`] says so; it is empty afterwards.
#[inline]
pub unsafe fn take<F>(storage: *mut u8) -> F {
    // SAFETY: by the contract.
    unsafe {
        if const { is_inline::<F>() } {
            let closure = storage.cast::<F>().read();
            mark_lines::<F>(storage);
            closure
        } else {
            *storage.cast::<Box<F>>().read()
        }
    }
}

/// Writes to each further cache line that a long closure reaches into:
/// [`crate::platform::cache_line`] says why. `Block::mark_lines` has the same rule for the other
/// lines of a block.
///
/// # Safety
/// `storage` is that of an `F`, and empty.
#[inline]
unsafe fn mark_lines<F>(storage: *mut u8) {
    if size_of::<F>() <= CLOSURE_ALIGN {
        return;
    }
    let mut next = LINE - storage.addr() % LINE;
    while next + size_of::<u64>() <= size_of::<F>() {
        // SAFETY: within the storage, which is aligned for closures; nothing is there any more.
        unsafe { storage.add(next).cast::<u64>().write_unaligned(0) };
        next += LINE;
    }
}

/// Drops a stored closure that was not called.
///
/// # Safety
/// As [`take`].
pub unsafe fn discard<F>(storage: *mut u8, _: Option<&Arc<Failure>>) {
    // SAFETY: the vtable belongs to the type that was stored.
    drop_quietly(unsafe { take::<F>(storage) });
}

/// Drops a closure that was not called. A panic of its destructor is swallowed, since it has
/// nowhere to go.
pub fn drop_quietly<F>(closure: F) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(closure))) {
        drop(Fault::panicked(payload));
    }
}

/// A value of the user's whose destructor may panic. The panic is swallowed, like in
/// [`drop_quietly`].
pub struct DropGuarded<T>(ManuallyDrop<T>);

impl<T> DropGuarded<T> {
    pub fn new(value: T) -> DropGuarded<T> {
        DropGuarded(ManuallyDrop::new(value))
    }
}

impl<T> Deref for DropGuarded<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for DropGuarded<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T> Drop for DropGuarded<T> {
    fn drop(&mut self) {
        // SAFETY: not used again.
        drop_quietly(unsafe { ManuallyDrop::take(&mut self.0) });
    }
}

/// The functions for a synchronous closure of type `F`.
pub struct SyncBody<F, R>(PhantomData<(F, R)>);

impl<F, R> SyncBody<F, R>
where
    F: FnOnce(&RunContext<'_>) -> R + Send + 'static,
    R: IntoOutcome,
{
    pub const VTABLE: &'static Vtable =
        &Vtable { run: Run::Sync(Self::run), discard: discard::<F>, cost: Cost::Learned(Self::key) };
    const UNLEARNED: &'static Vtable = &Vtable { cost: Cost::Unknown, ..*Self::VTABLE };

    unsafe fn run(storage: *mut u8, run: &RunContext<'_>) -> Result<(), Fault> {
        // SAFETY: the vtable belongs to the type that was stored. A large closure is moved once, as
        // it is taken in there.
        catch_call(run, || unsafe { take::<F>(storage) }(run).into_outcome())
    }

    fn key(_: *const u8) -> u64 {
        type_key::<F>()
    }
}

/// A closure with a key of the program's own: closures with the same key are taken to hold their
/// threads equally long.
pub struct Keyed<F: ?Sized> {
    pub key: u64,
    pub closure: F,
}

impl<F> Keyed<F> {
    /// The functions for this closure, if it is synchronous.
    pub fn vtable<R>(&self) -> &'static Vtable
    where
        F: FnOnce(&RunContext<'_>) -> R + Send + 'static,
        R: IntoOutcome,
    {
        const { &Vtable { run: Run::Sync(Self::run::<R>), discard: discard::<Self>, cost: Cost::Learned(Self::stored_key) } }
    }

    #[inline(always)]
    unsafe fn run<R>(storage: *mut u8, run: &RunContext<'_>) -> Result<(), Fault>
    where
        F: FnOnce(&RunContext<'_>) -> R,
        R: IntoOutcome,
    {
        // SAFETY: the vtable belongs to the type that was stored.
        catch_call(run, || (unsafe { take::<Self>(storage) }.closure)(run).into_outcome())
    }

    unsafe fn stored_key(storage: *const u8) -> u64 {
        // SAFETY: as above; the closure, or a box of it, is there.
        unsafe {
            if const { is_inline::<Self>() } {
                (*storage.cast::<Self>()).key
            } else {
                (*storage.cast::<Box<Self>>()).key
            }
        }
    }
}

/// Calls a closure that may fail or unwind.
#[inline]
pub fn catch(call: impl FnOnce() -> Result<(), Source>) -> Result<(), Fault> {
    // The error's `Display` is user code, too, so it is called in here.
    match catch_unwind(AssertUnwindSafe(|| call().map_err(Fault::failed))) {
        Ok(outcome) => outcome,
        Err(payload) => Err(Fault::panicked(payload)),
    }
}

/// Like [`catch`], in the span of the operation (feature `tracing`).
#[inline]
pub fn catch_call(run: &RunContext<'_>, call: impl FnOnce() -> Result<(), Source>) -> Result<(), Fault> {
    catch(|| {
        let _span = spans::call(run.name);
        call()
    })
}

/// The functions for a synchronous closure, with the type taken from a value.
pub fn sync_vtable<F, R>(_: &F) -> &'static Vtable
where
    F: FnOnce(&RunContext<'_>) -> R + Send + 'static,
    R: IntoOutcome,
{
    SyncBody::<F, R>::VTABLE
}

/// Like [`sync_vtable`], but for closures of which nothing is learned. Those of operators
/// (`src/api/operator.rs`) are of one type and do all kinds of things. Those of
/// `src/api/prepare.rs` are all to be shipped.
pub fn unlearned_vtable<F, R>(_: &F) -> &'static Vtable
where
    F: FnOnce(&RunContext<'_>) -> R + Send + 'static,
    R: IntoOutcome,
{
    SyncBody::<F, R>::UNLEARNED
}
