//! Catching up: a pusher runs some of the short operations that a worker has published.
//! `engine/push/mod.rs` comes here after a push of a short operation, through `Dispatch::catch_up`
//! (`engine/dispatch/`), on the pusher. The list is taken from `stealable.rs`. If there is none, a
//! bit of the group is set ([`WANTED`]), which the worker that publishes clears (`run_loop.rs`).

use crate::operation::block::{Block, FLAG_SHORT};
use crate::sync::{Instant, Ordering::Relaxed, MODELLED};
use crate::worker::group::{Group, Placement, WANTED};
use crate::worker::Host;
use std::ptr::null_mut;
use std::sync::Arc;
use std::time::Duration;

/// The most operations that a pusher runs for the workers in one push, and how long it goes on with
/// them. Both bound what a push can take.
const CATCH_UP: usize = 32;
const CATCH_UP_TIME: Duration = Duration::from_micros(20);

impl Group {
    /// Runs some of the short operations that a worker has published, and leaves the others there.
    /// It runs at most [`CATCH_UP`], starts none after [`CATCH_UP_TIME`], and runs none that these
    /// make ready. If nothing is published, it asks the workers to publish, for the next time.
    /// Returns whether it ran any.
    pub fn catch_up<H: Host>(&self, host: &Arc<H>) -> bool {
        let taken =
            self.workers.iter().map(|remote| (remote, remote.stealable.take())).find(|(_, list)| !list.is_null());
        let Some((remote, mut list)) = taken else {
            if self.idle.load(Relaxed) & WANTED == 0 {
                self.idle.fetch_or(WANTED, Relaxed);
            }
            return false;
        };
        let mut short = [null_mut::<Block>(); CATCH_UP];
        let mut count = 0;
        // SAFETY: the list was taken, so it is ours.
        while count < CATCH_UP && !list.is_null() && unsafe { (*list).flags } & FLAG_SHORT != 0 {
            short[count] = list;
            count += 1;
            // SAFETY: as above.
            list = unsafe { (*list).link };
        }
        if !list.is_null() {
            if remote.stealable.put_back(list) {
                self.call_one();
            } else {
                // Another list lies there by now, so the rest goes to an inbox. SAFETY: the
                // operations are still ours. They are delivered as urgent, because it is not known
                // what is among them.
                unsafe {
                    let mut last = list;
                    while !(*last).link.is_null() {
                        last = (*last).link;
                    }
                    self.deliver(list, last, Placement::Any, true);
                }
            }
        }
        let started = (count > 1).then(Instant::now);
        for (number, block) in short[..count].iter().enumerate() {
            // SAFETY: the operation was taken, so it is ours.
            unsafe { host.run(*block, None) };
            let rest = &short[number + 1..count];
            let is_late = started.is_some_and(|started| !MODELLED && started.elapsed() >= CATCH_UP_TIME);
            if let ([first, ..], [.., last], true) = (rest, rest, is_late) {
                // SAFETY: the operations are still ours, and linked as they were published. They
                // are delivered as urgent, because it is not known what is among them.
                unsafe { self.deliver(*first, *last, Placement::Any, true) };
                break;
            }
        }
        count > 0
    }
}
