//! What the workers of a group do: run what they have, look for more, steal, sleep; and what a guest does that helps them.

use super::cores::Stalls;
use super::group::{next_worker, Group, IdlePolicy, Where, WANTED};
use super::post::Post;
use super::queue::{Key, Queue, Row};
use super::seat::Seat;
use super::Host;
use crate::fences::heavy;
use crate::mutants::{mutant, mutate};
use crate::operation::block::{Block, NOTE_SHORT};
use crate::spin::Spin;
use crate::sync::{looks, spin_loop, thread, Instant, Ordering::*, MODELLED};
use crate::tickets::journals::{Journal, Watch};
use crate::tickets::log::Log;
use crate::tickets::run::take;
use crate::tickets::word::Word;
use std::ptr::{self, null_mut};
use std::sync::Arc;
use std::time::Duration;

/// A worker looks into its inbox after this many operations of its own, if nothing urgent comes.
const POLL: u32 = 16;
/// After so many operations that were made ready a worker takes one out of its log.
const LOOKS_AT_QUEUE: u32 = 256;
/// After so many operations of one pusher a worker looks at what the next one has logged.
const IN_A_ROW: u32 = if MODELLED { 2 } else { 16 };
/// So often a worker whose logs are empty looks again before it looks elsewhere.
const LOOKS_AT_LOG: u32 = looks(8);
/// So many looks an entry of a log must have stood before a worker takes it that is another one's.
const STOOD: u32 = if MODELLED { 1 } else { 64 };
/// The most operations that a worker then takes at a time.
const STOLEN: usize = if MODELLED { 1 } else { 8 };
/// The most logs that a thief looks at before it looks elsewhere: there is one for each pusher and worker.
const LOGS: usize = if MODELLED { 2 } else { 64 };
/// How long a worker looks for work before it parks, and how long of that it keeps its core.
const LOOKS: Duration = Duration::from_micros(400);
const LOOKS_AWAKE: Duration = Duration::from_micros(50);

/// The most operations that a pusher runs for the workers, and how long it goes on with that: a bound on what a push can take.
const CATCH_UP: usize = 32;
const CATCH_UP_TIME: Duration = Duration::from_micros(20);

/// The most operations that a worker lays out at a time: a bound on what stands between two of its operations, and on what a pusher that
/// helps has to look through.
const SHARED: usize = 512;

/// Operations of a row after which a guest gives back what they have left. The row may be long, and what
/// its thread has spent itself nobody else can use.
const SETTLES: u32 = 64;

impl Group {
    /// The life of a worker.
    pub(super) fn work<H: Host>(&self, index: usize, host: &Arc<H>) {
        let own = &self.workers[index];
        let _movable = self.pin_worker(index);
        own.register();
        if !MODELLED {
            // Makes what the thread keeps for the engine.
            host.idle();
            self.ready.fetch_add(1, Release);
        }
        Seat::new(self).occupy(|seat| {
            let mut round = 0;
            let mut from_queue = 0_u32;
            let mut stalls = Stalls::default();
            // The best of what this worker has laid out, as far as it knows.
            let mut laid_out: Option<Key> = None;
            // What it takes out of next.
            let mut journal = None;
            loop {
                round += 1;
                let mut queue = seat.queue.borrow_mut();
                let next = queue.best();
                let restless = next.is_none_or(|key| key.0 < 0);
                let urgent = own.is_urgent() | self.common.is_urgent();
                let polls = round >= POLL;
                if restless || urgent || polls {
                    round = 0;
                    // SAFETY: what an inbox gives out is ready and ours.
                    unsafe {
                        queue.add_list(own.inbox.take());
                        if urgent || self.plan.shared && (polls || queue.len() == 0) {
                            queue.add_list(self.common.inbox.take());
                        }
                    }
                }
                // What was laid out comes back when it is its turn.
                if laid_out.is_some() && laid_out >= queue.best() {
                    laid_out = None;
                    // SAFETY: as above.
                    unsafe { queue.add_list(own.take_surplus()) };
                }
                if self.plan.logged {
                    let most = due_of_log(queue.best(), &mut from_queue);
                    if most > 0 {
                        drop(queue);
                        if self.run_logged(index, seat, host, most, &mut journal) {
                            continue;
                        }
                        queue = seat.queue.borrow_mut();
                    }
                }
                let Some(block) = queue.pop() else {
                    drop(queue);
                    if !self.look_for_work(index, seat, host, &mut stalls) {
                        return;
                    }
                    continue;
                };
                if queue.len() > 0 {
                    let idle = self.idle.load(Relaxed);
                    let wanted = idle > 0;
                    if laid_out.is_some() && own.surplus.load(Relaxed).is_null() {
                        laid_out = None; // Stolen.
                    }
                    // Also when nobody wants it yet: the operation that is about to run may be a long one.
                    if laid_out.is_none() && (wanted || self.workers.len() > 1) {
                        if let Some(row) = share(&mut queue, wanted) {
                            laid_out = Some(row.best);
                            // Release: the operations go to the thief as we see them. Acquire: a pusher may have put something back.
                            let order = mutate!("surplus-laid-out-relaxed": Relaxed, AcqRel);
                            let back = own.surplus.swap(row.first, order);
                            // SAFETY: taken, so ours.
                            unsafe { queue.add_list(back) };
                            if idle & WANTED != 0 {
                                self.idle.fetch_and(!WANTED, Relaxed);
                            }
                            // Whether anybody wanted it when we looked or not: that was before.
                            self.wake_one();
                        }
                    }
                }
                drop(queue);
                // SAFETY: the queue held it for us.
                unsafe { host.run(block, Some(index)) };
            }
        });
    }

