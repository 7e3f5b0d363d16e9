//! How the watcher of a device sleeps: nothing that is told or parked meanwhile is overslept.

#![cfg(loom)]

use loom::sync::atomic::{AtomicU64, Ordering::*};
use loom_tests::{explore, spawn, Blocks};
use seriatim::internals::remote::Remote;
use seriatim::internals::sleep::{park, rest, wake};
use std::sync::Arc;

#[test]
fn a_watcher_that_falls_asleep_sees_a_number() {
    explore("watchers, a number is told", 6, 10, || {
        // As a timeline tells its number (`src/device/timeline.rs`).
        let (remote, queued) = (Arc::new(Remote::new()), Arc::new(AtomicU64::new(0)));
        let (watched, told) = (remote.clone(), queued.clone());
        let watcher = spawn(move || {
            let is_idle = || told.load(Acquire) == 0;
            while is_idle() {
                rest(&watched, is_idle);
            }
        });
        queued.store(1, Release);
        wake(&remote);
        watcher.join().unwrap();
    });
}

#[test]
fn a_watcher_that_falls_asleep_takes_what_is_parked() {
    explore("watchers, an operation is parked", 6, 10, || {
        let (remote, blocks) = (Arc::new(Remote::new()), Blocks::new(2));
        let watched = remote.clone();
        let watcher = spawn(move || {
            let mut taken = 0;
            while taken < 2 {
                let mut list = watched.inbox.take();
                if list.is_null() {
                    rest(&watched, || true);
                }
                while !list.is_null() {
                    taken += 1;
                    // SAFETY: the list was taken, so it is ours.
                    list = unsafe { (*list).link };
                }
            }
        });
        for number in 0..2 {
            // SAFETY: each is parked once.
            unsafe { park(&remote, blocks.pointer(number)) };
        }
        watcher.join().unwrap();
    });
}
