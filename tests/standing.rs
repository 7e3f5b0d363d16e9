//! Nothing stands still behind a long operation: what a worker will run next, others can take.

mod common;

use common::*;
use seriatim::{Builder, Engine, IdlePolicy, Kind, RunContext, Variable};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering::*};
use std::sync::{Arc, OnceLock};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// What a long operation takes, if what it waits for stands still behind it.
const LONG: Duration = Duration::from_secs(10);
/// What is not behind the long operation has run by then, however the threads get their cores.
const SOON: Duration = Duration::from_secs(5);

/// The long operation: takes until `ran` has come to `count`, or [`LONG`].
fn outlast(ran: &AtomicUsize, count: usize) {
    let began = Instant::now();
    while ran.load(SeqCst) < count && began.elapsed() < LONG {
        sleep(Duration::from_millis(1));
    }
}

/// Waits until `ran` has come to `count`; the long operation has begun by `began`.
fn is_soon(what: &str, began: Instant, ran: &AtomicUsize, count: usize) {
    eventually(what, || ran.load(SeqCst) == count);
    let took = began.elapsed();
    assert!(took < SOON, "{what}: only after {took:?}, behind an operation that takes {LONG:?}");
}

fn engines() -> impl Iterator<Item = Engine> {
    [Kind::Pooled, Kind::PerDevice]
        .into_iter()
        .map(|kind| Engine::builder().kind(kind).cpu_workers(2).waiters_help(false).build().unwrap())
}

/// A worker ends a write on which reads are parked, the first of them long, while the other worker
/// has something to do.
#[test]
fn what_becomes_ready_with_a_long_operation() {
    let _watchdog = Watchdog::new(200, "ready with a long operation");
    for (engine, reads) in engines().zip([8, 20_000]).chain(engines().zip([20_000, 8])) {
        let x = engine.new_variable();
        let [write, other] = [Gate::new(), Gate::new()];
        let stand = write.clone();
        engine.op("write").write(x).push(move |_| stand.pass()).unwrap();
        write.wait_for_someone();
        let (ran, begun) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let (begins, short) = (Arc::clone(&begun), Arc::clone(&ran));
        let long = move |_: &RunContext<'_>| {
            begins.store(true, SeqCst);
            outlast(&short, reads);
        };
        engine.op("long").read(x).push(long).unwrap();
        for _ in 0..reads {
            engine.op("short").read(x).push(counting(&ran)).unwrap();
        }
        // Behind them: so the other worker has parked them when it comes here.
        let stand = other.clone();
        engine.op("other").push(move |_| stand.pass()).unwrap();
        other.wait_for_someone();
        write.open();
        eventually("the long one begins", || begun.load(SeqCst));
        let began = Instant::now();
        other.open();
        is_soon("short reads", began, &ran, reads);
        engine.wait_for_all().unwrap();
    }
}

/// An operation pushes others, the long way, and then takes its time.
#[test]
fn what_a_long_operation_pushes() {
    let _watchdog = Watchdog::new(200, "pushed by a long operation");
    for engine in engines() {
        let (ran, begun) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let (child, begins, inner) = (Arc::clone(&ran), Arc::clone(&begun), engine.clone());
        let long = move |_: &RunContext<'_>| {
            for _ in 0..10 {
                let (count, large) = (counting(&child), [1_u8; 200]);
                let child = move |run: &RunContext<'_>| {
                    std::hint::black_box(&large);
                    count(run);
                };
                inner.op("child").priority(1).push(child).unwrap();
            }
            begins.store(true, SeqCst);
            outlast(&child, 10);
        };
        engine.op("long").push(long).unwrap();
        eventually("the long one begins", || begun.load(SeqCst));
        is_soon("its children", Instant::now(), &ran, 10);
        engine.wait_for_all().unwrap();
    }
}