    /// Runs some operations out of one of the worker's logs, until it has something else to run, and goes on to the next journal; says whether
    /// there were any. It has looked at all journals if not.
    #[inline]
    fn run_logged<'a, H: Host>(
        &'a self,
        index: usize,
        seat: &Seat,
        host: &Arc<H>,
        most: u32,
        journal: &mut Option<&'a Journal>,
    ) -> bool {
        let Some(start) = journal.or_else(|| self.journals.first()) else { return false };
        let (mut now, mut looks) = (start, 0);
        loop {
            if self.run_log(now.log(index), index, seat, host, most) {
                *journal = Some(if mutant("one-journal-forever") { now } else { self.journals.behind(now) });
                return true;
            }
            now = self.journals.behind(now);
            if ptr::eq(now, start) {
                looks += 1;
                if looks > LOOKS_AT_LOG || seat.queue.borrow().len() > 0 {
                    return false;
                }
                spin_loop();
            }
        }
    }

    /// Runs some operations out of one of the worker's logs, until it has something to run that is no less urgent; says whether there were any.
    ///
    /// A call for each run of operations costs less than a loop whose variables are in memory, as they are where it is inlined.
    #[inline(never)]
    fn run_log<H: Host>(&self, log: &Log, index: usize, seat: &Seat, host: &Arc<H>, most: u32) -> bool {
        let own = &self.workers[index];
        let mut any = false;
        for _ in 0..most {
            // SAFETY: this is the worker. What it has taken it settles, and runs if it is ready.
            let Some(block) = (unsafe { log.take_next() }) else { break };
            any = true;
            // SAFETY: as above.
            unsafe {
                if host.settle(block) {
                    host.run(block, Some(index));
                }
            }
            if seat.queue.borrow().is_due() || own.awaits_hurry() || self.common.awaits_hurry() {
                break;
            }
        }
        any
    }

    /// Takes an operation out of the worker's own logs that is ready, as a list; null if there is none. Says also whether anything
    /// was there.
    fn take_own<H: Host>(&self, index: usize, host: &Arc<H>) -> (bool, *mut Block) {
        let mut came = false;
        for log in self.journals.iter().map(|journal| journal.log(index)) {
            let before = log.come();
            // SAFETY: this is the worker. What it takes is its own.
            while let Some(block) = unsafe { log.take_next() } {
                // SAFETY: as above.
                unsafe {
                    if host.settle(block) {
                        (*block).link = null_mut();
                        return (true, block);
                    }
                }
            }
            came |= log.come() != before;
        }
        (came, null_mut())
    }

    /// Takes operations, `at_once` at most, out of any log that the thief comes to, for a thread that has nothing else. Gives a list of those
    /// that are ready; null if there are none.
    fn steal_logged<H: Host>(
        &self,
        host: &Arc<H>,
        watch: &mut Watch<'_>,
        (most, stood, at_once): (usize, u32, usize),
    ) -> *mut Block {
        for _ in 0..POLL {
            let operation = watch.look(most, stood);
            if operation == Word::NONE {
                break;
            }
            let first = self.take_logged(host, operation, null_mut());
            if !first.is_null() {
                // The worker is slow, or has a long row: several at a time.
                return (1..at_once).fold(first, |list, _| self.take_logged(host, watch.one_more(), list));
            }
        }
        null_mut()
    }

    /// Takes an operation out of its log, and puts it before a list if it is ready.
    fn take_logged<H: Host>(&self, host: &Arc<H>, operation: Word, list: *mut Block) -> *mut Block {
        let taken = if operation == Word::NONE { None } else { take(operation) };
        // SAFETY: taken, so ours.
        match taken.filter(|block| unsafe { host.settle(*block) }) {
            Some(block) => {
                // SAFETY: as above.
                unsafe { (*block).link = list };
                block
            }
            None => list,
        }
    }

    /// Finds work for a worker that has none, sleeping if it must. `false`: the group stops, and there is none.
    #[cold]
    fn look_for_work<H: Host>(&self, index: usize, seat: &Seat, host: &Arc<H>, stalls: &mut Stalls) -> bool {
        let own = &self.workers[index];
        host.idle();
        if !own.inbox.start_looking() {
            return true;
        }
        self.idle.fetch_add(1, Relaxed);
        let mut seen = null_mut();
        let mut watch = Watch::new(&self.journals, index + 1);
        let patience = match self.plan.idle {
            IdlePolicy::Spin => Duration::MAX,
            IdlePolicy::SpinThenPark => LOOKS,
            IdlePolicy::Park => Duration::ZERO,
        };
        let fresh = || Spin::new(LOOKS_AWAKE, patience);
        let mut spin = fresh();
        let found = loop {
            let list = own.inbox.take();
            if !list.is_null() {
                // SAFETY: what an inbox gives out is ready and ours.
                unsafe { seat.queue.borrow_mut().add_list(list) };
                self.idle.fetch_sub(1, Relaxed);
                return true;
            }
            let (came, ready) = self.take_own(index, host);
            if !ready.is_null() {
                // SAFETY: ready, and ours.
                unsafe { seat.queue.borrow_mut().add_list(ready) };
                break true;
            }
            if came {
                // Others were quicker. More may come, so it stays awake; but nobody need hear of that.
                spin = fresh();
            }
            let mut loot = self.steal(index, &mut seen);
            if loot.is_null() {
                loot = self.steal_logged(host, &mut watch, (LOGS, STOOD, STOLEN));
            }
            if !loot.is_null() {
                // SAFETY: stolen, so ours.
                unsafe { seat.queue.borrow_mut().add_list(loot) };
                break true;
            }
            if self.stop.load(Acquire) {
                break false;
            }
            let rests = match self.plan.idle {
                IdlePolicy::Park => !watch.watches(),
                _ => !spin.pause(),
            };
            if rests {
                seat.queue.borrow_mut().trim();
                self.sleep(own);
                spin = fresh();
            } else if self.plan.idle == IdlePolicy::Spin && spin.has_stalled() && stalls.are_many() {
                self.warn_of_a_shared_core(index);
            }
        };
        if !own.inbox.stop_looking() && !mutant("what-came-meanwhile-is-ignored") {
            // What came while we were leaving was left to us: its pusher has woken nobody.
            // SAFETY: what an inbox gives out is ready and ours.
            unsafe { seat.queue.borrow_mut().add_list(own.inbox.take()) };
        }
        self.idle.fetch_sub(1, Relaxed);
        found
    }

    /// Parks until someone pushes to this worker's inbox or wakes it; returns at once if there is something to do.
    fn sleep(&self, own: &Post) {
        if !own.inbox.fall_asleep() {
            // A thief has taken what came and left `BUSY` behind: say that we are looking, then try again.
            own.inbox.start_looking();
            return;
        }
        self.sleeping.fetch_add(1, Relaxed);
        // Against the one in `wake_one`: either it sees us counted and asleep, or we see what was laid out.
        mutate!("sleeper-without-a-fence": (), heavy());
        if mutate!("sleeper-does-not-look-again": false, self.has_work()) || self.stop.load(Relaxed) {
            own.inbox.wake();
        }
        while own.inbox.is_asleep() {
            thread::park();
        }
        self.sleeping.fetch_sub(1, Relaxed);
    }

    /// Whether there is an operation that somebody could take.
    pub fn has_work(&self) -> bool {
        !self.first_waiting().is_null()
    }

    /// An operation that somebody could take, null if there is none.
    pub(super) fn first_waiting(&self) -> *mut Block {
        let common = self.common.inbox.peek();
        if !common.is_null() {
            return common;
        }
        let first = |worker: &Post| {
            let surplus = worker.surplus.load(Relaxed);
            if surplus.is_null() {
                worker.inbox.peek()
            } else {
                surplus
            }
        };
        let waiting = self.workers.iter().map(first).find(|first| !first.is_null()).unwrap_or(null_mut());
        if waiting.is_null() {
            return self.journals.find().block();
        }
        waiting
    }

    /// Takes what another worker laid out, or what lies in an inbox whose owner does not come for it.
    fn steal(&self, thief: usize, seen: &mut *mut Block) -> *mut Block {
        let list = self.common.inbox.take();
        if !list.is_null() {
            return list;
        }
        let count = self.workers.len();
        let mut waiting = null_mut();
        for step in 1..=count {
            let victim = &self.workers[(thief + step) % count];
            let list = victim.take_surplus();
            if !list.is_null() {
                return list;
            }
            let first = victim.inbox.peek();
            if first.is_null() {
                continue;
            }
            if *seen == first {
                // It was there the last time: its owner is running something.
                let list = victim.inbox.take();
                if !list.is_null() {
                    return list;
                }
            }
            waiting = first;
        }
        *seen = waiting;
        null_mut()
    }

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

    /// Lets the calling thread run operations of this group while `go_on` says so; returns whether it ran any. What it has
    /// taken and not run goes back.
    pub fn help<H: Host>(&self, host: &Arc<H>, go_on: impl FnMut() -> bool) -> bool {
        let mut first = self.steal_any();
        if first.is_null() {
            first = self.steal_logged(host, &mut Watch::new(&self.journals, next_worker()), (usize::MAX, 0, 1));
        }
        if !first.is_null() {
            // SAFETY: stolen, so ours.
            unsafe { self.run_lists(host, first, null_mut, go_on) };
        }
        !first.is_null()
    }

    /// Runs a list of operations, and what they make ready, for as long as `go_on`; gives back the rest. `next` gives another
    /// list when nothing else is left to run, or null.
    ///
    /// # Safety
    /// The lists are ready, of this group, and the caller's.
    pub(super) unsafe fn run_lists<H: Host>(
        &self,
        host: &Arc<H>,
        first: *mut Block,
        mut next: impl FnMut() -> *mut Block,
        mut go_on: impl FnMut() -> bool,
    ) {
        Seat::new(self).occupy(|seat| {
            // Whether it is run or not. SAFETY: passed on.
            unsafe { seat.queue.borrow_mut().add_list(mutate!("given-up-what-was-taken": null_mut(), first)) };
            let mut ran = 0_u32;
            while go_on() {
                let mut queue = seat.queue.borrow_mut();
                if queue.len() == 0 {
                    // SAFETY: passed on.
                    unsafe { queue.add_list(next()) };
                }
                let Some(block) = queue.pop() else { break };
                // A guest keeps no more from the workers than they keep from each other.
                let has_more = queue.len() > 0;
                let spare =
                    if has_more && self.idle.load(Relaxed) & !WANTED > 0 { share(&mut queue, true) } else { None };
                drop(queue);
                // SAFETY: the queue held them for us.
                unsafe {
                    if let Some(row) = spare {
                        self.give_back(row);
                    }
                    host.run(block, None);
                }
                ran += 1;
                if ran % SETTLES == 0 {
                    host.idle();
                }
            }
            let rest = seat.queue.borrow_mut().split_off(0, usize::MAX);
            if let Some(row) = rest {
                // SAFETY: the queue held them for us.
                unsafe { self.give_back(row) };
            }
        });
    }

    /// Hands operations to the workers.
    unsafe fn give_back(&self, row: Row) {
        // SAFETY: they are ours until they are delivered.
        unsafe { self.deliver(row.first, row.last, Where::Any, row.best.0 != 0) };
    }

    fn steal_any(&self) -> *mut Block {
        let mut list = self.common.inbox.take();
        for worker in &self.workers {
            if !list.is_null() {
                break;
            }
            list = worker.take_surplus();
            if list.is_null() {
                list = worker.inbox.take();
            }
        }
        list
    }
}

/// How many operations a worker runs out of a log before the best that it has in its queue, of which it has run so many.
fn due_of_log(best: Option<Key>, from_queue: &mut u32) -> u32 {
    match best {
        Some(key) if key.0 > 0 => 0,
        // What was made ready is older than what is in the log as often as not.
        Some(key) if key.0 == 0 => {
            *from_queue += 1;
            u32::from(*from_queue % LOOKS_AT_QUEUE == 0)
        }
        _ => IN_A_ROW,
    }
}

/// Takes out of a queue what others may run. Of what somebody wants at once, everything, as long as that is quick: the operation
/// that runs next may be a long one. Otherwise half of a short queue and most of a long one, but no more than [`SHARED`]: the next few
/// stay, so that the list need not be taken back soon.
fn share(queue: &mut Queue, wanted: bool) -> Option<Row> {
    let length = queue.len();
    let keep = if wanted && length <= 32 { 0 } else { (length / 2).min(8).max(length / 16) };
    queue.split_off(keep, mutate!("shared-without-a-limit": usize::MAX, SHARED))
}
