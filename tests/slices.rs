//! A call does its own work and a bounded slice of what others have left: pushes and waits beside a
//! thread that never pauses return in time.
//!
//! `LONG_TESTS=1`, as CI sets it, makes each round as long as the goal says, of a million pushes;
//! the default is a twentieth of that. `SERIATIM_SLICES_PUSHES` is for any other number.

mod common;

use common::{by_length, nothing, Gate, Random, Watchdog};
use seriatim::{Engine, Kind, RunContext, Variable};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Operations of others that a call may run while another thread pushes beside it:
/// `src/engine/README.md`, "Slices of running".
const MOST: u64 = 128;
/// How often a call may miss the other thread: that may come while this one runs its long
/// operation, or has lost its core to another guest of the machine, which the system does not tell.
const EXCESS: u64 = 3;
/// So many rounds may be late, and one must not: a pause of the whole machine looks like a late
/// call.
const ROUNDS: u32 = 8;
/// What a call may take beyond its own body, one foreign body, and what the machine itself takes
/// away from a thread.
const LATE: Duration = Duration::from_micros(100);
/// How long the one long operation sleeps.
const NAP: Duration = Duration::from_millis(5);
/// A thread asks so often whether the system has taken its core away: a late call is not held
/// against the engine then.
const ASKS: u64 = 64;
/// Calls that may wait for a lock whose owner has lost its core: a push whose stock is dry asks the
/// depot.
const WAITS: u64 = 10;
/// Operations in flight beyond which the restless thread waits for the workers, which cannot make
/// it pay.
const BACKLOG: u64 = 200_000;
/// Operations in flight that the naive engine may still have at the end of a round: what comes
/// while a thread is off its core.
const LEFT: u64 = 100_000;

thread_local! {
    static CALL: Cell<Call> = const { Cell::new(Call::none()) };
}

/// What a thread has done in the push that it is in.
#[derive(Clone, Copy)]
struct Call {
    /// The operation that it pushes: its thread and number.
    own: (u64, u64),
    foreign: u64,
    /// The pushes of the other thread that had had to wait when this one had run [`MOST`] of its
    /// operations.
    passed: u64,
    /// How often it went on although the other one had since made so many more.
    excess: u64,
    /// How often the system had taken the core away then.
    taken: u64,
    /// Whether its own operation has run in it, and how long.
    own_ran: bool,
    own_time: Duration,
    /// The longest foreign body.
    longest: Duration,
}

impl Call {
    const fn none() -> Call {
        let (own_time, longest) = (Duration::ZERO, Duration::ZERO);
        Call { own: (0, 0), foreign: 0, passed: 0, excess: 0, taken: 0, own_ran: false, own_time, longest }
    }
}

/// What the two threads and their operations share.
#[derive(Default)]
struct Shared {
    /// Pushes that have returned, of each thread.
    returned: [AtomicU64; 2],
    /// Those whose operation had to wait.
    waited: [AtomicU64; 2],
    ran: AtomicU64,
    over: AtomicBool,
}

impl Shared {
    fn backlog(&self) -> u64 {
        let ran = self.ran.load(SeqCst);
        self.returned.iter().map(|returned| returned.load(SeqCst)).sum::<u64>().saturating_sub(ran)
    }

    /// The body of an operation.
    fn body(&self, own: (u64, u64), nap: bool) {
        let begun = nap.then(Instant::now);
        if nap {
            std::thread::sleep(NAP);
        }
        self.ran.fetch_add(1, Relaxed);
        let took = begun.map_or(Duration::ZERO, |begun| begun.elapsed());
        let mut call = CALL.get();
        if call.own.0 == 0 {
            return; // A worker, or a wait.
        }
        if call.own == own {
            (call.own_ran, call.own_time) = (true, took);
        } else {
            call.longest = call.longest.max(took);
            call.foreign += 1;
            let others = &self.waited[usize::from(call.own.0 == 1)];
            if call.foreign == MOST {
                call.passed = others.load(SeqCst);
                call.taken = switches().taken;
            } else if call.foreign > MOST && others.load(SeqCst) > call.passed + MOST {
                // The other thread may have come while this one had lost its core inside an
                // operation.
                let before = std::mem::replace(&mut call.taken, switches().taken);
                call.excess += u64::from(call.taken == before);
                call.passed = others.load(SeqCst);
            }
        }
        CALL.set(call);
    }
}

/// One thread's pushes, and the worst of them.
#[derive(Default, Debug)]
struct Worst {
    lateness: Duration,
    /// Of calls that may have lost their core.
    disturbed: Duration,
    /// Late calls that may have waited for a lock.
    waits: u64,
    foreign: u64,
    excess: u64,
}

