//! The threads that a profile names, by number: an append-only list for each recorder, to which a
//! thread adds itself when it first pushes, starts or ends a profiled operation. Used by
//! `profile/recorder.rs`, on any thread, and by `profile/mod.rs`, through which `engine/fork.rs`
//! calls [`forked`].

use crate::operation::name::Name;
use crate::sync::{AtomicPtr, Ordering::*};
use std::cell::Cell;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// Counts forks. It steps in the child of a `fork`, where the only thread has another number than
/// before.
static FORKS: AtomicU32 = AtomicU32::new(0);
/// The number of lists that were made so far.
static LISTS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The value of `FORKS` when the thread asked for its number, the number, and the last list
    /// that has it. All are 0 in the beginning.
    static THIS: Cell<(u32, u32, u64)> = const { Cell::new((0, 0, 0)) };
}

/// Notes that this process is the child of a `fork`.
#[cfg(unix)]
pub fn forked() {
    FORKS.fetch_add(1, Relaxed);
}

/// The operating system's number of the calling thread.
#[cfg(all(any(target_os = "linux", target_os = "android"), not(miri)))]
fn number() -> u32 {
    // SAFETY: the call takes nothing and changes nothing.
    unsafe { libc::gettid() as u32 }
}

/// Returns a number of its own for each thread, where the operating system's number is not
/// available.
#[cfg(not(all(any(target_os = "linux", target_os = "android"), not(miri))))]
fn number() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    NEXT.fetch_add(1, Relaxed)
}

/// The threads that pushed or ran profiled operations of an engine: an append-only list without a
/// lock. Any thread adds itself, and any thread reads the list.
pub struct Threads {
    /// Tells lists apart, so that a thread can remember the last list that has it.
    list: u64,
    first: AtomicPtr<Known>,
}

struct Known {
    number: u32,
    name: &'static str,
    next: *mut Known,
}

// SAFETY: an entry is written before it is in the list, does not change after that, and lives as
// long as the list.
unsafe impl Sync for Threads {}
// SAFETY: nothing in it is tied to a thread.
unsafe impl Send for Threads {}

impl Threads {
    pub fn new() -> Threads {
        Threads { list: LISTS.fetch_add(1, Relaxed) + 1, first: AtomicPtr::new(null_mut()) }
    }

    /// Returns the number of the calling thread, which is in the list from now on.
    pub fn this(&self) -> u32 {
        let forks = FORKS.load(Relaxed);
        let known = THIS.try_with(Cell::get).ok();
        if let Some((at, thread, list)) = known {
            if (at, list) == (forks, self.list) {
                return thread;
            }
        }
        let thread = match known {
            Some((at, thread, list)) if list != 0 && at == forks => thread,
            _ => number(),
        };
        self.enter(thread, known.is_none());
        // A thread that is about to end has lost its thread-local, and looks in the list every
        // time.
        let _ = THIS.try_with(|this| this.set((forks, thread, self.list)));
        thread
    }

    #[cold]
    fn enter(&self, number: u32, ending: bool) {
        // No other thread enters this number, so a look before the insertion is enough.
        if self.iter().any(|(known, _)| known == number) {
            return;
        }
        let name = match std::thread::current().name() {
            Some(name) if !ending => Name::from(name.to_owned()).as_str(),
            _ => "thread",
        };
        let new = Box::into_raw(Box::new(Known { number, name, next: null_mut() }));
        let mut first = self.first.load(Relaxed);
        loop {
            // SAFETY: the entry is ours until it is in the list.
            unsafe { (*new).next = first };
            // Release: pairs with the acquire in `iter`, so a thread that finds the entry finds it
            // written.
            match self.first.compare_exchange_weak(first, new, Release, Relaxed) {
                Ok(_) => return,
                Err(other) => first = other,
            }
        }
    }

    /// The number and the name of each thread, the last one first.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &'static str)> + '_ {
        // Acquire: pairs with the release in `enter`.
        let mut next = self.first.load(Acquire);
        std::iter::from_fn(move || {
            // SAFETY: entries live as long as the list.
            let known = unsafe { next.as_ref() }?;
            next = known.next;
            Some((known.number, known.name))
        })
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        let mut next = self.first.load(Acquire);
        while !next.is_null() {
            // SAFETY: `enter` made the entry from a box, and it is in no other list.
            next = unsafe { Box::from_raw(next) }.next;
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn every_thread_is_listed_once_under_its_name_in_every_list() {
        let lists = [Threads::new(), Threads::new()];
        let mine = lists[0].this();
        assert_eq!((lists[0].this(), lists[1].this(), lists[0].this()), (mine, mine, mine));
        let other = std::thread::scope(|scope| {
            let look = || (lists[0].this(), lists[1].this());
            std::thread::Builder::new().name("other".to_owned()).spawn_scoped(scope, look).unwrap().join().unwrap()
        });
        assert_eq!(other.0, other.1);
        for list in &lists {
            let mut threads: Vec<_> = list.iter().collect();
            assert_eq!(threads.remove(0), (other.0, "other"));
            assert_eq!((threads.len(), threads[0].0), (1, mine));
        }
    }

    #[test]
    #[cfg(all(target_os = "linux", not(miri)))]
    fn numbers_are_those_of_the_operating_system_also_after_a_fork() {
        let list = Threads::new();
        let mine = list.this();
        assert!(std::path::Path::new(&format!("/proc/self/task/{mine}")).exists());
        // What a child does.
        forked();
        assert_eq!(list.this(), mine);
        assert_eq!(list.iter().count(), 1);
    }
}
