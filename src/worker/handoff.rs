//! A handoff slot between pushers of an engine without workers: a thread that has run its share of
//! ready operations leaves the rest to a thread that is about to look. Used by
//! `engine/dispatch/naive.rs` only, on any thread that pushes, waits, or ends an operation.
//!
//! No worker would come for operations that are left lying, and no thread waits for them. So a
//! thread that enlists says that it will look, by a plain store into its cache
//! (`ThreadContext::say_will_look`).
//! Before the call ends it takes that back, and then looks. Operations are left only while some
//! thread says so: see [`Handoff::leave`].

use crate::operation::block::Block;
use crate::sync::{fence, AtomicPtr, Ordering::*};
use crossbeam_utils::CachePadded;
use std::ptr::null_mut;

/// A list of ready operations, linked by `link`.
#[derive(Clone, Copy)]
pub struct List {
    pub first: *mut Block,
    pub last: *mut Block,
}

/// The slot in which threads leave ready operations to each other.
pub struct Handoff {
    /// The last operation of the list that was left; its `link` leads to the first. Null if no list
    /// is left.
    left: CachePadded<AtomicPtr<Block>>,
}

impl Handoff {
    pub fn new() -> Handoff {
        Handoff { left: CachePadded::new(AtomicPtr::new(null_mut())) }
    }

    /// Leaves a list to a thread that will look. Returns what the caller has to run itself: `None`
    /// if another thread has taken the list or will find it.
    ///
    /// `will_look` tells whether some thread has said that it will call [`look`](Handoff::look),
    /// and has not taken that back.
    ///
    /// # Safety
    /// The operations are ready, and the caller's to give away. The ones that come back are the
    /// caller's.
    pub unsafe fn leave(&self, list: List, will_look: impl Fn() -> bool) -> Option<List> {
        if !will_look() {
            return Some(list);
        }
        // SAFETY: the caller's contract.
        unsafe { self.put(list) };
        // Store buffering; the other fence is in `look`, on the thread that has taken back its
        // word. Either that thread finds the list, or this one sees that the word was taken back.
        fence(SeqCst);
        if will_look() {
            return None;
        }
        self.take()
    }

    /// Puts a list into the slot, behind the list that lies there.
    unsafe fn put(&self, mut list: List) {
        loop {
            // The list that was left earlier comes first: otherwise it could wait for ever.
            if let Some(older) = self.take() {
                // SAFETY: both lists are ours.
                unsafe { (*older.last).link = list.first };
                list.first = older.first;
            }
            // SAFETY: ours until the exchange succeeds.
            unsafe { (*list.last).link = list.first };
            // Release: pairs with the acquire in `take`, so that the taker sees the operations as
            // we do.
            if self.left.compare_exchange(null_mut(), list.last, Release, Relaxed).is_ok() {
                return;
            }
            // SAFETY: another thread's list came first, so this one is still ours.
            unsafe { (*list.last).link = null_mut() };
        }
    }

    /// Takes the list that was left. Called by a thread that has said that it would look, and has
    /// just taken that back.
    pub fn look(&self) -> Option<List> {
        // Store buffering; the other fence is in `leave`, on the thread that leaves operations.
        fence(SeqCst);
        self.take()
    }

    fn take(&self) -> Option<List> {
        if self.left.load(Relaxed).is_null() {
            return None;
        }
        // Acquire: pairs with the release in `put`.
        let last = self.left.swap(null_mut(), Acquire);
        if last.is_null() {
            return None;
        }
        // SAFETY: the swap took the list, so it is ours.
        unsafe { Some(List { first: std::mem::replace(&mut (*last).link, null_mut()), last }) }
    }
}