#[derive(Clone, Copy, Default)]
struct Switches {
    taken: u64,
    given: u64,
}

struct Pusher {
    engine: Engine,
    shared: Arc<Shared>,
    variables: Vec<Variable>,
    /// 1 or 2.
    number: u64,
    random: Random,
    worst: Worst,
    /// How often the system has taken the core away, when this thread asked last.
    switches: Switches,
}

/// How often the system has taken the core from the calling thread, and how often that has given it
/// away, to wait.
#[cfg(target_os = "linux")]
fn switches() -> Switches {
    // SAFETY: `usage` is ours, and any bytes are one.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        assert_eq!(libc::getrusage(libc::RUSAGE_THREAD, &mut usage), 0);
        Switches { taken: usage.ru_nivcsw as u64, given: usage.ru_nvcsw as u64 }
    }
}

/// Elsewhere every call may have lost its core.
#[cfg(not(target_os = "linux"))]
fn switches() -> Switches {
    static ASKED: AtomicU64 = AtomicU64::new(0);
    Switches { taken: ASKED.fetch_add(1, Relaxed), given: 0 }
}

impl Pusher {
    fn push(&mut self, step: u64, nap: bool) {
        let (one, other) = (self.random.pick(&self.variables), self.random.pick(&self.variables));
        let own = (self.number, step);
        CALL.set(Call { own, ..Call::none() });
        let shared = Arc::clone(&self.shared);
        let begun = Instant::now();
        self.engine.op("").writes([one, other]).push(move |_: &RunContext<'_>| shared.body(own, nap)).unwrap();
        let took = begun.elapsed();
        let call = CALL.replace(Call::none());
        let number = self.number as usize - 1;
        self.shared.returned[number].fetch_add(1, SeqCst);
        if !call.own_ran {
            self.shared.waited[number].fetch_add(1, SeqCst);
        }
        let worst = &mut self.worst;
        let lateness = took.saturating_sub(call.own_time + call.longest);
        if lateness > LATE || step % ASKS == 0 {
            let now = switches();
            let before = std::mem::replace(&mut self.switches, now);
            let waited = lateness > LATE && now.given > before.given;
            let undisturbed = now.taken == before.taken && !waited;
            worst.waits += u64::from(waited && now.taken == before.taken);
            let place = if undisturbed { &mut worst.lateness } else { &mut worst.disturbed };
            *place = lateness.max(*place);
        } else {
            worst.lateness = lateness.max(worst.lateness);
        }
        worst.foreign = worst.foreign.max(call.foreign);
        worst.excess = worst.excess.max(call.excess);
    }
}

/// The longest time between two readings of the clock by a thread that does nothing else: what the
/// machine takes away.
fn largest_gap(shared: &Shared) -> Duration {
    let (mut gap, mut last) = (Duration::ZERO, Instant::now());
    while !shared.over.load(Relaxed) {
        let now = Instant::now();
        gap = gap.max(now - last);
        last = now;
    }
    gap
}

fn pushes() -> u64 {
    let asked = std::env::var("SERIATIM_SLICES_PUSHES").ok();
    asked.map_or_else(|| by_length(50_000, 1_000_000), |text| text.parse().expect("a number of pushes"))
}

/// One round; says what was late in it.
fn beside_a_thread_that_never_pauses(kind: Kind, inline_below: Duration) -> Result<(), String> {
    let what = format!("{kind}, inline_below {inline_below:?}");
    let pushes = pushes();
    let _watchdog = Watchdog::new(60 + pushes / 2_000, what.clone());
    let engine = Engine::builder().kind(kind).cpu_workers(1).inline_below(inline_below).build().unwrap();
    let shared = Arc::new(Shared::default());
    let variables: Vec<Variable> = (0..3).map(|_| engine.new_variable()).collect();
    engine.op("first").push(nothing).unwrap();
    engine.wait_for_all().unwrap();
    let pusher = |number| Pusher {
        engine: engine.clone(),
        shared: Arc::clone(&shared),
        variables: variables.clone(),
        number,
        random: Random(number),
        worst: Worst::default(),
        switches: Switches::default(),
    };
    let (mut restless, mut measured) = (pusher(1), pusher(2));
    let restless = std::thread::spawn(move || {
        let shared = Arc::clone(&restless.shared);
        let mut step = 0;
        while !shared.over.load(Relaxed) {
            step += 1;
            restless.push(step, false);
            while kind != Kind::Naive && shared.backlog() > BACKLOG {
                std::thread::yield_now();
            }
        }
        restless.worst
    });
    let clock = std::thread::spawn({
        let shared = Arc::clone(&shared);
        move || largest_gap(&shared)
    });
    let mut most = 0;
    for step in 1..=pushes {
        measured.push(step, step == pushes / 10);
        most = most.max(if step % 16 == 0 { shared.backlog() } else { 0 });
    }
    let left = shared.backlog();
    shared.over.store(true, SeqCst);
    let restless = restless.join().unwrap();
    let gap = clock.join().unwrap();
    engine.wait_for_all().unwrap();
    let measured = measured.worst;
    println!("{what}: gap {gap:?}, backlog {most}, at the end {left}, measured {measured:?}, restless {restless:?}");
    assert_eq!(shared.backlog(), 0, "{what}: not all have run");
    // An excess is that of a call that runs on although another thread pushes.
    let in_time = |worst: &Worst| worst.excess <= EXCESS && worst.waits <= WAITS && worst.lateness <= LATE + gap;
    let has_paid = kind != Kind::Naive || left <= LEFT;
    if in_time(&measured) && in_time(&restless) && has_paid {
        return Ok(());
    }
    Err(format!("{what}: {measured:?}, {restless:?}, largest gap {gap:?}, {left} operations are left of {most}"))
}

/// Long enough that a push which runs it all is told from one that hands over.
const ROW: u64 = 5_000;

/// However threads get their cores: a body that runs on the first thread waits until the other one
/// has pushed behind it.
#[test]
fn a_push_hands_over_to_a_thread_that_pushes_behind_it() {
    let _watchdog = Watchdog::new(100, "a push that hands over");
    let engine = Engine::builder().kind(Kind::Naive).build().unwrap();
    let x = engine.new_variable();
    // Pushes of the other thread, and bodies that the first one has run.
    let (pushes, bodies) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (gate, over) = (Gate::new(), Arc::new(AtomicBool::new(false)));
    let first = std::thread::current().id();
    let other = std::thread::spawn({
        let (engine, gate, over) = (engine.clone(), gate.clone(), Arc::clone(&over));
        let (pushes, bodies) = (Arc::clone(&pushes), Arc::clone(&bodies));
        move || {
            gate.wait_for_someone();
            while !over.load(SeqCst) {
                let (pushed, bodies, over) = (Arc::clone(&pushes), Arc::clone(&bodies), Arc::clone(&over));
                let body = move |_: &RunContext<'_>| {
                    if std::thread::current().id() == first {
                        // Enough to fail: without an end the backlog would grow for as long as this
                        // goes on.
                        if bodies.fetch_add(1, SeqCst) > 4 * MOST {
                            over.store(true, SeqCst);
                        }
                        let before = pushed.load(SeqCst);
                        while pushed.load(SeqCst) < before + 2 && !over.load(SeqCst) {
                            std::thread::yield_now();
                        }
                    }
                };
                engine.op("behind").writes([x]).push(body).unwrap();
                if pushes.fetch_add(1, SeqCst) + 1 == ROW {
                    gate.open();
                }
            }
        }
    });
    let stand = gate.clone();
    engine.op("first").writes([x]).push(move |_| stand.pass()).unwrap();
    let ran = bodies.load(SeqCst);
    over.store(true, SeqCst);
    other.join().unwrap();
    assert_eq!(engine.version(x).unwrap(), pushes.load(SeqCst) + 1, "not all have run when nobody pushes any more");
    println!("the push ran {ran} operations of the other thread");
    assert!(ran <= 2 * MOST, "one push ran {ran} operations of another thread");
}

