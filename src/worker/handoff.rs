//! Handing over: a thread that has run its share of the operations of others leaves the rest to a
//! thread that is about to look.
//!
//! For engines without workers. Nobody comes for what is left lying, and nobody waits for it to be
//! left. So a thread says that it will look, by a plain store, for as long as it is inside a call;
//! takes that back; and looks. Operations are left only while a thread says so: see
//! [`Handoff::leave`].

use crate::operation::block::Block;
use crate::sync::{fence, AtomicPtr, Ordering::*};
use crossbeam_utils::CachePadded;
use std::ptr::null_mut;

/// Ready operations in a list, linked by `link`.
#[derive(Clone, Copy)]
pub struct List {
    pub first: *mut Block,
    pub last: *mut Block,
}

/// Where threads leave ready operations to each other.
pub struct Handoff {
    /// The last operation of the list that was left, which leads to the first; null if there is
    /// none.
    left: CachePadded<AtomicPtr<Block>>,
}

impl Handoff {
    pub fn new() -> Handoff {
        Handoff { left: CachePadded::new(AtomicPtr::new(null_mut())) }
    }

    /// Leaves a list to a thread that will look. Returns what the caller has to run itself: nothing
    /// if somebody has the list or will find it.
    ///
    /// `will_look`: whether a thread has still to call [`look`](Handoff::look), and has said so.
    ///
    /// # Safety
    /// The operations are ready, and ours; so are those that come back.
    pub unsafe fn leave(&self, list: List, will_look: impl Fn() -> bool) -> Option<List> {
        if !will_look() {
            return Some(list);
        }
        // SAFETY: passed on.
        unsafe { self.put(list) };
        // Store buffering, against `look`: either that thread finds the list, or we see that it has
        // taken back its word.
        fence(SeqCst);
        if will_look() {
            return None;
        }
        self.take()
    }

    /// Puts a list where others find it, behind what lies there.
    unsafe fn put(&self, mut list: List) {
        loop {
            // What was left before comes first: else it could wait for ever.
            if let Some(older) = self.take() {
                // SAFETY: both lists are ours.
                unsafe { (*older.last).link = list.first };
                list.first = older.first;
            }
            // SAFETY: ours until the exchange succeeds.
            unsafe { (*list.last).link = list.first };
            // Release: the operations go to the taker as we see them.
            if self.left.compare_exchange(null_mut(), list.last, Release, Relaxed).is_ok() {
                return;
            }
            // SAFETY: another thread's list came first, so this one is still ours.
            unsafe { (*list.last).link = null_mut() };
        }
    }

    /// Takes what was left. For a thread that said that it would look, and has taken that back.
    pub fn look(&self) -> Option<List> {
        // Against the one in `leave`.
        fence(SeqCst);
        self.take()
    }

    fn take(&self) -> Option<List> {
        if self.left.load(Relaxed).is_null() {
            return None;
        }
        // Acquire: pairs with the release that left it.
        let last = self.left.swap(null_mut(), Acquire);
        if last.is_null() {
            return None;
        }
        // SAFETY: the swap took the list, so it is ours.
        unsafe { Some(List { first: std::mem::replace(&mut (*last).link, null_mut()), last }) }
    }
}
