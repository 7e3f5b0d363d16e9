//! Random programs with tokens that are cancelled at random points: between pushes, and inside
//! operations. A model says of each operation whether it has to run, has to be skipped, or may do
//! either, since its start and a cancellation are in no order. What it does then decides all else:
//! the contents and versions of variables, what inherits which failure, and what waits return. On
//! the naive engine, where all is in order, nothing may do either.
//!
//! `SERIATIM_CANCELLATION_SEED=7` runs the program of one seed, on each engine.

use crate::common::*;
use seriatim::{testing, CancelToken, Completion, Context, Engine, Error, ErrorKind, Kind, Pending, Property};
use seriatim::{Capture, RunContext, StartLimits, Variable};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::sync::{mpsc, Arc};
use std::task::Poll;
use std::time::{Duration, Instant};

const VARIABLES: usize = 5;
const GROUPS: usize = 12;
/// Operations and cancellations of a program, as bits of a set.
const MOST_EVENTS: usize = 120;

/// How an operation is pushed, and how it ends.
#[derive(Clone, Copy, PartialEq, Debug)]
enum How {
    Push,
    Async,
    /// Another thread changes the variables and completes it.
    Elsewhere,
    Compute,
    Run,
    Operator,
    AsyncOperator,
    /// Is polled so often before it is ready.
    Future(usize),
}

#[derive(Clone, Debug)]
struct Op {
    reads: Vec<usize>,
    writes: Vec<usize>,
    how: How,
    property: Property,
    fails: bool,
    /// The group whose token it cancels before it ends.
    cancels: Option<usize>,
    work: usize,
}

/// The group of a push, and whether it has a deadline that has passed.
#[derive(Clone, Copy, Default, Debug)]
struct Within {
    group: Option<usize>,
    late: Option<bool>,
}

#[derive(Clone, Debug)]
enum Step {
    /// One operation, or those of a graph that is replayed.
    Push(Vec<Op>, Within, bool),
    Cancel(usize),
    WaitFor(usize),
    WaitForAll,
}

fn random_op(r: &mut Random, is_naive: bool, is_captured: bool, group: usize) -> Op {
    let all = [
        How::Push,
        How::Async,
        How::Compute,
        How::Run,
        How::Operator,
        How::AsyncOperator,
        How::Future(0),
        How::Elsewhere,
        How::Future(2),
    ];
    // What ends later than its push is in no order on the naive engine.
    let among = match (is_captured, is_naive) {
        (true, _) => &all[..2],
        (false, true) => &all[..7],
        (false, false) => &all[..],
    };
    let of = [Property::Normal, Property::NoSkip, Property::Short, Property::CpuPrioritized, Property::Io];
    Op {
        reads: (0..r.below(3)).map(|_| r.below(VARIABLES)).collect(),
        writes: (0..r.pick(&[0, 1, 1, 1, 2])).map(|_| r.below(VARIABLES)).collect(),
        how: r.pick(among),
        property: if r.chance(70) { Property::Normal } else { r.pick(&of) },
        fails: r.chance(6),
        cancels: r.chance(8).then_some(group),
        work: if r.chance(30) { r.below(3_000) } else { 0 },
    }
}

fn random_program(r: &mut Random, is_naive: bool) -> Vec<Step> {
    let (mut events, mut steps) = (0, Vec::new());
    while events < MOST_EVENTS - 8 {
        // Later pushes have other groups, so that not all are cancelled at last.
        let group = |r: &mut Random| (steps.len() / 10 + r.below(3)).min(GROUPS - 1);
        let (own, other) = (group(r), group(r));
        let within =
            Within { group: r.chance(60).then_some(own), late: if r.chance(10) { Some(r.chance(40)) } else { None } };
        let step = match r.below(100) {
            0..=67 => Step::Push(vec![random_op(r, is_naive, false, other)], within, false),
            68..=73 => {
                let ops = (0..r.between(0, 6)).map(|_| random_op(r, is_naive, true, other)).collect();
                Step::Push(ops, within, true)
            }
            74..=78 => Step::Cancel(other),
            79..=92 => Step::WaitFor(r.below(VARIABLES)),
            93..=98 => Step::WaitForAll,
            _ => break,
        };
        events += match &step {
            Step::Push(ops, ..) => ops.len(),
            Step::Cancel(_) => 1,
            _ => 0,
        };
        steps.push(step);
    }
    steps
}

