//! Faults of the driver, as programs of an engine meet them: every function that the engine comes
//! to call fails, at its first call, its second and a later one, once or so that the device is
//! lost. Nothing hangs, errors are typed, the processor goes on, and a lost device is left alone.

use crate::client::{Count, Standin};
use crate::common::{nothing, Watchdog};
use crate::memory::{compute, copy, kernel, Entered, Place};
use crate::programs::LIMIT;
use crate::seeds::turn;
use seriatim::{Context, Engine, Error, ErrorKind, Kind, Property, RunContext, Variable};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::Arc;

const GPU: Context = Context::gpu(0);
/// The driver has no memory: a call that is refused, and the device goes on.
pub const REFUSED: i32 = 2;
/// A launch has failed: the device is lost.
pub const LOST: i32 = 719;
const NAMES: [&str; 4] = ["kernel", "to the device", "from the device", "urgent"];

/// Two cells of the host, two of the device, and their variables.
struct Bench {
    engine: Engine,
    places: Vec<Place>,
    variables: Vec<Variable>,
    /// Whether the loss of the device was told: nobody knows what it has written, so the processor
    /// leaves its memory alone.
    is_lost: Arc<AtomicBool>,
}

impl Bench {
    fn new(kind: Kind, entered: &Entered) -> Bench {
        let places = vec![
            Place::of_host(entered),
            Place::of_host(entered),
            Place::of_device(entered),
            Place::of_device(entered),
        ];
        let builder = Engine::builder().kind(kind).cpu_workers(1).on_error(|_| ());
        let engine = builder.build().expect("the settings are valid");
        let variables = (0..4).map(|_| engine.new_variable()).collect();
        Bench { engine, places, variables, is_lost: Arc::default() }
    }

    fn push(&self, name: &'static str, id: u64, from: usize, to: usize) -> Result<(), Error> {
        let (from_place, to_place, is_lost) = (self.places[from], self.places[to], Arc::clone(&self.is_lost));
        let builder = self.engine.op(name).reads([self.variables[from]]).writes([self.variables[to]]);
        let builder = match name {
            "kernel" => builder.context(GPU),
            "urgent" => builder.context(GPU).priority(1),
            "to the device" => builder.context(GPU).property(Property::CopyToGpu),
            "from the device" => builder.context(GPU).property(Property::CopyFromGpu),
            _ => builder,
        };
        builder.push(move |run: &RunContext<'_>| match run.stream() {
            None if is_lost.load(SeqCst) => Ok(()),
            None => compute(id, &[from_place], &[to_place]),
            Some(stream) if name.contains("the device") => copy(stream, from_place, to_place),
            Some(stream) => kernel(stream, id, vec![from_place], vec![to_place], || ()),
        })
    }

    /// Twelve operations of each kind, in turn, on memory that all of them use.
    fn some(&self) -> Vec<Error> {
        let mut refused = Vec::new();
        for round in 0..12 {
            for (step, (name, from, to)) in [
                ("to the device", 0, 2),
                ("kernel", 2, 3),
                ("urgent", 3, 2),
                ("processor", 1, 0),
                ("from the device", 3, 1),
                ("kernel", 3, 2),
            ]
            .into_iter()
            .enumerate()
            {
                refused.extend(self.push(name, round * 10 + step as u64, from, to).err());
            }
        }
        refused
    }

    /// Every variable is written on the processor; waits until that works.
    fn processor_goes_on(&self, errors: &mut Vec<Error>) -> Result<(), String> {
        for _ in 0..4 {
            match write_all(&self.engine, &self.variables)? {
                Ok(()) => return Ok(()),
                Err(error) => errors.push(error),
            }
        }
        Err(format!("the processor does not go on: {errors:?}"))
    }
}

/// Writes every variable on the processor and waits for everything; returns what the wait says, or
/// what is wrong with the engine.
pub fn write_all(engine: &Engine, variables: &[Variable]) -> Result<Result<(), Error>, String> {
    let ran = Arc::new(AtomicUsize::new(0));
    let own = Arc::clone(&ran);
    let all = variables.iter().copied();
    let pushed = engine.op("after").writes(all).push(move |_| _ = own.fetch_add(1, SeqCst));
    pushed.map_err(|error| format!("the processor is refused: {error}"))?;
    let waited = engine.wait_for_all_timeout(LIMIT);
    match ran.load(SeqCst) {
        count if waited.is_ok() && count != 1 => Err("an operation has vanished".to_owned()),
        _ => Ok(waited),
    }
}

