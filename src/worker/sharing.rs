//! What a worker lays out for others, and a pusher that runs some of it.

use super::group::{Group, Where, WANTED};
use super::queue::{Queue, Row};
use super::Host;
use crate::mutants::mutate;
use crate::operation::block::{Block, NOTE_SHORT};
use crate::sync::{Instant, Ordering::*, MODELLED};
use std::ptr::null_mut;
use std::sync::Arc;
use std::time::Duration;

/// The most operations that a pusher runs for the workers, and how long it goes on with that: a bound on what a push can take.
const CATCH_UP: usize = 32;
const CATCH_UP_TIME: Duration = Duration::from_micros(20);

/// The most operations that a worker lays out at a time: a bound on what stands between two of its operations, and on what a pusher that
/// helps has to look through.
const SHARED: usize = 512;

impl Group {
    /// Runs some of the short operations that a worker has laid out, and leaves the others there: no more than [`CATCH_UP`], and not what they
    /// make ready; nor another one after [`CATCH_UP_TIME`]. If nothing is laid out, asks for it, for the next time. Says whether it ran any.
    pub fn catch_up<H: Host>(&self, host: &Arc<H>) -> bool {
        let taken = self.workers.iter().map(|post| (post, post.take_surplus())).find(|(_, list)| !list.is_null());
        let Some((post, mut list)) = taken else {
            if self.idle.load(Relaxed) & WANTED == 0 {
                self.idle.fetch_or(WANTED, Relaxed);
            }
            return false;
        };
        let mut short = [null_mut::<Block>(); CATCH_UP];
        let mut count = 0;
        // SAFETY: the list is ours.
        while count < CATCH_UP && !list.is_null() && unsafe { (*list).notes } & NOTE_SHORT != 0 {
            short[count] = list;
            count += 1;
            // SAFETY: as above.
            list = unsafe { (*list).link };
        }
        if !list.is_null() {
            // Release: as when it was laid out. If something else lies there by now, the rest goes to an inbox.
            match post.surplus.compare_exchange(null_mut(), list, Release, Relaxed) {
                Ok(_) => self.wake_one(),
                // SAFETY: still ours. Urgent: it is not known what is in it.
                Err(_) => unsafe {
                    let mut last = list;
                    while !(*last).link.is_null() {
                        last = (*last).link;
                    }
                    self.deliver(list, last, Where::Any, true);
                },
            }
        }
        let started = (count > 1).then(Instant::now);
        for (number, block) in short[..count].iter().enumerate() {
            // SAFETY: taken, so ours.
            unsafe { host.run(*block, None) };
            let rest = &short[number + 1..count];
            let is_late = started.is_some_and(|started| !MODELLED && started.elapsed() >= CATCH_UP_TIME);
            if let ([first, ..], [.., last], true) = (rest, rest, is_late) {
                // SAFETY: ours still, and linked as they were laid out. Urgent: it is not known what is among them.
                unsafe { self.deliver(*first, *last, Where::Any, true) };
                break;
            }
        }
        count > 0
    }
}

/// Takes out of a queue what others may run. Of what somebody wants at once, everything, as long as that is quick: the operation
/// that runs next may be a long one. Otherwise half of a short queue and most of a long one, but no more than [`SHARED`]: the next few
/// stay, so that the list need not be taken back soon.
pub(super) fn share(queue: &mut Queue, wanted: bool) -> Option<Row> {
    let length = queue.len();
    let keep = if wanted && length <= 32 { 0 } else { (length / 2).min(8).max(length / 16) };
    queue.split_off(keep, mutate!("shared-without-a-limit": usize::MAX, SHARED))
}
