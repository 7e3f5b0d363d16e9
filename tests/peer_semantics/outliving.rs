//! Objects that outlive the engine, or the thread's state for it.

use crate::common::*;
use seriatim::{Context, Data, Engine, ErrorKind, Operator, Variable};
use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::sync::{Arc, Mutex};

#[test]
fn static_objects_may_outlive_their_engine() {
    static KEPT: Mutex<Vec<(Operator, Data<u32>, Variable)>> = Mutex::new(Vec::new());
    on_every_engine(|engine| {
        let data = Data::new(&engine, 7);
        let x = engine.new_variable();
        let step = engine.op("step").writes([x]).operator(|_| ()).unwrap();
        engine.push(&step, Context::cpu(0), 0).unwrap();
        KEPT.lock().unwrap().push((step, data, x));
    });
    let other = Engine::builder().build().unwrap();
    for (step, data, x) in KEPT.lock().unwrap().drain(..) {
        assert_eq!(*data.read().unwrap(), 7);
        *data.write().unwrap() += 1;
        assert_says(&other.push(&step, Context::cpu(0), 0).unwrap_err(), ErrorKind::ForeignOperator, &["'step'"]);
        assert_says(&other.version(x).unwrap_err(), ErrorKind::ForeignVariable, &["belongs to engine"]);
    }
}

/// What a program keeps for a thread: a variable that it deletes when the thread ends, by then
/// perhaps after the engine's own state for the thread is gone.
struct Tensor {
    engine: Engine,
    variable: Variable,
    deleted: Arc<AtomicUsize>,
}

impl Drop for Tensor {
    fn drop(&mut self) {
        let deleted = Arc::clone(&self.deleted);
        self.engine.op("last").writes([self.variable]).push(nothing).unwrap();
        let count = move |_: &seriatim::RunContext<'_>| {
            deleted.fetch_add(1, SeqCst);
        };
        self.engine.delete_variable(count, Context::cpu(0), self.variable).unwrap();
    }
}

#[test]
fn objects_of_a_thread_may_use_the_engine_when_the_thread_ends() {
    thread_local! {
        static TENSORS: RefCell<Vec<Tensor>> = const { RefCell::new(Vec::new()) };
    }
    let _watchdog = Watchdog::new(120, "objects of a thread that ends");
    for (last_handle, engine_first) in [(false, false), (false, true), (true, false), (true, true)] {
        on_every_engine(|engine| {
            let deleted = Arc::new(AtomicUsize::new(0));
            let seen = Arc::clone(&deleted);
            let kept = (!last_handle).then(|| engine.clone());
            let thread = std::thread::spawn(move || {
                let make = || {
                    let variable = engine.new_variable();
                    Tensor { engine: engine.clone(), variable, deleted: Arc::clone(&deleted) }
                };
                // Thread-local objects go in the reverse order of their first use: both orders.
                if engine_first {
                    engine.op("first").push(nothing).unwrap();
                    engine.wait_for_all().unwrap();
                    TENSORS.with_borrow_mut(|tensors| tensors.extend([make(), make()]));
                } else {
                    TENSORS.with_borrow_mut(|tensors| tensors.extend([make(), make()]));
                    engine.op("first").push(nothing).unwrap();
                    engine.wait_for_all().unwrap();
                }
            });
            thread.join().unwrap();
            match kept {
                Some(engine) => engine.wait_for_all().unwrap(),
                // The last handle went with the tensors, and drained the engine.
                None => eventually("the engine is drained", || seen.load(SeqCst) == 2),
            }
            assert_eq!(seen.load(SeqCst), 2);
        });
    }
}
