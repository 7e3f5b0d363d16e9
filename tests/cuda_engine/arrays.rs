//! Arrays of a device and pinned ones, over the stand-in: each of the driver's functions for memory
//! fails, as in `faults.rs`. Nothing hangs, no value is wrong, and all memory is given back.

use crate::client::{Count, Standin};
use crate::common::{nothing, Watchdog};
use crate::faults::{LOST, REFUSED};
use crate::programs::LIMIT;
use crate::seeds::turn;
use seriatim::gpu::{DeviceData, PinnedData};
use seriatim::{Context, Engine, Error, ErrorKind, Kind};
use std::collections::BTreeSet;

const VALUES: usize = 500;

/// Values go to the device, across it and back; says what they are then.
fn there_and_back(engine: &Engine, number: u32) -> Result<Vec<u32>, Error> {
    let gpu = engine.device(Context::gpu(0))?;
    let values = vec![number; VALUES];
    let (x, y) = (DeviceData::from_slice(&gpu, &values)?, DeviceData::<u32>::zeros(&gpu, VALUES)?);
    let back = PinnedData::<u32>::zeros(&gpu, VALUES)?;
    engine.copy(&x, &y)?;
    engine.copy(&y, &back)?;
    engine.wait_for_all_timeout(LIMIT)?;
    let found = back.read()?.to_vec();
    Ok(found)
}

/// Runs the program with one fault; returns the calls by function, and whether anything was told.
fn run(standin: &Standin, kind: Kind, fault: Option<(&str, u64, bool)>) -> Result<(Vec<(String, u64)>, bool), String> {
    standin.again(1, 100);
    let engine = Engine::builder().kind(kind).cpu_workers(1).pin(false).on_error(|_| ()).build().unwrap();
    if let Some((function, nth, sticky)) = fault {
        match sticky {
            true => standin.fail_for_good(function, nth, LOST),
            false => standin.fail(function, nth, REFUSED),
        }
    }
    let sticky = fault.is_some_and(|(.., sticky)| sticky);
    let mut told = false;
    for number in 1..=5 {
        match there_and_back(&engine, number) {
            Ok(found) if found == vec![number; VALUES] => {}
            Ok(found) => return Err(format!("round {number} has come back as {:?}", &found[..3])),
            Err(error) if error.kind() == ErrorKind::TimedOut => return Err(error.to_string()),
            Err(_) => told = true,
        }
        // What is left of a round is taken.
        let _ = engine.wait_for_all_timeout(LIMIT);
    }
    let x = engine.new_variable();
    engine.op("processor").writes([x]).push(nothing).map_err(|error| error.to_string())?;
    engine.wait_for_var_timeout(x, LIMIT).map_err(|error| error.to_string())?;
    engine.stop().map_err(|error| error.to_string())?;
    drop(engine);
    let refused_free = fault.is_some_and(|(function, ..)| function.contains("Free"));
    if !sticky && !refused_free && standin.count(Count::Allocations) > 0 {
        return Err(format!("{} allocations are left", standin.count(Count::Allocations)));
    }
    match standin.reports().into_iter().find(|report| !sticky || !report.contains("is not ordered after the read")) {
        Some(report) => Err(report),
        None => Ok((standin.called(), told)),
    }
}

#[test]
fn every_function_of_memory_fails() {
    let standin = Standin::begin(1, 128);
    let (mut failed, mut runs, mut all_told) = (Vec::new(), 0, 0);
    for kind in [Kind::PerDevice, Kind::Naive] {
        let (called, told) = run(&standin, kind, None).expect("nothing is planted");
        assert!(!told, "nothing is planted");
        for (function, count) in called.into_iter().filter(|(name, _)| name.starts_with("cuMem")) {
            // As many turns as the function has calls meet each of them.
            let calls = BTreeSet::from([1, 2, count, 1 + turn() % count]);
            for (nth, sticky) in calls.into_iter().flat_map(|nth| [(nth, false), (nth, true)]) {
                let what = format!("{kind}: {function}, call {nth}, {}", if sticky { "lost" } else { "refused" });
                let _watchdog = Watchdog::new(240, what.clone());
                runs += 1;
                match run(&standin, kind, Some((&function, nth, sticky))) {
                    Ok((_, told)) => all_told += usize::from(told),
                    Err(said) => failed.push(format!("{what}: {said}")),
                }
            }
        }
    }
    println!("{runs} faults of memory, {all_told} were told");
    assert!(failed.is_empty(), "{} of {runs}:\n{}", failed.len(), failed.join("\n"));
    assert!(all_told * 3 > runs, "{all_told} of {runs} are told");
}
