//! A fault at each call of the driver, in turn, while programs do what the operations of
//! `faults.rs` do not (`sweep_programs.rs`). Nothing hangs, errors are typed and name what was
//! queued, the processor goes on, and what was made is given back. The usual run takes some of the
//! calls, others in each turn (`CUDA_ENGINE_TURN`), and `CUDA_ENGINE_CALLS` all of them
//! (`seeds.rs`).
//!
//! Devices are ready when a program begins: `faults.rs` has the faults before that.

use crate::client::{queue_again, Count, Standin};
use crate::common::{assert_says, by_length, Watchdog};
use crate::faults::{is_of_a_lost_read, LOST, REFUSED};
use crate::memory::Entered;
use crate::programs::LIMIT;
use crate::seeds::{number, turn};
use crate::sweep_programs::{is_loss, Bench, Program, CELLS, NAMES, OFTEN, PROGRAMS};
use seriatim::gpu::{Backend, Cuda};
use seriatim::{Capture, Context, Error, ErrorKind, Kind, RunContext};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::Arc;

/// Those of an engine with one worker on its device: that one, one for copies, and the watcher.
const DEVICE_THREADS: usize = 3;

/// How a call fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Failing {
    /// Once, and the device goes on.
    Once,
    /// So often that the engine gives up, and the device goes on.
    Often,
    /// By the loss of the device.
    Lost,
}

/// What came of a run.
struct Outcome {
    /// How often each function was called since the fault was planted, and until the end.
    calls: BTreeMap<String, u64>,
    errors: Vec<Error>,
}

/// Runs a program with one fault: of a function, at its n-th call.
fn run(
    standin: &Standin,
    (kind, program): (Kind, Program),
    seed: u64,
    fault: Option<(&str, u64, Failing)>,
) -> Result<Outcome, String> {
    standin.again(seed, 200);
    let cuda = Cuda::open().expect("the stand-in is a driver");
    let entered = Entered::new(standin);
    let mut bench = Bench::new(kind, &entered, &cuda);
    let before: BTreeMap<String, u64> = standin.called().into_iter().collect();
    match fault {
        None => {}
        Some((function, nth, Failing::Lost)) => standin.fail_for_good(function, nth, LOST),
        Some((function, nth, Failing::Once)) => standin.fail(function, nth, REFUSED),
        Some((function, nth, Failing::Often)) => {
            (nth..nth + OFTEN).for_each(|nth| standin.fail(function, nth, REFUSED))
        }
    }
    program(&mut bench);
    let waited = bench.engine.wait_for_all_timeout(LIMIT);
    bench.note(waited);
    bench.processor_goes_on()?;
    // Once more: a device that was refused something works, and a lost one refuses.
    program(&mut bench);
    let waited = bench.engine.wait_for_all_timeout(LIMIT);
    bench.note(waited);
    bench.processor_goes_on()?;
    bench.engine.stop().map_err(|error| format!("the stop is refused: {error}"))?;
    let Bench { engine, device, streams, errors, .. } = bench;
    drop((device, engine));
    let is_lost = errors.iter().any(is_loss);
    let mut calls: BTreeMap<String, u64> = standin.called().into_iter().collect();
    before.into_iter().for_each(|(function, count)| *calls.entry(function).or_default() -= count);
    let sticky = fault.is_some_and(|(.., failing)| failing == Failing::Lost);
    if sticky {
        entered.forget();
        std::mem::forget(cuda);
    } else {
        // SAFETY: the engine has ended, and the device is entered.
        streams.into_iter().for_each(|stream| unsafe { cuda.drop_stream(stream) });
        drop(entered);
    }
    check(standin, kind, fault, is_lost, &errors)?;
    Ok(Outcome { calls, errors })
}

