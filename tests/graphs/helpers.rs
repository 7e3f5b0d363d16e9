//! What the tests of graphs share.

use crate::common::*;
use seriatim::{Capture, Completion, Engine, RunContext, Variable};
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::sync::{mpsc, Arc, Mutex};
use std::time::Duration;

/// How the replays of a graph are run: as the engine finds best, or by one thread for so many
/// operations and by all from then on.
#[derive(Clone, Copy, Debug)]
pub struct Way(Option<u32>);

impl Way {
    pub const ALL: [Way; 4] = [Way(None), Way(Some(0)), Way(Some(1)), Way(Some(3))];

    pub fn choose(self, capture: &mut Capture) {
        if let Some(operations) = self.0 {
            seriatim::testing::spreads_after(capture, operations);
        }
    }
}

/// Runs a test on every engine, in every way to run replays.
pub fn in_every_way(test: impl Fn(Engine, Way)) {
    with_every_builder(|builder| {
        for way in Way::ALL {
            test(builder.clone().build().expect("these settings are valid"), way);
        }
    });
}

pub fn variables<const N: usize>(engine: &Engine) -> [Variable; N] {
    std::array::from_fn(|_| engine.new_variable())
}

pub fn versions<const N: usize>(engine: &Engine, variables: [Variable; N]) -> [u64; N] {
    variables.map(|variable| engine.version(variable).unwrap())
}

/// Waits until everything is complete, without taking errors as a wait would.
pub fn settle(engine: &Engine) {
    eventually("nothing is in flight", || !engine.dump_dot().contains("label"));
}

/// Counts the things that are alive.
#[derive(Clone, Default)]
pub struct Census(Arc<AtomicUsize>);

/// One of them.
pub struct Alive(Arc<AtomicUsize>);

impl Census {
    pub fn one(&self) -> Alive {
        self.0.fetch_add(1, SeqCst);
        Alive(Arc::clone(&self.0))
    }

    pub fn count(&self) -> usize {
        self.0.load(SeqCst)
    }
}

impl Alive {
    /// Makes a closure own it, and checks that nobody has dropped it.
    pub fn touch(&self) {
        assert!(self.0.load(SeqCst) > 0);
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        assert!(self.0.fetch_sub(1, SeqCst) > 0, "dropped twice");
    }
}

/// What ran, in order.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Vec<&'static str>>>);

impl Log {
    pub fn add(&self, what: &'static str) {
        self.0.lock().unwrap().push(what);
    }

    /// A body that notes the name of its operation.
    pub fn note(&self) -> impl FnMut(&RunContext<'_>) + Send + 'static + use<> {
        let log = self.clone();
        move |run| log.add(run.name())
    }

    pub fn take(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// A body for an asynchronous operation of a graph, which hands its completions to the test.
pub fn handing_out() -> (impl FnMut(&RunContext<'_>, Completion) + Send + 'static, impl Fn() -> Completion) {
    let (send, receive) = mpsc::channel();
    let start = move |_: &RunContext<'_>, completion| send.send(completion).expect("the test waits for it");
    (start, move || receive.recv_timeout(Duration::from_secs(60)).expect("the operation is called"))
}
