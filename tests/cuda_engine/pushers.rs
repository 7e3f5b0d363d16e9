//! Random programs of several pushers, with own and common variables. What a thread does to its own
//! cells is compared with a sequential run. For common ones there is no such run, but rules: they
//! are changed in one order, that of each thread is its own, and nobody comes too early.

use crate::client::Standin;
use crate::common::Random;
use crate::memory::{compute, kernel, mixed, Entered, Place, FRESH};
use crate::plan::Plan;
use crate::programs::{what_is_left, LIMIT};
use crate::seeds::{run_seeds, Run};
use seriatim::{Context, Engine, Kind, Property, RunContext, Variable};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

const OWN: usize = 3;
const COMMON: usize = 3;

/// A common cell: the operations that have changed it, and how many have begun and ended to.
struct Common {
    place: Place,
    variable: Variable,
    changes: Mutex<Vec<u64>>,
    begun: AtomicU64,
    ended: AtomicU64,
    /// For each pusher how many of its changes are done.
    of_pushers: [AtomicU64; 4],
}

struct Pusher {
    number: usize,
    engine: Engine,
    random: Random,
    devices: usize,
    own: Vec<(Place, Variable)>,
    expected: [u64; OWN],
    common: Arc<Vec<Common>>,
    /// How often this pusher has changed each common cell.
    changed: [u64; COMMON],
}

/// What the operation does to common cells when its work is done.
fn end(common: &[Common], writes: &[usize], pusher: usize, id: u64) {
    for cell in writes.iter().map(|cell| &common[*cell]) {
        cell.changes.lock().unwrap().push(id);
        cell.of_pushers[pusher].fetch_add(1, SeqCst);
        cell.ended.fetch_add(1, SeqCst);
    }
}

fn some(random: &mut Random, cells: usize, percent: usize) -> Vec<usize> {
    (0..cells).filter(|_| random.chance(percent)).collect()
}

impl Pusher {
    fn push(&mut self, id: u64) {
        let random = &mut self.random;
        let (reads, writes) = (some(random, OWN, 25), some(random, OWN, 25));
        let writes: Vec<usize> = writes.into_iter().filter(|cell| !reads.contains(cell)).collect();
        let (looks, changes) = (some(random, COMMON, 12), some(random, COMMON, 12));
        let looks: Vec<usize> = looks.into_iter().filter(|cell| !changes.contains(cell)).collect();
        let value = mixed(id, reads.iter().chain(&writes).map(|cell| self.expected[*cell]));
        writes.iter().for_each(|cell| self.expected[*cell] = value);
        changes.iter().for_each(|cell| self.changed[*cell] += 1);
        let context = match random.below(3) {
            0 => Context::cpu(0),
            _ => Context::gpu(random.below(self.devices) as u32),
        };
        let property = match context == Context::cpu(0) {
            true => random.pick(&[Property::Normal, Property::Short, Property::CpuPrioritized]),
            false => random.pick(&[Property::Normal, Property::Normal, Property::GpuPrioritized, Property::CopyToGpu]),
        };
        let variables = |own: &[usize], common: &[usize]| {
            let own = own.iter().map(|cell| self.own[*cell].1);
            own.chain(common.iter().map(|cell| self.common[*cell].variable)).collect::<Vec<_>>()
        };
        let builder = self.engine.op("drawn").reads(variables(&reads, &looks)).writes(variables(&writes, &changes));
        let builder = builder.context(context).property(property).priority(random.below(2) as i32);
        let places = |own: &[usize]| own.iter().map(|cell| self.own[*cell].0).collect::<Vec<_>>();
        let of_common = |cells: &[usize]| cells.iter().map(|cell| self.common[*cell].place).collect::<Vec<_>>();
        let (own, seen) = ((places(&reads), places(&writes)), (of_common(&looks), of_common(&changes)));
        let (common, pusher) = (Arc::clone(&self.common), self.number);
        let body = move |run: &RunContext<'_>| {
            let (read, written) = own;
            let (looked, changed) = seen;
            match run.stream() {
                Some(stream) => {
                    changes.iter().for_each(|cell| _ = common[*cell].begun.fetch_add(1, SeqCst));
                    kernel(stream, id, looked, changed, || ())?;
                    let then = move || end(&common, &changes, pusher, id);
                    kernel(stream, id, read, written, then)
                }
                None => {
                    for cell in looks.iter().chain(&changes).map(|cell| &common[*cell]) {
                        if cell.begun.load(SeqCst) != cell.ended.load(SeqCst) {
                            return Err("it runs before a device is done".to_owned());
                        }
                    }
                    changes.iter().for_each(|cell| _ = common[*cell].begun.fetch_add(1, SeqCst));
                    compute(id, &looked, &changed)?;
                    compute(id, &read, &written)?;
                    end(&common, &changes, pusher, id);
                    Ok(())
                }
            }
        };
        builder.push(body).expect("the engine runs");
    }

    /// Waits for a cell, and looks whether this thread's own operations on it are done.
    fn wait(&mut self, id: u64) -> Result<(), String> {
        let at = self.random.below(OWN + COMMON);
        let timed = self.random.chance(30);
        let wait = |variable| match timed {
            true => self.engine.wait_for_var_timeout(variable, LIMIT),
            false => self.engine.wait_for_var(variable),
        };
        if at < OWN {
            let (place, variable) = self.own[at];
            wait(variable).map_err(|error| error.to_string())?;
            let (found, expected) = (place.value(id)?, self.expected[at]);
            return (found == expected).then_some(()).ok_or(format!("own cell {at} is {found:#x}, not {expected:#x}"));
        }
        let cell = &self.common[at - OWN];
        wait(cell.variable).map_err(|error| error.to_string())?;
        let (done, pushed) = (cell.of_pushers[self.number].load(SeqCst), self.changed[at - OWN]);
        (done == pushed).then_some(()).ok_or(format!("a wait is over after {done} of {pushed} changes"))
    }

    fn run(&mut self, operations: usize) -> Result<(), String> {
        for number in 0..operations {
            let id = (self.number as u64) << 32 | number as u64;
            self.push(id);
            if self.random.chance(5) {
                self.wait(id)?;
            }
        }
        Ok(())
    }
}

