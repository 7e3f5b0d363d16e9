//! The machine: cores that each run one thread, a clock for each core, and the choice of the thread
//! that goes on next. `perf/simulation/` calls [`run`].
//!
//! Threads are coroutines on one thread of the system, so only one runs at a time. It goes on until
//! it wants a line that it does not have while another thread is behind it in time. An access that
//! hits may run ahead of the others by half a hop: it takes as long until a core learns that
//! another core wants its line. So no access sees what comes later, and a run is the same every
//! time.

pub use crate::ledger::Cause;
use crate::ledger::Ledger;
use crate::lines::{Lines, Parameters, CORES};
use corosensei::{Coroutine, CoroutineResult, Yielder};
use std::any::Any;
use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::panic::Location;
use std::ptr::null_mut;

/// What an access does to its line.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Reads.
    Load,
    /// Writes.
    Store,
    /// Reads and writes in one step.
    Locked,
    /// Asks for the line, to be written, and does not wait.
    Ask,
}

type Fibre = Coroutine<(), (), ()>;

/// One core with its thread.
pub struct Core {
    pub clock: u64,
    /// When the lines of the stores that were not waited for have come.
    drained: u64,
    /// Time spent in [`work`].
    busy: u64,
    pub parked: bool,
    pub token: bool,
    pub ended: bool,
    pub joiners: Vec<usize>,
    /// Values of thread-locals, by the address of their key.
    pub locals: Vec<(usize, Option<Box<dyn Any>>)>,
    /// How often the thread was pinned, and the address of its member of the epoch.
    pub pins: u32,
    pub member: usize,
    fibre: Option<Fibre>,
    yielder: *const Yielder<(), ()>,
}

/// The machine.
pub struct Machine {
    pub parameters: Parameters,
    lines: Lines,
    pub cores: Vec<Core>,
    current: usize,
    ready: BinaryHeap<Reverse<(u64, u64, usize)>>,
    ledger: Ledger,
    /// The addresses of the epoch's members.
    pub members: Vec<usize>,
}

thread_local! {
    static MACHINE: Cell<*mut Machine> = const { Cell::new(null_mut()) };
}

/// Calls `look` with the machine; returns `None` if there is none. `look` must neither suspend nor
/// run code of the engine or of the program.
#[inline]
pub fn with<T>(look: impl FnOnce(&mut Machine) -> T) -> Option<T> {
    let machine = MACHINE.with(Cell::get);
    // SAFETY: `run` sets the pointer while its machine lives. One thread at a time runs, and no
    // closure that is passed here calls `with` again.
    unsafe { machine.as_mut() }.map(look)
}

/// Lets other threads go on. The caller is in the queue, or has nothing to do until another thread
/// puts it there.
fn suspend() {
    if let Some(yielder) = with(|machine| machine.cores[machine.current].yielder) {
        // SAFETY: the yielder lies on the stack of the coroutine that runs, which is the caller's.
        unsafe { (*yielder).suspend(()) };
    }
}

/// Charges one access to the calling core.
#[inline]
pub fn access(address: usize, kind: Kind, place: &'static Location<'static>) {
    while with(|machine| machine.step(address / 64, kind, place)) == Some(false) {
        suspend();
    }
}

/// Charges the lines of a row of plain data to the calling core.
#[track_caller]
pub fn row(address: usize, bytes: usize, kind: Kind) {
    let place = Location::caller();
    let overlap = with(|machine| machine.parameters.overlap) == Some(true);
    let Some(start) = now() else { return };
    let mut until = start;
    for line in address / 64..=(address + bytes.max(1) - 1) / 64 {
        while with(|machine| machine.step(line, kind, place)) == Some(false) {
            suspend();
        }
        if overlap {
            // With overlap, every line is asked for as early as the first.
            until = until.max(now().unwrap_or(start));
            with(|machine| machine.cores[machine.current].clock = start);
        }
    }
    with(|machine| {
        let core = &mut machine.cores[machine.current];
        core.clock = core.clock.max(until);
    });
}

