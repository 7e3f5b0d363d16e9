//! Closures that make another device current and do not put it back, as a library does that loads
//! itself: what comes next on their thread has its own device.

use crate::client::{call, current, fail, Standin};
use crate::common::{nothing, Watchdog};
use crate::faults::REFUSED;
use crate::memory::Entered;
use crate::programs::LIMIT;
use seriatim::{Context, Engine, ErrorKind, Kind, Property, RunContext};
use std::ffi::c_void;
use std::ptr::{null_mut, without_provenance_mut};
use std::sync::mpsc::{channel, Receiver, Sender};

const GPU: Context = Context::gpu(0);

/// The contexts of the two devices.
fn own() -> *mut c_void {
    without_provenance_mut(1)
}

fn other() -> *mut c_void {
    without_provenance_mut(2)
}

fn set(context: *mut c_void) {
    assert_eq!(call!(cuCtxSetCurrent(context => *mut c_void) -> i32), 0);
}

/// An engine with two devices, one worker each, and what its closures have found.
struct Bench {
    // Dropped in this order.
    engine: Engine,
    _entered: Entered,
    _watchdog: Watchdog,
    standin: Standin,
    found: (Sender<usize>, Receiver<usize>),
}

impl Bench {
    fn new(kind: Kind) -> Bench {
        let standin = Standin::begin(1, 200);
        standin.devices(2);
        let watchdog = Watchdog::new(120, "closures that leave another device current");
        let entered = Entered::new(&standin);
        let engine = Engine::builder().kind(kind).cpu_workers(1).pin(false).gpu_workers(1).build().unwrap();
        // The second one's context is there.
        engine.op("there").context(Context::gpu(1)).push(nothing).unwrap();
        engine.wait_for_all_timeout(LIMIT).unwrap();
        Bench { engine, _entered: entered, _watchdog: watchdog, standin, found: channel() }
    }

