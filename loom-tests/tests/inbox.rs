//! The inbox: nothing is lost or given out twice, what is taken is seen as it was pushed, and a
//! sleeping owner is always woken.

#![cfg(loom)]

use loom::sync::atomic::{AtomicBool, Ordering::Relaxed};
use loom_tests::{explore, spawn, Blocks, Guarded};
use seriatim::internals::block::Block;
use seriatim::internals::inbox::{Inbox, Met};
use std::ptr::null_mut;
use std::sync::Arc;

/// An inbox, and operations that are written before they are pushed.
struct Model {
    inbox: Inbox,
    blocks: Blocks,
    values: Vec<Guarded>,
}

impl Model {
    fn new(count: usize) -> Arc<Model> {
        let values = (0..count).map(|_| Guarded::new()).collect();
        Arc::new(Model { inbox: Inbox::new(), blocks: Blocks::new(count), values })
    }

    fn push(&self, number: usize) -> Met {
        self.values[number].set(1);
        let block = self.blocks.pointer(number);
        // SAFETY: each is pushed by one thread, once.
        unsafe { self.inbox.push(block, block) }
    }

    /// Takes what there is; says how many.
    fn take(&self) -> usize {
        let mut list: *mut Block = self.inbox.take();
        let mut count = 0;
        while !list.is_null() {
            count += 1;
            let number = self.blocks.iter().position(|block| *block == list.addr()).expect("one of ours");
            assert_eq!(self.values[number].get(), 1, "taken twice, or not as it was pushed");
            self.values[number].set(2);
            // SAFETY: the list was taken, so it is ours.
            list = unsafe { (*list).link };
        }
        count
    }
}

/// As an owner sleeps that has fallen asleep.
fn sleep(inbox: &Inbox) {
    while inbox.is_asleep() {
        inbox.sleep(None);
    }
    inbox.is_up();
}

#[test]
fn two_pushers_and_two_takers_lose_nothing() {
    explore("inbox, two pushers, owner and thief", 3, 800, || {
        let model = Model::new(2);
        let pushers: Vec<_> = (0..2)
            .map(|number| {
                let model = model.clone();
                spawn(move || {
                    let _ = model.push(number);
                    model.take()
                })
            })
            .collect();
        let mut taken = model.take();
        for pusher in pushers {
            taken += pusher.join().unwrap();
        }
        assert_eq!(taken + model.take(), 2);
    });
}

#[test]
fn a_sleeping_owner_is_woken() {
    explore("inbox, sleep and wake", 3, 15, || {
        let model = Model::new(1);
        // What the pusher needs to wake the owner: it finds it, because the owner wrote it before
        // it fell asleep.
        let handle = Guarded::new();
        let (theirs, written) = (model.clone(), handle.clone());
        let owner = spawn(move || {
            written.set(1);
            loop {
                let count = theirs.take();
                if count > 0 {
                    return count;
                }
                if !theirs.inbox.start_looking() || !theirs.inbox.fall_asleep() {
                    continue;
                }
                sleep(&theirs.inbox);
                let _ = theirs.inbox.stop_looking();
            }
        });
        if model.push(0) == Met::Asleep {
            assert_eq!(handle.get(), 1);
        }
        assert_eq!(owner.join().unwrap(), 1);
        assert_eq!(model.inbox.take(), null_mut());
    });
}

#[test]
fn an_owner_that_a_thief_was_at_sleeps_and_is_woken_all_the_same() {
    explore("inbox, owner, thief and pusher", 2, 600, || {
        let model = Model::new(2);
        let theirs = model.clone();
        let owner = spawn(move || {
            let mut count = theirs.take();
            // The thief ends by saying how many it has.
            while count == 0 {
                if theirs.inbox.start_looking() {
                    if theirs.inbox.fall_asleep() {
                        sleep(&theirs.inbox);
                    }
                    if !theirs.inbox.stop_looking() {
                        count += theirs.take();
                    }
                } else {
                    count += theirs.take();
                }
            }
            count
        });
        let other = model.clone();
        let thief = spawn(move || other.take());
        let _ = model.push(0);
        let stolen = thief.join().unwrap();
        let _ = model.push(1);
        let taken = owner.join().unwrap();
        assert_eq!(stolen + taken + model.take(), 2);
    });
}

