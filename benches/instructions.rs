//! Instructions an operation, counted by callgrind: figures that repeat, where nanoseconds do not.
//! `perf/callgrind.sh` runs this, compares with `perf/instructions.json` and prints a table; it
//! needs valgrind and `gungraun-runner`.
//!
//! Only what one thread does by itself repeats. The naive engine runs in one thread as it is. For
//! the others the only worker is held up inside an operation, asleep, while the calling thread
//! works:
//!
//! - `push`: it pushes the program. Nothing of it runs meanwhile.
//! - `whole`: it pushes the program and then waits, and a thread that waits helps: it runs
//!   everything.
//! - `worker`: the worker is let go when everything is pushed, and runs it alone while the caller
//!   sleeps. What the worker does is counted, from the program's first operation to its last.
//!
//! What depends on how threads meet, such as spinning, waking and stealing, is left out: it is for
//! the clocks to measure.

// What gungraun's macros make has no documentation.
#![allow(missing_docs)]

mod borrows;
mod gate;
mod in_c;
mod replays;
mod typed;

use std::hint::black_box;

use borrows::{Borrow, Borrows};
use gate::Gate;
use gungraun::prelude::*;
use gungraun::Callgrind;
#[cfg(target_arch = "x86_64")]
use gungraun::EntryPoint;
use in_c::{Counted, Way};
use replays::{Replays, Shape};
use seriatim::{Engine, IdlePolicy, Kind, Variable};
use seriatim_perf::entrants::ours::Seriatim;
use seriatim_perf::entrants::{Runner, Style};
use seriatim_perf::program::Program;
use seriatim_perf::workloads::{self, COUNTED_OPERATIONS};
use typed::{By, Typed, Uses};

/// Runs after everything of the default priority that is ready, and so last.
const LAST: i32 = -1;
/// Runs before it.
#[cfg(target_arch = "x86_64")]
const FIRST: i32 = 1;
/// With the feature `seeded-work`, one operation more for so many: what the check must notice.
const SEEDED: usize = 10;

/// An engine with a program prepared, which it has run once: stocks and queues have the size they
/// need.
struct Ready {
    runner: Seriatim,
    program: &'static Program,
    /// What the last operation changes, and the seeded ones.
    end: Variable,
    /// Holds the worker up.
    gate: Option<Gate>,
}

impl Ready {
    fn new(kind: Kind, style: Style, waiters_help: bool, workload: &str) -> Ready {
        Ready::under(0, kind, style, waiters_help, workload)
    }

    /// Pushes under a bound that is never reached.
    fn bounded(workload: &str) -> Ready {
        Ready::under(2 * COUNTED_OPERATIONS, Kind::PerDevice, Style::Dynamic, true, workload)
    }

    fn under(bound: usize, kind: Kind, style: Style, waiters_help: bool, workload: &str) -> Ready {
        // Asleep, the worker neither counts nor is counted on. Pins would differ from machine to
        // machine.
        let builder = Engine::builder().kind(kind).cpu_workers(1).pin(false).bound(bound);
        let engine = builder.idle(IdlePolicy::Park).waiters_help(waiters_help).build().expect("valid settings");
        let program = workloads::named(workload, COUNTED_OPERATIONS).expect("a known workload");
        let end = engine.new_variable();
        let mut runner = Seriatim::on(engine, style);
        runner.prepare(program).expect("a program for this engine");
        let mut ready = Ready { runner, program, end, gate: None };
        if kind == Kind::Naive {
            ready.push();
            ready.wait();
        } else {
            // As it will be counted: by the same thread, so that its blocks are where they will be.
            ready.close_gate();
            ready.push();
            ready.push_last(|| ());
            if waiters_help {
                ready.wait_for_last();
            }
            ready.open_gate();
            ready.close_gate();
        }
        program.reset();
        ready
    }

    fn engine(&self) -> &Engine {
        self.runner.engine()
    }