/// Returns the calling core's clock; `None` outside a machine.
pub fn now() -> Option<u64> {
    with(|machine| machine.cores[machine.current].clock)
}

/// Charges time to the calling core.
pub fn pass(time: impl FnOnce(&Parameters) -> u64) {
    with(|machine| {
        let time = time(&machine.parameters);
        machine.cores[machine.current].clock += time;
    });
}

/// Has the calling core work for this time, on what is in its cache.
pub fn work(nanoseconds: u64) {
    pass(|_| nanoseconds);
    with(|machine| machine.cores[machine.current].busy += nanoseconds);
}

/// Waits until the stores of the calling core have their lines.
pub fn drain() {
    with(|machine| {
        let core = &mut machine.cores[machine.current];
        core.clock = core.clock.max(core.drained);
    });
}

/// Returns when no other core is behind the calling one.
pub fn catch_up() {
    while with(Machine::may_go) == Some(false) {
        suspend();
    }
}

/// Sleeps until `done` says that there is a reason to go on.
pub fn wait_until(mut done: impl FnMut(&mut Machine, usize) -> bool) {
    catch_up();
    while with(|machine| {
        let current = machine.current;
        let go = done(machine, current);
        machine.cores[current].parked = !go;
        go
    }) == Some(false)
    {
        suspend();
    }
}

impl Machine {
    /// Returns whether no core is behind the calling one in time; if one is, the caller is queued.
    fn may_go(&mut self) -> bool {
        self.leads_by(0)
    }

    #[inline]
    fn leads_by(&mut self, lead: u64) -> bool {
        let clock = self.cores[self.current].clock;
        let first = self.ready.peek().is_none_or(|Reverse((time, _, _))| clock <= time + lead);
        if !first {
            let tie = self.tie(self.current);
            self.ready.push(Reverse((clock, tie, self.current)));
        }
        first
    }

