//! The state of one thread for one engine: its thread cache, its membership of the reclaimer,
//! blocks on their way to other caches, and its queue of ready operations. `thread/lookup.rs` finds
//! it. All of `engine/` uses it, always on its own thread. It is dropped at the end of the thread,
//! or when the thread next needs a new context and the engine is gone. Other threads reach only the
//! cache behind it (`pool/thread_cache.rs`). A call that is deferred may run on any of them.

use crate::operation::block::Block;
use crate::pool::magazine::{self, Magazine};
use crate::pool::memory::Memory;
use crate::pool::reclaim::{Epoch, EpochGuard, EpochHandle};
use crate::pool::thread_cache::ThreadCache;
use crate::sync::{thread_local, AtomicU64, Ordering::*};
use crate::thread::weak_memory::WeakMemory;
use std::cell::{Cell, UnsafeCell};
use std::mem::ManuallyDrop;
use std::ptr::null;
use std::sync::Arc;

/// A magazine for another cache is sent when it holds this many blocks or is full, or when the
/// thread that collects it has nothing else to do.
const SEND: usize = 32;

/// What one thread keeps for one engine.
pub struct ThreadContext {
    cache: *const ThreadCache,
    /// The thread's membership of the reclaimer. It changes only in the child of a `fork`.
    handle: UnsafeCell<ManuallyDrop<EpochHandle>>,
    /// Blocks on their way to other caches: first those of the smallest class, then the others.
    outgoing: UnsafeCell<[Outgoing; 2]>,
    /// Whether `outgoing` holds any blocks.
    sends: Cell<bool>,
    /// How many operations of the engine this thread is inside of.
    pub depth: Cell<u32>,
    /// A list of operations that this thread has made ready and will run itself, oldest first.
    /// Filled and run by `engine/dispatch/naive.rs`.
    pub first: Cell<*mut Block>,
    pub last: Cell<*mut Block>,
    /// Whether a loop further up the stack runs that list, or will.
    pub draining: Cell<bool>,
    /// Waits that became ready inside another one. Filled and run by `engine/complete.rs`.
    pub waits: Cell<*mut Block>,
    /// Whether a loop further up the stack runs those.
    pub runs_waits: Cell<bool>,
    pub memory: WeakMemory,
}

struct Outgoing {
    /// The number of the cache that the blocks belong to.
    cache: u32,
    class: u8,
    /// The magazine is sent when it holds so many blocks.
    most: usize,
    magazine: Magazine,
}

thread_local! {
    /// The number of the engine that the thread used last, and its context.
    static LAST: Cell<(u32, *const ThreadContext)> = const { Cell::new((0, null())) };
}

impl ThreadContext {
    /// The number of the engine that the calling thread used last, and its context.
    #[inline]
    pub fn last() -> (u32, *const ThreadContext) {
        LAST.with(Cell::get)
    }

    /// Notes which context the calling thread uses now.
    pub fn set_last(engine: u32, local: *const ThreadContext) {
        LAST.with(|last| last.set((engine, local)));
    }

    /// Forgets the context that was used last: it may be gone.
    pub fn forget_last() {
        let _ = LAST.try_with(|last| last.set((0, null())));
    }

    /// A new context, for a caller that keeps it for the calling thread.
    pub fn new(memory: &Arc<Memory>) -> ThreadContext {
        ThreadContext {
            cache: memory.adopt_cache(),
            handle: UnsafeCell::new(ManuallyDrop::new(memory.register())),
            outgoing: UnsafeCell::new([const { Outgoing::none() }; 2]),
            sends: Cell::new(false),
            depth: Cell::new(0),
            first: Cell::new(std::ptr::null_mut()),
            last: Cell::new(std::ptr::null_mut()),
            draining: Cell::new(false),
            waits: Cell::new(std::ptr::null_mut()),
            runs_waits: Cell::new(false),
            memory: WeakMemory::new(memory),
        }
    }

    /// The thread's cache.
    #[inline]
    pub fn cache(&self) -> &ThreadCache {
        // SAFETY: caches live as long as the memory; [`WeakMemory`] says why that is there.
        unsafe { &*self.cache }
    }

    /// Pins the thread, and makes it a registered reader. Nothing that can be reached from now on
    /// is reused until the guard is dropped, but for blocks if that takes long: see
    /// `pool/beside_epoch.rs`.
    #[inline]
    pub fn pin(&self) -> EpochGuard {
        self.look_at_tails();
        Epoch::pin(self.handle())
    }

    #[inline]
    fn handle(&self) -> &EpochHandle {
        // SAFETY: the cell is this thread's. Only `forget_other_threads` writes it, inside of which
        // nothing uses the handle.
        unsafe { &*self.handle.get() }
    }

