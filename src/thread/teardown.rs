//! Contexts for threads that use an engine so late that their list of contexts is gone: in
//! destructors of thread-locals that are older than ours. Used by `thread/lookup.rs` only, on the
//! ending thread, which alone touches its list. All threads share the key below; the first that
//! needs it makes it.
//!
//! Where there are POSIX threads, the list of these contexts hangs on a key whose destructor runs
//! after those of all thread-locals. This holds for the C libraries in use. If another one runs it
//! earlier, later uses make a new list, which the next round of destructors finds. Elsewhere, under
//! a model, and if the system has no keys left, the contexts are never dropped. That costs memory
//! and nothing else.

use crate::pool::memory::Memory;
use crate::thread::context::ThreadContext;
use std::sync::Arc;

/// Boxed: `LAST` points to them.
#[allow(clippy::vec_box)]
type FallbackContexts = Vec<Box<ThreadContext>>;

/// The calling thread's context for the engine of `memory`, made if there is none.
pub fn find(memory: &Arc<Memory>) -> *const ThreadContext {
    let mut contexts = slot::get();
    if contexts.is_null() {
        contexts = Box::into_raw(Box::default());
        slot::set(contexts);
    }
    // SAFETY: the list was made by `into_raw` above, for this thread alone. Only `end_all` takes it
    // down, which nothing here calls. No reference to the list is kept.
    unsafe {
        if let Some(known) = (*contexts).iter().find(|local| local.memory.id == memory.id) {
            return &raw const **known;
        }
        let local = Box::new(ThreadContext::new(memory));
        (*contexts).push(local);
        &raw const **(*contexts).last().expect("pushed just now")
    }
}

/// Drops the calling thread's context for an engine that ends on this thread. Returns whether there
/// was one.
pub fn end(memory: &Memory) -> bool {
    let contexts = slot::get();
    if contexts.is_null() {
        return false;
    }
    // SAFETY: as in `find`: the list is this thread's alone. The reference to it ends before the
    // context is dropped.
    let ended = unsafe {
        let contexts = &mut *contexts;
        let place = contexts.iter().position(|local| local.memory.id == memory.id);
        place.map(|place| contexts.swap_remove(place))
    };
    ended.is_some()
}

/// Drops all of the calling thread's contexts in the list, and the list.
///
/// # Safety
/// The list is the calling thread's, and neither it nor the contexts in it are used again.
#[cfg(all(unix, not(any(loom, shuttle))))]
unsafe fn end_all(contexts: *mut FallbackContexts) {
    ThreadContext::forget_last();
    // SAFETY: the list was made by `into_raw` in `find`; the rest is the caller's contract.
    drop(unsafe { Box::from_raw(contexts) });
}

#[cfg(all(unix, not(any(loom, shuttle))))]
mod slot {
    //! The thread's list, on a key of POSIX threads.

    use super::end_all;
    use super::FallbackContexts;
    use libc::{pthread_getspecific, pthread_key_create, pthread_key_delete, pthread_key_t, pthread_setspecific};
    use std::ffi::c_void;
    use std::ptr::null_mut;
    use std::sync::atomic::{AtomicU64, Ordering::*};

    /// The key, plus one; 0 before there is one.
    static KEY: AtomicU64 = AtomicU64::new(0);

    fn key() -> Option<pthread_key_t> {
        match KEY.load(Acquire) {
            0 => None,
            known => Some((known - 1) as pthread_key_t),
        }
    }

    /// The key, made if need be; `None` if the system has none left.
    fn make_key() -> Option<pthread_key_t> {
        if let Some(known) = key() {
            return Some(known);
        }
        let mut made: pthread_key_t = 0;
        // SAFETY: `made` is ours to write; the destructor is a plain function that lives as long as
        // the program.
        if unsafe { pthread_key_create(&raw mut made, Some(end_of_thread)) } != 0 {
            return None;
        }
        #[allow(clippy::unnecessary_cast)] // Not everywhere the same type.
        if KEY.compare_exchange(0, made as u64 + 1, AcqRel, Acquire).is_err() {
            // SAFETY: no other thread has seen this key.
            unsafe { pthread_key_delete(made) };
        }
        key()
    }

    pub fn get() -> *mut FallbackContexts {
        // SAFETY: `make_key` has made the key, and it is never deleted.
        key().map_or(null_mut(), |key| unsafe { pthread_getspecific(key) }.cast())
    }

    /// Stores the list for the calling thread. If the system has no key left, the list stays where
    /// no thread finds it.
    pub fn set(contexts: *mut FallbackContexts) {
        if let Some(key) = make_key() {
            // SAFETY: `make_key` has made the key, and it is never deleted; its destructor
            // `end_of_thread` takes just such a pointer.
            unsafe { pthread_setspecific(key, contexts.cast::<c_void>()) };
        }
    }

    extern "C" fn end_of_thread(contexts: *mut c_void) {
        // SAFETY: `set` has stored the list for this thread. The thread now runs only other keys'
        // destructors, and its slot is empty already: if one of them uses an engine, it gets a new
        // list.
        unsafe { end_all(contexts.cast()) }
    }
}

#[cfg(not(all(unix, not(any(loom, shuttle)))))]
mod slot {
    //! The thread's list, in a thread-local without a destructor.

    use super::FallbackContexts;
    use crate::sync::thread_local;
    use std::cell::Cell;
    use std::ptr::null_mut;

    thread_local! {
        static CONTEXTS: Cell<*mut FallbackContexts> = const { Cell::new(null_mut()) };
    }

    pub fn get() -> *mut FallbackContexts {
        CONTEXTS.try_with(Cell::get).unwrap_or(null_mut())
    }

    pub fn set(contexts: *mut FallbackContexts) {
        let _ = CONTEXTS.try_with(|slot| slot.set(contexts));
    }
}

#[cfg(all(test, unix, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use std::cell::RefCell;

    struct UsesAtTheEnd(Vec<Arc<Memory>>);

    impl Drop for UsesAtTheEnd {
        fn drop(&mut self) {
            // First the one that was used last, with a context that is gone by now. Then in turns,
            // so that each engine is asked for when another one was used last.
            for memory in self.0.last().into_iter().chain(&self.0).chain(&self.0) {
                let local = ThreadContext::of(memory);
                assert_eq!(local.memory.id, memory.id);
                drop(local.pin());
            }
            if let [.., last] = &self.0[..] {
                assert!(end(last) && !end(last), "there is one for each");
                ThreadContext::forget_last();
            }
        }
    }

    thread_local! {
        static LATE: RefCell<Option<UsesAtTheEnd>> = const { RefCell::new(None) };
    }

    #[test]
    fn states_of_ending_threads_go_with_them() {
        let memories: Vec<Arc<Memory>> = (0..3).map(|_| Arc::new(Memory::new().unwrap())).collect();
        for _ in 0..10 {
            let own = memories.clone();
            let uses = move || {
                // Set first, and so dropped after our own thread-locals.
                LATE.set(Some(UsesAtTheEnd(own.clone())));
                own.iter().for_each(|memory| drop(ThreadContext::of(memory).pin()));
            };
            std::thread::spawn(uses).join().unwrap();
        }
        for memory in &memories {
            assert_eq!(memory.blocks.caches.iter().count(), 1, "each thread has left its home to the next");
            assert_eq!(Arc::strong_count(memory), 1);
            // Only this thread is counted as a reader.
            memory.blocks.readers.add();
            assert!(memory.blocks.readers.has_none_but(true));
        }
    }
}