/// Two urgent operations come at once, the first of them long, and the other worker has a long row.
#[test]
fn what_is_urgent_beside_a_long_urgent_operation() {
    let _watchdog = Watchdog::new(200, "urgent beside urgent");
    for engine in engines() {
        let gates = [Gate::new(), Gate::new()];
        for gate in &gates {
            let stand = gate.clone();
            engine.op("gate").push(move |_| stand.pass()).unwrap();
            gate.wait_for_someone();
        }
        // It takes longer than the long operation, unless it is cut short.
        let over = Arc::new(AtomicBool::new(false));
        for _ in 0..100_000 {
            let over = Arc::clone(&over);
            let stream = move |_: &RunContext<'_>| {
                if !over.load(Relaxed) {
                    spin(Duration::from_micros(300));
                }
            };
            engine.op("stream").push(stream).unwrap();
        }
        let (ran, begun) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let (begins, urgent) = (Arc::clone(&begun), Arc::clone(&ran));
        let long = move |_: &RunContext<'_>| {
            begins.store(true, SeqCst);
            outlast(&urgent, 1);
        };
        engine.op("long").priority(1).push(long).unwrap();
        engine.op("urgent").priority(1).push(counting(&ran)).unwrap();
        gates[0].open();
        eventually("the long one begins", || begun.load(SeqCst));
        gates[1].open();
        is_soon("the urgent one", Instant::now(), &ran, 1);
        over.store(true, SeqCst);
        engine.wait_for_all().unwrap();
    }
}

/// A worker parks what a thread pushes that never pauses, and an operation gets ready that counts
/// its runs. Says whether it ran meanwhile: not if the worker comes to it only behind the row, or
/// has no core.
fn runs_beside_a_row(engine: &Engine, get_ready: impl FnOnce(), ran: &AtomicUsize) -> bool {
    let x = engine.new_variable();
    let row = hold(engine, &[], &[x]);
    let mut get_ready = Some(get_ready);
    for pushed in 0..1_000_000 {
        engine.op("row").read(x).push(nothing).unwrap();
        if pushed == 200_000 {
            get_ready.take().unwrap()();
        }
        if ran.load(Relaxed) == 1 {
            break;
        }
    }
    let has_run = ran.load(SeqCst) == 1;
    row.complete();
    engine.wait_for_all().unwrap();
    has_run
}

/// Of several tries one must do: a thread may lose its core for as long as one takes.
fn a_try_does(mut run: impl FnMut(&Engine) -> bool) {
    for kind in [Kind::Pooled, Kind::PerDevice] {
        let make = || Engine::builder().kind(kind).cpu_workers(1).waiters_help(false).build().unwrap();
        assert!((0..3).any(|_| run(&make())), "{kind}: a worker parks a row and looks at nothing else");
    }
}

/// Each operation of a row makes the next one ready. In the middle of it the worker takes a turn at
/// its log, where a long operation comes first.
#[test]
fn what_is_ready_when_a_worker_takes_a_long_operation_out_of_its_log() {
    const ROW: usize = 1_000;
    let _watchdog = Watchdog::new(200, "a long operation in a log");
    for engine in engines() {
        let x = engine.new_variable();
        let held = hold(&engine, &[], &[x]);
        let ran = Arc::new(AtomicUsize::new(0));
        (0..ROW).for_each(|_| engine.op("row").write(x).push(counting(&ran)).unwrap());
        // When both stand there, the row is parked.
        let gates = [Gate::new(), Gate::new()];
        for gate in &gates {
            let stand = gate.clone();
            engine.op("gate").push(move |_| stand.pass()).unwrap();
            gate.wait_for_someone();
        }
        let begun = Arc::new(AtomicBool::new(false));
        // Enough for both logs.
        for _ in 0..100 {
            let (begun, row) = (Arc::clone(&begun), Arc::clone(&ran));
            let first_is_long = move |_: &RunContext<'_>| {
                if !begun.swap(true, SeqCst) {
                    outlast(&row, ROW);
                }
            };
            engine.op("first is long").push(first_is_long).unwrap();
        }
        held.complete();
        gates[0].open();
        eventually("the long one begins", || begun.load(SeqCst));
        let began = Instant::now();
        gates[1].open();
        is_soon("the row", began, &ran, ROW);
        engine.wait_for_all().unwrap();
    }
}

