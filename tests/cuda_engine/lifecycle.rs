//! Forks, and a device that is pulled while the engine is stopped.

use crate::client::Standin;
use crate::common::{assert_says, child, fork_and, nothing, run_child_well, Watchdog};
use crate::memory::{kernel, Entered, Place};
use crate::programs::LIMIT;
use seriatim::gpu::{Backend, Cuda};
use seriatim::{Context, Engine, Error, ErrorKind, Kind, RunContext, Variable};
use std::sync::Arc;

const GPU: Context = Context::gpu(0);
const KINDS: [Kind; 3] = [Kind::PerDevice, Kind::Pooled, Kind::Naive];

fn engine(kind: Kind, cuda: &Arc<Cuda>) -> Engine {
    let builder = Engine::builder().kind(kind).cpu_workers(1).pin(false).on_error(|_| ());
    builder.fork_patience(LIMIT).gpus(Arc::clone(cuda) as _).build().expect("the settings are valid")
}

/// Memory, and the variable that stands for it.
type Used = (Place, Variable);

fn push(engine: &Engine, (place, x): Used) -> Result<(), Error> {
    let body =
        move |run: &RunContext<'_>| kernel(run.stream().expect("it is on a device"), 1, Vec::new(), vec![place], || ());
    engine.op("kernel").context(GPU).write(x).push(body)
}

#[test]
fn the_child_of_a_fork_does_not_call_the_driver() {
    run_child_well(&mut child("fork"));
}

/// The task of that child process, which forks.
pub fn fork_after_use() {
    for kind in KINDS {
        let standin = Standin::begin(1, 200);
        let entered = Entered::new(&standin);
        let cuda = Cuda::open().unwrap();
        let (engine, moved) = (engine(kind, &cuda), engine(kind, &cuda));
        let [used, of_moved] = [&engine, &moved].map(|engine| (Place::of_device(&entered), engine.new_variable()));
        // It has retained a context, and the child has its last owner.
        let alone = Cuda::open().unwrap();
        let before = alone.enter(0).unwrap();
        // SAFETY: `enter` has returned it on this thread.
        unsafe { alone.leave(before) };
        push(&engine, used).unwrap();
        push(&moved, of_moved).unwrap();
        let retained = standin.retained(0);
        fork_and(|| {
            let calls = standin.calls("*");
            let refused = push(&engine, used).unwrap_err();
            assert_says(&refused, ErrorKind::DeviceUnavailable, &["fork"]);
            let says = "does not survive a fork";
            assert!(alone.enter(0).is_err_and(|fault| fault.to_string().contains(says)), "{kind}");
            // Nor does a new engine with the parent's back end.
            let new = self::engine(kind, &cuda);
            let of_new = (used.0, new.new_variable());
            assert_says(&push(&new, of_new).unwrap_err(), ErrorKind::DeviceUnavailable, &[says]);
            engine.op("on the processor").push(nothing).unwrap();
            engine.wait_for_all_timeout(LIMIT).unwrap();
            drop((new, moved, alone));
            assert_eq!(standin.calls("*"), calls, "{kind}: the child has called the driver");
            assert_eq!(standin.retained(0), retained, "{kind}");
        });
        push(&engine, used).unwrap();
        engine.wait_for_all_timeout(LIMIT).unwrap();
        drop(engine);
        assert_eq!(standin.reports(), [""; 0], "{kind}");
    }
}

#[test]
fn a_device_that_is_pulled_while_the_engine_is_stopped_is_lost() {
    let standin = Standin::begin(1, 200);
    let _watchdog = Watchdog::new(120, "a device that is pulled while stopped");
    for kind in KINDS {
        standin.again(1, 200);
        let entered = Entered::new(&standin);
        let (cuda, place) = (Cuda::open().unwrap(), Place::of_device(&entered));
        let engine = engine(kind, &cuda);
        let [x, y] = [(); 2].map(|()| engine.new_variable());
        let used = (place, y);
        push(&engine, used).unwrap();
        engine.stop().unwrap();
        standin.lose(0, 719);
        engine.start().unwrap();
        // The push, or what it has pushed.
        let error = push(&engine, used).and_then(|()| engine.wait_for_all_timeout(LIMIT)).unwrap_err();
        assert_says(&error, ErrorKind::DeviceLost, &["gpu(0) is lost"]);
        assert_eq!(push(&engine, used).unwrap_err().kind(), ErrorKind::DeviceLost, "{kind}");
        // What is left of the loss is taken, and the processor goes on.
        let _ = engine.wait_for_all_timeout(LIMIT);
        engine.op("on the processor").writes([x]).push(nothing).unwrap();
        engine.wait_for_all_timeout(LIMIT).unwrap();
        engine.stop().unwrap();
        drop(engine);
        entered.forget();
        assert_eq!(standin.reports(), [""; 0], "{kind}");
    }
}
