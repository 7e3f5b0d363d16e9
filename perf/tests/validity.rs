//! A figure counts only if the result was right, so the checks of the results must find engines
//! that are wrong. Each engine here is wrong in one way; all of them run everything on one thread,
//! so that they are wrong every time.

use seriatim_perf::entrants::{measure, Runner};
use seriatim_perf::metg::kernel::Kernel;
use seriatim_perf::metg::pattern::{Graph, Pattern};
use seriatim_perf::metg::Granular;
use seriatim_perf::program::Program;
use seriatim_perf::{entrants, pushers, workloads};

/// What is wrong with an engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fault {
    /// Nothing: the control.
    None,
    /// From the middle on, the last pushed runs first.
    LastInFirstOut,
    /// One operation never runs.
    Lost,
    /// One operation runs again, at once.
    Twice,
    /// One operation runs again, at the end.
    TwiceLate,
    /// The wait ends before the last operation.
    EarlyReturn,
    /// One operation runs before an earlier one that changes what it reads.
    ForgottenRead,
    /// One operation changes a variable before an earlier one has read it.
    ForgottenWriteAfterRead,
    /// Two operations that change one variable change places.
    ForgottenWriteAfterWrite,
}

/// Runs programs with one fault, somewhere behind their middle.
struct Faulty {
    fault: Fault,
    /// The operations in the order in which they will run.
    order: Vec<u32>,
    program: Option<&'static Program>,
}

impl Runner for Faulty {
    fn prepare(&mut self, program: &'static Program) -> Result<(), String> {
        let sequence = program.sequence();
        let mut order = sequence.to_vec();
        let middle = order.len() / 2;
        // Moves the later of the first two places that are related so to just before the earlier.
        let mut swap = |related: &dyn Fn(u32, u32) -> bool| {
            for later in middle..sequence.len() {
                let nearest = (later.saturating_sub(64)..later).rev();
                if let Some(earlier) = nearest.into_iter().find(|place| related(sequence[*place], sequence[later])) {
                    order[earlier..=later].rotate_right(1);
                    return Ok(());
                }
            }
            Err(String::from("no two operations of this program are related so"))
        };
        let common = |one: &[u32], other: &[u32]| one.iter().any(|variable| other.contains(variable));
        match self.fault {
            Fault::None => {}
            Fault::LastInFirstOut => order[middle..].reverse(),
            Fault::Lost => drop(order.remove(middle)),
            Fault::Twice => order.insert(middle, order[middle]),
            Fault::TwiceLate => order.push(order[middle]),
            Fault::EarlyReturn => drop(order.pop()),
            Fault::ForgottenRead => swap(&|one, other| common(program.writes(one), program.reads(other)))?,
            Fault::ForgottenWriteAfterRead => swap(&|one, other| common(program.reads(one), program.writes(other)))?,
            Fault::ForgottenWriteAfterWrite => swap(&|one, other| common(program.writes(one), program.writes(other)))?,
        }
        self.order = order;
        self.program = Some(program);
        Ok(())
    }

    fn run(&mut self) {
        let program = self.program.expect("a prepared program");
        self.order.iter().for_each(|operation| program.execute(*operation));
    }

    fn version(&self) -> String {
        String::new()
    }
}

/// None if the fault cannot be had in this program, otherwise whether the check was content.
fn content(fault: Fault, program: &'static Program) -> Option<bool> {
    let mut runner = Faulty { fault, order: Vec::new(), program: None };
    runner.prepare(program).ok()?;
    Some(measure(&mut runner, program).is_ok())
}

const FAULTS: [Fault; 8] = [
    Fault::LastInFirstOut,
    Fault::Lost,
    Fault::Twice,
    Fault::TwiceLate,
    Fault::EarlyReturn,
    Fault::ForgottenRead,
    Fault::ForgottenWriteAfterRead,
    Fault::ForgottenWriteAfterWrite,
];

#[test]
fn the_graphs_find_every_fault() {
    for pattern in Pattern::ALL {
        let graph = Graph { pattern, width: 16, steps: 60 };
        let program = Granular::new(graph, Kernel::Compute).expect("a graph").program;
        assert_eq!(content(Fault::None, program), Some(true), "{}: the control", pattern.name());
        let mut tried = 0;
        for fault in FAULTS {
            match content(fault, program) {
                Some(right) => {
                    assert!(!right, "{}: {fault:?} was not found", pattern.name());
                    tried += 1;
                }
                None => assert_eq!(pattern, Pattern::Trivial, "{}: {fault:?} could not be tried", pattern.name()),
            }
        }
        assert!(tried >= 6, "{}: only {tried} faults could be tried", pattern.name());
    }
}