/// The other thread may fall silent, and nobody waits: then the first runs what is left.
#[test]
fn a_push_that_nobody_relieves_leaves_nothing_behind() {
    let engine = Engine::builder().kind(Kind::Naive).build().unwrap();
    let x = engine.new_variable();
    let gate = Gate::new();
    let other = std::thread::spawn({
        let (engine, gate) = (engine.clone(), gate.clone());
        move || {
            gate.wait_for_someone();
            (0..ROW).for_each(|_| engine.op("behind").writes([x]).push(nothing).unwrap());
            gate.open();
        }
    });
    let stand = gate.clone();
    engine.op("first").writes([x]).push(move |_| stand.pass()).unwrap();
    assert_eq!(engine.version(x).unwrap(), ROW + 1);
    other.join().unwrap();
}

#[test]
fn a_push_runs_a_bounded_slice_of_others_and_returns_in_time() {
    for kind in [Kind::Naive, Kind::Pooled, Kind::PerDevice] {
        for inline_below in [Duration::ZERO, Duration::from_micros(10)] {
            let mut rounds = (0..ROUNDS).map(|_| beside_a_thread_that_never_pauses(kind, inline_below));
            let late: Vec<String> = rounds.by_ref().map_while(Result::err).collect();
            assert!(late.len() < ROUNDS as usize, "every round was late: {late:#?}");
        }
    }
}