/// It comes into the inbox of the worker.
#[test]
fn what_becomes_ready_beside_a_row_that_waits() {
    let _watchdog = Watchdog::new(200, "beside a row that waits");
    a_try_does(|engine| {
        let y = engine.new_variable();
        let write = hold(engine, &[], &[y]);
        let ran = Arc::new(AtomicUsize::new(0));
        engine.op("parked").read(y).push(counting(&ran)).unwrap();
        sleep(Duration::from_millis(20));
        runs_beside_a_row(engine, || write.complete(), &ran)
    });
}

/// It comes into the common inbox.
#[test]
fn what_is_urgent_beside_a_row_that_waits() {
    let _watchdog = Watchdog::new(200, "urgent beside a row that waits");
    a_try_does(|engine| {
        let ran = Arc::new(AtomicUsize::new(0));
        let count = counting(&ran);
        let push = || engine.op("urgent").priority(1).push(count).unwrap();
        runs_beside_a_row(engine, push, &ran)
    });
}

/// A thread that waits has run what makes two operations ready. It runs the long one, and the
/// worker sleeps.
#[test]
fn what_a_waiter_has_made_ready_with_a_long_operation() {
    let _watchdog = Watchdog::new(200, "a waiter beside a worker that sleeps");
    for kind in [Kind::Pooled, Kind::PerDevice] {
        let builder = Engine::builder().kind(kind).cpu_workers(1).idle(IdlePolicy::Park);
        let engine = builder.build().unwrap();
        let [x, y] = [engine.new_variable(), engine.new_variable()];
        let (stand, ran) = (Gate::new(), Arc::new(AtomicUsize::new(0)));
        let stands = stand.clone();
        engine.op("occupies the worker").push(move |_| stands.pass()).unwrap();
        stand.wait_for_someone();
        let first = move |_: &RunContext<'_>| {
            stand.open();
            sleep(Duration::from_millis(50)); // The worker sleeps by then.
        };
        engine.op("first").write(x).push(first).unwrap();
        let (short, seen) = (Arc::clone(&ran), Arc::new(AtomicUsize::new(0)));
        let sees = Arc::clone(&seen);
        let long = move |_: &RunContext<'_>| {
            outlast(&short, 1);
            sees.store(short.load(SeqCst), SeqCst);
        };
        engine.op("long").read(x).write(y).push(long).unwrap();
        engine.op("short").read(x).push(counting(&ran)).unwrap();
        engine.wait_for_var(y).unwrap();
        assert_eq!(seen.load(SeqCst), 1, "{kind}: the worker was not called");
        engine.wait_for_all().unwrap();
    }
}

/// What is not behind a long operation has ended by then, from the first push on.
const AT_ONCE: Duration = Duration::from_millis(200);
/// In one of so many rounds things must be in time: other processes take cores too.
const ROUNDS: usize = 30;
/// So many rounds at least in the long form.
const LONG_ROUNDS: usize = 10;
/// Tiny operations that are pushed before a long one and behind it, and others that wait for it.
const BEFORE: usize = 5_000;
const AFTER: usize = 100_000;
const DEPENDANTS: usize = 10_000;

/// A long operation among tiny ones. It takes until they have ended.
struct Beside<'a> {
    engine: &'a Engine,
    tiny: Vec<Variable>,
    x: Variable,
    gate: Gate,
    ran: Arc<AtomicUsize>,
    /// How many tiny ones had run when the long one began.
    ran_before: Arc<AtomicUsize>,
    dependants: Arc<AtomicUsize>,
}

