//! The memory of handles: places that are used again and again, so that in steady state no call of
//! an asynchronous function allocates. `completion.rs` uses this, with what `handle.rs` puts into
//! each place. The models of `loom-tests/tests/handles.rs` run this file.
//!
//! Each thread has a [`Stock`], and takes the places of its handles from there. A place goes back
//! to the stock that it came from, by any thread: the stock's own thread puts it on a list of its
//! own, others push it onto the list `returned` of the [`SharedStock`]. No thread waits for
//! another. Only the whole list is ever taken out of `returned`, so a push that meets a place which
//! was there before and has come again does no harm: it compares the address, and links to what is
//! there.
//!
//! Shared stocks and places are never freed, also not when engines are dropped: a thread that
//! begins takes over the shared stock of one that has ended. There are as many as there were
//! threads at once, and each has as many places as it ever had handles at once. Memory is made for
//! twice as many places at most, in buckets that double. So a handle that is used too late meets a
//! place, and [`Registry::find`] has that place for its number.

use crate::sync::{constant, nulls, AtomicBool, AtomicPtr, AtomicU32, Ordering::*, MODELLED};
use std::cell::Cell;
use std::ptr::{from_ref, null_mut};

/// The number of the first place, a power of two. Buckets below it stay empty, and so does the
/// number 0. In models it is small: they make all places of a bucket.
const FIRST: u32 = if MODELLED { 2 } else { 64 };

/// One bucket for each power of two.
const BUCKETS: usize = if MODELLED { 4 } else { u32::BITS as usize };

/// What lies in a place.
pub trait Content: Sync + 'static {
    /// The greatest number that a place can have.
    const LAST: u32;

    /// The content of a place that nobody has taken yet.
    fn new(number: u32) -> Self;
}

/// A place, on a cache line of its own.
#[repr(C, align(64))]
pub struct Place<T: 'static> {
    pub content: T,
    /// The stock that it goes back to.
    shared: Cell<Option<&'static SharedStock<T>>>,
    /// The next place of the list that it is in.
    next: Cell<Option<&'static Place<T>>>,
}

// SAFETY: any thread may look at the content. Only the thread that has taken the place uses
// `shared` and `next`.
unsafe impl<T: Sync> Sync for Place<T> {}

/// Where the places of one thread come back to.
pub struct SharedStock<T: 'static> {
    returned: AtomicPtr<Place<T>>,
    /// Whether a thread has it.
    occupied: AtomicBool,
    /// The shared stock that was made before this one.
    before: Option<&'static SharedStock<T>>,
}

/// All shared stocks and places.
pub struct Registry<T: 'static> {
    newest: AtomicPtr<SharedStock<T>>,
    /// The number of the next place to be made.
    next: AtomicU32,
    /// Bucket *b* has the places of the numbers from 2^*b* to 2^(*b* + 1) − 1.
    buckets: [AtomicPtr<Place<T>>; BUCKETS],
}

/// What a thread has: its shared stock, and the places that lie ready for its next handles.
pub struct Stock<T: 'static> {
    shared: Cell<Option<&'static SharedStock<T>>>,
    free: Cell<Option<&'static Place<T>>>,
}

impl<T: Content> Registry<T> {
    constant! {
        pub fn new() -> Registry<T> {
            Registry { newest: AtomicPtr::new(null_mut()), next: AtomicU32::new(FIRST), buckets: nulls() }
        }
    }

