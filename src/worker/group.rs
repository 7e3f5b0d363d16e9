//! A group of workers: where operations are put down, picked up and stolen, and when workers sleep and wake.

use super::inbox::{Inbox, Met};
use super::queue::Key;
use super::seat::Seat;
use super::{affinity, Host};
use crate::error::{Error, ErrorKind};
use crate::operation::block::Block;
use crate::sync::{fence, AtomicBool, AtomicPtr, AtomicUsize, Ordering::*};
use crossbeam_utils::CachePadded;
use std::cell::Cell;
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{JoinHandle, Thread};

/// What workers do when they find no work.
///
/// ```
/// use seriatim::{Engine, IdlePolicy};
/// let engine = Engine::builder().idle(IdlePolicy::Park).build()?;
/// assert_eq!(engine.settings().idle, IdlePolicy::Park);
/// # Ok::<(), seriatim::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum IdlePolicy {
    /// Look for work without end: the quickest answer, and a whole core each.
    Spin,
    /// Look for work for some tens of microseconds, then park.
    #[default]
    SpinThenPark,
    /// Park at once: the least CPU time, and a futex wake (tens of microseconds) for each burst.
    Park,
}

/// Operations that one thread pushes in a row go to the same worker.
const BURST: usize = 8;
/// A worker looks into its inbox after this many operations of its own, if nothing urgent comes.
const POLL: u32 = 16;
/// Rounds of looking for work, the first of them without yielding the core, before a worker parks.
const LOOKS: u32 = 3000;
const LOOKS_AWAKE: u32 = 2000;

/// How a group is made.
pub struct Plan {
    pub name: &'static str,
    pub workers: usize,
    /// One inbox for all workers, first come first served.
    pub shared: bool,
    pub idle: IdlePolicy,
    /// The cores to pin to, one worker each, round and round. Empty: not pinned.
    pub cores: Vec<usize>,
}

/// A group of workers.
pub struct Group {
    plan: Plan,
    workers: Box<[Worker]>,
    /// The inbox of all, if the plan says so: a place without a worker.
    common: Worker,
    /// Workers that look for work or sleep.
    idle: CachePadded<AtomicUsize>,
    /// Workers that sleep.
    sleeping: CachePadded<AtomicUsize>,
    stop: AtomicBool,
    started: AtomicBool,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// Every thread that ever worked here, so that a late waker finds it.
    handles: Handles,
    warnings: Mutex<Vec<String>>,
}

/// Boxed: workers point to them.
#[allow(clippy::vec_box)]
type Handles = Mutex<Vec<Box<Thread>>>;

struct Worker {
    inbox: Inbox,
    /// A list that others may steal, the worst of what the worker has.
    surplus: CachePadded<AtomicPtr<Block>>,
    /// Something has come that should not wait for the next poll.
    urgent: CachePadded<AtomicBool>,
    thread: AtomicPtr<Thread>,
}

thread_local! {
    static PUSHED: Cell<usize> = const { Cell::new(0) };
}

impl Group {
    pub fn new(plan: Plan) -> Group {
        Group {
            workers: (0..plan.workers).map(|_| Worker::new()).collect(),
            common: Worker::new(),
            idle: CachePadded::new(AtomicUsize::new(0)),
            sleeping: CachePadded::new(AtomicUsize::new(0)),
            stop: AtomicBool::new(false),
            started: AtomicBool::new(false),
            threads: Mutex::default(),
            handles: Mutex::default(),
            warnings: Mutex::default(),
            plan,
        }
    }

    /// Name and size, for messages.
    pub fn describe(&self) -> String {
        format!("{} workers of '{}'", self.workers.len(), self.plan.name)
    }

    /// Pins that failed, and the like.
    pub fn warnings(&self) -> Vec<String> {
        lock(&self.warnings).clone()
    }

    /// Whether the workers are up.
    #[inline]
    pub fn is_started(&self) -> bool {
        self.started.load(Acquire)
    }