/// Operations that a wait is for, at most.
const OWN: usize = 4;
/// How long an operation of the thread that never pauses takes.
const BODY: Duration = Duration::from_micros(1);
/// A round of waits ends here at the latest: a waiter that sleeps while three threads keep two
/// cores busy gets a core back after milliseconds.
const ROUND: Duration = Duration::from_secs(15);
/// Waits that even then are made.
const FEWEST: u64 = 500;

/// One round of waits, each for some operations that the thread has just pushed in a row. Says how
/// late the latest was: what it took beyond the bodies of these, and beyond [`LATE`] and the times
/// for which its threads may have lost their cores.
fn waits_beside_a_thread_that_never_pauses(kind: Kind, helps: bool) -> Result<(), String> {
    let what = format!("{kind}, waiters help: {helps}");
    let most = by_length(5_000, 100_000);
    let _watchdog = Watchdog::new(60 + 2 * ROUND.as_secs(), what.clone());
    let engine = Engine::builder().kind(kind).cpu_workers(1).waiters_help(helps).build().unwrap();
    let shared = Arc::new(Shared::default());
    let own = engine.new_variable();
    engine.op("first").write(own).push(nothing).unwrap();
    engine.wait_for_all().unwrap();
    let restless = std::thread::spawn({
        let (engine, shared) = (engine.clone(), Arc::clone(&shared));
        let variables: Vec<Variable> = (0..3).map(|_| engine.new_variable()).collect();
        move || {
            let mut random = Random(1);
            while !shared.over.load(Relaxed) {
                let ran = Arc::clone(&shared);
                let body = move |_: &RunContext<'_>| {
                    common::spin(BODY);
                    ran.ran.fetch_add(1, Relaxed);
                };
                engine.op("restless").write(random.pick(&variables)).push(body).unwrap();
                shared.returned[0].fetch_add(1, SeqCst);
                while shared.backlog() > BACKLOG {
                    std::thread::yield_now();
                }
            }
        }
    });
    let clock = std::thread::spawn({
        let shared = Arc::clone(&shared);
        move || largest_gap(&shared)
    });
    let mut random = Random(2);
    let took = Arc::new(AtomicU64::new(0));
    let (mut waits, mut latest, mut late, mut backlog) = (0, Duration::ZERO, 0, 0);
    let started = Instant::now();
    while waits < FEWEST || (waits < most && started.elapsed() < ROUND) {
        waits += 1;
        took.store(0, SeqCst);
        let begun = Instant::now();
        for _ in 0..random.between(1, OWN) {
            let took = Arc::clone(&took);
            let body = move |_: &RunContext<'_>| {
                let begun = Instant::now();
                common::spin(BODY);
                took.fetch_add(begun.elapsed().as_nanos() as u64, SeqCst);
            };
            engine.op("own").write(own).push(body).unwrap();
        }
        engine.wait_for_var(own).unwrap();
        let lateness = begun.elapsed().saturating_sub(Duration::from_nanos(took.load(SeqCst)));
        latest = latest.max(lateness);
        late += u64::from(lateness > LATE);
        backlog = backlog.max(shared.backlog());
    }
    shared.over.store(true, SeqCst);
    restless.join().unwrap();
    let gap = clock.join().unwrap();
    engine.wait_for_all().unwrap();
    let text =
        format!("{what}: of {waits} waits {late} were late, at most by {latest:?}; gap {gap:?}, backlog {backlog}");
    println!("{text}");
    // If the waiter does not help, the worker and the waiter may each have lost its core, and a
    // thread that is woken may stand behind two others. The backlog would be 200 ms.
    if latest <= LATE + if helps { gap } else { 3 * gap } {
        Ok(())
    } else {
        Err(text)
    }
}

#[test]
fn a_wait_beside_a_thread_that_never_pauses_is_over_with_what_it_waits_for() {
    for kind in [Kind::Naive, Kind::Pooled, Kind::PerDevice] {
        for helps in [true, false] {
            let mut rounds = (0..ROUNDS).map(|_| waits_beside_a_thread_that_never_pauses(kind, helps));
            let late: Vec<String> = rounds.by_ref().map_while(Result::err).collect();
            assert!(late.len() < ROUNDS as usize, "every round was late: {late:#?}");
        }
    }
}