    fn close_gate(&mut self) {
        self.gate = Some(Gate::close(self.engine()));
    }

    /// Lets the worker go, and waits for the end of everything.
    fn open_gate(&mut self) {
        self.gate.take().into_iter().for_each(Gate::open);
        self.wait();
    }

    // Its own function in every build, so that two builds differ by what is in it alone.
    #[inline(never)]
    fn push(&self) {
        self.runner.push().expect("a program without failures");
        if cfg!(feature = "seeded-instructions") {
            seed(self.program.sequence().len());
        }
        if cfg!(feature = "seeded-work") {
            for _ in 0..self.program.sequence().len() / SEEDED {
                self.engine().op("seeded").writes([self.end]).push(|_| ()).expect("an engine that runs");
            }
        }
    }

    /// What runs last of all, if one thread runs everything.
    #[inline]
    fn push_last(&self, body: impl FnOnce() + Send + 'static) {
        self.engine().op("last").writes([self.end]).priority(LAST).push(move |_| body()).expect("an engine that runs");
    }

    /// Runs everything while the worker is held up, if waiters help: by the last operation, and not
    /// all, of which the one that holds the worker up is one.
    #[inline]
    fn wait_for_last(&self) {
        self.engine().wait_for_var(self.end).expect("a program without failures");
    }

    fn wait(&self) {
        self.engine().wait_for_all().expect("a program without failures");
    }
}

/// What `perf/callgrind.sh --feature` must notice: a loop whose steps have three instructions, of
/// which two are the loop's own.
#[inline(never)]
fn seed(operations: usize) {
    for _ in 0..operations {
        // SAFETY: it does nothing.
        unsafe { std::arch::asm!("nop", options(nomem, nostack, preserves_flags)) };
    }
}

/// After what is counted: the result is checked, for a count of wrong work is worth nothing.
fn check(mut ready: Ready) {
    ready.open_gate();
    ready.program.verify().expect("the result of a serial run");
}

/// The calling thread runs each operation at once.
#[inline]
fn run_naive(ready: Ready) -> Ready {
    ready.push();
    ready.wait();
    ready
}

#[inline]
fn run_push(ready: Ready) -> Ready {
    ready.push();
    ready
}

#[inline]
fn run_whole(ready: Ready) -> Ready {
    ready.push();
    ready.push_last(|| ());
    ready.wait_for_last();
    ready
}

/// Switches the counting of the calling thread on, or off.
#[cfg(target_arch = "x86_64")]
fn toggle() {
    // A client request of callgrind, as its header has it: elsewhere these instructions do nothing.
    const TOGGLE_COLLECT: usize = ((b'C' as usize) << 24 | (b'T' as usize) << 16) + 2;
    let request: [usize; 6] = [TOGGLE_COLLECT, 0, 0, 0, 0, 0];
    // SAFETY: the rotations add up to two whole turns and the exchange is of a register with
    // itself; under valgrind the request is read from the array and its result written to `rdx`.
    unsafe {
        std::arch::asm!(
            "rol rdi, 3", "rol rdi, 13", "rol rdi, 61", "rol rdi, 51", "xchg rbx, rbx",
            in("rax") request.as_ptr(), inout("rdx") 0_usize => _, options(nostack),
        );
    }
}

#[cfg(target_arch = "x86_64")]
fn run_worker(mut ready: Ready) -> Ready {
    ready.engine().op("first").priority(FIRST).push(|_| toggle()).expect("an engine that runs");
    ready.push();
    ready.push_last(toggle);
    ready.open_gate();
    ready
}