/// What the operations of a program find and leave.
struct World {
    cells: Vec<AtomicU64>,
    tokens: Vec<CancelToken>,
    started: Vec<AtomicBool>,
    ended: Vec<AtomicBool>,
    seen: Vec<AtomicU64>,
}

impl World {
    fn begin(&self, id: usize) {
        assert!(!self.started[id].swap(true, SeqCst), "#{id} was called twice");
    }

    /// What an operation does. Nothing guards the cells but the engine.
    fn run(&self, id: usize, op: &Op) -> Result<u64, String> {
        let used = variables_of(op);
        let seen = used.iter().fold(0, |seen, (variable, _)| mix(seen ^ self.cells[*variable].load(Relaxed)));
        self.seen[id].store(seen, Relaxed);
        (0..op.work).for_each(|_| std::hint::spin_loop());
        if let Some(group) = op.cancels {
            self.tokens[group].cancel();
        }
        if !op.fails {
            used.iter().filter(|(_, writes)| *writes).for_each(|(variable, _)| {
                let cell = &self.cells[*variable];
                cell.store(result(id, cell.load(Relaxed), seen), Relaxed);
            });
        }
        self.ended[id].store(true, SeqCst);
        if op.fails {
            Err(format!("#{id} fails"))
        } else {
            Ok(seen)
        }
    }
}

fn result(id: usize, old: u64, seen: u64) -> u64 {
    mix(mix(old).wrapping_add(seen) ^ id as u64)
}

/// The variables of an operation, each once and in order, and whether it changes them.
fn variables_of(op: &Op) -> Vec<(usize, bool)> {
    let uses = |variable: &usize| op.reads.contains(variable) || op.writes.contains(variable);
    (0..VARIABLES).filter(uses).map(|variable| (variable, op.writes.contains(&variable))).collect()
}

/// A program that runs on an engine.
struct Run<'a> {
    engine: &'a Engine,
    variables: Vec<Variable>,
    world: Arc<World>,
    elsewhere: mpsc::Sender<(usize, Op, Completion)>,
    results: Vec<(usize, Pending<u64>)>,
}

impl Run<'_> {
    fn limits(&self, within: Within) -> StartLimits {
        let mut limits = StartLimits::new();
        if let Some(group) = within.group {
            limits = limits.token(&self.world.tokens[group]);
        }
        match within.late {
            None => limits,
            Some(true) => limits.deadline(Instant::now().checked_sub(Duration::from_millis(1)).unwrap()),
            Some(false) => limits.deadline(Instant::now() + Duration::from_secs(3_600)),
        }
    }

    fn push(&mut self, id: usize, op: &Op, within: Within) {
        let of = |variables: &[usize]| variables.iter().map(|variable| self.variables[*variable]).collect::<Vec<_>>();
        let builder = self.engine.op(format!("#{id}")).reads(of(&op.reads)).writes(of(&op.writes));
        let builder = builder.property(op.property);
        let limits = self.limits(within);
        let (world, own) = (Arc::clone(&self.world), op.clone());
        let run = move || {
            world.begin(id);
            world.run(id, &own)
        };
        let start = |run: Box<dyn Fn() -> Result<u64, String> + Send + Sync>| {
            move |_: &RunContext<'_>, completion: Completion| match run() {
                Ok(_) => completion.complete(),
                Err(error) => completion.fail(error),
            }
        };
        match op.how {
            How::Push => builder.limits(limits).push(move |_| run().map(drop)),
            How::Async => builder.limits(limits).push_async(start(Box::new(run))),
            How::Compute => builder.limits(limits).try_compute(move |_| run()).map(|got| self.results.push((id, got))),
            How::Run => builder.limits(limits).run(&self.engine.value(0), move |_| run().map(drop)),
            How::Operator => {
                let operator = builder.operator(move |_| run().map(drop)).unwrap();
                self.engine.push_limited(&operator, Context::cpu(0), 0, limits)
            }
            How::AsyncOperator => {
                let operator = builder.async_operator(start(Box::new(run))).unwrap();
                self.engine.push_limited(&operator, Context::cpu(0), 0, limits)
            }
            How::Elsewhere => {
                let (world, own, elsewhere) = (Arc::clone(&self.world), op.clone(), self.elsewhere.clone());
                builder.limits(limits).push_async(move |_, completion| {
                    world.begin(id);
                    elsewhere.send((id, own, completion)).unwrap();
                })
            }
            How::Future(polls) => {
                let (world, own, mut left) = (Arc::clone(&self.world), op.clone(), polls);
                builder.limits(limits).push_future(std::future::poll_fn(move |context| {
                    if left == polls {
                        world.begin(id);
                    }
                    if left > 0 {
                        left -= 1;
                        context.waker().wake_by_ref();
                        return Poll::Pending;
                    }
                    Poll::Ready(world.run(id, &own).map(drop))
                }))
            }
        }
        .unwrap();
    }

    fn replay(&self, first: usize, ops: &[Op], within: Within) {
        let record = |capture: &mut Capture| {
            testing::spreads_after(capture, (first % 3) as u32);
            ops.iter().enumerate().try_for_each(|(number, op)| {
                let of = |of: &[usize]| of.iter().map(|variable| self.variables[*variable]).collect::<Vec<_>>();
                let (world, own, id) = (Arc::clone(&self.world), op.clone(), first + number);
                let builder = capture.op(format!("#{id}")).reads(of(&op.reads)).writes(of(&op.writes));
                let builder = builder.property(op.property);
                let run = move || {
                    world.begin(id);
                    world.run(id, &own)
                };
                match op.how {
                    How::Async => builder.push_async(move |_, completion| match run() {
                        Ok(_) => completion.complete(),
                        Err(error) => completion.fail(error),
                    }),
                    _ => builder.push(move |_| run().map(drop)),
                }
            })
        };
        let (graph, ()) = self.engine.capture(record).unwrap();
        graph.replay_limited(0, self.limits(within)).unwrap();
    }
}

