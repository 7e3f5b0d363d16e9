//! A thread that loses its core at each instruction of a push or a completion, one after the other:
//! the processor traps behind every instruction, and the handler of that trap counts them. Random
//! freezes (`frozen.rs`) find what lasts for many instructions; these also find what lasts for one.
//!
//! Nobody waits for such a thread. Not to push, and not for an operation to be run, unless it has
//! the operation, or one before it, in its hands.

use crate::common::*;
use crate::freezer::{ask, frozen, may_be_frozen, section, stay_frozen, this_thread};
use seriatim::{Completion, Engine, Kind, Variable};
use std::arch::asm;
use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::sync::{mpsc, Arc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How many instructions come before the one at which the thread stays.
static LEFT: AtomicUsize = AtomicUsize::new(0);
/// What is left when it has stayed there.
const STAYED: usize = usize::MAX;

/// The flag by which the processor traps behind each instruction.
const TRAP: i64 = 1 << 8;

extern "C" fn trapped(_: i32, _: *mut libc::siginfo_t, context: *mut c_void) {
    if !may_be_frozen() {
        return;
    }
    let left = LEFT.load(Relaxed);
    LEFT.store(left.wrapping_sub(1), Relaxed);
    if left == 0 {
        stay_frozen(context);
        // SAFETY: the system passes the context of the thread, which goes on without traps.
        unsafe { (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs[libc::REG_EFL as usize] &= !TRAP };
    }
}

/// Runs `inner`, and stays at this instruction of it until the thread is released. Returns whether
/// it has come there.
pub fn stay_at(instruction: usize, inner: impl FnOnce()) -> bool {
    run_up_to(instruction, inner);
    LEFT.load(Relaxed) == STAYED
}

/// How many instructions `inner` takes at which a thread may stay.
pub fn instructions(inner: impl FnOnce()) -> usize {
    const MANY: usize = 1 << 40;
    run_up_to(MANY, inner);
    MANY - LEFT.load(Relaxed)
}

fn run_up_to(instruction: usize, inner: impl FnOnce()) {
    LEFT.store(instruction, Relaxed);
    section(|| {
        // SAFETY: the flag changes nothing but that SIGTRAP comes, which has a handler.
        unsafe { asm!("pushfq", "or qword ptr [rsp], 0x100", "popfq") };
        inner();
        // SAFETY: as above.
        unsafe { asm!("pushfq", "and qword ptr [rsp], ~0x100", "popfq") };
    });
}

/// Has the processor's traps come to the handler above.
pub fn take_traps() {
    // SAFETY: zeroes are a valid action, and the handler does only what handlers may do.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = trapped as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        assert_eq!(libc::sigaction(libc::SIGTRAP, &action, std::ptr::null_mut()), 0);
    }
}

/// What the thread does that is frozen, and what others push to meanwhile.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Case {
    /// It pushes to variables to which only it has pushed, and so do others then.
    PushToOwn,
    /// It pushes to variables that another thread has.
    PushToTaken,
    /// It pushes to variables that are common.
    PushToCommon,
    /// It pushes, and others push to other variables.
    PushApart,
    /// It completes an operation, and others push to its variables.
    Complete,
    /// It completes an operation, and others push to other variables.
    CompleteApart,
}

const CASES: [Case; 6] =
    [Case::PushToOwn, Case::PushToTaken, Case::PushToCommon, Case::PushApart, Case::Complete, Case::CompleteApart];

/// An engine, a thread that is frozen inside it, and one that pushes meanwhile.
struct Sweep {
    engine: Engine,
    case: Case,
    /// The operations that the first thread has pushed and that have run, and so for the second.
    stepped: Arc<AtomicUsize>,
    probed: Arc<AtomicUsize>,
    /// How many pushes of the second thread have returned.
    returned: Arc<AtomicUsize>,
}

/// The pushes of the other thread while one is frozen.
const PROBES: usize = 8;
/// How long others may take.
const PATIENCE: Duration = Duration::from_secs(20);

impl Sweep {
    /// The thread that is frozen. It takes an instruction and variables, and makes ready; then it
    /// takes the word to go on, does it, and tells whether it came to that instruction.
    fn stepper(&self, steps: mpsc::Receiver<(usize, [Variable; 2])>, tell: mpsc::Sender<bool>) -> JoinHandle<()> {
        let (engine, case, ran) = (self.engine.clone(), self.case, Arc::clone(&self.stepped));
        std::thread::spawn(move || {
            this_thread(false);
            while let Ok((instruction, [x, y])) = steps.recv() {
                let push = || engine.op("stepped").reads([x]).writes([y]).push(counting(&ran)).unwrap();
                push();
                engine.wait_for_all().unwrap();
                let held: Option<Completion> =
                    matches!(case, Case::Complete | Case::CompleteApart).then(|| hold(&engine, &[x], &[y]));
                if held.is_some() {
                    push();
                }
                tell.send(true).unwrap();
                steps.recv().unwrap();
                let came = match held {
                    Some(completion) => stay_at(instruction, || completion.complete()),
                    None => stay_at(instruction, push),
                };
                tell.send(came).unwrap();
            }
        })
    }

