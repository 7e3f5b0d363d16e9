//! The closures of a batch: one after the other in one piece of memory, which is used again for a later batch.
//!
//! A closure lies behind a header that says how to call and to drop it. All are as aligned as the memory; one that asks for more is boxed.

use super::closure::{drop_quietly, IntoOutcome};
use super::context::RunContext;
use crate::sync::{AtomicPtr, Ordering::*};
use std::mem::{align_of, size_of, ManuallyDrop, MaybeUninit};
use std::ptr::{null_mut, NonNull};
use std::sync::Arc;

/// What memory is counted in.
#[repr(C, align(16))]
#[derive(Clone, Copy)]
struct Unit(MaybeUninit<[u8; 16]>);

/// A piece of memory, and the next of a list of them.
#[derive(Default)]
struct Piece {
    memory: Vec<Unit>,
    next: Option<NonNull<Piece>>,
}

/// A piece that has grown larger than so many units is not kept: 64 kB.
const LARGEST: usize = 4096;

/// Pieces of memory that batches have left behind: a stack (Treiber 1986) that is only ever taken as a whole.
pub struct Shelf(AtomicPtr<Piece>);

impl Shelf {
    pub fn new() -> Shelf {
        Shelf(AtomicPtr::new(null_mut()))
    }

    /// A piece, empty. While another thread is in here it may be a new one.
    fn take(&self) -> Box<Piece> {
        // Acquire: whoever has put them there does not use them any more.
        let Some(first) = NonNull::new(self.0.swap(null_mut(), Acquire)) else { return Box::default() };
        // SAFETY: from boxes, by `put`, and the swap made all of them ours.
        let mut first = unsafe { Box::from_raw(first.as_ptr()) };
        if let Some(rest) = first.next.take() {
            // The others go back as a whole. What was put there meanwhile, which is little, goes on top. AcqRel: as above and below.
            let mut meanwhile = NonNull::new(self.0.swap(rest.as_ptr(), AcqRel));
            while let Some(piece) = meanwhile {
                // SAFETY: as above.
                let mut piece = unsafe { Box::from_raw(piece.as_ptr()) };
                meanwhile = piece.next.take();
                self.put(piece);
            }
        }
        first
    }

    /// The memory is empty.
    fn put(&self, mut piece: Box<Piece>) {
        if piece.memory.capacity() > LARGEST {
            return;
        }
        let mut head = self.0.load(Relaxed);
        loop {
            piece.next = NonNull::new(head);
            let this = Box::into_raw(piece);
            // Release: whoever takes it finds it as we leave it. A head that comes back after others is no harm: the link to it is right.
            match self.0.compare_exchange_weak(head, this, Release, Relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
            // SAFETY: from the box, and nobody has got it.
            piece = unsafe { Box::from_raw(this) };
        }
    }
}

impl Drop for Shelf {
    fn drop(&mut self) {
        let mut next = NonNull::new(self.0.swap(null_mut(), Acquire));
        while let Some(piece) = next {
            // SAFETY: from a box, by `put`.
            next = unsafe { Box::from_raw(piece.as_ptr()) }.next;
        }
    }
}

/// What lies before a closure. Both calls take the closure out of the memory.
#[derive(Clone, Copy)]
struct Header {
    run: unsafe fn(*mut u8, &RunContext<'_>) -> Result<(), String>,
    discard: unsafe fn(*mut u8),
    /// Units from this header to the next.
    length: usize,
}

const HEADER: usize = units(size_of::<Header>());

const fn units(bytes: usize) -> usize {
    bytes.div_ceil(size_of::<Unit>())
}

/// Closures to be called once each, in order.
pub struct Members {
    piece: ManuallyDrop<Box<Piece>>,
    /// Where the next one to be called lies.
    next: usize,
    count: usize,
    shelf: Arc<Shelf>,
}

// SAFETY: every closure that is added is `Send`.
unsafe impl Send for Members {}

impl Members {
    pub fn new(shelf: &Arc<Shelf>) -> Members {
        Members { piece: ManuallyDrop::new(shelf.take()), next: 0, count: 0, shelf: Arc::clone(shelf) }
    }

    pub fn len(&self) -> usize {
        self.count
    }

