//! The wakers of the futures that wait for a condition of the whole engine, without a lock.
//!
//! Used by `wait/wait_list.rs`, which has one beside its list of threads, and through that by
//! `engine/future/all.rs`. `engine/backpressure.rs` asks whether a waker is being called. A future
//! takes a place of its own ([`WakerList::join`]), stores its waker there at each poll, and gives
//! the place back. Places are never freed before the list: a later future takes one again. So there
//! are as many as there were futures at once.
//!
//! Any thread may do any of this at any time. `next` does not change once a place is in the list.

use crate::sync::{thread_local, AtomicBool, AtomicPtr, Ordering::*};
use crate::util::waker_cell::WakerCell;
use std::cell::Cell;
use std::ptr::null_mut;
use std::sync::Arc;

thread_local! {
    /// Whether the calling thread is inside of a waker that an engine calls.
    static CALLS_WAKERS: Cell<bool> = const { Cell::new(false) };
}

/// Whether the calling thread is inside of a waker that an engine calls, at the end of an operation
/// for example. The thread may have to do what the waker would wait for.
pub fn calls_wakers() -> bool {
    CALLS_WAKERS.with(Cell::get)
}

/// The place of one future.
pub struct WakerPlace {
    pub waker: WakerCell,
    taken: AtomicBool,
    next: *const WakerPlace,
}

// SAFETY: `next` is written before the place can be found, and other fields are shared by design.
unsafe impl Sync for WakerPlace {}
// SAFETY: as above.
unsafe impl Send for WakerPlace {}

/// All places, the newest first. Each is an `Arc` that the list owns.
pub struct WakerList {
    head: AtomicPtr<WakerPlace>,
}

impl WakerList {
    pub fn new() -> WakerList {
        WakerList { head: AtomicPtr::new(null_mut()) }
    }

    /// A place for the caller alone, until [`WakerPlace::give_back`].
    pub fn join(&self) -> Arc<WakerPlace> {
        // Acquire: pairs with the release in `give_back`, so that the future before has done with
        // the place.
        let free = |place: &WakerPlace| {
            !place.taken.load(Relaxed) && place.taken.compare_exchange(false, true, Acquire, Relaxed).is_ok()
        };
        // SAFETY: places live as long as the list. It has made each by `Arc::into_raw`, and keeps
        // its own reference.
        unsafe {
            match self.places().find(|place| free(&**place)) {
                Some(place) => {
                    Arc::increment_strong_count(place);
                    Arc::from_raw(place)
                }
                None => self.add(),
            }
        }
    }

    #[cold]
    fn add(&self) -> Arc<WakerPlace> {
        let mut next = self.head.load(Relaxed);
        let mut place = Arc::new(WakerPlace { waker: WakerCell::new(), taken: AtomicBool::new(true), next });
        loop {
            Arc::get_mut(&mut place).expect("the caller alone has it").next = next;
            let own = Arc::into_raw(Arc::clone(&place)).cast_mut();
            // Release: pairs with the acquire in `places`, which finds the place written. Places
            // are never taken out, so there is no ABA.
            match self.head.compare_exchange(next, own, Release, Relaxed) {
                Ok(_) => return place,
                // SAFETY: the list has not taken this reference.
                Err(now) => unsafe {
                    drop(Arc::from_raw(own));
                    next = now;
                },
            }
        }
    }

    /// The addresses of all places.
    fn places(&self) -> impl Iterator<Item = *const WakerPlace> + '_ {
        // Acquire: pairs with the release in `add`. Each place was in the list when the one before
        // it was added, and a later exchange of the head continues the release of an earlier one.
        let mut next: *const WakerPlace = self.head.load(Acquire);
        std::iter::from_fn(move || {
            let place = next;
            // SAFETY: places live as long as the list, which is borrowed.
            next = unsafe { place.as_ref() }?.next;
            Some(place)
        })
    }

    fn iter(&self) -> impl Iterator<Item = &WakerPlace> {
        // SAFETY: as above.
        self.places().map(|place| unsafe { &*place })
    }

    /// Calls every waker.
    pub fn wake_all(&self) {
        let outer = CALLS_WAKERS.with(|calls| calls.replace(true));
        // Those of places that are free by now as well: they have none, or a late one. A panic of
        // one stays in its call.
        self.iter().for_each(|place| place.waker.wake());
        CALLS_WAKERS.with(|calls| calls.set(outer));
    }

    /// How many places are taken, for the child of a fork.
    #[cfg(all(unix, not(any(loom, shuttle))))]
    pub fn taken(&self) -> usize {
        self.iter().filter(|place| place.taken.load(Relaxed)).count()
    }
}

impl WakerPlace {
    /// Gives the place back, without the waker. It is the caller's.
    pub fn give_back(&self) {
        self.waker.forget();
        // Release: pairs with the acquire in `join`.
        self.taken.store(false, Release);
    }
}

impl Drop for WakerList {
    fn drop(&mut self) {
        let mut next: *const WakerPlace = self.head.load(Acquire);
        while !next.is_null() {
            // SAFETY: the list's own reference, which is given up once.
            let place = unsafe { Arc::from_raw(next) };
            next = place.next;
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn places_are_taken_again_and_by_one_at_a_time() {
        let list = WakerList::new();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        let own = [list.join(), list.join()];
                        assert!(!Arc::ptr_eq(&own[0], &own[1]));
                        own.iter().for_each(|place| place.give_back());
                    }
                });
            }
        });
        let places: HashSet<*const WakerPlace> = list.iter().map(std::ptr::from_ref).collect();
        assert!(places.len() <= 8, "{} places for 8 at once", places.len());
        assert_eq!(list.taken(), 0);
    }
}
