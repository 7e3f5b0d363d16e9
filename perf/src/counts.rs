//! Allocations, deallocations and locks an operation, in steady state; with `perf/peers/counts.c`
//! preloaded.

use serde::Serialize;

use crate::entrants::{measure, Entrant};
use crate::record::{self, Who};
use crate::workloads;

/// What an operation of a workload took from the allocator and locked.
#[derive(Serialize, Debug)]
pub struct Counts {
    /// The workload's name.
    pub workload: &'static str,
    /// Operations that were counted.
    pub operations: usize,
    /// Allocations an operation.
    pub allocations: f64,
    /// Deallocations an operation.
    pub deallocations: f64,
    /// Locks taken an operation; none where the system's own locks cannot be seen from outside.
    pub locks: Option<f64>,
}

/// The counters' face in the preloaded library.
type Read = extern "C" fn(*mut u64);

fn counters() -> Result<Read, String> {
    // SAFETY: the name is a literal that ends in a zero; the call looks it up in what is loaded.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"seriatim_counts".as_ptr()) };
    if found.is_null() {
        return Err(String::from("nothing counts: set LD_PRELOAD to counts.so, which scripts/peers.sh builds"));
    }
    // SAFETY: the function of that name has this type: perf/peers/counts.c.
    Ok(unsafe { std::mem::transmute::<*mut libc::c_void, Read>(found) })
}

/// Runs the named workloads until everything is warm, counts one more run of each, and prints a
/// record of each.
///
/// # Errors
/// If the entrant cannot be started, computes a wrong result, or nothing counts.
pub fn run(entrant: &Entrant, names: &[&'static str], operations: usize) -> Result<(), String> {
    let read = counters()?;
    let mut runner = entrant.start()?;
    let who = Who::new(entrant, runner.version());
    for name in names {
        let program = workloads::named(name, operations).ok_or_else(|| format!("no workload {name}"))?;
        if let Err(why) = runner.prepare(program) {
            eprintln!("{}: {name} left out: {why}", entrant.name);
            continue;
        }
        for _ in 0..5 {
            measure(&mut *runner, program)?;
        }
        let (mut before, mut after) = ([0_u64; 3], [0_u64; 3]);
        let ours_before = seriatim::testing::locks_taken();
        read(before.as_mut_ptr());
        program.reset();
        runner.run();
        read(after.as_mut_ptr());
        program.verify()?;
        let ours = (seriatim::testing::locks_taken() - ours_before) as f64;
        let operations = program.sequence().len();
        let each = |index: usize| (after[index] - before[index]) as f64 / operations as f64;
        let locks = match entrant.system {
            "seriatim" => Some(each(2) + ours / operations as f64),
            "mxnet" | "starpu" => Some(each(2)),
            _ => None,
        };
        let measured = Counts { workload: name, operations, allocations: each(0), deallocations: each(1), locks };
        record::print("counts", &who, measured);
    }
    Ok(())
}