    /// The place of a number, if there is one; it may be one that nobody has taken yet.
    #[inline]
    pub fn find(&self, number: u32) -> Option<&'static Place<T>> {
        let bucket = (number | 1).ilog2();
        // Acquire: pairs with the release in `enlarge`, for a number that C has made up.
        let first = self.buckets[bucket as usize].load(Acquire);
        // SAFETY: the bucket has 2^`bucket` places, which are never freed.
        (!first.is_null()).then(|| unsafe { &*first.add((number ^ 1 << bucket) as usize) })
    }

    /// A new place, which belongs to that stock.
    fn make(&self, shared: &'static SharedStock<T>) -> &'static Place<T> {
        // Relaxed: the number says nothing of other memory.
        let number = self.next.fetch_update(Relaxed, Relaxed, |next| (next <= T::LAST).then_some(next + 1));
        let Ok(number) = number else {
            panic!("{} completions of C are in use at once: use some before more operations start", T::LAST - FIRST)
        };
        let place = self.find(number).unwrap_or_else(|| self.enlarge(number));
        place.shared.set(Some(shared));
        place
    }

    /// Makes the bucket of a number, unless another thread is faster. Returns the number's place.
    fn enlarge(&self, number: u32) -> &'static Place<T> {
        let bucket = number.ilog2();
        let empty = |number| Place { content: T::new(number), shared: Cell::new(None), next: Cell::new(None) };
        let places: Box<[Place<T>]> = (1 << bucket..2 << bucket).map(empty).collect();
        let (length, first) = (places.len(), Box::into_raw(places).cast::<Place<T>>());
        // Release: pairs with the acquire in `find`.
        if self.buckets[bucket as usize].compare_exchange(null_mut(), first, Release, Relaxed).is_err() {
            // SAFETY: they are this call's, and no other thread knows them.
            drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(first, length)) });
        }
        self.find(number).expect("the bucket is there")
    }

    /// A shared stock that no thread has, for the calling thread.
    fn occupy(&self) -> &'static SharedStock<T> {
        // Acquire: pairs with the release below, so that the stock is found as it was made.
        let newest = self.newest.load(Acquire);
        // SAFETY: shared stocks are never freed.
        let mut shared = unsafe { newest.as_ref() };
        while let Some(this) = shared {
            // Acquire: pairs with the release in `leave`, so that this thread finds what the thread
            // before has given back, and makes no place beside it.
            if !this.occupied.load(Relaxed) && this.occupied.compare_exchange(false, true, Acquire, Relaxed).is_ok() {
                return this;
            }
            shared = this.before;
        }
        let new = SharedStock { returned: AtomicPtr::new(null_mut()), occupied: AtomicBool::new(true), before: None };
        // A pointer, since the list refers to it before this call returns.
        let new = Box::into_raw(Box::new(new));
        let mut newest = newest;
        loop {
            // SAFETY: no other thread knows the new stock yet. Shared stocks are never freed.
            unsafe { (*new).before = newest.as_ref() };
            // Release: pairs with the acquire above. Acquire: the next round refers to that stock.
            match self.newest.compare_exchange(newest, new, Release, Acquire) {
                // SAFETY: shared stocks are never freed.
                Ok(_) => return unsafe { &*new },
                Err(other) => newest = other,
            }
        }
    }
}

impl<T: Content> Stock<T> {
    pub const fn new() -> Stock<T> {
        Stock { shared: Cell::new(None), free: Cell::new(None) }
    }