    fn tie(&self, core: usize) -> u64 {
        if self.parameters.seed == 0 {
            return core as u64;
        }
        (core as u64 + 1).wrapping_mul(self.parameters.seed | 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 16
    }

    /// Makes one access if it is the calling core's turn. `false` if it is not: the caller is
    /// queued, and is to suspend and try again.
    #[inline]
    fn step(&mut self, line: usize, kind: Kind, place: &'static Location<'static>) -> bool {
        let me = self.current;
        let writes = kind != Kind::Load;
        let hits = self.lines.hits(me, line, writes);
        if !self.leads_by(if hits { self.parameters.hop / 2 } else { 0 }) {
            return false;
        }
        let parameters = &self.parameters;
        let core = &mut self.cores[me];
        if kind == Kind::Locked {
            core.clock = core.clock.max(core.drained) + parameters.locked;
        }
        if hits && kind != Kind::Ask {
            let start = core.clock;
            core.clock = self.lines.arrives(line).max(start);
            if core.clock > start {
                let waited = core.clock - start;
                self.ledger.wait(place, line, waited, me == 0);
            }
        } else if !hits {
            let start = core.clock;
            let trip = self.lines.fetch(me, line, writes, start, parameters);
            if kind == Kind::Ask {
                self.lines.ask(line, trip.until);
            } else if parameters.overlap && kind == Kind::Store {
                core.drained = core.drained.max(trip.until);
            } else {
                core.clock = trip.until;
            }
            let waited = core.clock - start;
            self.ledger.note(place, line, trip.upgrade, waited, me == 0);
        }
        self.cores[me].clock += self.parameters.hit;
        true
    }

    /// Starts a thread on a core of its own.
    pub fn add(&mut self, clock: u64, body: impl FnOnce() + 'static) -> usize {
        let id = self.cores.len();
        assert!(id < CORES, "the machine has {CORES} cores");
        let fibre = Coroutine::new(move |yielder: &Yielder<(), ()>, ()| {
            let yielder = std::ptr::from_ref(yielder);
            with(|machine| machine.cores[machine.current].yielder = yielder);
            body();
        });
        self.cores.push(Core {
            clock,
            drained: 0,
            busy: 0,
            parked: false,
            token: false,
            ended: false,
            joiners: Vec::new(),
            locals: Vec::new(),
            pins: 0,
            member: 0,
            fibre: Some(fibre),
            yielder: std::ptr::null(),
        });
        let tie = self.tie(id);
        self.ready.push(Reverse((clock, tie, id)));
        id
    }

    pub fn current(&self) -> usize {
        self.current
    }

    /// Lets a sleeping thread go on, at the time `clock` at the earliest.
    pub fn rouse(&mut self, id: usize, clock: u64) {
        let core = &mut self.cores[id];
        core.parked = false;
        core.clock = core.clock.max(clock);
        let clock = core.clock;
        let tie = self.tie(id);
        self.ready.push(Reverse((clock, tie, id)));
    }

    /// Notes that the calling thread ends, and wakes the threads that wait for it.
    pub fn end(&mut self) {
        let me = self.current;
        self.cores[me].ended = true;
        let clock = self.cores[me].clock;
        for joiner in std::mem::take(&mut self.cores[me].joiners) {
            self.rouse(joiner, clock);
        }
    }
}

/// Runs `program` on a machine as its first thread, and returns when all threads have ended.
///
/// # Panics
/// If a thread panics, or if all threads that are left wait for each other.
pub fn run<T: 'static>(parameters: Parameters, program: impl FnOnce() -> T + 'static) -> T {
    struct Forget;
    impl Drop for Forget {
        fn drop(&mut self) {
            MACHINE.with(|machine| machine.set(null_mut()));
        }
    }
    let machine = Box::into_raw(Box::new(Machine {
        parameters,
        lines: Lines::default(),
        cores: Vec::new(),
        current: 0,
        ready: BinaryHeap::new(),
        ledger: Ledger::default(),
        members: Vec::new(),
    }));
    MACHINE.with(|current| current.set(machine));
    let _forget = Forget;
    let outcome = std::rc::Rc::new(Cell::new(None));
    let place = std::rc::Rc::clone(&outcome);
    with(|machine| machine.add(0, crate::thread::whole_life(move || place.set(Some(program())))));
    while let Some(Some(mut fibre)) = with(|machine| {
        let Reverse((_, _, next)) = machine.ready.pop()?;
        machine.current = next;
        machine.cores[next].fibre.take()
    }) {
        if let CoroutineResult::Yield(()) = fibre.resume(()) {
            with(|machine| {
                let current = machine.current;
                machine.cores[current].fibre = Some(fibre);
            });
        }
    }
    let left = with(|machine| machine.cores.iter().filter(|core| !core.ended).count());
    assert_eq!(left, Some(0), "threads that are left wait for each other");
    // SAFETY: the machine was made above, and no thread of it is left.
    drop(unsafe { Box::from_raw(machine) });
    outcome.take().expect("the first thread has ended")
}

/// Says what lies in memory: rows of `distance` bytes from `address` on, each of them a `name`.
pub fn lay_out(address: usize, bytes: usize, distance: usize, name: &'static str) {
    with(|machine| machine.ledger.lay_out(address, bytes, distance, name));
}

/// Forgets all trips and all work that were counted so far.
pub fn count_from_here() {
    with(|machine| {
        machine.ledger.clear();
        machine.cores.iter_mut().for_each(|core| core.busy = 0);
    });
}

/// Returns the causes of trips since [`count_from_here`], those of the most trips first.
pub fn causes() -> Vec<Cause> {
    with(|machine| machine.ledger.causes()).unwrap_or_default()
}

/// Returns the nanoseconds that each core has worked since [`count_from_here`].
pub fn busy() -> Vec<u64> {
    with(|machine| machine.cores.iter().map(|core| core.busy).collect()).unwrap_or_default()
}
