//! A group of workers: what it is made of, and submitting operations to it.
//!
//! `engine/dispatch/` makes groups and submits to them, `engine/push/` logs, and `engine/gpu/` has
//! groups for devices. Any thread may call the methods here; only [`Group::log`] is for the
//! journal's pusher. The other methods of [`Group`] are in `threads.rs` (starts and stops),
//! `run_loop.rs` and `idle.rs` (workers), `help.rs` (helpers), `wake.rs`, `steal.rs`, `catch_up.rs`
//! and `pinning.rs`. The states of sleeping and waking, and why no wake-up is lost, are in
//! `worker/README.md`.
//!
//! Workers and helpers count themselves in `idle` and `sleeping`. Pushers set a bit of `idle`, and
//! any thread reads both; the child of a fork sets them to 0. The thread that starts or stops the
//! group changes `started`, `stop` and `threads`: one that pushes, starts, stops, forks, or drops
//! the last handle. Warnings come from workers and from threads that wait.

use crate::error::Error;
use crate::operation::block::Block;
use crate::platform::asymmetric_fence::light;
use crate::sync::lock::Lock;
use crate::sync::thread::JoinHandle;
use crate::sync::{lay_out, thread_local, AtomicBool, AtomicUsize, MutexGuard, Ordering::*, MODELLED};
use crate::tickets::journals::{Journal, Journals};
use crate::tickets::word::Word;
use crate::worker::cores::Ids;
use crate::worker::counters::{Counters, WorkerStats};
use crate::worker::current::{CurrentWorker, Left};
use crate::worker::helper_place::{self, Helper};
use crate::worker::inbox::Met;
use crate::worker::remote::Remote;
use crossbeam_utils::CachePadded;
use std::cell::Cell;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The threads of a group.
#[derive(Default)]
pub(super) struct GroupThreads {
    pub(super) handles: Vec<JoinHandle<()>>,
    /// Why a start fails that is not over: the thread that starts joins the workers that it had
    /// begun. Meanwhile nobody may start others, and no start waits for it: the caller may be a
    /// hook of such a worker.
    pub(super) fails: Option<Error>,
}

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
    /// Look for work for a time, then park. After a pause of at most
    /// [`spin_for`](crate::Builder::spin_for), which is 400 µs by default, that time is `spin_for`;
    /// after a longer pause it is 25 µs. So a worker stays awake while work comes often.
    ///
    /// If work comes at a regular pace, as that of a control loop does, the worker gets up by
    /// itself shortly before the next is due, and looks for it. That takes a tenth of a core if it
    /// comes each millisecond.
    #[default]
    SpinThenPark,
    /// Park at once: the least CPU time, and a futex wake (tens of microseconds) for each burst.
    Park,
}

/// So many operations in a row from one thread go to the same worker, if nothing speaks for another
/// worker.
const BURST: usize = 8;

/// The settings of a group.
pub struct GroupPlan {
    pub name: &'static str,
    pub workers: usize,
    /// Whether workers have logs.
    pub logged: bool,
    /// Whether all workers share one inbox, first come first served.
    pub shared: bool,
    pub idle: IdlePolicy,
    /// How long a worker looks before it parks, with [`IdlePolicy::SpinThenPark`].
    pub spin_for: Duration,
    /// The cores to pin workers to, one worker each, in turn. The first worker gets the core after
    /// the one that the starting thread is on. Empty: the workers are not pinned.
    pub cores: Vec<usize>,
    /// Whether a waiting thread that is on a worker's core is moved, instead of the worker.
    pub move_callers: bool,
    /// The real-time priority of the workers; 0 for none.
    pub fifo_priority: u32,
}

/// Where a ready operation is to run.
#[derive(Clone, Copy)]
pub enum Placement {
    /// Anywhere: in the calling thread's own queue if it has one, else on a worker chosen in turn.
    Any,
    /// On the worker of this number, modulo the number of workers.
    Worker(usize),
}

/// A bit in [`Group::idle`]: a pusher asks the workers to lend operations that it could run. Set by
/// `catch_up.rs`, cleared by a worker that has nothing left to run (`idle.rs`).
pub(super) const WANTED: usize = 1 << 31;

/// A group of workers.
pub struct Group {
    pub(super) plan: GroupPlan,
    pub(super) workers: Box<[Remote]>,
    /// What each worker has done.
    pub(super) counters: Box<[Counters]>,
    /// The logs: what each pusher has logged for each worker. No journal is ever added if
    /// `plan.logged` is false.
    pub(super) journals: Journals,
    /// Places for helpers: threads that wait, and run operations of the group meanwhile.
    pub(super) helpers: Box<[Helper]>,
    /// How many of the helpers' places, from the first on, were ever taken. The others are not
    /// looked at.
    pub(super) most_helpers: AtomicUsize,
    /// The common inbox: for urgent operations, or for all if `plan.shared`. It has no worker of
    /// its own.
    pub(super) common: Remote,
    /// The number of workers and helpers that look for work or sleep, and the bit [`WANTED`].
    pub(super) idle: CachePadded<AtomicUsize>,
    /// The number of workers and helpers that sleep, or are about to.
    pub(super) sleeping: CachePadded<AtomicUsize>,
    pub(super) stop: AtomicBool,
    pub(super) started: AtomicBool,
    pub(super) threads: Lock<GroupThreads>,
    /// What the workers' threads are called, if not as usual. Set before the first start.
    pub(super) names: OnceLock<Vec<String>>,
    pub(super) ids: Ids,
    warnings: Lock<Vec<String>>,
    /// Workers that have begun to look for work since the last start.
    pub(super) ready: AtomicUsize,
}

