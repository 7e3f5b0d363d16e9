//! A group of workers: where operations are put down, picked up and stolen, and when workers sleep
//! and wake.

use crate::error::{Error, ErrorKind};
use crate::operation::block::Block;
use crate::platform::affinity;
use crate::platform::asymmetric_fence::light;
use crate::sync::lock::Lock;
use crate::sync::thread::{self, JoinHandle};
use crate::sync::{fence, lay_out, thread_local, AtomicBool, AtomicUsize, MutexGuard, Ordering::*, MODELLED};
use crate::tickets::journals::{Journal, Journals};
use crate::tickets::word::Word;
use crate::worker::cores::Ids;
use crate::worker::current::{CurrentWorker, Left};
use crate::worker::helper::{self, Helper};
use crate::worker::inbox::Met;
use crate::worker::remote::Remote;
use crate::worker::Host;
use crossbeam_utils::CachePadded;
use std::cell::Cell;
use std::sync::Arc;

/// What workers do when they find no work.
///
/// ```
/// use seriatim::{Engine, IdlePolicy};
/// let engine = Engine::builder().idle(IdlePolicy::Park).build()?;
/// assert_eq!(engine.settings().idle, IdlePolicy::Park);
/// # Ok::<(), seriatim::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum IdlePolicy {
    /// Look for work without end: the quickest answer, and a whole core each.
    Spin,
    /// Look for work for some tens of microseconds, then park.
    #[default]
    SpinThenPark,
    /// Park at once: the least CPU time, and a futex wake (tens of microseconds) for each burst.
    Park,
}

/// Operations that one thread pushes in a row go to the same worker, if they are not better placed
/// elsewhere.
const BURST: usize = 8;

/// How a group is made.
pub struct GroupPlan {
    pub name: &'static str,
    pub workers: usize,
    /// Whether workers have logs.
    pub logged: bool,
    /// One inbox for all workers, first come first served.
    pub shared: bool,
    pub idle: IdlePolicy,
    /// The cores to pin to, one worker each, round and round, beginning behind that of the thread
    /// that starts them. Empty: not pinned.
    pub cores: Vec<usize>,
    /// Whether a thread that waits is moved off a worker's core, instead of the worker.
    pub move_callers: bool,
}

/// Where a ready operation is to run.
#[derive(Clone, Copy)]
pub enum Placement {
    /// Anywhere: in the calling thread's own queue, if it has one, or a worker that is chosen in
    /// turn.
    Any,
    /// On this worker, counted round.
    Worker(usize),
}

/// A bit in [`Group::idle`]: a pusher would run some of what the workers have.
pub(super) const WANTED: usize = 1 << 31;

/// A group of workers.
pub struct Group {
    pub(super) plan: GroupPlan,
    pub(super) workers: Box<[Remote]>,
    /// What was pushed for each of them by each pusher. None if the plan says so.
    pub(super) journals: Journals,
    /// Places for threads that wait and help meanwhile.
    pub(super) helpers: Box<[Helper]>,
    /// So many of these at most were ever taken.
    pub(super) most_helpers: AtomicUsize,
    /// The inbox of all, for what is urgent, or for everything if the plan says so: a place without
    /// a worker.
    pub(super) common: Remote,
    /// Workers that look for work or sleep.
    pub(super) idle: CachePadded<AtomicUsize>,
    /// Workers that sleep.
    pub(super) sleeping: CachePadded<AtomicUsize>,
    pub(super) stop: AtomicBool,
    started: AtomicBool,
    threads: Lock<Vec<JoinHandle<()>>>,
    pub(super) ids: Ids,
    warnings: Lock<Vec<String>>,
    /// Workers that have begun to look for work since the last start.
    pub(super) ready: AtomicUsize,
}