    /// Brings the workers up, if they are not. All or none: a refusal is an error that leaves the group down.
    #[cold]
    pub fn start<H: Host>(self: &Arc<Self>, host: &Arc<H>) -> Result<(), Error> {
        let mut threads = lock(&self.threads);
        if self.is_started() {
            return Ok(());
        }
        self.stop.store(false, Relaxed);
        for index in 0..self.workers.len() {
            let group = Arc::clone(self);
            let host = Arc::clone(host);
            let name = format!("{}-{index}", self.plan.name);
            let spawned = std::thread::Builder::new().name(name).spawn(move || group.work(index, &host));
            match spawned {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    self.join(&mut threads);
                    return Err(Error::new(
                        ErrorKind::ThreadRefused,
                        format!(
                            "the system refused to start worker {index} of {} of '{}' ({error}): ask for fewer workers, or raise the limit",
                            self.workers.len(),
                            self.plan.name
                        ),
                    ));
                }
            }
        }
        self.started.store(true, Release);
        Ok(())
    }

    /// Ends the workers once they have run what they have.
    pub fn stop(&self) {
        let mut threads = lock(&self.threads);
        self.started.store(false, Relaxed);
        self.join(&mut threads);
    }

    fn join(&self, threads: &mut Vec<JoinHandle<()>>) {
        self.stop.store(true, SeqCst);
        fence(SeqCst);
        for worker in &self.workers {
            if worker.inbox.wake() {
                worker.unpark();
            }
        }
        for thread in threads.drain(..) {
            // Workers catch the panics of operations; one that ended otherwise has nothing more to say here.
            let _ = thread.join();
        }
    }

    /// Puts a ready operation where a worker finds it: on this thread's own seat, or in an inbox. `preferred` names a worker.
    ///
    /// # Safety
    /// The operation is ready, and ours to give away.
    #[inline]
    pub unsafe fn submit(&self, block: *mut Block, preferred: Option<usize>) {
        // SAFETY: passed on; the operation is read before it is given away.
        unsafe {
            if preferred.is_none() && Seat::keep(self, block) {
                return;
            }
            let urgent = (*block).priority != 0;
            self.deliver(block, block, preferred, urgent);
        }
    }

    unsafe fn deliver(&self, first: *mut Block, last: *mut Block, preferred: Option<usize>, urgent: bool) {
        let worker = if self.plan.shared {
            &self.common
        } else {
            let index = preferred.unwrap_or_else(|| {
                let count = PUSHED.get();
                PUSHED.set(count.wrapping_add(1));
                count / BURST
            });
            &self.workers[index % self.workers.len()]
        };
        // SAFETY: passed on.
        let met = unsafe { worker.inbox.push(first, last) };
        if urgent && !worker.urgent.load(Relaxed) {
            // Release: with the acquire of the owner, it finds the operation when it looks.
            worker.urgent.store(true, Release);
        }
        match met {
            Met::Asleep => worker.unpark(),
            Met::Busy => self.wake_one(),
            Met::Looking | Met::Others => {}
        }
    }

    /// Wakes a sleeper, after something was laid out that it could run.
    fn wake_one(&self) {
        // Against the fence in `sleep`: either we see the sleeper counted, or it sees what we have laid out.
        fence(SeqCst);
        if self.sleeping.load(Relaxed) == 0 {
            return;
        }
        for worker in &self.workers {
            if worker.inbox.is_asleep() && worker.inbox.wake() {
                worker.unpark();
                return;
            }
        }
    }

    /// The life of a worker.
    fn work<H: Host>(&self, index: usize, host: &Arc<H>) {
        if !self.plan.cores.is_empty() {
            let core = self.plan.cores[index % self.plan.cores.len()];
            if !affinity::pin(core) {
                lock(&self.warnings).push(format!(
                    "worker {index} of '{}' could not be pinned to core {core}: it runs unpinned",
                    self.plan.name
                ));
            }
        }
        let own = &self.workers[index];
        own.register(&self.handles);
        // Where this worker's share comes from.
        let source = if self.plan.shared { &self.common } else { own };
        Seat::new(self).occupy(|seat| {
            let mut round = 0;
            // The best of what this worker has laid out, as far as it knows.
            let mut laid_out: Option<Key> = None;
            loop {
                round += 1;
                let mut queue = seat.queue.borrow_mut();
                let next = queue.best();
                let restless = next.is_none_or(|key| key.0 < 0);
                let urgent = own.is_urgent() || (self.plan.shared && source.is_urgent());
                if restless || urgent || round >= POLL {
                    round = 0;
                    // SAFETY: what an inbox gives out is ready and ours.
                    unsafe {
                        queue.add_list(own.inbox.take());
                        if self.plan.shared && (urgent || queue.len() == 0) {
                            queue.add_list(source.inbox.take());
                        }
                    }
                }
                // What was laid out comes back when it is its turn.
                if laid_out.is_some() && laid_out >= queue.best() {
                    laid_out = None;
                    // SAFETY: as above.
                    unsafe { queue.add_list(own.take_surplus()) };
                }
                let Some(block) = queue.pop() else {
                    drop(queue);
                    if !self.look_for_work(index, seat, host) {
                        return;
                    }
                    continue;
                };
                if laid_out.is_none() && queue.len() > 0 && self.idle.load(Relaxed) > 0 {
                    let length = queue.len();
                    let keep = (length / 2).min(8).max(length / 16);
                    if let Some((list, best)) = queue.split_off(keep) {
                        laid_out = Some(best);
                        // Release: the operations go to the thief as we see them.
                        own.surplus.store(list, Release);
                        self.wake_one();
                    }
                }
                drop(queue);
                // SAFETY: the queue held it for us.
                unsafe { host.run(block, Some(index)) };
            }
        });
    }

    /// Finds work for a worker that has none, sleeping if it must. `false`: the group stops, and there is none.
    #[cold]
    fn look_for_work<H: Host>(&self, index: usize, seat: &Seat, host: &Arc<H>) -> bool {
        let own = &self.workers[index];
        host.idle();
        if !own.inbox.start_looking() {
            return true;
        }
        self.idle.fetch_add(1, Relaxed);
        let mut seen = null_mut();
        let mut looks = 0;
        let found = loop {
            if !own.inbox.peek().is_null() {
                break true;
            }
            let loot = self.steal(index, &mut seen);
            if !loot.is_null() {
                // SAFETY: stolen, so ours.
                unsafe { seat.queue.borrow_mut().add_list(loot) };
                break true;
            }
            if self.stop.load(Acquire) {
                break false;
            }
            looks += 1;
            let patience = match self.plan.idle {
                IdlePolicy::Spin => u32::MAX,
                IdlePolicy::SpinThenPark => LOOKS,
                IdlePolicy::Park => 1,
            };
            if looks >= patience {
                looks = 0;
                self.sleep(own);
            } else if looks > LOOKS_AWAKE {
                std::thread::yield_now();
                if self.plan.idle == IdlePolicy::Spin {
                    looks = LOOKS_AWAKE;
                }
            } else {
                std::hint::spin_loop();
            }
        };
        own.inbox.stop_looking();
        self.idle.fetch_sub(1, Relaxed);
        found
    }

    /// Parks until someone pushes to this worker's inbox or wakes it; returns at once if there is something to do.
    fn sleep(&self, own: &Worker) {
        if !own.inbox.fall_asleep() {
            // A thief has taken what came and left `BUSY` behind: say that we are looking, then try again.
            own.inbox.start_looking();
            return;
        }
        self.sleeping.fetch_add(1, Relaxed);
        // Against the fence in `wake_one`: either it sees us counted and asleep, or we see what was laid out.
        fence(SeqCst);
        if self.has_work() || self.stop.load(Relaxed) {
            own.inbox.wake();
        }
        while own.inbox.is_asleep() {
            std::thread::park();
        }
        self.sleeping.fetch_sub(1, Relaxed);
    }

    fn has_work(&self) -> bool {
        !self.common.inbox.peek().is_null()
            || self
                .workers
                .iter()
                .any(|worker| !worker.inbox.peek().is_null() || !worker.surplus.load(Relaxed).is_null())
    }

    /// Takes what another worker laid out, or what lies in an inbox whose owner does not come for it.
    fn steal(&self, thief: usize, seen: &mut *mut Block) -> *mut Block {
        if self.plan.shared {
            let list = self.common.inbox.take();
            if !list.is_null() {
                return list;
            }
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

    /// Lets the calling thread run operations of this group while `go_on` says so; returns whether it ran any. What it has
    /// taken and not run goes back.
    pub fn help<H: Host>(&self, host: &Arc<H>, mut go_on: impl FnMut() -> bool) -> bool {
        let first = self.steal_any();
        if first.is_null() {
            return false;
        }
        Seat::new(self).occupy(|seat| {
            // SAFETY: stolen, so ours.
            unsafe { seat.queue.borrow_mut().add_list(first) };
            while go_on() {
                let next = seat.queue.borrow_mut().pop();
                let Some(block) = next else { break };
                // SAFETY: the queue held it for us.
                unsafe { host.run(block, None) };
            }
            let rest = seat.queue.borrow_mut().split_off(0);
            if let Some((list, best)) = rest {
                let mut last = list;
                // SAFETY: the list is ours until it is delivered.
                unsafe {
                    while !(*last).link.is_null() {
                        last = (*last).link;
                    }
                    self.deliver(list, last, None, best.0 != 0);
                }
            }
        });
        true
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

impl Worker {
    fn new() -> Worker {
        Worker {
            inbox: Inbox::new(),
            surplus: CachePadded::new(AtomicPtr::new(null_mut())),
            urgent: CachePadded::new(AtomicBool::new(false)),
            thread: AtomicPtr::new(null_mut()),
        }
    }

    /// Makes the calling thread the one that is woken for this worker. Before it can sleep.
    fn register(&self, handles: &Handles) {
        let handle = Box::new(std::thread::current());
        self.thread.store((&raw const *handle).cast_mut(), Release);
        lock(handles).push(handle);
    }

    /// Whether something urgent has come since the last call.
    fn is_urgent(&self) -> bool {
        if !self.urgent.load(Relaxed) {
            return false;
        }
        self.urgent.store(false, Relaxed);
        // Against the release of whoever set it: the look into the inbox that follows finds the operation.
        fence(Acquire);
        true
    }

    fn take_surplus(&self) -> *mut Block {
        if self.surplus.load(Relaxed).is_null() {
            return null_mut();
        }
        // Acquire: pairs with the release that laid it out.
        self.surplus.swap(null_mut(), Acquire)
    }

    #[cold]
    fn unpark(&self) {
        // SAFETY: set before the worker can sleep, and kept until the group is dropped.
        if let Some(thread) = unsafe { self.thread.load(Acquire).as_ref() } {
            thread.unpark();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // None of these locks is held across code that can panic halfway through a change.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