    /// A place, which is the caller's until it is given back. `stays`: whether the thread will
    /// [leave](Stock::leave) its shared stock when it ends.
    #[inline]
    pub fn place(&self, registry: &Registry<T>, stays: fn() -> bool) -> &'static Place<T> {
        let Some(place) = self.free.get() else { return self.fetch(registry, stays) };
        self.free.set(place.next.get());
        place
    }

    /// Like [`Stock::place`], when none lies here: takes what has come back, or makes a new one. A
    /// thread that is ending occupies a shared stock for this call only.
    #[cold]
    #[inline(never)]
    fn fetch(&self, registry: &Registry<T>, stays: fn() -> bool) -> &'static Place<T> {
        let visits = self.shared.get().is_none() && !stays();
        let shared = self.shared.get().unwrap_or_else(|| registry.occupy());
        self.shared.set(Some(shared));
        // Acquire: pairs with the release in `give_to`, so that the threads that gave a place back
        // have done with it.
        let returned = shared.returned.swap(null_mut(), Acquire);
        // SAFETY: places are never freed.
        let place = match unsafe { returned.as_ref() } {
            Some(place) => {
                self.free.set(place.next.get());
                place
            }
            None => registry.make(shared),
        };
        if visits {
            self.leave();
        }
        place
    }

    /// Gives a place back.
    ///
    /// # Safety
    /// It came from [`Stock::place`] of some thread, and is the caller's.
    #[inline]
    pub unsafe fn give_back(&self, place: &'static Place<T>) {
        // Both have a shared stock: the place since it was made, this thread if it is the same one.
        let shared = place.shared.get();
        if shared.map(from_ref) == self.shared.get().map(from_ref) {
            place.next.set(self.free.replace(Some(place)));
        } else if let Some(shared) = shared {
            // SAFETY: by the contract.
            unsafe { Self::give_to(shared, place, place) };
        }
    }

    /// Pushes a list of places, from `first` to `last`, onto what has come back to a shared stock.
    ///
    /// # Safety
    /// As [`Stock::give_back`], for each of them; they are this stock's.
    unsafe fn give_to(shared: &'static SharedStock<T>, first: &'static Place<T>, last: &'static Place<T>) {
        let mut there = shared.returned.load(Relaxed);
        loop {
            // SAFETY: places are never freed. This one is the caller's until it is pushed.
            last.next.set(unsafe { there.as_ref() });
            // Release: pairs with the acquire in `fetch`.
            match shared.returned.compare_exchange_weak(there, from_ref(first).cast_mut(), Release, Relaxed) {
                Ok(_) => return,
                Err(other) => there = other,
            }
        }
    }

    /// Gives the shared stock up, for a thread to come. Called when the thread ends.
    pub fn leave(&self) {
        let Some(shared) = self.shared.take() else { return };
        if let Some(first) = self.free.take() {
            let mut last = first;
            while let Some(next) = last.next.get() {
                last = next;
            }
            // SAFETY: the places in the list are this thread's.
            unsafe { Self::give_to(shared, first, last) };
        }
        // Release: pairs with the acquire in `occupy`.
        shared.occupied.store(false, Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::sync::mpsc::channel;

    struct Number(u32);

    impl Content for Number {
        const LAST: u32 = 200;

        fn new(number: u32) -> Number {
            Number(number)
        }
    }

    /// One thread takes places, and another gives them back: they come back, and so do those of a
    /// thread that has ended, and of one that was ending when it took them.
    #[test]
    fn places_come_back_from_any_thread() {
        static REGISTRY: Registry<Number> = Registry::new();
        let mut places = HashSet::new();
        for stays in [(|| true) as fn() -> bool, || false, || true] {
            let (gives, given) = channel::<&'static Place<Number>>();
            let (says, said) = channel();
            std::thread::scope(|scope| {
                scope.spawn(move || {
                    let stock = Stock::new();
                    for place in given {
                        // SAFETY: the place is this thread's.
                        unsafe { stock.give_back(place) };
                        says.send(()).unwrap();
                    }
                });
                let (used, used_by) = channel();
                scope.spawn(move || {
                    let stock = Stock::new();
                    for count in 0..1000 {
                        let place = stock.place(&REGISTRY, stays);
                        used.send(place.content.0).unwrap();
                        gives.send(place).unwrap();
                        if count % 3 == 0 {
                            said.iter().take(if count == 0 { 1 } else { 3 }).for_each(drop);
                        }
                    }
                    stock.leave();
                });
                places.extend(used_by);
            });
        }
        assert!(places.len() <= 6, "{} places for three at once", places.len());
    }

    #[test]
    fn places_have_the_numbers_that_they_are_found_by() {
        static REGISTRY: Registry<Number> = Registry::new();
        let stock = Stock::new();
        for number in FIRST..=Number::LAST {
            let place = stock.place(&REGISTRY, || true);
            assert_eq!(place.content.0, number);
            assert!(std::ptr::eq(place, REGISTRY.find(number).unwrap()));
        }
        let refused =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| stock.place(&REGISTRY, || true).content.0));
        assert!(refused.is_err(), "there is no number for another place");
        assert!([0, 1, FIRST - 1, 1 << 20, u32::MAX].into_iter().all(|number| REGISTRY.find(number).is_none()));
    }
}
