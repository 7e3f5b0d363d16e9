//! The memory of handles: places that are used again and again, so that in steady state no call of
//! an asynchronous function allocates. `completion.rs` alone uses this.
//!
//! Each thread has a [`Home`], and takes the places of its handles from there. A place goes back to
//! the home that it came from, whichever thread gives it back: the home's own thread puts it on a
//! list of its own, others push it onto `returned`. Nobody waits for another thread. Only the
//! whole list is ever taken out of `returned`, so a push that meets a place which was there before
//! and has come again does no harm: it compares the address, and links to what is there.
//!
//! Homes and places are never freed, also not when engines are dropped: a thread that begins takes
//! over the home of one that has ended. There are as many homes as there were threads at once, and
//! for each home as many places as it ever had handles at once.

use std::cell::Cell;
use std::mem::MaybeUninit;
use std::ptr::{null_mut, NonNull};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering::*};

/// A place for a `T`, which comes first.
#[repr(C)]
pub struct Place<T> {
    pub content: MaybeUninit<T>,
    /// The home that it goes back to; null if it was made by a thread that was ending.
    home: *const Home<T>,
    /// The next place of the list that it is in.
    next: Cell<*mut Place<T>>,
}

/// Where the places of one thread come back to.
pub struct Home<T> {
    returned: AtomicPtr<Place<T>>,
    /// Whether a thread has it.
    occupied: AtomicBool,
    /// The home that was made before this one.
    before: *const Home<T>,
}

/// All homes, the newest first.
pub struct Homes<T>(AtomicPtr<Home<T>>);

/// What a thread has: its home, and the places that lie there for its next handles.
pub struct Stock<T: 'static> {
    home: Cell<*const Home<T>>,
    free: Cell<*mut Place<T>>,
}

impl<T> Homes<T> {
    pub const fn new() -> Homes<T> {
        Homes(AtomicPtr::new(null_mut()))
    }

    /// A home that no thread has, for the calling thread.
    #[cold]
    fn occupy(&self) -> *const Home<T> {
        // Acquire: pairs with the release below, so that the home is found as it was made.
        let mut home = self.0.load(Acquire).cast_const();
        // SAFETY: homes are never freed.
        while let Some(this) = unsafe { home.as_ref() } {
            // Acquire: pairs with the release in `leave`, so that this thread's calls come after
            // those of the thread before.
            if !this.occupied.load(Relaxed) && this.occupied.compare_exchange(false, true, Acquire, Relaxed).is_ok() {
                return home;
            }
            home = this.before;
        }
        let new =
            Box::new(Home { returned: AtomicPtr::new(null_mut()), occupied: AtomicBool::new(true), before: home });
        let new = Box::into_raw(new);
        let mut before = self.0.load(Relaxed);
        loop {
            // SAFETY: no other thread knows the new home yet.
            unsafe { (*new).before = before };
            match self.0.compare_exchange_weak(before, new, Release, Relaxed) {
                Ok(_) => return new,
                Err(other) => before = other,
            }
        }
    }
}

impl<T> Stock<T> {
    pub const fn new() -> Stock<T> {
        Stock { home: Cell::new(std::ptr::null()), free: Cell::new(null_mut()) }
    }

    /// A place, whose content the caller writes. `stays`: whether the thread will
    /// [leave](Stock::leave) its home when it ends.
    #[inline]
    pub fn place(&self, homes: &Homes<T>, stays: fn() -> bool) -> NonNull<Place<T>> {
        let Some(place) = NonNull::new(self.free.get()) else { return self.fetch(homes, stays) };
        // SAFETY: the place is this thread's.
        self.free.set(unsafe { (*place.as_ptr()).next.get() });
        place
    }