/// What must hold after a run, whatever was told.
fn check(
    standin: &Standin,
    kind: Kind,
    fault: Option<(&str, u64, Failing)>,
    is_lost: bool,
    errors: &[Error],
) -> Result<(), String> {
    let is_of = |names: &[&str]| fault.is_some_and(|(function, ..)| names.iter().any(|name| function.contains(name)));
    let failing = fault.map(|(.., failing)| failing);
    for error in errors {
        let text = error.to_string();
        let fine = match error.kind() {
            ErrorKind::DeviceLost => failing != Some(Failing::Once),
            ErrorKind::DeviceUnavailable => true,
            ErrorKind::OutOfMemory => failing != Some(Failing::Lost) && is_of(&["cuMem", "cuCtx"]),
            ErrorKind::StreamRefused => is_of(&["cuStreamIsCapturing"]),
            // What the program's own closures find.
            ErrorKind::OperationFailed => text.contains("the driver refuses work"),
            _ => false,
        };
        if !fine {
            return Err(format!("an error of another kind: {text}"));
        }
    }
    if is_lost && !errors.iter().any(|error| error.to_string().contains("queued there and not known to be done")) {
        return Err(format!("the suspects are not told: {errors:?}"));
    }
    // What could not be given back is left, and so is all of a lost device.
    let is_shut = failing == Some(Failing::Often) && is_of(&["cuCtx"]);
    if !is_lost && !is_shut && failing != Some(Failing::Lost) && !is_of(&["Destroy", "Free"]) {
        let left = [Count::Streams, Count::Events, Count::Commands, Count::Graphs].map(|what| standin.count(what));
        if left != [0; 4] {
            return Err(format!("streams, events, commands and graphs are left: {left:?}"));
        }
        // Those of the cells are the program's.
        let allocations = standin.count(Count::Allocations);
        if allocations != CELLS {
            return Err(format!("there are {allocations} allocations, of which {CELLS} are the program's"));
        }
    }
    let expected = |report: &String| {
        is_of(&["cuStreamDestroy"]) && report.contains("gone before its streams")
            || failing == Some(Failing::Lost) && is_of_a_lost_read(report)
            // The device goes on, and the engine has given it up.
            || failing == Some(Failing::Often) && (is_lost || is_of(&["cuStreamIsCapturing"]))
            || is_shut && report.contains("gone before its streams")
    };
    // Another thread that gives something back in this moment does so once: its call tells it.
    let mut late = if failing == Some(Failing::Lost) && kind != Kind::Naive { DEVICE_THREADS } else { 0 };
    let mut is_late = |report: &String| {
        let is_late = late > 0 && report.contains("was called for a device that is lost");
        late -= usize::from(is_late);
        is_late
    };
    standin.reports().into_iter().find(|report| !expected(report) && !is_late(report)).map_or(Ok(()), Err)
}

/// The calls of a function that are made to fail: all, if there are not many; else one in `rounds`,
/// which of them the turn says. So as many turns as there are rounds, one after the other, meet all
/// calls.
fn chosen(kind: Kind, failing: Failing, count: u64, turn: u64) -> (Vec<u64>, u64) {
    let most = match (kind, failing) {
        // A device that does not say how far it has come is given a second.
        (Kind::PerDevice, Failing::Often) => by_length(1, 2),
        (Kind::Naive, _) => by_length(4, 64),
        _ => by_length(4, 8),
    };
    let most = number("CUDA_ENGINE_CALLS").unwrap_or(most).max(1);
    let rounds = count.div_ceil(most);
    ((1..=count).filter(|nth| nth % rounds == turn % rounds).collect(), rounds)
}

#[test]
fn turns_one_after_the_other_meet_all_calls() {
    for (kind, count) in [(Kind::PerDevice, 1), (Kind::PerDevice, 9), (Kind::Naive, 300), (Kind::Naive, 301)] {
        let (_, rounds) = chosen(kind, Failing::Once, count, 0);
        let mut met: Vec<u64> = (77..77 + rounds).flat_map(|turn| chosen(kind, Failing::Once, count, turn).0).collect();
        met.sort_unstable();
        assert_eq!(met, (1..=count).collect::<Vec<_>>(), "{kind}");
    }
}