    pub fn add<F, R>(&mut self, closure: F)
    where
        F: FnOnce(&RunContext<'_>) -> R + Send + 'static,
        R: IntoOutcome,
    {
        if const { align_of::<F>() > align_of::<Unit>() } {
            let boxed = Box::new(closure);
            self.add_aligned(move |run: &RunContext<'_>| boxed(run));
        } else {
            self.add_aligned(closure);
        }
    }

    fn add_aligned<F, R>(&mut self, closure: F)
    where
        F: FnOnce(&RunContext<'_>) -> R + Send + 'static,
        R: IntoOutcome,
    {
        let length = HEADER + units(size_of::<F>());
        let start = self.piece.memory.len();
        self.piece.memory.reserve(length);
        let header = Header { run: run::<F, R>, discard: discard::<F>, length };
        // SAFETY: there is room for `length` more units, aligned for both: whoever is aligned to more was boxed. What is not written stays
        // uninitialised, as units may.
        unsafe {
            let place = self.piece.memory.as_mut_ptr().add(start);
            place.cast::<Header>().write(header);
            place.add(HEADER).cast::<F>().write(closure);
            self.piece.memory.set_len(start + length);
        }
        self.count += 1;
    }

    /// Calls all of them until one fails; drops the others.
    pub fn run(mut self, run: &RunContext<'_>) -> Result<(), String> {
        while let Some((header, closure)) = self.take() {
            // SAFETY: the header belongs to the closure, which `take` gives out once.
            unsafe { (header.run)(closure, run)? };
        }
        Ok(())
    }

    /// The next closure, which the caller has to take out of the memory.
    fn take(&mut self) -> Option<(Header, *mut u8)> {
        if self.next == self.piece.memory.len() {
            return None;
        }
        // SAFETY: a header lies at `next`, written by `add_aligned`, and its closure behind it.
        let (header, closure) = unsafe {
            let place = self.piece.memory.as_mut_ptr().add(self.next);
            (place.cast::<Header>().read(), place.add(HEADER).cast::<u8>())
        };
        self.next += header.length;
        Some((header, closure))
    }
}

unsafe fn run<F, R>(place: *mut u8, run: &RunContext<'_>) -> Result<(), String>
where
    F: FnOnce(&RunContext<'_>) -> R,
    R: IntoOutcome,
{
    // SAFETY: the header belongs to the closure.
    let closure = unsafe { place.cast::<F>().read() };
    closure(run).into_outcome()
}

unsafe fn discard<F>(place: *mut u8) {
    // SAFETY: as above.
    drop_quietly(unsafe { place.cast::<F>().read() });
}

impl Drop for Members {
    fn drop(&mut self) {
        while let Some((header, closure)) = self.take() {
            // SAFETY: as in `run`.
            unsafe { (header.discard)(closure) };
        }
        // SAFETY: not used again.
        let mut piece = unsafe { ManuallyDrop::take(&mut self.piece) };
        piece.memory.clear();
        self.shelf.put(piece);
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::device::Context;
    use std::sync::atomic::AtomicUsize;

    fn context() -> RunContext<'static> {
        RunContext {
            context: Context::cpu(0),
            name: "",
            worker: None,
            nested_threads: 1,
            inherited: None,
            graph: 0,
            pushed: None,
        }
    }

    #[test]
    fn all_are_called_in_order_or_dropped_and_memory_is_used_again() {
        #[repr(align(64))]
        struct Aligned(usize);
        let (called, token) = (Arc::new(AtomicUsize::new(0)), Arc::new(()));
        let shelf = Arc::new(Shelf::new());
        let mut place: *mut Unit = null_mut();
        for fails in [false, true, false] {
            called.store(0, Relaxed);
            let mut members = Members::new(&shelf);
            for number in 0..100 {
                let (called, token, aligned) = (Arc::clone(&called), Arc::clone(&token), Aligned(number));
                match number % 3 {
                    0 => members.add(move |_: &RunContext<'_>| {
                        assert_eq!(called.fetch_add(1, Relaxed), number);
                        if fails && number == 51 { Err(token) } else { Ok(()) }.map_err(|_| "stop")
                    }),
                    1 => members.add(move |_: &RunContext<'_>| {
                        let _token = &token;
                        assert_eq!((&raw const aligned).addr() % 64, 0);
                        assert_eq!(called.fetch_add(1, Relaxed), aligned.0);
                    }),
                    _ => members.add(move |_: &RunContext<'_>| {
                        drop(token);
                        called.fetch_add(1, Relaxed);
                    }),
                }
            }
            assert_eq!(members.len(), 100);
            let memory = members.piece.memory.as_mut_ptr();
            assert!(place.is_null() || place == memory, "the same memory");
            place = memory;
            assert_eq!(members.run(&context()).is_err(), fails);
            assert_eq!(called.load(Relaxed), if fails { 52 } else { 100 });
            assert_eq!(Arc::strong_count(&token), 1);
        }
    }

    #[test]
    fn a_panic_drops_the_others() {
        let token = Arc::new(());
        let shelf = Arc::new(Shelf::new());
        let mut members = Members::new(&shelf);
        members.add(|_: &RunContext<'_>| -> () { panic!("on purpose") });
        let held = Arc::clone(&token);
        members.add(move |_: &RunContext<'_>| drop(held));
        let run = std::panic::AssertUnwindSafe(|| members.run(&context()));
        assert!(std::panic::catch_unwind(run).is_err());
        assert_eq!(Arc::strong_count(&token), 1);
    }
}
