//! States of threads that use an engine when their other states are gone already: in destructors of
//! thread-locals that are older than ours.
//!
//! Where there are POSIX threads, the list of them hangs on a key whose destructor runs after those
//! of all thread-locals. (With the C libraries in use. Should another run it earlier, what comes
//! later makes a new list, which the next round of destructors finds.) Elsewhere, under a model and
//! if the system has no keys left, they stay, as they did nothing that could hurt but take memory.

use crate::pool::memory::Memory;
use crate::thread::context::ThreadContext;
use std::sync::Arc;

/// Boxed: `LAST` points to them.
#[allow(clippy::vec_box)]
type FallbackContexts = Vec<Box<ThreadContext>>;

/// The calling thread's state for the engine of `memory`, made if there is none.
pub fn find(memory: &Arc<Memory>) -> *const ThreadContext {
    let mut contexts = slot::get();
    if contexts.is_null() {
        contexts = Box::into_raw(Box::default());
        slot::set(contexts);
    }
    // SAFETY: made by `into_raw` above, for this thread alone, and taken down only by `end_all`,
    // which nothing here calls. No reference to the list is kept.
    unsafe {
        if let Some(known) = (*contexts).iter().find(|local| local.memory.id == memory.id) {
            return &raw const **known;
        }
        let local = Box::new(ThreadContext::new(memory));
        (*contexts).push(local);
        &raw const **(*contexts).last().expect("pushed just now")
    }
}

/// Takes down the calling thread's state for an engine that ends here; says whether there was one.
pub fn end(memory: &Memory) -> bool {
    let contexts = slot::get();
    if contexts.is_null() {
        return false;
    }
    // SAFETY: as in `find`. The reference ends before the state is dropped.
    let ended = unsafe {
        let contexts = &mut *contexts;
        let place = contexts.iter().position(|local| local.memory.id == memory.id);
        place.map(|place| contexts.swap_remove(place))
    };
    ended.is_some()
}

/// Takes all of a thread's states down.
///
/// # Safety
/// The list is the calling thread's, and nobody uses it or the states in it again.
#[cfg(all(unix, not(any(loom, shuttle))))]
unsafe fn end_all(contexts: *mut FallbackContexts) {
    ThreadContext::forget_last();
    // SAFETY: made by `into_raw` in `find`; the rest is the caller's word.
    drop(unsafe { Box::from_raw(contexts) });
}

#[cfg(all(unix, not(any(loom, shuttle))))]
mod slot {
    //! A key of POSIX threads.

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
            // SAFETY: nobody else has seen this one.
            unsafe { pthread_key_delete(made) };
        }
        key()
    }

    pub fn get() -> *mut FallbackContexts {
        // SAFETY: a key that `make_key` made, and never deleted.
        key().map_or(null_mut(), |key| unsafe { pthread_getspecific(key) }.cast())
    }

    /// Leaves the list with the thread. If there is no room for it, it stays where nobody finds it.
    pub fn set(contexts: *mut FallbackContexts) {
        if let Some(key) = make_key() {
            // SAFETY: as above; `end_of_thread` takes just such a pointer.
            unsafe { pthread_setspecific(key, contexts.cast::<c_void>()) };
        }
    }

    extern "C" fn end_of_thread(contexts: *mut c_void) {
        // SAFETY: left with the thread by `set`. The thread runs nothing any more but other keys'
        // destructors, and its slot is empty already: should one of those use an engine, it gets a
        // new list.
        unsafe { end_all(contexts.cast()) }
    }
}

#[cfg(not(all(unix, not(any(loom, shuttle)))))]
mod slot {
    //! A thread-local without a destructor.

    use super::FallbackContexts;
    use crate::sync::thread_local;
    use std::cell::Cell;
    use std::ptr::null_mut;

    thread_local! {
        static STRAYS: Cell<*mut FallbackContexts> = const { Cell::new(null_mut()) };
    }

    pub fn get() -> *mut FallbackContexts {
        STRAYS.try_with(Cell::get).unwrap_or(null_mut())
    }

    pub fn set(contexts: *mut FallbackContexts) {
        let _ = STRAYS.try_with(|slot| slot.set(contexts));
    }
}

#[cfg(all(test, unix, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use std::cell::RefCell;

    struct UsesAtTheEnd(Vec<Arc<Memory>>);

    impl Drop for UsesAtTheEnd {
        fn drop(&mut self) {
            // In turns, so that each is asked for when the other was used last.
            for memory in self.0.iter().chain(&self.0) {
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
                // First, and so dropped after our own thread-locals.
                LATE.set(Some(UsesAtTheEnd(own.clone())));
                own.iter().for_each(|memory| drop(ThreadContext::of(memory).pin()));
            };
            std::thread::spawn(uses).join().unwrap();
        }
        for memory in &memories {
            assert_eq!(memory.blocks.caches.iter().count(), 1, "each thread has left its home to the next");
            assert_eq!(Arc::strong_count(memory), 1);
            // This thread is counted, and no other.
            memory.blocks.readers.add();
            assert!(memory.blocks.readers.has_none_but(true));
        }
    }
}
