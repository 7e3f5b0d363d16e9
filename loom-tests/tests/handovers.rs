//! What a thread waits for until it gives up: one of two threads has it in the end, as it was left.

#![cfg(loom)]

use loom_tests::{explore, spawn, Guarded};
use seriatim::internals::handover::Handover;
use std::sync::Arc;

fn gives(handover: &Handover<Guarded>) -> bool {
    let item = Guarded::new();
    item.set(1);
    match handover.give(item) {
        Ok(()) => true,
        Err(item) => {
            item.step();
            assert_eq!(item.get(), 2, "another item came back");
            false
        }
    }
}

fn has(item: Option<Guarded>) -> bool {
    item.is_some_and(|item| {
        item.step();
        assert_eq!(item.get(), 2, "another item came");
        true
    })
}

#[test]
fn an_item_that_comes_as_its_thread_gives_up_goes_to_one_of_two() {
    explore("handover, given and given up", 2, 8, || {
        let handover = Arc::new(Handover::new());
        let theirs = Arc::clone(&handover);
        let giver = spawn(move || gives(&theirs));
        let came = has(handover.give_up());
        assert_eq!(giver.join().unwrap(), came, "it went to both, or to none");
    });
}

#[test]
fn an_item_is_taken_once_by_a_thread_that_looks_and_then_gives_up() {
    explore("handover, looked at and given up", 3, 10, || {
        let handover = Arc::new(Handover::new());
        let theirs = Arc::clone(&handover);
        let giver = spawn(move || gives(&theirs));
        let came = has(handover.take());
        let came_late = has(handover.give_up());
        assert!(!(came && came_late), "it was taken twice");
        assert_eq!(giver.join().unwrap(), came || came_late, "it went to both, or to none");
    });
}