#[test]
fn a_called_owner_sees_what_it_was_called_for_before_it_sleeps() {
    explore("inbox, a call and an owner that is about to sleep", 3, 6, || {
        let model = Model::new(0);
        let (handle, entry) = (Guarded::new(), Arc::new(AtomicBool::new(false)));
        assert!(model.inbox.start_looking());
        let (theirs, written, seen) = (model.clone(), handle.clone(), entry.clone());
        let owner = spawn(move || {
            written.set(1);
            assert!(theirs.inbox.fall_asleep());
            if seen.load(Relaxed) {
                theirs.inbox.get_up();
            }
            sleep(&theirs.inbox);
            assert!(theirs.inbox.stop_looking() && seen.load(Relaxed));
        });
        entry.store(true, Relaxed);
        match model.inbox.call() {
            Met::Asleep => assert_eq!(handle.get(), 1),
            met => assert!(matches!(met, Met::Looking | Met::Busy)),
        }
        owner.join().unwrap();
        assert_eq!(model.inbox.call(), Met::Busy);
    });
}

/// The owner's sleep was ended by a thread that goes no further, and a thief has left `BUSY`.
#[test]
fn an_owner_that_is_said_to_come_sees_what_it_was_called_for() {
    explore("inbox, a call and an owner that gets up", 3, 5, || {
        let (model, published) = (Model::new(0), Arc::new(AtomicBool::new(false)));
        assert!(model.inbox.start_looking() && model.inbox.fall_asleep());
        assert!(model.inbox.get_up() && model.inbox.stop_looking());
        let (theirs, seen) = (model.clone(), published.clone());
        let owner = spawn(move || {
            theirs.inbox.is_up();
            seen.load(Relaxed)
        });
        published.store(true, Relaxed);
        let met = model.inbox.call();
        assert!(owner.join().unwrap() || met == Met::Busy, "nobody comes");
    });
}

#[test]
fn a_called_owner_sees_what_it_was_called_for_when_it_stops_looking() {
    explore("inbox, a call, a push, a thief and an owner that stops looking", 3, 300, || {
        let model = Model::new(1);
        let entry = Arc::new(AtomicBool::new(false));
        assert!(model.inbox.start_looking());
        let (theirs, called_for) = (model.clone(), entry.clone());
        let caller = spawn(move || {
            called_for.store(true, Relaxed);
            theirs.inbox.call()
        });
        let others = model.clone();
        let thief = spawn(move || {
            let _ = others.push(0);
            others.take()
        });
        let stopped = model.inbox.stop_looking();
        let seen = entry.load(Relaxed);
        let met = caller.join().unwrap();
        assert!(seen || met != Met::Looking, "the call is lost, though the owner looked (stopped: {stopped})");
        assert_eq!(thief.join().unwrap() + model.take(), 1);
    });
}

/// The second waker may find that the first has changed the state and woken nobody yet; and either
/// may come to the wake word late, when the owner sleeps once more.
#[test]
fn an_owner_that_sleeps_again_and_again_is_woken_by_two_pushers() {
    explore("inbox, two pushers wake an owner", 2, 100, || {
        let model = Model::new(2);
        let pushers: Vec<_> = (0..2)
            .map(|number| {
                let model = model.clone();
                spawn(move || _ = model.push(number))
            })
            .collect();
        let mut taken = 0;
        while taken < 2 {
            if model.inbox.start_looking() && model.inbox.fall_asleep() {
                sleep(&model.inbox);
            }
            let _ = model.inbox.stop_looking();
            taken += model.take();
        }
        pushers.into_iter().for_each(|pusher| pusher.join().unwrap());
    });
}