thread_local! {
    /// What this thread has dealt out. Threads start at different workers: together they would go
    /// round together.
    static PUSHED: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// Where the calling thread's next operation goes.
pub(super) fn next_worker() -> usize {
    PUSHED.with(|pushed| {
        let now = match pushed.get() {
            usize::MAX => first_worker() * BURST,
            now => now,
        };
        pushed.set((now + 1) % (usize::MAX / 2));
        now / BURST
    })
}

/// The worker that a thread begins with: any but those of the threads before it.
#[cold]
fn first_worker() -> usize {
    static THREADS: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    if MODELLED {
        return 0;
    }
    THREADS.fetch_add(5, Relaxed)
}

impl Group {
    pub fn new(plan: GroupPlan) -> Group {
        let workers: Box<[Remote]> = (0..plan.workers).map(|_| Remote::new()).collect();
        lay_out(workers.as_ptr(), std::mem::size_of_val(&*workers), std::mem::size_of::<Remote>(), "remote");
        Group {
            journals: Journals::new(plan.workers),
            workers,
            helpers: helper::places(),
            most_helpers: AtomicUsize::new(0),
            common: Remote::new(),
            idle: CachePadded::new(AtomicUsize::new(0)),
            sleeping: CachePadded::new(AtomicUsize::new(0)),
            stop: AtomicBool::new(false),
            started: AtomicBool::new(false),
            threads: Lock::default(),
            ids: Lock::new(vec![0; plan.workers]),
            warnings: Lock::default(),
            ready: AtomicUsize::new(0),
            plan,
        }
    }

    /// By which a thread that runs its operations knows the group.
    #[inline]
    pub(super) fn address(&self) -> *const () {
        std::ptr::from_ref(self).cast()
    }

    /// Name and size, for messages.
    pub fn describe(&self) -> String {
        format!("{} workers of '{}'", self.workers.len(), self.plan.name)
    }

    /// Pins that failed, and the like.
    pub fn warnings(&self) -> Vec<String> {
        self.lock_warnings().clone()
    }

    pub fn lock_warnings(&self) -> MutexGuard<'_, Vec<String>> {
        self.warnings.lock()
    }

    /// Whether the workers are up.
    #[inline]
    pub fn is_started(&self) -> bool {
        self.started.load(Acquire)
    }

    /// Whether each worker has come so far as to look for work.
    pub fn is_ready(&self) -> bool {
        self.ready.load(Acquire) >= self.workers.len()
    }

    /// Brings the workers up, if they are not. All or none: a refusal is an error that leaves the
    /// group down.
    #[cold]
    pub fn start<H: Host>(self: &Arc<Self>, host: &Arc<H>) -> Result<(), Error> {
        let mut threads = self.threads.lock();
        if self.is_started() {
            return Ok(());
        }
        self.stop.store(false, Relaxed);
        self.lock_warnings().clear();
        self.ready.store(0, Relaxed);
        // The thread that starts the workers is one that pushes: if there are more cores than
        // workers, its own is left to it. The system would otherwise see only after some
        // milliseconds that two threads share a core beside one that is free.
        let cores = &self.plan.cores;
        let own = affinity::current().and_then(|core| cores.iter().position(|other| *other == core)).unwrap_or(0);
        for index in 0..self.workers.len() {
            self.workers[index].assign((!cores.is_empty()).then(|| cores[(own + 1 + index) % cores.len()]));
            let group = Arc::clone(self);
            let host = Arc::clone(host);
            let name = format!("{}-{index}", self.plan.name);
            let spawned = thread::Builder::new().name(name).spawn(move || group.work(index, &host));
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

    /// Ends the workers. Everything that was submitted has been run: they look at what else there
    /// is only once.
    pub fn stop(&self) {
        let mut threads = self.threads.lock();
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
            // Workers catch the panics of operations; one that ended otherwise has nothing more to
            // say here.
            let _ = thread.join();
        }
    }

    /// Puts a ready operation where a worker finds it: in this thread's own queue, or in an inbox.
    /// `depth`: how many operations the calling thread is inside of.
    ///
    /// # Safety
    /// The operation is ready, and ours to give away.
    #[inline]
    pub unsafe fn submit(&self, block: *mut Block, mut place: Placement, depth: u32) {
        // SAFETY: passed on; the operation is read before it is given away.
        unsafe {
            let urgent = (*block).priority != 0;
            if let Placement::Any = place {
                match CurrentWorker::keep(self.address(), block, depth) {
                    Left::InQueue => return,
                    Left::ToInbox(worker) if !urgent => place = Placement::Worker(worker),
                    _ => {}
                }
            }
            self.deliver(block, block, place, urgent);
        }
    }

    /// Puts a ready operation where another thread finds it: in the inbox of the worker of number
    /// `place`, counted round.
    ///
    /// # Safety
    /// As [`Group::submit`].
    pub unsafe fn publish(&self, block: *mut Block, place: usize) {
        // SAFETY: passed on; the operation is read before it is given away.
        unsafe {
            let urgent = (*block).priority != 0;
            self.deliver(block, block, Placement::Worker(place), urgent);
        }
    }

    /// Whether workers have logs.
    #[inline]
    pub fn is_logged(&self) -> bool {
        self.plan.logged
    }

    /// Adds a journal, for a pusher that has none. It stays for as long as the group.
    #[cold]
    pub fn add_journal(&self) -> &Journal {
        assert!(self.plan.logged, "nobody looks at the logs of this group");
        self.journals.add()
    }

    /// Puts an operation into the log of a worker, and wakes who sleeps.
    ///
    /// # Safety
    /// The journal is one of this group, and one thread at a time logs into it. The operation's
    /// word says "pushed".
    #[inline]
    pub unsafe fn log(&self, journal: &Journal, worker: usize, operation: Word) {
        // SAFETY: passed on.
        unsafe { journal.log(worker).push(operation) };
        // Against the one in `sleep`: either we see the sleeper, or it sees the entry, and the
        // journal if that is new: it was linked before.
        light();
        if self.sleeping.load(Relaxed) > 0 {
            self.wake(worker);
        }
    }

    /// Wakes this worker if it sleeps, or else somebody who does.
    #[cold]
    fn wake(&self, worker: usize) {
        let inbox = &self.workers[worker].inbox;
        if !inbox.is_asleep() {
            self.wake_one();
        } else if inbox.wake() {
            self.workers[worker].unpark();
        }
    }

    /// Whether a thread of the group, worker or helper, has nothing to do.
    pub fn has_idle(&self) -> bool {
        self.idle.load(Relaxed) & !WANTED > 0
    }

    /// Whether something has come for a worker that should not wait.
    pub fn is_urgent(&self, worker: usize) -> bool {
        self.common.awaits_hurry() || self.workers.get(worker).is_some_and(Remote::awaits_hurry)
    }

    /// Puts ready operations, linked from the first to the last, into an inbox, and wakes who
    /// sleeps.
    ///
    /// # Safety
    /// They are ours to give away.
    pub(super) unsafe fn deliver(&self, first: *mut Block, last: *mut Block, place: Placement, urgent: bool) {
        let worker = match place {
            _ if self.plan.shared => &self.common,
            // The worker that comes first takes it: the worker that it would be given to may be in
            // a long operation.
            Placement::Any if urgent => &self.common,
            Placement::Worker(number) => &self.workers[number % self.workers.len()],
            Placement::Any => &self.workers[next_worker() % self.workers.len()],
        };
        // SAFETY: passed on.
        let met = unsafe { worker.inbox.push(first, last) };
        if urgent {
            worker.hurry();
        }
        match met {
            Met::Asleep => worker.unpark(),
            Met::Busy => self.wake_one(),
            // Who was to wake somebody for the others may have lost its core.
            Met::Others if urgent => self.wake_one(),
            Met::Looking | Met::Others => {}
        }
    }

    /// Wakes a sleeper, after something was published that it could run.
    pub(super) fn wake_one(&self) {
        // Against the one in `sleep`: either we see the sleeper counted, or it sees what we have
        // published.
        light();
        if self.sleeping.load(Relaxed) == 0 {
            return;
        }
        for worker in &self.workers {
            if worker.inbox.is_asleep() && worker.inbox.wake() {
                worker.unpark();
                return;
            }
        }
        let _ = self.helpers.iter().any(Helper::wake);
    }
}