impl Beside<'_> {
    fn new(engine: &Engine) -> Beside<'_> {
        let tiny = (0..16).map(|_| engine.new_variable()).collect();
        let [ran, ran_before, dependants] = std::array::from_fn(|_| Arc::default());
        Beside { engine, tiny, x: engine.new_variable(), gate: Gate::new(), ran, ran_before, dependants }
    }

    fn push_tiny(&self, count: usize) {
        for number in 0..count {
            let [read, write] = [number * 7 + 3, number].map(|number| self.tiny[number % self.tiny.len()]);
            self.engine.op("tiny").reads([read]).writes([write]).push(counting(&self.ran)).unwrap();
        }
    }

    fn push_long(&self) {
        let (stand, ran, ran_before) = (self.gate.clone(), Arc::clone(&self.ran), Arc::clone(&self.ran_before));
        let long = move |_: &RunContext<'_>| {
            ran_before.store(ran.load(SeqCst), SeqCst);
            stand.pass();
        };
        self.engine.op("long").write(self.x).push(long).unwrap();
    }

    fn push_dependants(&self, count: usize) {
        for number in 0..count {
            let op = self.engine.op("dependant");
            let op = if number % 4 == 0 { op.write(self.x) } else { op.read(self.x) };
            op.push(counting(&self.dependants)).unwrap();
        }
    }

    /// Whether all tiny operations come to their end while the long one runs.
    fn end_meanwhile(&self) -> bool {
        let began = Instant::now();
        while self.ran.load(SeqCst) < BEFORE + AFTER && began.elapsed() < LONG {
            sleep(Duration::from_micros(100));
        }
        self.ran.load(SeqCst) == BEFORE + AFTER && self.dependants.load(SeqCst) == 0
    }

    /// Lets the long operation end.
    fn end(&self, dependants: usize) {
        self.gate.open();
        self.engine.wait_for_all().unwrap();
        assert_eq!(self.dependants.load(SeqCst), dependants);
    }
}

/// Has one of several rounds end [`AT_ONCE`]. Each says how long it took, or that it does not
/// count.
fn one_is_at_once(what: &str, mut round: impl FnMut() -> Option<Duration>) {
    let mut took = Vec::new();
    for _ in 0..ROUNDS {
        took.push(round());
        let is_in_time = took.iter().flatten().any(|took| *took <= AT_ONCE);
        if is_in_time && took.len() >= by_length(1, LONG_ROUNDS) {
            break;
        }
    }
    println!("{what}: {took:.1?}");
    assert!(took.iter().flatten().any(|took| *took <= AT_ONCE), "{what}: the tiny operations took {took:?}");
}

/// In each round all that does not depend on the long operation ends before it does.
#[test]
fn all_but_a_long_operation_and_its_dependants_end_at_once() {
    let _watchdog = Watchdog::new(300, "tiny beside long");
    for kind in [Kind::Pooled, Kind::PerDevice] {
        for (inline_below, dependants) in [(0, 0), (0, DEPENDANTS), (10, 0), (10, DEPENDANTS)] {
            let inline_below = Duration::from_micros(inline_below);
            let what = format!("{kind}, {dependants} dependants, inline_below {inline_below:?}");
            let builder = Engine::builder().kind(kind).cpu_workers(2).waiters_help(false).inline_below(inline_below);
            one_is_at_once(&what, || {
                let engine = builder.clone().build().unwrap();
                let beside = Beside::new(&engine);
                let began = Instant::now();
                beside.push_tiny(BEFORE);
                beside.push_long();
                beside.push_dependants(dependants);
                beside.push_tiny(AFTER);
                let meanwhile = beside.end_meanwhile();
                let (took, ran) = (began.elapsed(), beside.ran.load(SeqCst));
                beside.end(dependants);
                assert!(meanwhile, "{what}: {ran} of {} tiny ones had run after {took:?}", BEFORE + AFTER);
                // Not if the worker that has the long one comes to it last.
                (beside.ran_before.load(SeqCst) < BEFORE + AFTER / 2).then_some(took)
            });
        }
    }
}

/// The naive engine has no workers: the thread that pushes the long operation is in it. So this
/// holds for the pushes and waits of another thread, on variables that the first has used.
#[test]
fn a_thread_beside_another_ones_long_operation_does_all_but_its_dependants_at_once() {
    let _watchdog = Watchdog::new(300, "tiny beside long, naive");
    for dependants in [0, DEPENDANTS] {
        let what = format!("naive, {dependants} dependants");
        one_is_at_once(&what, || {
            let engine = Engine::builder().kind(Kind::Naive).build().unwrap();
            let beside = &Beside::new(&engine);
            std::thread::scope(|scope| {
                let began = Instant::now();
                scope.spawn(move || {
                    beside.push_tiny(BEFORE);
                    beside.push_long();
                });
                beside.gate.wait_for_someone();
                beside.push_dependants(dependants);
                beside.push_tiny(AFTER);
                beside.tiny.iter().for_each(|tiny| engine.wait_for_var(*tiny).unwrap());
                let took = began.elapsed();
                let ran = beside.ran.load(SeqCst);
                beside.gate.open();
                assert_eq!(ran, BEFORE + AFTER, "{what}");
                Some(took)
            })
            .inspect(|_| beside.end(dependants))
        });
    }
}