/// What came of a run.
struct Outcome {
    /// How often each function was called since the fault was planted.
    calls: BTreeMap<String, u64>,
    errors: Vec<Error>,
}

/// Runs the program with one fault: of a function, at its n-th call, sticky or not.
fn run(standin: &Standin, kind: Kind, seed: u64, fault: Option<(&str, u64, bool)>) -> Result<Outcome, String> {
    standin.again(seed, 100);
    standin.burst(4);
    let entered = Entered::new(standin);
    let bench = Bench::new(kind, &entered);
    let before: BTreeMap<String, u64> = standin.called().into_iter().collect();
    if let Some((function, nth, sticky)) = fault {
        match sticky {
            true => standin.fail_for_good(function, nth, LOST),
            false => standin.fail(function, nth, REFUSED),
        }
    }
    let mut errors = bench.some();
    errors.extend(bench.engine.wait_for_all_timeout(LIMIT).err());
    bench.processor_goes_on(&mut errors)?;
    bench.is_lost.store(errors.iter().any(|error| error.kind() == ErrorKind::DeviceLost), SeqCst);
    // Once more: a device that was refused something works, and a lost one refuses.
    errors.extend(bench.some());
    errors.extend(bench.engine.wait_for_all_timeout(LIMIT).err());
    bench.processor_goes_on(&mut errors)?;
    let is_lost = errors.iter().any(|error| error.kind() == ErrorKind::DeviceLost);
    bench.engine.stop().map_err(|error| format!("the stop is refused: {error}"))?;
    drop(bench);
    let mut calls: BTreeMap<String, u64> = standin.called().into_iter().collect();
    before.into_iter().for_each(|(function, count)| *calls.entry(function).or_default() -= count);
    match fault {
        Some((.., true)) => entered.forget(),
        _ => drop(entered),
    }
    let fine = |error: &&Error| matches!(error.kind(), ErrorKind::DeviceLost | ErrorKind::DeviceUnavailable);
    if let Some(other) = errors.iter().find(|error| !fine(error)) {
        return Err(format!("an error of another kind: {other}"));
    }
    let gives_back = fault.is_some_and(|(function, ..)| function.contains("Destroy"));
    let sticky = fault.is_some_and(|(.., sticky)| sticky);
    if !sticky && !gives_back && !is_lost {
        let left = [Count::Streams, Count::Events, Count::Commands].map(|what| standin.count(what));
        if left != [0; 3] {
            return Err(format!("streams, events and commands are left: {left:?}"));
        }
    }
    let expected = |report: &String| {
        gives_back && report.contains("gone before its streams") || sticky && is_of_a_lost_read(report)
    };
    match standin.reports().into_iter().find(|report| !expected(report)) {
        Some(report) => Err(report),
        None => Ok(Outcome { calls, errors }),
    }
}

/// Whether the processor has written what a lost device was to read. That is unknown, so it counts
/// as over, but a kernel that had begun on another thread reads to its end.
pub fn is_of_a_lost_read(report: &str) -> bool {
    let is_late = report.contains("the read '") && report.contains("on stream") && report.ends_with("on the host");
    report.contains("is not ordered after the read") || is_late && report.contains("is not ordered after the write")
}