#[test]
fn the_workloads_find_every_fault() {
    let mut tried = 0;
    for program in workloads::all(10 * workloads::TEST_OPERATIONS) {
        assert_eq!(content(Fault::None, program), Some(true), "{}: the control", program.name());
        for fault in FAULTS {
            // Nothing in `unrelated` is ordered.
            let harmless = program.name() == "unrelated" && fault == Fault::LastInFirstOut;
            if let (Some(right), false) = (content(fault, program), harmless) {
                assert!(!right, "{}: {fault:?} was not found", program.name());
                tried += 1;
            }
        }
    }
    assert!(tried >= 40, "only {tried} faults could be tried");
}

#[test]
fn the_kernels_run_in_every_graph() {
    for kernel in Kernel::ALL {
        let graph = Graph { pattern: Pattern::Stencil1d, width: 2, steps: 4 };
        let granular = Granular::new(graph, kernel).expect("a graph");
        granular.set_iterations(8);
        assert_eq!(granular.work() == 0, kernel == Kernel::Empty);
        assert_eq!(content(Fault::None, granular.program), Some(true), "{}", kernel.name());
    }
}

#[test]
fn the_programs_of_several_pushers_find_what_is_lost_and_what_runs_twice() {
    for name in pushers::NAMES {
        for count in pushers::COUNTS {
            let program = pushers::named(name, count, 10_000).expect("a workload of that name");
            assert_eq!(content(Fault::None, program), Some(true), "{name}: the control");
            // Of the reads nothing is left behind, so the fault has to meet an operation that
            // changes something.
            for wrong in [Fault::Lost, Fault::Twice, Fault::TwiceLate].into_iter().filter(|_| name != "read-mostly") {
                assert_eq!(content(wrong, program), Some(false), "{name}: {wrong:?} was not found");
            }
        }
    }
}

#[test]
fn each_pusher_of_disjoint_has_variables_of_its_own() {
    for count in pushers::COUNTS {
        let program = pushers::named("disjoint", count, 10_000).expect("a workload");
        let mut owner = vec![None; program.variables()];
        for (place, operation) in program.sequence().iter().enumerate() {
            for variable in program.writes(*operation) {
                let pusher = place % count;
                assert_eq!(*owner[*variable as usize].get_or_insert(pusher), pusher, "variable {variable}");
            }
        }
    }
}

/// An operation that runs while another changes what it uses is noticed, whichever of the two comes
/// first.
#[test]
fn bodies_that_overlap_are_found() {
    let program = pushers::named("common", 2, 4_000_000).expect("a workload");
    program.reset();
    let barrier = std::sync::Barrier::new(2);
    let body = |part: usize| {
        barrier.wait();
        program.sequence().iter().skip(part).step_by(2).for_each(|operation| program.execute(*operation));
    };
    // Without any engine between them, two threads must be seen to disturb each other. On one core
    // they do so only when one of them is stopped within a body, so a run is long, and there are
    // many.
    for _ in 0..50 {
        std::thread::scope(|scope| {
            scope.spawn(|| body(0));
            scope.spawn(|| body(1));
        });
        if program.verify().is_err() {
            return;
        }
        program.reset();
    }
    panic!("two threads without an engine were not found to overlap");
}

/// Who runs the bodies decides in which table a figure stands, so it is counted and not assumed.
#[test]
fn who_runs_the_bodies_is_counted() {
    let share = |name: &str| {
        let entrant = entrants::all(&[1]).into_iter().find(|entrant| entrant.name == name).expect("an entrant");
        let mut runner = entrant.start().expect("an engine");
        let program = workloads::named("random", workloads::TEST_OPERATIONS).expect("a workload");
        runner.prepare(program).expect("a program for it");
        let run = entrants::measure_run(&mut *runner, program).expect("a right result");
        run.by_pusher as f64 / program.sequence().len() as f64
    };
    assert_eq!(share("serial"), 1.0);
    assert_eq!(share("seriatim-naive"), 1.0);
    assert_eq!(share("baseline-1"), 0.0);
    assert_eq!(share("seriatim-shipped-1"), 0.0, "an engine that is set to ship ran bodies on the thread that pushed");
}

#[test]
fn threads_are_counted_with_the_one_that_pushes() {
    let threads = |name: &str| {
        entrants::all(&[1, 3]).into_iter().find(|entrant| entrant.name == name).map(|entrant| entrant.threads)
    };
    for (name, expected) in [
        ("serial", 1),
        ("seriatim-naive", 1),
        ("seriatim-shipped-1", 2),
        ("seriatim-shipped-3", 4),
        ("baseline-1", 2),
        ("by-hand-3 graph", 3),
        ("mxnet-naive", 1),
        ("mxnet-per-device-2", 2),
        ("taskflow-dynamic-1", 1),
        ("taskflow-dynamic-4", 4),
        ("onetbb-shipped-2", 2),
        ("libomp-2", 2),
    ] {
        assert_eq!(threads(name), Some(expected), "{name}");
    }
}