    /// Like [`Stock::place`], when none lies here: takes what has come back, or makes a new one.
    #[cold]
    #[inline(never)]
    fn fetch(&self, homes: &Homes<T>, stays: fn() -> bool) -> NonNull<Place<T>> {
        if self.home.get().is_null() && stays() {
            self.home.set(homes.occupy());
        }
        // SAFETY: homes are never freed.
        if let Some(home) = unsafe { self.home.get().as_ref() } {
            // Acquire: pairs with the release in `give_to`, so that those who gave a place back
            // have done with it.
            self.free.set(home.returned.swap(null_mut(), Acquire));
            if !self.free.get().is_null() {
                return self.place(homes, stays);
            }
        }
        let new = Place { content: MaybeUninit::uninit(), home: self.home.get(), next: Cell::new(null_mut()) };
        NonNull::from(Box::leak(Box::new(new)))
    }

    /// Gives a place back.
    ///
    /// # Safety
    /// It came from [`Stock::place`] of some thread, its content was moved out or dropped, and
    /// nobody uses it any more.
    #[inline]
    pub unsafe fn give_back(&self, place: NonNull<Place<T>>) {
        let place = place.as_ptr();
        // SAFETY: the place is the caller's. Homes are never freed.
        unsafe {
            let home = (*place).home;
            if home.is_null() {
                drop(Box::from_raw(place));
            } else if home == self.home.get() {
                (*place).next.set(self.free.replace(place));
            } else {
                Self::give_to(home, place, place);
            }
        }
    }

    /// Pushes a list of places, from `first` to `last`, onto what has come back to a home.
    ///
    /// # Safety
    /// As [`Stock::give_back`], for each of them; they are this home's.
    unsafe fn give_to(home: *const Home<T>, first: *mut Place<T>, last: *mut Place<T>) {
        // SAFETY: the places are the caller's until they are pushed. Homes are never freed.
        let (returned, next) = unsafe { (&(*home).returned, &(*last).next) };
        let mut there = returned.load(Relaxed);
        loop {
            next.set(there);
            // Release: pairs with the acquire in `fetch`.
            match returned.compare_exchange_weak(there, first, Release, Relaxed) {
                Ok(_) => return,
                Err(other) => there = other,
            }
        }
    }

    /// Gives the home up, for a thread to come. Called when the thread ends.
    pub fn leave(&self) {
        let home = self.home.replace(std::ptr::null());
        let first = self.free.replace(null_mut());
        // SAFETY: the places in the list are this thread's. Homes are never freed.
        unsafe {
            let Some(this) = home.as_ref() else { return };
            if !first.is_null() {
                let mut last = first;
                while !(*last).next.get().is_null() {
                    last = (*last).next.get();
                }
                Self::give_to(home, first, last);
            }
            // Release: pairs with the acquire in `occupy`.
            this.occupied.store(false, Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::sync::mpsc::channel;

    static HOMES: Homes<u64> = Homes::new();

    struct Given(NonNull<Place<u64>>);

    // SAFETY: a place may be given back by any thread.
    unsafe impl Send for Given {}

    /// One thread takes places, and another gives them back: they come home, and so do those of a
    /// thread that has ended.
    #[test]
    fn places_come_home_whoever_gives_them_back() {
        let mut places = HashSet::new();
        for _ in 0..3 {
            let (gives, given) = channel::<Given>();
            let (says, said) = channel();
            std::thread::scope(|scope| {
                scope.spawn(move || {
                    let stock = Stock::new();
                    for Given(place) in given {
                        // SAFETY: the place is this thread's, and its content needs no drop.
                        unsafe { stock.give_back(place) };
                        says.send(()).unwrap();
                    }
                });
                let (used, used_by) = channel();
                scope.spawn(move || {
                    let stock = Stock::new();
                    for number in 0..1000 {
                        let mut place = stock.place(&HOMES, || true);
                        // SAFETY: the place is this thread's.
                        unsafe { place.as_mut() }.content.write(number);
                        used.send(place.as_ptr().addr()).unwrap();
                        gives.send(Given(place)).unwrap();
                        if number % 3 == 0 {
                            said.iter().take(if number == 0 { 1 } else { 3 }).for_each(drop);
                        }
                    }
                    stock.leave();
                });
                places.extend(used_by);
            });
        }
        assert!(places.len() <= 6, "{} places for three at once", places.len());
    }
}