    /// For the child of a `fork` (`engine/fork.rs`): see [`Memory::forget_other_threads`].
    ///
    /// # Safety
    /// The calling thread is the only one, and is not pinned.
    #[cfg(all(unix, not(any(loom, shuttle))))]
    pub unsafe fn forget_other_threads(&self) {
        let readers = usize::from(self.cache().is_reader.get());
        // SAFETY: the caller's contract. The caller is between pushes, so nothing refers to the old
        // handle, which is dropped here.
        unsafe {
            self.memory.forget_other_threads(readers);
            self.memory.even_out(self.cache());
            let handle = &mut *self.handle.get();
            ManuallyDrop::drop(handle);
            *handle = ManuallyDrop::new(self.memory.register());
        }
    }

    #[inline]
    fn look_at_tails(&self) {
        let cache = self.cache();
        if !cache.is_reader.get() {
            cache.is_reader.set(true);
            self.memory.blocks.readers.add();
        }
    }

    /// Whether no other thread is a registered reader. Then memory that cannot be reached any more
    /// may be reused at once.
    pub fn is_alone(&self) -> bool {
        self.look_at_tails();
        self.memory.blocks.readers.has_none_but(true)
    }

    /// A free block of `class`.
    ///
    /// # Safety
    /// The caller holds no address that it read from a tail.
    #[inline]
    pub unsafe fn allocate(&self, class: u8) -> *mut Block {
        let cache = self.cache();
        // SAFETY: the cache is this thread's; the rest is the caller's contract.
        unsafe {
            let block = cache.allocate(class, &self.memory.blocks, self.handle());
            Block::set_origin(block, cache.number, class);
            block
        }
    }

    /// Makes sure that so many magazines of `class` are free for this thread. Called by
    /// `api/prepare.rs`.
    pub fn fill(&self, class: u8, magazines: usize) {
        // SAFETY: the cache is this thread's.
        unsafe { self.cache().fill(class, magazines, &self.memory.blocks) }
    }

    /// Takes a spent block out of use: it goes back to the cache that it came from.
    ///
    /// # Safety
    /// The block is spent, and came from [`ThreadContext::allocate`] of a thread of the same
    /// engine.
    #[inline]
    pub unsafe fn retire(&self, block: *mut Block) {
        // SAFETY: the block is spent. Only threads that help to link (`tickets/linking.rs`) may
        // still look at it, and they do not look at these fields.
        unsafe {
            if Block::cache(block) == self.cache().number {
                self.cache().keep(block);
            } else {
                self.send_back(block);
            }
        }
    }

    #[inline]
    unsafe fn send_back(&self, block: *mut Block) {
        // SAFETY: the cell is this thread's, and nothing below calls back into it.
        unsafe {
            let cache = Block::cache(block);
            let class = Block::class(block);
            let outgoing = &mut (*self.outgoing.get())[usize::from(class > 0)];
            if outgoing.cache != cache || outgoing.class != class || outgoing.magazine.len() >= outgoing.most {
                outgoing.send(&self.memory);
                outgoing.cache = cache;
                outgoing.class = class;
                outgoing.most = SEND.min(magazine::size(class));
            }
            outgoing.magazine.push(block);
            self.sends.set(true);
        }
    }

    /// Defers `reuse` until no thread looks any more at what it could reach now.
    ///
    /// # Safety
    /// The same as for [`Epoch::defer`].
    pub unsafe fn defer(&self, reuse: impl FnOnce() + 'static) {
        // SAFETY: the caller's contract.
        unsafe { Epoch::defer(&self.pin(), reuse) }
    }

    /// Sends collected blocks back to their caches, and sorts a slice of the thread's own ones if
    /// there are too many ([`ThreadCache::tidy`]). Called when the thread has nothing else to do.
    #[inline]
    pub fn flush(&self) {
        if self.sends.get() {
            self.send_all();
        }
        // SAFETY: the cell is this thread's.
        unsafe {
            // The contract of `tidy` holds: the caller has ended operations, so it is not reading a
            // tail. Blocks that it has borrowed are not spent.
            if self.cache().is_untidy() {
                self.cache().tidy(&self.memory.blocks, self.handle());
            }
        }
    }

    /// Sends collected blocks back to their caches.
    #[cold]
    #[inline(never)]
    fn send_all(&self) {
        self.sends.set(false);
        // SAFETY: the cell is this thread's.
        unsafe { &mut *self.outgoing.get() }.iter_mut().for_each(|outgoing| outgoing.send(&self.memory));
    }

