//! Guests: threads that wait for something and work for the group until they have it.
//!
//! A guest with nothing to run looks about like a worker, and sleeps like one: at a post of its own, where whoever lays out work finds it. Nothing is
//! delivered to that post, so its inbox holds no more than the guest's state.

use super::group::Group;
use super::post::Post;
use super::Host;
use crate::mutants::mutate;
use crate::sync::{fence, looks, spin_loop, thread, AtomicBool, Ordering::*, MODELLED};
use std::ptr::null_mut;
use std::sync::Arc;

/// How many threads can be guests of a group at once. More only wait.
const SEATS: usize = if MODELLED { 1 } else { 16 };
/// Rounds that a guest looks for work before it sleeps, and how many of them it does not yield its core.
const LOOKS: u32 = looks(2000);
const LOOKS_AWAKE: u32 = 1000;

/// A place for a guest.
pub struct Guest {
    pub(super) post: Post,
    taken: AtomicBool,
}

/// Frees the seat however the guest leaves.
struct Sitting<'a>(&'a Group, &'a Guest);

impl Group {
    pub(super) fn seats() -> Box<[Guest]> {
        (0..SEATS).map(|_| Guest { post: Post::new(), taken: AtomicBool::new(false) }).collect()
    }

    /// Works for the group until `done`. `go_on` is asked before each operation after the first of a row: `false` ends the row. Who makes
    /// `done` true unparks the thread.
    ///
    /// Returns at once if the group has no threads or no free seat.
    pub fn serve<H: Host>(&self, host: &Arc<H>, go_on: &mut dyn FnMut() -> bool, done: &mut dyn FnMut() -> bool) {
        if done() || !self.is_started() {
            return;
        }
        // Acquire: pairs with the release of whoever sat there before.
        let free = |guest: &&Guest| !guest.taken.load(Relaxed) && !guest.taken.swap(true, Acquire);
        let Some(guest) = self.guests.iter().find(free) else { return };
        let _sitting = Sitting(self, guest);
        while !done() {
            if !self.help(host, &mut *go_on) {
                host.idle();
                self.look_out(guest, done);
            }
        }
    }

    /// Returns when there may be something to run, or when `done`.
    fn look_out(&self, guest: &Guest, done: &mut dyn FnMut() -> bool) {
        // Who has more than it can run lays it out for us.
        self.idle.fetch_add(1, Relaxed);
        let mut seen = null_mut();
        for look in 0.. {
            if done() {
                break;
            }
            let first = self.first_waiting();
            // What has just come to a worker that looks for it is the worker's; what is still there the next time is not.
            if !first.is_null() && (first == seen || MODELLED) {
                break;
            }
            seen = first;
            if look >= LOOKS {
                self.rest(guest, done);
                break;
            }
            if look < LOOKS_AWAKE {
                spin_loop();
            } else {
                thread::yield_now();
            }
        }
        self.idle.fetch_sub(1, Relaxed);
    }

    /// Sleeps until there may be something to run, or until `done`. As [`Group::sleep`].
    #[cold]
    fn rest(&self, guest: &Guest, done: &mut dyn FnMut() -> bool) {
        let post = &guest.post;
        post.register(&self.handles);
        if !post.inbox.start_looking() || !post.inbox.fall_asleep() {
            return;
        }
        self.sleeping.fetch_add(1, Relaxed);
        // Against the fence in `wake_one`, as for workers.
        mutate!("guest-without-a-fence": (), fence(SeqCst));
        if mutate!("guest-does-not-look-again": false, !self.first_waiting().is_null()) || done() {
            post.inbox.wake();
        }
        while post.inbox.is_asleep() {
            thread::park();
            if done() {
                post.inbox.wake();
            }
        }
        self.sleeping.fetch_sub(1, Relaxed);
        let _ = post.inbox.stop_looking(); // Nothing is ever delivered here.
    }

    /// For the child of a `fork`, where no guest is.
    #[cfg(all(unix, not(any(loom, shuttle))))]
    pub fn forget_guests(&self) {
        for guest in &self.guests {
            if guest.taken.load(Relaxed) {
                guest.post.inbox.reset();
                guest.taken.store(false, Relaxed);
            }
        }
        self.idle.store(0, Relaxed);
        self.sleeping.store(0, Relaxed);
    }
}

impl Drop for Sitting<'_> {
    fn drop(&mut self) {
        let Sitting(group, guest) = *self;
        // Release: pairs with whoever sits down next.
        guest.taken.store(false, Release);
        // Who woke us may have meant somebody who stays.
        if !group.first_waiting().is_null() {
            group.wake_one();
        }
    }
}
