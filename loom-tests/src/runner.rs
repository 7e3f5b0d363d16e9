//! Runs a model and says how much of it there was.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::Instant;

/// Explores `model` within the preemption bound `preemptions`, and fails if that took fewer than `floor` executions: a model whose
/// atomics are not loom's completes in one.
pub fn explore(name: &str, preemptions: usize, floor: usize, model: impl Fn() + Sync + Send + 'static) {
    let executions = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&executions);
    let begin = Instant::now();
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 20_000;
    builder.check(move || {
        count.fetch_add(1, Ordering::Relaxed);
        model();
    });
    let executions = executions.load(Ordering::Relaxed);
    println!(
        "model {name}: {executions} executions, at most {preemptions} preemptions, {:.1} s",
        begin.elapsed().as_secs_f64()
    );
    assert!(executions >= floor, "model {name} is vacuous: {executions} executions, expected {floor} or more");
}