    /// A closure that says which device it has found, and leaves another one current.
    fn strays(&self) -> impl FnMut(&RunContext<'_>) + Send + 'static {
        let found = self.found.0.clone();
        move |_| {
            found.send(current().addr()).unwrap();
            set(other());
        }
    }

    /// Waits for everything, and checks that so many closures have found their own device.
    fn assert_found(&self, count: usize) {
        self.engine.wait_for_all_timeout(LIMIT).unwrap();
        let found: Vec<usize> = self.found.1.try_iter().collect();
        assert_eq!(found, vec![own().addr(); count]);
        assert_eq!(self.standin.reports(), [""; 0]);
    }
}

#[test]
fn each_closure_of_a_worker_finds_its_own_device() {
    let bench = Bench::new(Kind::PerDevice);
    let properties = [Property::Normal, Property::GpuPrioritized, Property::CopyToGpu, Property::CopyFromGpu];
    for property in properties {
        for _ in 0..20 {
            bench.engine.op("strays").context(GPU).property(property).push(bench.strays()).unwrap();
        }
    }
    bench.assert_found(80);
}

#[test]
fn so_does_each_asynchronous_one_and_each_of_a_replay() {
    let bench = Bench::new(Kind::PerDevice);
    let x = bench.engine.new_variable();
    for _ in 0..20 {
        let mut strays = bench.strays();
        let pushed = bench.engine.op("strays").context(GPU).write(x).push_async(move |run, completion| {
            strays(run);
            completion.complete();
        });
        pushed.unwrap();
    }
    bench.assert_found(20);
    let record = |c: &mut seriatim::Capture| {
        for _ in 0..3 {
            c.op("strays").context(GPU).write(x).push(bench.strays())?;
            c.op("strays as a whole").context(GPU).write(x).device_graph().push(bench.strays())?;
            c.op("strays as a whole").context(GPU).write(x).device_graph().push(bench.strays())?;
        }
        Ok(())
    };
    let (graph, ()) = bench.engine.capture(record).unwrap();
    (0..2).for_each(|_| graph.replay().unwrap());
    // The parts that are launched as a whole are captured once.
    bench.assert_found(12);
}

/// What the worker calls the driver for behind a closure is done on its own device as well: here a
/// stream, events and marks of a profile.
#[test]
fn a_profile_is_made_on_the_own_device() {
    let bench = Bench::new(Kind::PerDevice);
    bench.engine.start_profiling();
    (0..20).for_each(|_| bench.engine.op("strays").context(GPU).push(bench.strays()).unwrap());
    bench.assert_found(20);
    assert_eq!(bench.engine.profile().overlap(GPU).unwrap().host_timed, 0);
}

/// A closure that is not called is dropped on the worker.
#[test]
fn a_destructor_on_a_worker_may_stray_as_well() {
    struct Strays;
    impl Drop for Strays {
        fn drop(&mut self) {
            set(other());
        }
    }
    let bench = Bench::new(Kind::PerDevice);
    let x = bench.engine.new_variable();
    for _ in 0..10 {
        bench.engine.op("fails").context(GPU).write(x).push(|_| Err("so")).unwrap();
        let strays = Strays;
        bench.engine.op("skipped").context(GPU).write(x).push(move |_| drop(strays)).unwrap();
        let y = bench.engine.new_variable();
        bench.engine.op("looks").context(GPU).write(y).push(bench.strays()).unwrap();
        assert_eq!(bench.engine.wait_for_var(x).unwrap_err().kind(), ErrorKind::OperationFailed);
        bench.engine.op("looks").context(GPU).write(y).push(bench.strays()).unwrap();
        bench.assert_found(2);
    }
}

/// The graph is dropped while its last replay runs, so its closures are dropped on the worker.
#[test]
fn so_may_the_destructors_of_a_graph() {
    struct Strays;
    impl Drop for Strays {
        fn drop(&mut self) {
            set(other());
        }
    }
    let bench = Bench::new(Kind::PerDevice);
    for _ in 0..20 {
        let strays = Strays;
        let x = bench.engine.new_variable();
        let record = |c: &mut seriatim::Capture| {
            c.op("part").context(GPU).write(x).push(move |_| {
                let _kept = &strays;
                std::thread::sleep(std::time::Duration::from_millis(1));
            })
        };
        let (graph, ()) = bench.engine.capture(record).unwrap();
        graph.replay().unwrap();
        drop(graph);
        // The program's own thread may be the last, and has its own context.
        set(own());
        bench.engine.op("looks").context(GPU).read(x).push(bench.strays()).unwrap();
        bench.assert_found(1);
        bench.engine.op("looks").context(GPU).read(x).push(bench.strays()).unwrap();
        bench.assert_found(1);
        set(own());
    }
}

/// `Async` on its pusher, and everything on the naive engine: each finds its device, and the
/// program's thread has what it had.
#[test]
fn a_pusher_keeps_its_own_context() {
    for kind in [Kind::PerDevice, Kind::Naive] {
        let bench = Bench::new(kind);
        for before in [null_mut(), own(), other()] {
            set(before);
            for property in [Property::Async, Property::Normal] {
                for _ in 0..5 {
                    bench.engine.op("strays").context(GPU).property(property).push(bench.strays()).unwrap();
                    assert_eq!(current(), before, "{kind}, {property:?}");
                }
            }
            bench.assert_found(10);
        }
        set(own());
    }
}

/// The driver refuses it for a while, or for good: then the device counts as lost.
#[test]
fn a_device_that_cannot_be_made_current_again_counts_as_lost() {
    for (kind, times, is_lost) in [(Kind::PerDevice, 5, false), (Kind::PerDevice, 20, true), (Kind::Naive, 20, true)] {
        let bench = Bench::new(kind);
        // The watcher of the device has entered it, and takes none of the faults.
        bench.engine.op("here").context(GPU).push(nothing).unwrap();
        bench.engine.wait_for_all_timeout(LIMIT).unwrap();
        let x = bench.engine.new_variable();
        let mut strays = bench.strays();
        let pushed = bench.engine.op("strays").context(GPU).write(x).push(move |run| {
            strays(run);
            (1..=times).for_each(|nth| fail(c"cuCtxSetCurrent", nth, REFUSED));
        });
        pushed.unwrap();
        let waited = bench.engine.wait_for_var_timeout(x, LIMIT);
        match is_lost {
            false => waited.unwrap(),
            true => {
                let error = waited.unwrap_err();
                crate::common::assert_says(&error, ErrorKind::DeviceLost, &["current again", "cuCtxSetCurrent"]);
                let _ = bench.engine.wait_for_all_timeout(LIMIT);
            }
        }
    }
}