/// A benchmark with each of the workloads.
macro_rules! count {
    ($name:ident, $run:ident, $kind:ident, $style:ident, waiters_help: $help:literal) => {
        #[library_benchmark(setup = Ready::new, teardown = check)]
        #[bench::independent(Kind::$kind, Style::$style, $help, "independent")]
        #[bench::shared_read(Kind::$kind, Style::$style, $help, "shared-read")]
        #[bench::chain(Kind::$kind, Style::$style, $help, "chain")]
        #[bench::fan(Kind::$kind, Style::$style, $help, "fan")]
        #[bench::random(Kind::$kind, Style::$style, $help, "random")]
        #[bench::stencil(Kind::$kind, Style::$style, $help, "stencil")]
        #[bench::unrelated(Kind::$kind, Style::$style, $help, "unrelated")]
        fn $name(ready: Ready) -> Ready {
            $run(black_box(ready))
        }
    };
}

count!(naive_dynamic, run_naive, Naive, Dynamic, waiters_help: true);
count!(naive_operators, run_naive, Naive, Operators, waiters_help: true);
count!(naive_graph, run_naive, Naive, Graph, waiters_help: true);
count!(pooled_dynamic_whole, run_whole, Pooled, Dynamic, waiters_help: true);
count!(per_device_dynamic_push, run_push, PerDevice, Dynamic, waiters_help: true);
count!(per_device_dynamic_whole, run_whole, PerDevice, Dynamic, waiters_help: true);
count!(per_device_operators_push, run_push, PerDevice, Operators, waiters_help: true);
count!(per_device_operators_whole, run_whole, PerDevice, Operators, waiters_help: true);

/// After what is counted of one thread by itself.
fn check_counted(ready: Counted) {
    ready.check();
}

/// A benchmark on the naive engine of a way to push that is none of `Style`.
macro_rules! count_way {
    ($name:ident, in_c: $way:ident) => {
        #[library_benchmark(setup = Counted::in_c, teardown = check_counted)]
        #[bench::chain(Way::$way, "chain")]
        #[bench::random(Way::$way, "random")]
        fn $name(ready: Counted) -> Counted {
            black_box(&ready).push();
            ready
        }
    };
    ($name:ident, bytes: $bytes:literal) => {
        #[library_benchmark(setup = Counted::closures, teardown = check_counted)]
        #[bench::chain($bytes, "chain")]
        fn $name(ready: Counted) -> Counted {
            black_box(&ready).push();
            ready
        }
    };
}

#[library_benchmark(setup = Counted::asynchronous, teardown = check_counted)]
#[bench::chain("chain")]
#[bench::random("random")]
fn naive_async(ready: Counted) -> Counted {
    black_box(&ready).push();
    ready
}

/// After what is counted of replays.
fn check_replays(mut ready: Replays) {
    ready.check();
}

// Instructions a replay, and not an operation.
#[library_benchmark(setup = Replays::new, teardown = check_replays)]
#[bench::names_1(Shape::Names(1))]
#[bench::names_8(Shape::Names(8))]
#[bench::names_64(Shape::Names(64))]
#[bench::arrays(Shape::Arrays)]
#[bench::private_arrays(Shape::PrivateArrays)]
fn naive_replay(ready: Replays) -> Replays {
    black_box(&ready).run();
    ready
}

// Instructions a push of a replay.
#[library_benchmark(setup = Replays::shipped, teardown = check_replays)]
#[bench::names_1(Shape::Names(1))]
#[bench::names_8(Shape::Names(8))]
fn per_device_replay_push(ready: Replays) -> Replays {
    black_box(&ready).run();
    ready
}

#[library_benchmark(setup = Ready::bounded, teardown = check)]
#[bench::chain("chain")]
fn per_device_bounded_push(ready: Ready) -> Ready {
    run_push(black_box(ready))
}

/// After what is counted of borrows.
fn check_borrows(ready: Borrows) {
    ready.check();
}

/// A benchmark on the naive engine of operations that borrow what they have declared.
macro_rules! count_borrow {
    ($name:ident, $borrow:ident) => {
        #[library_benchmark(setup = Borrows::new, teardown = check_borrows)]
        #[bench::chain(Borrow::$borrow, "chain")]
        fn $name(ready: Borrows) -> Borrows {
            black_box(&ready).push();
            ready
        }
    };
}