type Events = u128;

/// What comes after the uses of a variable: the events that are over then.
#[derive(Clone, Copy, Default)]
struct Over {
    write: Events,
    reads: Events,
}

/// Why an operation failed by itself.
#[derive(Clone, Debug)]
enum Reason {
    Failed,
    /// One of these.
    Skipped(Vec<ErrorKind>),
}

/// The serial execution, step by step, with what the operations have done.
struct Model<'a> {
    world: &'a World,
    is_exact: bool,
    /// The events before each event, and those that are over for the pushing thread.
    before: Vec<Events>,
    /// The first event of what each event was pushed with.
    first: Vec<usize>,
    main: Events,
    over: [Over; VARIABLES],
    /// The cancellations of each group, by event; of operations, those that have got so far.
    cancels: [Events; GROUPS],
    values: [u64; VARIABLES],
    versions: [u64; VARIABLES],
    marks: [Option<usize>; VARIABLES],
    /// The failures, with what they were pushed with.
    failures: Vec<(usize, usize, Reason)>,
    taken: BTreeSet<usize>,
    /// Of each operation, which failure ended it, if one did.
    outcomes: Vec<Option<usize>>,
    either: usize,
}

impl Model<'_> {
    /// What is over before an operation with these variables begins.
    fn before(&self, op: &Op) -> Events {
        variables_of(op).into_iter().fold(self.main, |before, (variable, writes)| {
            let over = self.over[variable];
            before | over.write | if writes { over.reads } else { 0 }
        })
    }

    fn use_up(&mut self, op: &Op, done: Events) {
        for (variable, writes) in variables_of(op) {
            match writes {
                true => self.over[variable] = Over { write: done, reads: 0 },
                false => self.over[variable].reads |= done,
            }
        }
    }

    /// The order of the operations of a push, of which several are a replay.
    fn place(&mut self, first: usize, ops: &[Op]) {
        // A replay takes the variables of all, and gives them back together.
        let before_all = ops.iter().fold(self.main, |before, op| before | self.before(op));
        let outside = std::mem::replace(&mut self.over, [Over { write: before_all, reads: 0 }; VARIABLES]);
        let mut done_all = before_all;
        for (number, op) in ops.iter().enumerate() {
            let id = first + number;
            self.before[id] = self.before(op) | before_all;
            self.first[id] = first;
            let done = self.before[id] | 1 << id;
            self.use_up(op, done);
            done_all |= done;
        }
        self.over = outside;
        // A read that another operation of the replay changes is of a variable that it changes.
        let mut whole = ops.iter().flat_map(variables_of).collect::<Vec<_>>();
        whole.sort_by_key(|(_, writes)| *writes);
        for (variable, writes) in whole {
            match writes {
                true => self.over[variable] = Over { write: done_all, reads: 0 },
                false => self.over[variable].reads |= done_all,
            }
        }
        if self.is_exact {
            self.main |= done_all;
        }
    }

    fn cancel(&mut self, id: usize, group: usize) {
        (self.before[id], self.first[id]) = (self.main, id);
        self.main |= 1 << id;
        self.cancels[group] |= 1 << id;
    }

    /// An operation, whose event is `id`, in its place in push order.
    fn step(&mut self, id: usize, first: usize, op: &Op, within: Within) -> Result<(), String> {
        let [started, ended] = [&self.world.started, &self.world.ended].map(|of| of[id].load(SeqCst));
        let used = variables_of(op);
        let live = |variable: &usize| self.marks[*variable].filter(|failure| !self.taken.contains(failure));
        let inherited = used.iter().find_map(|(variable, _)| live(variable));
        used.iter().filter(|(_, writes)| *writes).for_each(|(variable, _)| self.versions[*variable] += 1);
        let mut failure = inherited;
        if inherited.is_some() && op.property != Property::NoSkip {
            if started {
                return Err(format!("it ran, although it has inherited the failure of #{inherited:?}"));
            }
        } else {
            // Those of its own group that are before it, and those that are not behind it.
            let all = within.group.map_or(0, |group| self.cancels[group] & !(1 << id));
            let events = || (0..MOST_EVENTS).filter(move |event| all >> *event & 1 == 1);
            let is_cancelled = events().any(|event| self.before[id] >> event & 1 == 1);
            let may_be = events().any(|event| self.before[event] >> id & 1 == 0);
            let is_late = within.late == Some(true);
            if may_be && !is_cancelled && !is_late {
                self.either += 1;
                // Within a replay the engine chooses the order, the naive one too.
                let is_free = |event: &usize| self.before[*event] >> id & 1 == 0 && self.first[*event] != first;
                if self.is_exact && events().any(|event| is_free(&event)) {
                    return Err("it is in no order with a cancellation".into());
                }
            }
            if started && (is_cancelled || is_late) {
                return Err("it started beyond its limits".into());
            }
            if !ended {
                if !(may_be || is_late) {
                    return Err("it was skipped within its limits".into());
                }
                let kinds = match (is_cancelled, may_be, is_late) {
                    (true, ..) | (_, true, false) => vec![ErrorKind::Cancelled],
                    (_, true, true) => vec![ErrorKind::Cancelled, ErrorKind::DeadlineExceeded],
                    _ => vec![ErrorKind::DeadlineExceeded],
                };
                failure = Some(id);
                self.failures.push((id, first, Reason::Skipped(kinds)));
            } else {
                let seen = used.iter().fold(0, |seen, (variable, _)| mix(seen ^ self.values[*variable]));
                if self.world.seen[id].load(Relaxed) != seen {
                    return Err("it found other contents than what is before it has left".into());
                }
                if op.fails {
                    failure = Some(id);
                    self.failures.push((id, first, Reason::Failed));
                } else {
                    for (variable, _) in used.iter().filter(|(_, writes)| *writes) {
                        self.values[*variable] = result(id, self.values[*variable], seen);
                    }
                }
            }
        }
        self.outcomes[id] = failure;
        used.iter().filter(|(_, writes)| *writes).for_each(|(variable, _)| self.marks[*variable] = failure);
        Ok(())
    }

    /// Whether an error is that of this failure.
    fn is_of(&self, error: &Error, failure: usize) -> bool {
        let (.., reason) = self.failures.iter().find(|(id, ..)| *id == failure).expect("it failed");
        let fits = match reason {
            Reason::Failed => error.kind() == ErrorKind::OperationFailed,
            Reason::Skipped(kinds) => kinds.contains(&error.kind()),
        };
        fits && error.operation() == Some(&format!("#{failure}"))
    }

    fn wait_for(&mut self, variable: usize, outcome: &Result<(), Error>) -> Result<(), String> {
        let live = self.marks[variable].filter(|failure| !self.taken.contains(failure));
        self.main |= self.over[variable].write;
        self.taken.extend(live);
        match (outcome, live) {
            (Ok(()), None) => Ok(()),
            (Err(error), Some(failure)) if self.is_of(error, failure) => Ok(()),
            _ => Err(format!("the wait for variable {variable} returned {outcome:?}, not that of {live:?}")),
        }
    }

    fn wait_for_all(&mut self, outcome: &Result<(), Error>) -> Result<(), String> {
        let left: Vec<_> = self.failures.iter().filter(|(id, ..)| !self.taken.contains(id)).cloned().collect();
        self.main = self.over.iter().fold(self.main, |main, over| main | over.write | over.reads);
        self.taken.extend(left.iter().map(|(id, ..)| *id));
        // Of those of one replay, whichever was noted first.
        let first = left.first().map(|(_, together, _)| *together);
        let firsts: Vec<usize> =
            left.iter().filter(|(_, together, _)| Some(*together) == first).map(|(id, ..)| *id).collect();
        match outcome {
            Ok(()) if firsts.is_empty() => Ok(()),
            Err(error) if firsts.iter().any(|failure| self.is_of(error, *failure)) => Ok(()),
            _ => Err(format!("the wait for everything returned {outcome:?}, not one of {firsts:?}")),
        }
    }
}