    /// The thread that pushes meanwhile.
    fn prober(&self, probes: mpsc::Receiver<[Variable; 2]>) -> JoinHandle<()> {
        let (engine, returned, ran) = (self.engine.clone(), Arc::clone(&self.returned), Arc::clone(&self.probed));
        std::thread::spawn(move || {
            for [x, y] in probes {
                for number in 0..PROBES {
                    let (reads, writes) = if number % 2 == 0 { (x, y) } else { (y, x) };
                    engine.op("probe").reads([reads]).writes([writes]).push(counting(&ran)).unwrap();
                    returned.fetch_add(1, SeqCst);
                }
            }
        })
    }

    /// Whether what others push must be run while the thread stays: whatever it does, nothing of
    /// that can be in its hands.
    fn must_run(&self) -> bool {
        let apart = matches!(self.case, Case::PushApart | Case::CompleteApart);
        apart || (self.engine.kind() != Kind::Naive && self.case != Case::Complete)
    }

    /// Freezes the thread at every `stride`-th instruction from `first` on. Returns at how many.
    fn run(&self, first: usize, stride: usize) -> usize {
        let ((step, steps), (tell, told), (probe, probes)) = (mpsc::channel(), mpsc::channel(), mpsc::channel());
        let threads = [self.stepper(steps, tell), self.prober(probes)];
        let (mut pushed, mut probed, mut stayed, mut beyond) = (0, 0, 0, 0);
        for instruction in (first..).step_by(stride) {
            let own = [(); 2].map(|()| self.engine.new_variable());
            step.send((instruction, own)).unwrap();
            assert!(told.recv().unwrap());
            pushed += 2;
            let mut push_probes = |variables: [Variable; 2]| {
                probe.send(variables).unwrap();
                probed += PROBES;
                probed
            };
            if matches!(self.case, Case::PushToTaken | Case::PushToCommon) {
                // A variable that changes hands more often than eight times is common.
                let times = if self.case == Case::PushToCommon { 10 } else { 1 };
                for time in 0..times {
                    if time > 0 {
                        let [x, y] = own;
                        self.engine.op("turn").writes([x, y]).push(nothing).unwrap();
                    }
                    let all = push_probes(own);
                    eventually("the probes have run", || self.probed.load(SeqCst) == all);
                }
            }
            let others = match self.case {
                Case::PushApart | Case::CompleteApart => [(); 2].map(|()| self.engine.new_variable()),
                _ => own,
            };
            ask();
            step.send((instruction, own)).unwrap();
            let (mut frozen_there, mut came) = (None, None);
            while frozen_there.is_none() && came.is_none() {
                std::thread::sleep(Duration::from_micros(20));
                (frozen_there, came) = (frozen(), told.try_recv().ok());
            }
            if let Some(there) = &frozen_there {
                let all = push_probes(others);
                let at = || format!("at instruction {instruction} ({:#x}), {:?}", there.place, self.case);
                let pass = || self.returned.load(SeqCst) == all;
                assert!(within(PATIENCE, pass), "pushes wait for a thread that is frozen {}", at());
                let run = || !self.must_run() || self.probed.load(SeqCst) == all;
                assert!(within(PATIENCE, run), "operations wait for a thread that is frozen {}", at());
                stayed += 1;
            }
            drop(frozen_there);
            let came = came.unwrap_or_else(|| told.recv().unwrap());
            let are_over = || self.stepped.load(SeqCst) == pushed && self.probed.load(SeqCst) == probed;
            eventually("all has run when the thread is back", are_over);
            // How many instructions there are depends on what the thread meets.
            beyond = if came { 0 } else { beyond + 1 };
            if beyond == 3 {
                break;
            }
        }
        drop((step, probe));
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        stayed
    }
}

fn within(time: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let since = Instant::now();
    while !is_so() {
        if since.elapsed() > time {
            return false;
        }
        std::thread::sleep(Duration::from_micros(20));
    }
    true
}

#[test]
fn a_thread_that_stays_at_any_instruction_holds_up_no_other() {
    for kind in ["naive", "pooled", "per-device"] {
        println!("{}", run_child_well(child("stepped threads").env(KIND, kind)));
    }
}

/// The engine of a child process.
const KIND: &str = "STEPPED_KIND";

pub fn stepped_threads() {
    take_traps();
    // `STEPPED_STRIDE=1` for each instruction: some minutes. Without optimisation there are twenty
    // times as many.
    let usual = if cfg!(debug_assertions) { 401 } else { by_length(23, 11) };
    let stride = std::env::var("STEPPED_STRIDE").map_or(usual, |stride| stride.parse().unwrap());
    let (first, workers) = (std::process::id() as usize % stride, 1 + std::process::id() as usize / stride % 2);
    let workers = std::env::var("STEPPED_WORKERS").map_or(workers, |workers| workers.parse().unwrap());
    println!("every instruction of number {first} modulo {stride}, with {workers} workers");
    let wanted = std::env::var(KIND).unwrap();
    for kind in [Kind::Naive, Kind::Pooled, Kind::PerDevice].into_iter().filter(|kind| kind.to_string() == wanted) {
        for case in CASES {
            let engine = Engine::builder().kind(kind).cpu_workers(workers).waiters_help(false).build().unwrap();
            let (stepped, probed, returned) = Default::default();
            let sweep = Sweep { engine, case, stepped, probed, returned };
            let since = Instant::now();
            let stayed = sweep.run(first, stride);
            println!("{kind}, {case:?}: frozen at {stayed} instructions, in {:.1?}", since.elapsed());
            assert!(stayed >= (100 / stride).max(1), "there are more instructions than that");
        }
    }
}