/// After what is counted of typed access, and of what it is compared with.
fn check_typed(ready: Typed) {
    ready.check();
}

/// A benchmark on the naive engine of operations on so many values.
macro_rules! count_typed {
    ($name:ident, $by:ident, $uses:ident) => {
        #[library_benchmark(setup = Typed::new, teardown = check_typed)]
        #[bench::chain(By::$by, Uses::$uses, "chain")]
        fn $name(ready: Typed) -> Typed {
            black_box(&ready).push();
            ready
        }
    };
}

count_typed!(naive_one_by_address, Address, One);
count_typed!(naive_one_typed, Type, One);
count_typed!(naive_two_by_address, Address, Two);
count_typed!(naive_two_typed, Type, Two);
count_typed!(naive_four_by_address, Address, Four);
count_typed!(naive_four_typed, Type, Four);
count_borrow!(naive_data, Nothing);
count_borrow!(naive_data_read, Read);
count_borrow!(naive_data_write, Write);
count_way!(naive_closures_64, bytes: 64);
count_way!(naive_closures_65, bytes: 65);
count_way!(naive_closures_512, bytes: 512);
count_way!(c_push, in_c: Push);
count_way!(c_push_named, in_c: PushNamed);
count_way!(c_push_async, in_c: PushAsync);
count_way!(c_operators, in_c: PushOperator);

library_benchmark_group!(
    name = naive,
    benchmarks = [
        naive_dynamic,
        naive_operators,
        naive_graph,
        naive_replay,
        naive_async,
        naive_closures_64,
        naive_closures_65,
        naive_closures_512,
        naive_data,
        naive_data_read,
        naive_data_write,
        naive_one_by_address,
        naive_one_typed,
        naive_two_by_address,
        naive_two_typed,
        naive_four_by_address,
        naive_four_typed
    ]
);
library_benchmark_group!(name = c, benchmarks = [c_push, c_push_named, c_push_async, c_operators]);
library_benchmark_group!(name = pooled, benchmarks = [pooled_dynamic_whole]);
library_benchmark_group!(
    name = per_device,
    benchmarks = [
        per_device_dynamic_push,
        per_device_dynamic_whole,
        per_device_operators_push,
        per_device_operators_whole,
        per_device_replay_push,
        per_device_bounded_push
    ]
);

#[cfg(target_arch = "x86_64")]
mod on_the_worker {
    use super::*;

    // A caller that waits sleeps, and leaves everything to the worker.
    count!(pooled_dynamic_worker, run_worker, Pooled, Dynamic, waiters_help: false);
    count!(per_device_dynamic_worker, run_worker, PerDevice, Dynamic, waiters_help: false);
    count!(per_device_operators_worker, run_worker, PerDevice, Operators, waiters_help: false);

    library_benchmark_group!(
        name = worker,
        // Not the caller's: the worker switches the counting on and off itself.
        config = LibraryBenchmarkConfig::default()
            .tool(Callgrind::with_args(["--cache-sim=no", "--collect-atstart=no"]).entry_point(EntryPoint::None)),
        benchmarks = [pooled_dynamic_worker, per_device_dynamic_worker, per_device_operators_worker]
    );
}
#[cfg(target_arch = "x86_64")]
use on_the_worker::worker;

/// Instructions only: a cache that is simulated takes time, and is none of those that machines
/// have.
fn settings() -> LibraryBenchmarkConfig {
    let mut settings = LibraryBenchmarkConfig::default();
    settings.tool(Callgrind::with_args(["--cache-sim=no"]));
    settings
}

#[cfg(target_arch = "x86_64")]
main!(config = settings(), library_benchmark_groups = [naive, c, pooled, per_device, worker]);
#[cfg(not(target_arch = "x86_64"))]
main!(config = settings(), library_benchmark_groups = [naive, c, pooled, per_device]);
