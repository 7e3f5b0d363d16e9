//! Catching up: a pusher runs some of the short operations that a worker has lent.
//! `engine/push/mod.rs` comes here after a push of a short operation, through `Dispatch::catch_up`
//! (`engine/dispatch/`), on the pusher. The operations are taken from `stealable.rs`. If none are
//! lent, a bit of the group is set ([`WANTED`]), which a worker clears that has nothing left to run
//! (`idle.rs`).

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
    /// Runs some of the short operations that a worker has lent, and leaves the others there. These
    /// are at most [`CATCH_UP`], none after [`CATCH_UP_TIME`], and none that they make ready. If
    /// nothing is lent, it asks the workers to lend, for the next time. Returns whether it ran any.
    pub fn catch_up<H: Host>(&self, host: &Arc<H>) -> bool {
        let lent = self.workers.iter().map(|remote| &remote.stealable).find(|lent| !lent.is_empty());
        let Some((lent, mut ready)) = lent.and_then(|lent| lent.take().map(|ready| (lent, ready))) else {
            // Several workers lend what they have in any case.
            if self.workers.len() == 1 && self.idle.load(Relaxed) & WANTED == 0 {
                self.idle.fetch_or(WANTED, Relaxed);
            }
            return false;
        };
        // SAFETY: the operations were taken, so they are ours.
        let mut list = ready.take_list(CATCH_UP, |block| unsafe { (*block).flags } & FLAG_SHORT != 0);
        let are_some_left = !ready.is_empty();
        if lent.put(ready) || are_some_left {
            self.call_one();
        }
        let mut short = [null_mut::<Block>(); CATCH_UP];
        let mut count = 0;
        while !list.is_null() {
            short[count] = list;
            count += 1;
            // SAFETY: as above.
            list = unsafe { (*list).link };
        }
        let started = (count > 1).then(Instant::now);
        for (number, block) in short[..count].iter().enumerate() {
            // SAFETY: the operation was taken, so it is ours.
            unsafe { host.run(*block, None) };
            let rest = &short[number + 1..count];
            let is_late = started.is_some_and(|started| !MODELLED && started.elapsed() >= CATCH_UP_TIME);
            if let ([first, ..], [.., last], true) = (rest, rest, is_late) {
                // SAFETY: the operations are still ours, and linked as they were taken. They
                // are delivered as urgent, because it is not known what is among them.
                unsafe { self.deliver(*first, *last, Placement::Any, true) };
                break;
            }
        }
        count > 0
    }
}