thread_local! {
    /// How many operations this thread has dealt out in turn. Threads start at different workers:
    /// otherwise they would all reach the same worker at the same time.
    static DEALT_OUT: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// The worker for the calling thread's next operation, modulo the number of workers.
pub(super) fn next_worker() -> usize {
    DEALT_OUT.with(|pushed| {
        let now = match pushed.get() {
            usize::MAX => first_worker() * BURST,
            now => now,
        };
        pushed.set((now + 1) % (usize::MAX / 2));
        now / BURST
    })
}

/// The worker that a thread begins with: another one than for the threads before it.
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
        let now = Instant::now();
        let counters = (0..plan.workers).map(|_| Counters::new(now)).collect();
        Group {
            journals: Journals::new(plan.workers),
            workers,
            counters,
            helpers: helper_place::places(),
            most_helpers: AtomicUsize::new(0),
            common: Remote::new(),
            idle: CachePadded::new(AtomicUsize::new(0)),
            sleeping: CachePadded::new(AtomicUsize::new(0)),
            stop: AtomicBool::new(false),
            started: AtomicBool::new(false),
            threads: Lock::default(),
            names: OnceLock::new(),
            ids: Lock::new(vec![0; plan.workers]),
            warnings: Lock::default(),
            ready: AtomicUsize::new(0),
            plan,
        }
    }

    /// The group's identity, which a thread that runs its operations notes in its
    /// [`CurrentWorker`].
    #[inline]
    pub(super) fn address(&self) -> *const () {
        std::ptr::from_ref(self).cast()
    }

    /// Name and size, for messages.
    pub fn describe(&self) -> String {
        format!("{} workers of '{}'", self.workers.len(), self.plan.name)
    }

    /// What each worker has done so far.
    pub fn worker_stats(&self) -> impl Iterator<Item = WorkerStats> {
        self.counters.iter().enumerate().map(|(index, counters)| counters.read(self.plan.name, index))
    }

    /// Messages about workers that could not be pinned, share a core with other threads, and the
    /// like.
    pub fn warnings(&self) -> Vec<String> {
        self.lock_warnings().clone()
    }

    pub fn lock_warnings(&self) -> MutexGuard<'_, Vec<String>> {
        self.warnings.lock()
    }

    /// Whether the workers have been started and not stopped.
    #[inline]
    pub fn is_started(&self) -> bool {
        self.started.load(Acquire)
    }

    /// Whether every worker has begun to look for work.
    pub fn is_ready(&self) -> bool {
        self.ready.load(Acquire) >= self.workers.len()
    }

    /// Puts a ready operation where a worker finds it: into this thread's own queue, or into an
    /// inbox. `depth` is how many operations the calling thread is inside of.
    ///
    /// # Safety
    /// The operation is ready, and the caller's to give away.
    #[inline]
    pub unsafe fn submit(&self, block: *mut Block, mut place: Placement, depth: u32) {
        // SAFETY: the caller's contract; the priority is read before the operation is given away.
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

    /// Puts a ready operation where another thread finds it: into the inbox of the worker of number
    /// `place`, modulo the number of workers.
    ///
    /// # Safety
    /// The operation is ready, and the caller's to give away.
    pub unsafe fn publish(&self, block: *mut Block, place: usize) {
        // SAFETY: the caller's contract; the priority is read before the operation is given away.
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

    /// Adds a journal, for a pusher that has none. The journal lives as long as the group.
    #[cold]
    pub fn add_journal(&self) -> &Journal {
        assert!(self.plan.logged, "nobody looks at the logs of this group");
        self.journals.add()
    }

    /// Puts an operation into this journal's log for a worker, and calls that worker, or another.
    /// For the journal's pusher.
    ///
    /// # Safety
    /// The journal is one of this group, and only one thread at a time logs into it. The
    /// operation's word says "pushed".
    #[inline]
    pub unsafe fn log(&self, journal: &Journal, worker: usize, operation: Word) {
        // SAFETY: the caller's contract.
        unsafe { journal.log(worker).push(operation) };
        // Light side of the asymmetric fence; the heavy side is in `sleep` (`idle.rs`) and
        // `rest` (`help.rs`). Either this thread sees the sleeper counted, or the sleeper sees the
        // entry. It also sees a new journal, which was linked before.
        light();
        if self.sleeping.load(Relaxed) > 0 {
            self.call(worker);
        }
    }

    /// Whether a thread of the group, worker or helper, looks for work or sleeps.
    pub fn has_idle(&self) -> bool {
        self.idle.load(Relaxed) & !WANTED > 0
    }

    /// Whether an urgent operation has come for this worker, or for all.
    pub fn is_urgent(&self, worker: usize) -> bool {
        self.common.awaits_hurry() || self.workers.get(worker).is_some_and(Remote::awaits_hurry)
    }

    /// Puts a list of ready operations, linked by `link` from `first` to `last`, into an inbox.
    /// Then calls a worker as the table in `worker/README.md` says.
    ///
    /// # Safety
    /// The operations are ready, and the caller's to give away.
    pub(super) unsafe fn deliver(&self, first: *mut Block, last: *mut Block, place: Placement, urgent: bool) {
        let worker = match place {
            _ if self.plan.shared => &self.common,
            // The first worker to look there takes it. A worker chosen in turn may be in a long
            // operation.
            Placement::Any if urgent => &self.common,
            Placement::Worker(number) => &self.workers[number % self.workers.len()],
            Placement::Any => &self.workers[next_worker() % self.workers.len()],
        };
        // SAFETY: the caller's contract.
        let met = unsafe { worker.inbox.push(first, last) };
        if urgent {
            worker.hurry();
        }
        match met {
            // The thread that has put the other operations there calls a worker too, but may have
            // lost its core before it did.
            Met::Busy | Met::Others => self.call_one(),
            Met::Looking | Met::Asleep => {}
        }
    }
}
