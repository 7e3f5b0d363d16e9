//! Nothing stands still behind a long operation: what a worker will run next, others can take.

#[path = "standing/beside.rs"]
mod beside;
mod common;
#[path = "standing/ready.rs"]
mod ready;
#[path = "standing/urgent.rs"]
mod urgent;

use common::*;
use seriatim::{Engine, Kind};
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// What a long operation takes, if what it waits for stands still behind it.
const LONG: Duration = Duration::from_secs(10);
/// What is not behind the long operation has run by then, however the threads get their cores.
const SOON: Duration = Duration::from_secs(5);

/// In one of so many rounds things must be in time: other processes take cores too.
const ROUNDS: usize = 30;
/// So many rounds at least in the long form.
const LONG_ROUNDS: usize = 10;

/// The long operation: takes until `ran` has come to `count`, or [`LONG`].
fn outlast(ran: &AtomicUsize, count: usize) {
    let began = Instant::now();
    while ran.load(SeqCst) < count && began.elapsed() < LONG {
        sleep(Duration::from_millis(1));
    }
}

/// Waits until `ran` has come to `count`; the long operation has begun by `began`.
fn is_soon(what: &str, began: Instant, ran: &AtomicUsize, count: usize) {
    eventually(what, || ran.load(SeqCst) == count);
    let took = began.elapsed();
    assert!(took < SOON, "{what}: only after {took:?}, behind an operation that takes {LONG:?}");
}

fn engines() -> impl Iterator<Item = Engine> {
    [Kind::Pooled, Kind::PerDevice]
        .into_iter()
        .map(|kind| Engine::builder().kind(kind).cpu_workers(2).waiters_help(false).build().unwrap())
}