/// Counts of what was tried.
#[derive(Default, Debug)]
struct Tried {
    ran: usize,
    cancelled: usize,
    either: usize,
    inherited: usize,
}

fn run_program(engine: &Engine, seed: u64, tried: &mut Tried) -> Result<(), String> {
    let is_naive = engine.kind() == Kind::Naive;
    let program = random_program(&mut Random(seed), is_naive);
    let fresh = || (0..MOST_EVENTS).map(|_| AtomicBool::new(false)).collect();
    let world = Arc::new(World {
        cells: (0..VARIABLES).map(|_| AtomicU64::new(0)).collect(),
        tokens: (0..GROUPS).map(|_| CancelToken::new()).collect(),
        started: fresh(),
        ended: fresh(),
        seen: (0..MOST_EVENTS).map(|_| AtomicU64::new(0)).collect(),
    });
    let (elsewhere, inbox) = mpsc::channel::<(usize, Op, Completion)>();
    let ends = Arc::clone(&world);
    let completer = std::thread::spawn(move || {
        inbox.into_iter().for_each(|(id, op, completion)| match ends.run(id, &op) {
            Ok(_) => completion.complete(),
            Err(error) => completion.fail(error),
        });
    });
    let mut variables: Vec<Variable> = (0..VARIABLES).map(|_| engine.new_variable()).collect();
    // An operation inherits the failure of the first of its variables, in the engine's order.
    variables.sort_unstable_by_key(|variable| variable.into_raw());
    let mut run = Run { engine, variables, world: Arc::clone(&world), elsewhere, results: Vec::new() };
    let (mut next, mut waits) = (0, Vec::new());
    for step in &program {
        match step {
            Step::Push(ops, within, is_replay) => {
                match is_replay {
                    true => run.replay(next, ops, *within),
                    false => run.push(next, &ops[0], *within),
                }
                next += ops.len();
            }
            Step::Cancel(group) => {
                world.tokens[*group].cancel();
                next += 1;
            }
            Step::WaitFor(variable) => waits.push(engine.wait_for_var(run.variables[*variable])),
            Step::WaitForAll => waits.push(engine.wait_for_all()),
        }
    }
    let last = [engine.wait_for_all(), engine.wait_for_all()];
    let Run { variables, elsewhere, results, .. } = run;
    drop(elsewhere);
    completer.join().map_err(|_| "an operation was called twice".to_owned())?;

    let mut model = Model {
        world: &world,
        is_exact: is_naive,
        before: vec![0; MOST_EVENTS],
        first: vec![0; MOST_EVENTS],
        main: 0,
        over: Default::default(),
        cancels: [0; GROUPS],
        values: [0; VARIABLES],
        versions: [0; VARIABLES],
        marks: [None; VARIABLES],
        failures: Vec::new(),
        taken: BTreeSet::new(),
        outcomes: vec![None; MOST_EVENTS],
        either: 0,
    };
    // First who is before whom, then what was cancelled, then what became of it.
    next = 0;
    for step in &program {
        match step {
            Step::Push(ops, ..) => {
                model.place(next, ops);
                for (number, op) in ops.iter().enumerate() {
                    let id = next + number;
                    if let Some(group) = op.cancels.filter(|_| world.ended[id].load(SeqCst)) {
                        model.cancels[group] |= 1 << id;
                    }
                }
                next += ops.len();
            }
            Step::Cancel(group) => {
                model.cancel(next, *group);
                next += 1;
            }
            Step::WaitFor(variable) => model.main |= model.over[*variable].write,
            Step::WaitForAll => model.main |= model.over.iter().fold(0, |all, over| all | over.write | over.reads),
        }
    }
    next = 0;
    let mut returned = waits.iter();
    for step in &program {
        match step {
            Step::Push(ops, within, _) => {
                for (number, op) in ops.iter().enumerate() {
                    let id = next + number;
                    let told = |error| format!("#{id}: {error}: {op:?} {within:?}");
                    model.step(id, next, op, *within).map_err(told)?;
                    tried.ran += usize::from(world.ended[id].load(SeqCst));
                    tried.inherited += usize::from(model.outcomes[id].is_some_and(|failure| failure != id));
                }
                next += ops.len();
            }
            Step::Cancel(_) => next += 1,
            Step::WaitFor(variable) => model.wait_for(*variable, returned.next().unwrap())?,
            Step::WaitForAll => model.wait_for_all(returned.next().unwrap())?,
        }
    }
    last.iter().try_for_each(|outcome| model.wait_for_all(outcome))?;
    for (id, pending) in results {
        let (outcome, failure) = (pending.wait(), model.outcomes[id]);
        let fits = match (&outcome, failure) {
            // One that runs in spite of a failure has a result.
            (Ok(seen), failure) if failure != Some(id) => {
                *seen == world.seen[id].load(Relaxed) && world.ended[id].load(SeqCst)
            }
            (Err(error), Some(failure)) => model.is_of(error, failure),
            _ => false,
        };
        if !fits {
            return Err(format!("the result of #{id} is {outcome:?}, and its failure {failure:?}"));
        }
    }
    for (variable, cell) in world.cells.iter().enumerate() {
        let left = (cell.load(Relaxed), engine.version(variables[variable]).unwrap());
        let expected = (model.values[variable], model.versions[variable]);
        if left != expected {
            return Err(format!("variable {variable} ended as {left:?}, not {expected:?}"));
        }
    }
    tried.either += model.either;
    let is_skip = |(.., reason): &&(usize, usize, Reason)| matches!(reason, Reason::Skipped(_));
    tried.cancelled += model.failures.iter().filter(is_skip).count();
    variables.into_iter().for_each(|variable| engine.delete_variable(nothing, Context::cpu(0), variable).unwrap());
    Ok(())
}

#[test]
fn random_programs_run_what_is_within_its_limits_and_nothing_else() {
    let only = std::env::var("SERIATIM_CANCELLATION_SEED").ok().map(|seed| seed.parse::<u64>().unwrap());
    let programs = if cfg!(miri) { 2 } else { 300 };
    on_every_engine(|engine| {
        let _watchdog = Watchdog::new(600, "a random program with cancellations");
        let mut tried = Tried::default();
        let seeds = only.map_or(0..programs, |seed| seed..seed + 1);
        for seed in seeds {
            if let Err(error) = run_program(&engine, seed, &mut tried) {
                panic!("{error}\nin the program of SERIATIM_CANCELLATION_SEED={seed}");
            }
        }
        if only.is_none() && !cfg!(miri) {
            let Tried { ran, cancelled, either, inherited } = tried;
            assert!(ran > 3_000 && cancelled > 1_500 && inherited > 1_000, "{tried:?}");
            assert!(engine.kind() == Kind::Naive || either > 100, "{tried:?}");
            if std::env::var_os("SERIATIM_CANCELLATION_COUNTS").is_some() {
                println!("{}: {tried:?}", engine.kind());
            }
        }
    });
}