const URGENT: usize = 40;
/// How long an operation of the stream takes.
const BODY: Duration = Duration::from_micros(20);
/// When an urgent operation starts at the latest, if it is not held up by others.
const STARTS: Duration = Duration::from_micros(100).saturating_add(BODY);
/// Operations of the stream that may start between the return of an urgent push and the start of
/// its operation: the one that the worker has just decided on, and one for which the worker has not
/// yet seen what was pushed.
const PASSED: usize = 2;

/// How long a thread has waited for a core, in nanoseconds.
#[cfg(target_os = "linux")]
fn waited(thread: i32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/self/task/{thread}/schedstat")).unwrap_or_default();
    text.split_whitespace().nth(1).and_then(|number| number.parse().ok()).unwrap_or(0)
}

#[cfg(target_os = "linux")]
fn this_thread() -> i32 {
    // SAFETY: the call has no preconditions.
    unsafe { libc::gettid() }
}

/// Elsewhere nobody knows: each look finds another number.
#[cfg(not(target_os = "linux"))]
fn waited(_: i32) -> u64 {
    static LOOKS: AtomicUsize = AtomicUsize::new(0);
    LOOKS.fetch_add(1, SeqCst) as u64 * 1_000_000
}

#[cfg(not(target_os = "linux"))]
fn this_thread() -> i32 {
    0
}

/// Pushes urgent operations beside a long one and a stream. Returns the most operations of the
/// stream that started before one of them, and the longest time until one started for which the
/// threads had their cores.
fn urgent_beside_a_stream(builder: &Builder, one_by_one: bool) -> (usize, Duration) {
    let engine = builder.clone().build().unwrap();
    let (gate, over, started) = (Gate::new(), Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let stand = gate.clone();
    engine.op("long").push(move |_| stand.pass()).unwrap();
    gate.wait_for_someone();
    let stream: Vec<Variable> = (0..4).map(|_| engine.new_variable()).collect();
    let worker = Arc::new(AtomicI32::new(0));
    for number in 0..100_000 {
        let (over, started, worker) = (Arc::clone(&over), Arc::clone(&started), Arc::clone(&worker));
        let body = move |_: &RunContext<'_>| {
            if worker.load(Relaxed) == 0 {
                worker.store(this_thread(), SeqCst);
            }
            if !over.load(Relaxed) {
                started.fetch_add(1, SeqCst);
                spin(BODY);
            }
        };
        engine.op("stream").write(stream[number % stream.len()]).push(body).unwrap();
    }
    eventually("the stream runs", || started.load(SeqCst) > 0);
    let threads = [worker.load(SeqCst), this_thread()];
    let waits = || threads.map(waited).iter().sum::<u64>();
    let starts: Arc<[OnceLock<(usize, Instant)>; URGENT]> = Arc::new([const { OnceLock::new() }; URGENT]);
    let (mut random, starts_of) = (Random(1), Arc::clone(&starts));
    let pushed: Vec<_> = (0..URGENT)
        .map(|number| {
            let (starts, counted) = (Arc::clone(&starts), Arc::clone(&started));
            let urgent = move |_: &RunContext<'_>| {
                starts[number].set((counted.load(SeqCst), Instant::now())).expect("it runs once");
            };
            let (before, began) = (waits(), Instant::now());
            engine.op("urgent").priority(100).push(urgent).unwrap();
            let pushed = started.load(SeqCst);
            if one_by_one {
                spin(Duration::from_micros(random.below(300) as u64));
                eventually("it runs", || starts_of[number].get().is_some());
            }
            (pushed, began, before, waits())
        })
        .collect();
    eventually("the urgent ones have run", || starts.iter().all(|start| start.get().is_some()));
    over.store(true, SeqCst);
    gate.open();
    engine.wait_for_all().unwrap();
    let after = waits();
    let took = starts.iter().zip(pushed).map(|(start, (pushed, began, before, run))| {
        let (started, at) = *start.get().expect("it has run");
        let lost = Duration::from_nanos(if one_by_one { run } else { after } - before);
        (started.saturating_sub(pushed), (at - began).saturating_sub(lost))
    });
    took.fold((0, Duration::ZERO), |most, (passed, took)| (most.0.max(passed), most.1.max(took)))
}