    /// Says that the thread will look for operations that others leave to it, or takes that back:
    /// then it must look. Called by `engine/push/enlist.rs`; read in `Memory::will_somebody_look`.
    /// It is only a store: the fences are in `worker/handoff.rs`, in `look` and `leave`.
    #[inline]
    pub fn say_will_look(&self, will_look: bool) {
        self.cache().will_look.store(will_look, Relaxed);
    }

    /// The next number in push order.
    #[inline]
    pub fn next_sequence(&self) -> u64 {
        let cache = self.cache();
        let next = cache.next_sequence.get();
        if next < cache.sequences_end.get() {
            cache.next_sequence.set(next + 1);
            return next;
        }
        self.draw_sequences()
    }

    /// Draws a new range of numbers, and returns its first.
    #[cold]
    #[inline(never)]
    fn draw_sequences(&self) -> u64 {
        let cache = self.cache();
        let range = self.memory.sequences();
        cache.next_sequence.set(range.start + 1);
        cache.sequences_end.set(range.end);
        range.start
    }

    /// Counts an operation as pushed. Called before it is given a ticket: see [`Memory::tally`].
    #[inline]
    pub fn count_pushed(&self) {
        step(&self.cache().pushed);
    }

    /// Counts an operation as completed. Called after all its effects.
    #[inline]
    pub fn count_completed(&self) {
        step(&self.cache().completed);
    }

    /// Counts an operation that was counted as pushed, and is not pushed, as completed.
    pub fn count_given_up(&self) {
        let given_up = &self.cache().given_up;
        // Relaxed: a number for people.
        given_up.store(given_up.load(Relaxed) + 1, Relaxed);
        self.count_completed();
    }

    /// Counts an asynchronous closure as called. Called before its operation can be completed.
    pub fn count_called(&self) {
        step(&self.cache().called);
    }

    /// Counts an asynchronous closure as returned. Called after all its pushes.
    pub fn count_returned(&self) {
        step(&self.cache().returned);
    }
}

/// Adds one to a counter that only this thread stores. Release: pairs with the acquire in
/// `Memory::tally` and `tally_inside`.
#[inline]
fn step(counter: &AtomicU64) {
    counter.store(counter.load(Relaxed) + 1, Release);
}

impl Outgoing {
    const fn none() -> Outgoing {
        Outgoing { cache: 0, class: 0, most: 0, magazine: Magazine::new() }
    }

    #[inline]
    fn send(&mut self, memory: &Memory) {
        if self.magazine.is_empty() {
            return;
        }
        if let Some(cache) = memory.blocks.caches.get(self.cache) {
            cache.accept(self.class, std::mem::replace(&mut self.magazine, Magazine::new()));
        }
    }
}

impl Drop for ThreadContext {
    fn drop(&mut self) {
        // If the memory is there, it is kept until this function is done. So the handle below is
        // dropped before the memory is, though the cache has no owner any more.
        let memory = self.memory.upgrade();
        if memory.is_some() {
            self.flush();
            let cache = self.cache();
            if cache.is_reader.replace(false) {
                self.memory.blocks.readers.remove();
            }
            // SAFETY: this thread does not use the cache again.
            unsafe { cache.leave() };
        }
        // Kept until the handle is gone: `crossbeam-epoch` would else free what the handle stands
        // on while it still lends it (Miri reports that), if this is the engine's last handle.
        let collector = self.handle.get_mut().collector().clone();
        // SAFETY: the handle is dropped once. Dropping it may run deferred calls, like any use of
        // it. `Memory::run_deferred` reckons with that, whether the memory is there or is just
        // being dropped.
        unsafe { ManuallyDrop::drop(self.handle.get_mut()) };
        drop(collector);
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn what_another_thread_frees_in_turns_comes_back_to_its_class() {
        let memory = Arc::new(Memory::new().unwrap());
        let local = ThreadContext::of(&memory);
        // SAFETY: no block is used by any thread.
        let some = |class| (0..100).map(move |_| unsafe { local.allocate(class) }.expose_provenance());
        let [small, large]: [HashSet<usize>; 2] = [1, 2].map(|class| some(class).collect());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let local = ThreadContext::of(&memory);
                for block in small.iter().zip(&large).flat_map(|(small, large)| [*small, *large]) {
                    // SAFETY: the block has no accesses, so it is as good as spent.
                    unsafe { local.retire(std::ptr::with_exposed_provenance_mut(block)) };
                }
                local.flush();
            });
        });
        assert!(some(1).any(|block| small.contains(&block)), "none has come back");
        assert!(some(1).all(|block| !large.contains(&block)), "a large block has become a small one");
        assert!(some(2).all(|block| !small.contains(&block)), "a small block has become a large one");
    }
}
