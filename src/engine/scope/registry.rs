//! Where threads with nothing to do find scopes that have ready children: a place for each of some
//! threads, with one scope of that thread.
//!
//! `engine/core.rs` has one for each engine. A thread that leaves children in the list of a scope
//! puts the scope into its place (`scope/help.rs`), and takes it out as the scope ends
//! (`scope/open.rs`). A thread that looks for work takes a scope out, and puts it back if it has
//! ready children. All of that is to find work: a scope that is missed meanwhile is joined by its
//! own thread. An entry is an `Arc`. The place owns it, and then the thread that has taken it out.
//! So no thread looks at a state that is gone.

use crate::engine::scope::state::ScopeState;
use crate::sync::{AtomicPtr, AtomicUsize, Ordering::*};
use crossbeam_utils::CachePadded;
use std::ptr::null_mut;
use std::sync::Arc;

/// A place for so many threads for each worker; threads whose numbers are equal in this share one.
const PLACES_A_WORKER: usize = 2;

/// The scopes of one engine that threads with nothing to do may help.
pub struct OpenScopes {
    places: Box<[CachePadded<AtomicPtr<ScopeState>>]>,
    /// Invitations that are pushed, and that no thread has begun with.
    queued: CachePadded<AtomicUsize>,
    /// How many of them there are at most.
    most: usize,
}

impl OpenScopes {
    pub fn new(workers: usize) -> OpenScopes {
        let places = (0..PLACES_A_WORKER * workers.max(1)).map(|_| CachePadded::new(AtomicPtr::new(null_mut())));
        let queued = CachePadded::new(AtomicUsize::new(0));
        OpenScopes { places: places.collect(), queued, most: workers.max(1) }
    }

    fn place(&self, thread: u32) -> &AtomicPtr<ScopeState> {
        &self.places[thread as usize % self.places.len()]
    }

    /// Shows a scope in the place of the thread of this number, unless another one is shown there
    /// that has ready children.
    pub fn show(&self, thread: u32, scope: &Arc<ScopeState>) {
        let place = self.place(thread);
        if place.load(Relaxed) == Arc::as_ptr(scope).cast_mut() {
            return;
        }
        let other = take(place).filter(|other| !other.ready.is_empty());
        put(place, other.unwrap_or_else(|| Arc::clone(scope)));
    }

    /// Takes a scope of the thread of this number out again, if it is shown.
    pub fn retract(&self, thread: u32, scope: &Arc<ScopeState>) {
        let (place, entry) = (self.place(thread), Arc::as_ptr(scope).cast_mut());
        // Acquire: pairs with the release in `put`.
        if place.load(Relaxed) == entry && place.compare_exchange(entry, null_mut(), Acquire, Relaxed).is_ok() {
            // SAFETY: `put` has made the entry of an `Arc`, and the exchange took it out.
            drop(unsafe { Arc::from_raw(entry) });
        }
    }

    /// Finds a scope that has ready children, and that `suits`. It may be over by now.
    pub fn find(&self, suits: impl Fn(&ScopeState) -> bool) -> Option<Arc<ScopeState>> {
        for place in &self.places {
            let Some(scope) = take(place).filter(|scope| !scope.ready.is_empty()) else { continue };
            let is_found = suits(&scope);
            put(place, Arc::clone(&scope));
            if is_found {
                return Some(scope);
            }
        }
        None
    }

    /// Counts an invitation that is about to be pushed, if there is none, or if a thread has
    /// nothing to do and there are fewer than workers; says whether it did.
    pub fn queues_one(&self, has_idle: impl FnOnce() -> bool) -> bool {
        // Relaxed (all): a count, and no more.
        let queued = self.queued.load(Relaxed);
        let may = queued == 0 || queued < self.most && has_idle();
        may && self.queued.compare_exchange(queued, queued + 1, Relaxed, Relaxed).is_ok()
    }

    /// An invitation is not queued any more.
    pub fn begins_one(&self) {
        self.queued.fetch_sub(1, Relaxed);
    }
}

/// Puts an entry into a place, or drops it if there is another one.
fn put(place: &AtomicPtr<ScopeState>, scope: Arc<ScopeState>) {
    let entry = Arc::into_raw(scope).cast_mut();
    // Release: pairs with the acquires in `take` and `retract`.
    if place.compare_exchange(null_mut(), entry, Release, Relaxed).is_err() {
        // SAFETY: made above, and not given away.
        drop(unsafe { Arc::from_raw(entry) });
    }
}

fn take(place: &AtomicPtr<ScopeState>) -> Option<Arc<ScopeState>> {
    if place.load(Relaxed).is_null() {
        return None;
    }
    // Acquire: pairs with the release in `put`.
    let entry = place.swap(null_mut(), Acquire);
    // SAFETY: `put` has made it of an `Arc`, and it was taken out once.
    (!entry.is_null()).then(|| unsafe { Arc::from_raw(entry) })
}

impl Drop for OpenScopes {
    fn drop(&mut self) {
        self.places.iter().for_each(|place| drop(take(place)));
    }
}