fn every_function_fails(kind: Kind, stickies: &[bool]) {
    let standin = Standin::begin(1, 128);
    let clean = run(&standin, kind, 1, None).expect("nothing is planted");
    assert!(clean.errors.is_empty(), "{:?}", clean.errors);
    // Those of the program's own work are not the engine's.
    let functions: Vec<(String, u64)> =
        clean.calls.into_iter().filter(|(name, count)| *count > 0 && !name.starts_with("cuMem")).collect();
    let turn = turn();
    let (mut runs, mut told, mut named, mut failed) = (0, 0, 0, Vec::new());
    for (function, count) in &functions {
        // As many turns as the function has calls meet each of them.
        for nth in [1, 2, 3 + turn % ((*count).max(3) - 2)] {
            for sticky in stickies {
                let what = format!("{kind}: {function}, call {nth}, {}", if *sticky { "lost" } else { "refused" });
                let _watchdog = Watchdog::new(240, what.clone());
                runs += 1;
                // Some functions are called only if threads meet in time.
                let is_met = |outcome: &Result<Outcome, String>| match outcome {
                    Ok(Outcome { calls, .. }) => nth > 1 || calls.get(function).is_some_and(|count| *count >= nth),
                    Err(_) => true,
                };
                let mut tries =
                    (0..30).map(|again| run(&standin, kind, nth + 100 * again, Some((function, nth, *sticky))));
                match tries.find(is_met).unwrap_or_else(|| panic!("{what}: it was not called")) {
                    Err(said) => failed.push(format!("{what}: {said}")),
                    Ok(Outcome { errors, .. }) => {
                        told += usize::from(!errors.is_empty());
                        let lost = errors.iter().filter(|error| error.kind() == ErrorKind::DeviceLost);
                        let names =
                            |error: &Error| NAMES.iter().any(|name| error.to_string().contains(&format!("'{name}'")));
                        named += usize::from(lost.into_iter().any(names));
                    }
                }
            }
        }
    }
    println!("{kind}: {runs} faults of {} functions; {told} were told, {named} with suspects", functions.len());
    assert!(failed.is_empty(), "{} of {runs}:\n{}", failed.len(), failed.join("\n"));
    // The rest are calls that are made again, or those of an end.
    assert!(told * 4 > runs, "{told} of {runs} faults are told");
    assert!(kind == Kind::Naive || !stickies.contains(&true) || named > 3, "{named} messages name suspects");
}

#[test]
fn every_function_is_refused_on_the_per_device_engine() {
    every_function_fails(Kind::PerDevice, &[false]);
}

#[test]
fn every_function_loses_the_device_on_the_per_device_engine() {
    every_function_fails(Kind::PerDevice, &[true]);
}

#[test]
fn every_function_fails_on_the_naive_engine() {
    every_function_fails(Kind::Naive, &[false, true]);
}

/// A kernel breaks its device: it is named, and the other device and the processor go on.
#[test]
fn a_kernel_that_breaks_its_device_is_named_and_the_other_device_goes_on() {
    let standin = Standin::begin(1, 128);
    let _watchdog = Watchdog::new(240, "a kernel that breaks its device");
    for seed in 0..30 {
        standin.again(seed, 100);
        standin.devices(2);
        let entered = Entered::new(&standin);
        let bench = Bench::new([Kind::PerDevice, Kind::Pooled][seed as usize % 2], &entered);
        let (engine, [x, y, z]) = (&bench.engine, [0, 1, 2].map(|at| bench.variables[at]));
        let breaks = |run: &RunContext<'_>| {
            let code = crate::client::queue(run.stream().expect("it is on a device").raw(), || 700);
            assert_eq!(code, 0);
        };
        let place = bench.places[1];
        let fine = move |run: &RunContext<'_>| match run.stream() {
            Some(stream) => kernel(stream, seed, Vec::new(), vec![place], || ()),
            None => compute(seed, &[], &[place]),
        };
        engine.op("breaks").context(GPU).writes([x]).push(breaks).unwrap();
        engine.op("other").context(Context::gpu(1)).writes([y]).push(fine).unwrap();
        engine.op("behind").reads([x]).writes([z]).push(|_| panic!("it is not called")).unwrap();
        engine.op("processor").writes([y]).push(fine).unwrap();
        let error = engine.wait_for_var_timeout(z, LIMIT).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DeviceLost, "seed {seed}: {error}");
        assert!(error.to_string().contains("'breaks'"), "seed {seed}: {error}");
        engine.wait_for_var_timeout(y, LIMIT).unwrap();
        engine.op("other").context(Context::gpu(1)).writes([x, y, z]).push(fine).unwrap();
        // The device itself is told of as well.
        assert_eq!(engine.wait_for_all_timeout(LIMIT).unwrap_err().kind(), ErrorKind::DeviceLost, "seed {seed}");
        engine.wait_for_all_timeout(LIMIT).unwrap();
        assert_eq!(engine.op("late").context(GPU).push(nothing).unwrap_err().kind(), ErrorKind::DeviceLost);
        engine.stop().unwrap();
        drop(bench);
        entered.forget();
        assert_eq!(standin.reports(), [""; 0], "seed {seed}");
    }
}
