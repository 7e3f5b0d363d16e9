//! Reclamation by the real epochs of crossbeam, which loom explores as well when built with `--cfg crossbeam_loom`: small models, because a pin
//! alone is dozens of steps.

#![cfg(all(loom, crossbeam_loom))]

use loom::sync::atomic::{AtomicUsize, Ordering::*};
use loom_tests::{explore, spawn, Guarded};
use seriatim::internals::reclaim::{Epoch, Reclaim};
use std::sync::Arc;

#[test]
fn what_a_pinned_thread_has_found_is_not_reused() {
    explore("a pinned thread against reuse", 2, 100, || {
        let epoch = Arc::new(Epoch::new());
        // A link that leads to a value until it is cut, as a tail leads to a block.
        let link = Arc::new(AtomicUsize::new(1));
        let value = Guarded::new();
        let (theirs, other_link, seen) = (epoch.clone(), link.clone(), value.clone());
        let other = spawn(move || {
            let handle = theirs.register();
            let _pin = Epoch::pin(&handle);
            if other_link.load(Acquire) == 1 {
                assert_eq!(seen.get(), 0, "reused while a pinned thread looks at it");
            }
        });
        let handle = epoch.register();
        let pin = Epoch::pin(&handle);
        link.store(0, Release);
        let reused = value.clone();
        // SAFETY: the link is cut, so nobody finds the value any more.
        unsafe { Epoch::defer(&pin, move || reused.set(1)) };
        drop(pin);
        Epoch::pin(&handle).flush();
        other.join().unwrap();
    });
}