/// The changes of common cells: those of two cells that are the same operations' are in one order,
/// and those of each pusher in its own.
fn check(common: &[Common]) -> Result<(), String> {
    let changes: Vec<Vec<u64>> = common.iter().map(|cell| cell.changes.lock().unwrap().clone()).collect();
    for (index, one) in changes.iter().enumerate() {
        for pusher in 0..4 {
            let own: Vec<u64> = one.iter().copied().filter(|id| id >> 32 == pusher).collect();
            if !own.is_sorted() {
                return Err(format!("the operations of pusher {pusher} were done out of order"));
            }
        }
        for other in &changes[..index] {
            let place = |list: &[u64]| -> std::collections::HashMap<u64, usize> {
                list.iter().enumerate().map(|(at, id)| (*id, at)).collect()
            };
            let there = place(other);
            let both: Vec<usize> = one.iter().filter_map(|id| there.get(id).copied()).collect();
            if !both.is_sorted() {
                return Err("two cells were changed in different orders".to_owned());
            }
        }
    }
    Ok(())
}

/// Runs the program of a seed on a plan.
pub fn run(standin: &Standin, plan: &Plan, mut random: Random) -> Result<(), String> {
    let (engine, entered) = (plan.engine(), Entered::new(standin));
    let common: Arc<Vec<Common>> = Arc::new(
        (0..COMMON)
            .map(|_| Common {
                place: Place::of_host(&entered),
                variable: engine.new_variable(),
                changes: Mutex::default(),
                begun: AtomicU64::new(0),
                ended: AtomicU64::new(0),
                of_pushers: Default::default(),
            })
            .collect(),
    );
    let count = random.between(2, 4);
    let pushers: Vec<Pusher> = (0..count)
        .map(|number| Pusher {
            number,
            engine: engine.clone(),
            random: Random(random.next()),
            devices: plan.devices,
            own: (0..OWN).map(|_| (Place::of_host(&entered), engine.new_variable())).collect(),
            expected: [FRESH; OWN],
            common: Arc::clone(&common),
            changed: [0; COMMON],
        })
        .collect();
    let each = plan.operations / count;
    let pushers: Vec<_> = std::thread::scope(|scope| {
        let start = |mut pusher: Pusher| {
            scope.spawn(move || {
                let outcome = pusher.run(each);
                (pusher, outcome)
            })
        };
        let threads: Vec<_> = pushers.into_iter().map(start).collect();
        threads.into_iter().map(|thread| thread.join().expect("it does not panic")).collect()
    });
    let waited = engine.wait_for_all_timeout(LIMIT).map_err(|error| error.to_string());
    let reports = standin.reports();
    if let Some(report) = reports.first() {
        return Err(report.clone());
    }
    waited?;
    for (pusher, outcome) in pushers {
        outcome?;
        for ((place, _), expected) in pusher.own.iter().zip(pusher.expected) {
            let found = place.value(0)?;
            if found != expected {
                return Err(format!("a cell of pusher {} is {found:#x} and not {expected:#x}", pusher.number));
            }
        }
    }
    check(&common)?;
    drop(common);
    drop(engine);
    drop(entered);
    what_is_left(standin)
}

#[test]
fn random_programs_of_several_pushers_keep_one_order() {
    let run: Run = |standin, plan, _, random| run(standin, plan, random);
    let plan = |plan: Plan, seed| {
        // In each third program the first use of a device is most of it.
        let plan = if seed % 3 == 0 { Plan { operations: 12, ..plan } } else { plan };
        match plan.kind {
            Kind::Naive if seed % 2 == 0 => Plan { kind: Kind::PerDevice, ..plan },
            _ => plan,
        }
    };
    run_seeds((15_000, 400_000), |_| run, plan, |_, _| ());
}