fn every_call_fails(kind: Kind, failing: Failing) {
    let standin = Standin::begin(1, 128);
    let turn = turn();
    let (mut runs, mut met, mut told, mut named, mut failed) = (0, 0, 0, 0, Vec::new());
    let mut turns = 1;
    for (name, program, needed) in PROGRAMS {
        let clean = run(&standin, (kind, program), 1, None).unwrap_or_else(|said| panic!("{name}: {said}"));
        assert!(clean.errors.is_empty(), "{name}: {:?}", clean.errors);
        for function in needed {
            assert!(clean.calls.get(*function).is_some_and(|count| *count > 0), "{name} does not call {function}");
        }
        for (function, count) in clean.calls.iter().filter(|(_, count)| **count > 0) {
            let (nths, rounds) = chosen(kind, failing, *count, turn);
            turns = turns.max(rounds);
            for nth in nths {
                let what = format!("{name} on {kind}: {function}, call {nth} of {count}, {failing:?}, turn {turn}");
                let _watchdog = Watchdog::new(240, what.clone());
                runs += 1;
                match run(&standin, (kind, program), nth, Some((function, nth, failing))) {
                    Err(said) => failed.push(format!("{what}: {said}")),
                    Ok(Outcome { calls, errors }) => {
                        met += usize::from(calls.get(function).is_some_and(|count| *count >= nth));
                        told += usize::from(!errors.is_empty());
                        let names = |error: &Error| {
                            let text = error.to_string();
                            is_loss(error) && NAMES.iter().any(|name| text.contains(&format!("'{name}")))
                        };
                        let is_named = errors.iter().any(names);
                        named += usize::from(is_named);
                        let waits =
                            kind == Kind::Naive && failing == Failing::Lost && function == "cuStreamSynchronize";
                        if waits && !errors.is_empty() && !is_named {
                            failed.push(format!("{what}: nothing is suspected: {errors:?}"));
                        }
                    }
                }
            }
        }
    }
    println!(
        "{kind}, {failing:?}, turn {turn} of {turns} that meet all calls: {runs} faults, {met} were met, {told} told, \
         {named} with suspects"
    );
    assert!(failed.is_empty(), "{} of {runs}:\n{}", failed.len(), failed.join("\n"));
    assert!(met * 10 > runs * 9, "{met} of {runs} faults are met");
    // The rest are calls that are made again, and those of an end.
    assert!(told * 20 > runs, "{told} of {runs} faults are told");
    let is_queued = kind == Kind::PerDevice && failing == Failing::Lost;
    assert!(!is_queued || named * 3 > told, "{named} of {told} losses name what was queued");
}

#[test]
fn each_call_is_refused_on_the_per_device_engine() {
    every_call_fails(Kind::PerDevice, Failing::Once);
}

#[test]
fn each_call_loses_the_device_on_the_per_device_engine() {
    every_call_fails(Kind::PerDevice, Failing::Lost);
}

#[test]
fn each_call_fails_on_the_naive_engine() {
    [Failing::Once, Failing::Lost].into_iter().for_each(|failing| every_call_fails(Kind::Naive, failing));
}

/// The engine gives up: some calls it can do without, by some the device counts as lost.
#[test]
fn a_function_that_goes_on_failing_ends_everything() {
    [Kind::PerDevice, Kind::Naive].into_iter().for_each(|kind| every_call_fails(kind, Failing::Often));
}

/// The device is lost by what a graph does there, long after it was captured.
#[test]
fn a_graph_that_breaks_its_device_is_named() {
    let standin = Standin::begin(1, 200);
    let _watchdog = Watchdog::new(240, "a graph that breaks its device");
    for kind in [Kind::PerDevice, Kind::Naive] {
        standin.again(1, 200);
        let cuda = Cuda::open().expect("the stand-in is a driver");
        let entered = Entered::new(&standin);
        let mut bench = Bench::new(kind, &entered, &cuda);
        let (x, runs) = (bench.engine.new_variable(), Arc::new(AtomicUsize::new(0)));
        let record = |c: &mut Capture| {
            c.op("part").context(Context::gpu(0)).write(x).device_graph().push(move |run: &RunContext<'_>| {
                let runs = Arc::clone(&runs);
                let breaks = move || if runs.fetch_add(1, SeqCst) == 3 { 700 } else { 0 };
                assert_eq!(queue_again(run.stream().expect("it is on a device").raw(), breaks), 0);
            })
        };
        let (graph, ()) = bench.engine.capture(record).unwrap();
        let replayed: Result<(), Error> = (0..8).try_for_each(|_| graph.replay());
        // On the naive engine the device is lost by then.
        let error = replayed.and_then(|()| bench.engine.wait_for_all_timeout(LIMIT)).unwrap_err();
        assert_says(&error, ErrorKind::DeviceLost, &["'part'", "gpu(0) is lost"]);
        bench.processor_goes_on().unwrap_or_else(|said| panic!("{kind}: {said}"));
        assert!(graph.replay().is_err_and(|error| is_loss(&error)), "{kind}");
        drop((graph, bench));
        entered.forget();
        std::mem::forget(cuda);
        assert_eq!(standin.reports(), [""; 0], "{kind}");
    }
}
