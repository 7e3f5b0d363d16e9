//! The engine with a device that is held up, closures that fail, and a command that fails.

use crate::backend::{lock, Bug, OpenCl};
use crate::common::{assert_failed, assert_says, eventually};
use crate::queue::Hold;
use seriatim::{Context, Engine, ErrorKind, RunContext, Variable};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const GPU: Context = Context::gpu(0);
const MOMENT: Duration = Duration::from_millis(30);
const LIMIT: Duration = Duration::from_secs(30);

/// A device, an engine for it, and a variable whose last write is held up.
struct Held {
    opencl: Arc<OpenCl>,
    engine: Engine,
    variable: Variable,
    hold: Hold,
}

impl Held {
    /// `None` if there is no driver. What is returned by the closure that writes is `outcome`.
    fn new(outcome: Result<(), &'static str>) -> Option<Held> {
        let opencl = OpenCl::new(Bug::Nothing, false)?;
        let builder = Engine::builder().cpu_workers(1).pin(false).gpus(Arc::clone(&opencl) as _);
        let engine = builder.on_error(|_| ()).build().unwrap();
        let variable = engine.new_variable();
        let place = Arc::new(Mutex::new(None));
        let (own, to) = (Arc::clone(&opencl), Arc::clone(&place));
        let body = move |run: &RunContext<'_>| {
            *lock(&to) = Some(own.hold(run.stream().expect("it is on a device")));
            outcome
        };
        engine.op("held").context(GPU).writes([variable]).push(body).unwrap();
        eventually("it is queued", || lock(&place).is_some());
        let hold = lock(&place).take().expect("it is queued");
        Some(Held { opencl, engine, variable, hold })
    }
}

/// A flag, and an operation that sets it.
fn flag() -> (Arc<AtomicBool>, impl FnOnce(&RunContext<'_>) + Send + 'static) {
    let flag = Arc::new(AtomicBool::new(false));
    let set = Arc::clone(&flag);
    (flag, move |_: &RunContext<'_>| set.store(true, SeqCst))
}

#[test]
fn the_processor_is_parked_behind_a_device_and_goes_on_with_the_rest() {
    let Some(Held { engine, variable, hold, .. }) = Held::new(Ok(())) else { return };
    let other = engine.new_variable();
    let ((behind, set_behind), (beside, set_beside)) = (flag(), flag());
    engine.op("behind").reads([variable]).push(set_behind).unwrap();
    engine.op("beside").writes([other]).push(set_beside).unwrap();
    engine.wait_for_var_timeout(other, LIMIT).unwrap();
    std::thread::sleep(MOMENT);
    assert!(beside.load(SeqCst) && !behind.load(SeqCst));
    hold.end();
    engine.wait_for_all_timeout(LIMIT).unwrap();
    assert!(behind.load(SeqCst));
}

#[test]
fn what_a_failed_closure_has_queued_is_waited_for() {
    let Some(Held { opencl, engine, variable, hold }) = Held::new(Err("it fails")) else { return };
    let (called, set) = flag();
    engine.op("behind").context(GPU).writes([variable]).push(set).unwrap();
    let late = engine.wait_for_var_timeout(variable, MOMENT).unwrap_err();
    assert_eq!(late.kind(), ErrorKind::TimedOut);
    hold.end();
    assert_failed(engine.wait_for_var_timeout(variable, LIMIT), "it fails");
    assert!(!called.load(SeqCst));
    engine.wait_for_all_timeout(LIMIT).unwrap();
    drop(engine);
    assert_eq!(opencl.left(), (0, 0));
}

/// A mark that is put behind the command after it has failed would be reached as if nothing were
/// wrong. So a back end for programs of which commands can fail has to watch the commands.
#[test]
fn a_command_that_fails_before_a_mark_loses_the_device() {
    let Some(Held { opencl, engine, variable, hold }) = Held::new(Ok(())) else { return };
    let other = engine.new_variable();
    let (called, set) = flag();
    engine.op("behind").reads([variable]).writes([other]).push(set).unwrap();
    eventually("a mark is behind it", || opencl.records.load(SeqCst) > 0);
    hold.fail();
    let error = engine.wait_for_var_timeout(other, LIMIT).unwrap_err();
    assert_says(&error, ErrorKind::DeviceLost, &["gpu(0) is lost", "a command has failed", "'held'"]);
    assert!(!called.load(SeqCst));
    let refused = engine.op("late").context(GPU).push(|_| ()).unwrap_err();
    assert_says(&refused, ErrorKind::DeviceLost, &["gpu(0) is lost"]);
    let (after, set) = flag();
    engine.op("after").writes([variable, other]).push(set).unwrap();
    // Whether or not it tells of the device once more.
    let _ = engine.wait_for_all_timeout(LIMIT);
    assert!(after.load(SeqCst), "the processor goes on");
    engine.wait_for_all_timeout(LIMIT).unwrap();
}