/// However the threads get their cores, an urgent operation is the next; and if they have them, it
/// starts soon.
#[test]
fn what_is_urgent_beside_a_long_operation_and_a_stream() {
    let _watchdog = Watchdog::new(300, "urgent beside a stream");
    for kind in [Kind::Pooled, Kind::PerDevice] {
        for one_by_one in [true, false] {
            let what = format!("{kind}, one by one: {one_by_one}");
            let builder = Engine::builder().kind(kind).cpu_workers(2).waiters_help(false);
            let mut seen = Vec::new();
            while seen.len() < ROUNDS {
                seen.push(urgent_beside_a_stream(&builder, one_by_one));
                let (passed, _) = *seen.last().unwrap();
                assert!(passed <= PASSED, "{what}: {passed} operations of a stream started before an urgent one");
                if seen.iter().any(|(_, took)| *took <= STARTS) && seen.len() >= by_length(1, LONG_ROUNDS) {
                    break;
                }
            }
            println!("{what}: {seen:.1?}");
            assert!(seen.iter().any(|(_, took)| *took <= STARTS), "{what}: later than {STARTS:?}: {seen:?}");
        }
    }
}

/// More threads wait than have places in which to lend. One that has none makes a long operation
/// ready, and with it another.
#[test]
fn what_a_waiter_without_a_place_has_made_ready() {
    let _watchdog = Watchdog::new(200, "a waiter without a place");
    /// As many as have places.
    const OTHERS: usize = 16;
    const WORKERS: usize = 2;
    struct Opens(Gate);
    impl Drop for Opens {
        fn drop(&mut self) {
            self.0.open();
        }
    }
    for kind in [Kind::Pooled, Kind::PerDevice] {
        let engine = Engine::builder().kind(kind).cpu_workers(WORKERS).pin(false).build().unwrap();
        let [workers, waiters] = [Gate::new(), Gate::new()];
        let inside = Arc::new(AtomicUsize::new(0));
        let [x, y, z, other] = [(); 4].map(|()| engine.new_variable());
        let held = hold(&engine, &[], &[x]);
        engine.op("first").read(x).write(y).push(nothing).unwrap();
        let (ran, begun) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let (begins, open, other_ran) = (Arc::clone(&begun), workers.clone(), Arc::clone(&ran));
        let long = move |_: &RunContext<'_>| {
            begins.store(true, SeqCst);
            open.open();
            outlast(&other_ran, 1);
        };
        engine.op("long").read(y).write(z).push(long).unwrap();
        engine.op("other").read(y).write(other).push(counting(&ran)).unwrap();
        for _ in 0..WORKERS + OTHERS {
            let (workers, waiters, inside) = (workers.clone(), waiters.clone(), Arc::clone(&inside));
            let stand = move |run: &RunContext<'_>| {
                inside.fetch_add(1, SeqCst);
                let gate = if run.worker().is_some() { workers } else { waiters };
                gate.pass();
            };
            engine.op("stand").push(stand).unwrap();
        }
        std::thread::scope(|scope| {
            for _ in 0..OTHERS {
                scope.spawn(|| engine.wait_for_all().unwrap());
            }
            // Opened at the end, also if that is a failure.
            let _opens = Opens(waiters);
            eventually("all stand", || inside.load(SeqCst) == WORKERS + OTHERS);
            held.complete();
            scope.spawn(|| engine.wait_for_var(z).unwrap());
            eventually("the long one begins", || begun.load(SeqCst));
            is_soon("the other one", Instant::now(), &ran, 1);
        });
    }
}
