//! Failures that are only counted: each is told once, by a wait for its variable or by a wait for
//! everything.

#![cfg(loom)]

use loom_tests::{explore, spawn};
use seriatim::internals::error::{Beyond, Failure, Stamp};
use seriatim::Engine;
use std::sync::Arc;

fn counted(beyond: &Arc<Beyond>) -> Failure {
    // Any error will do.
    let error = Engine::builder().set("NO_SUCH_SETTING", "1").unwrap_err();
    Failure::beyond(error, 1, beyond)
}

fn take(failure: &Failure) -> usize {
    usize::from(failure.take(Stamp::LAST).is_some())
}

#[test]
fn what_is_only_counted_is_told_once() {
    explore("failures, a wait for a variable beside one for everything", 3, 10, || {
        let beyond = Arc::<Beyond>::default();
        let failure = Arc::new(counted(&beyond));
        let (own, swept) = (Arc::clone(&failure), Arc::clone(&beyond));
        let (taker, sweeper) = (spawn(move || take(&own)), spawn(move || swept.sweep()));
        let told = taker.join().unwrap() + sweeper.join().unwrap();
        assert_eq!(told + take(&failure) + beyond.sweep(), 1);
        assert!(!failure.is_live());
    });
}

#[test]
fn what_fails_beside_a_wait_for_everything_is_told_once() {
    explore("failures, a failure beside a wait for everything", 3, 10, || {
        let beyond = Arc::<Beyond>::default();
        let first = counted(&beyond);
        let (own, swept) = (Arc::clone(&beyond), Arc::clone(&beyond));
        let sweeper = spawn(move || swept.sweep());
        let taker = spawn(move || {
            let second = counted(&own);
            (take(&second), second)
        });
        let (taken, second) = taker.join().unwrap();
        let told = taken + sweeper.join().unwrap() + take(&first) + take(&second);
        assert_eq!(told + beyond.sweep(), 2);
    });
}
