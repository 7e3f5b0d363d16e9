//! Runs a model of many threads under many random schedules, and says how many there were.

use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, Runner};
use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// Runs `model`, which has `threads` threads, under random schedules. The model returns what can
/// differ from schedule to schedule, an order for example; the run fails if all results are equal.
/// Half of the schedules choose at every step. The other half (PCT) keep to random priorities that
/// change a few times, which finds other bugs.
///
/// `SHUTTLE_RANDOM_SEED` sets the seed; `SERIATIM_SCHEDULES` multiplies the number of schedules.
pub fn schedules(name: &str, threads: usize, count: usize, model: impl Fn() -> Vec<usize> + Send + Sync + 'static) {
    let times: f64 = std::env::var("SERIATIM_SCHEDULES").map_or(1.0, |times| times.parse().expect("a number"));
    let count = ((count as f64 * times) as usize).max(2);
    let seed: u64 = std::env::var("SHUTTLE_RANDOM_SEED").map_or(0, |seed| seed.parse().expect("a number"));
    let mut config = Config::new();
    config.stack_size = 1 << 19;
    config.silence_warnings = true;
    let begin = Instant::now();
    let runs = Arc::new(AtomicUsize::new(0));
    let seen: Arc<Mutex<HashSet<Vec<usize>>>> = Arc::default();
    let model = Arc::new(model);
    let watched = || {
        let (runs, seen, model) = (Arc::clone(&runs), Arc::clone(&seen), Arc::clone(&model));
        move || {
            runs.fetch_add(1, Ordering::Relaxed);
            let outcome = model();
            seen.lock().unwrap().insert(outcome);
        }
    };
    Runner::new(RandomScheduler::new_from_seed(seed, count / 2), config.clone()).run(watched());
    Runner::new(PctScheduler::new_from_seed(seed, 5, count - count / 2), config).run(watched());
    let (runs, different) = (runs.load(Ordering::Relaxed), seen.lock().unwrap().len());
    println!(
        "model {name}: {runs} schedules of {threads} threads, seed {seed}, {different} different outcomes, {:.1} s",
        begin.elapsed().as_secs_f64()
    );
    assert!(runs == count && different > 1, "model {name} is vacuous: {runs} schedules, {different} outcomes");
}
