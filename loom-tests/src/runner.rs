//! Runs a model and says how much of it there was.

use loom::thread::{self, JoinHandle};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::Instant;

/// Whether a thread that a model spawns goes on first.
static THEIRS_FIRST: AtomicBool = AtomicBool::new(false);

/// Explores `model` within the preemption bound `preemptions`, and fails if that took fewer than
/// `floor` executions: a model whose atomics are not loom's completes in one.
///
/// The model is explored twice: once the spawning thread goes on first, once the spawned ones do.
/// Loom reorders accesses that it knows to be in conflict, and it remembers only the last access to
/// each word. So a load hides another thread's earlier load from the exchange that comes after it.
/// From the other end the same pair is an exchange and then a load, and loom sees the conflict.
pub fn explore(name: &str, preemptions: usize, floor: usize, model: impl Fn() + Sync + Send + 'static) {
    explore_from(&[false, true], false, name, preemptions, floor, model);
}

/// As [`explore`], but from one end only: for models that take minutes.
pub fn explore_once(name: &str, preemptions: usize, floor: usize, model: impl Fn() + Sync + Send + 'static) {
    explore_from(&[false], false, name, preemptions, floor, model);
}

/// As [`explore`], but light fences do not order each other, as where `membarrier` makes them
/// free.
pub fn explore_light_fences(name: &str, preemptions: usize, floor: usize, model: impl Fn() + Sync + Send + 'static) {
    explore_from(&[false, true], true, name, preemptions, floor, model);
}

fn explore_from(
    ends: &'static [bool],
    asymmetric: bool,
    name: &str,
    preemptions: usize,
    floor: usize,
    model: impl Fn() + Sync + Send + 'static,
) {
    let executions = Arc::new(AtomicUsize::new(0));
    let _failed = Failed { name, executions: Arc::clone(&executions) };
    let model = Arc::new(model);
    let begin = Instant::now();
    for theirs_first in ends {
        THEIRS_FIRST.store(*theirs_first, Ordering::Relaxed);
        let (count, model) = (Arc::clone(&executions), Arc::clone(&model));
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(std::env::var("BOUND").map_or(preemptions, |b| b.parse().unwrap()));
        builder.max_branches = 20_000;
        builder.check(move || {
            count.fetch_add(1, Ordering::Relaxed);
            seriatim::internals::begin_model(asymmetric);
            model();
        });
    }
    let executions = executions.load(Ordering::Relaxed);
    println!(
        "model {name}: {executions} executions, at most {preemptions} preemptions, {:.1} s",
        begin.elapsed().as_secs_f64()
    );
    assert!(executions >= floor, "model {name} is vacuous: {executions} executions, expected {floor} or more");
}

/// Says how far it came, when a model fails.
struct Failed<'a> {
    name: &'a str,
    executions: Arc<AtomicUsize>,
}

impl Drop for Failed<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            println!("model {} fails in execution {}", self.name, self.executions.load(Ordering::Relaxed));
        }
    }
}

/// Spawns a thread of a model. Which of the two goes on first changes: see [`explore`].
pub fn spawn<T: 'static>(body: impl FnOnce() -> T + 'static) -> JoinHandle<T> {
    let spawned = thread::spawn(body);
    if THEIRS_FIRST.load(Ordering::Relaxed) {
        thread::yield_now();
    }
    spawned
}
