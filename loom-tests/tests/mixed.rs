//! Operations with owned and common variables, and the deletion of either kind.

#![cfg(loom)]

use loom::sync::atomic::{
    AtomicBool,
    Ordering::{Acquire, Release},
};
use loom_tests::mixed::{Model, Step, Step::*, Uses, World, MIXED, REOPENED};
use loom_tests::{explore, spawn};
use seriatim::internals::access::Mode::{Delete, Read, Write};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::Arc;

const FIRST: Uses = &[(0, Write)];
const SECOND: Uses = &[(1, Write)];
const BOTH: Uses = &[(0, Write), (1, Write)];
const OUTER: Uses = &[(1, Write), (2, Write)];
const ALL: Uses = &[(0, Write), (1, Write), (2, Write)];
const SEEN: Uses = &[(0, Read), (1, Read)];

const READ: Uses = &[(0, Read)];

const GONE: Uses = &[(0, Delete)];
const SECOND_GONE: Uses = &[(1, Delete)];
/// What is in their slots later.
const AGAIN: Uses = &[(10, Write)];
const READ_AGAIN: Uses = &[(10, Read)];
const SECOND_AGAIN: Uses = &[(11, Write)];

/// So often variable 1 changes hands that it is common.
const fn common(step: usize) -> (usize, Step) {
    (step % 2, Push(step))
}

fn mixed() {
    assert!(MIXED.swap(0, SeqCst) > 0, "no operation was mixed");
}

/// Variable 1 is common, and A owns 0: A pushes on both beside B.
#[test]
fn two_push_on_a_variable_of_one_and_a_common_one() {
    static MODEL: Model = Model {
        slots: 2,
        uses: &[SECOND, SECOND, SECOND, SECOND, BOTH, BOTH, BOTH],
        first: &[common(0), common(1), common(2), common(3), (0, Push(4))],
        threads: &[&[Push(5)], &[Push(6)]],
        pins: false,
    };
    MODEL.explore("owned and common", 2, 100);
    mixed();
}

/// As above; variable 2 is B's.
#[test]
fn crossed_operations_with_a_common_variable_between() {
    static MODEL: Model = Model {
        slots: 3,
        uses: &[SECOND, SECOND, SECOND, SECOND, BOTH, OUTER, ALL, ALL],
        first: &[common(0), common(1), common(2), common(3), (0, Push(4)), (1, Push(5))],
        threads: &[&[Push(6)], &[Push(7)]],
        pins: false,
    };
    MODEL.explore("crossed", 1, 100);
    mixed();
}

#[test]
fn three_push_mixed_operations() {
    static MODEL: Model = Model {
        slots: 2,
        uses: &[SECOND, SECOND, SECOND, SECOND, BOTH, BOTH, FIRST, SECOND],
        first: &[common(0), common(1), common(2), common(3), (0, Push(4))],
        threads: &[&[Push(5)], &[Push(6)], &[Push(7)]],
        pins: false,
    };
    MODEL.explore_once("three pushers", 1, 100);
    mixed();
}

/// A owns variable 0, pushes, loses it, and comes back: then it is common.
#[test]
fn a_variable_becomes_common_while_a_mixed_push_is_under_way() {
    static MODEL: Model = Model {
        slots: 2,
        uses: &[SECOND, SECOND, SECOND, SECOND, BOTH, BOTH, SEEN, BOTH],
        first: &[common(0), common(1), common(2), common(3), (0, Push(4))],
        threads: &[&[Push(5), Push(6)], &[Push(7)]],
        pins: false,
    };
    MODEL.explore_once("common meanwhile", 1, 100);
    mixed();
}

/// The thread that takes its owned variable links the rest, beside one that comes to the common
/// variable.
#[test]
fn a_pusher_that_stops_before_it_links_is_helped() {
    static MODEL: Model = Model {
        slots: 2,
        uses: &[SECOND, SECOND, SECOND, SECOND, BOTH, BOTH, FIRST, SECOND],
        first: &[common(0), common(1), common(2), common(3), (0, Push(4)), (0, StopBehind(5))],
        threads: &[&[], &[Push(6)], &[Push(7)]],
        pins: false,
    };
    MODEL.explore("stopped before it links", 2, 100);
    mixed();
}

#[test]
fn two_help_a_pusher_that_stopped_before_it_linked() {
    static MODEL: Model = Model {
        slots: 2,
        uses: &[SECOND, SECOND, SECOND, SECOND, BOTH, BOTH, FIRST, FIRST],
        first: &[common(0), common(1), common(2), common(3), (0, Push(4)), (0, StopBehind(5))],
        threads: &[&[], &[Push(6)], &[Push(7)]],
        pins: false,
    };
    MODEL.explore_once("two help", 1, 100);
    mixed();
}

/// A deletes what it owns, while B takes it: B pushes before the deletion or not at all.
#[test]
fn nothing_is_taken_from_the_push_that_deletes_it() {
    static MODEL: Model = Model {
        slots: 1,
        uses: &[FIRST, GONE, FIRST],
        first: &[(0, Push(0))],
        threads: &[&[Push(1)], &[Push(2)]],
        pins: false,
    };
    MODEL.explore("deleted by its owner", 3, 100);
}

/// B owns variable 0, and pushes while A deletes it.
#[test]
fn an_owner_finds_that_its_variable_was_deleted() {
    static MODEL: Model = Model {
        slots: 1,
        uses: &[FIRST, GONE, FIRST, FIRST],
        first: &[(1, Push(0))],
        threads: &[&[Push(1)], &[Push(2), Push(3)]],
        pins: false,
    };
    MODEL.explore("deleted by another", 3, 100);
}

/// A owns it, and the next that takes it makes it common.
#[test]
fn a_variable_becomes_common_beside_its_deletion() {
    static MODEL: Model = Model {
        slots: 1,
        uses: &[FIRST, FIRST, FIRST, GONE, FIRST],
        first: &[(0, Push(0)), (1, Push(1)), (0, Push(2))],
        threads: &[&[Push(3)], &[Push(4)]],
        pins: false,
    };
    MODEL.explore("deleted where it becomes common", 3, 100);
}

/// From one end only, since it has one thread.
#[test]
fn who_has_deleted_a_variable_pushes_nothing_behind_it() {
    static MODEL: Model = Model {
        slots: 1,
        uses: &[FIRST, GONE, FIRST],
        first: &[],
        threads: &[&[Push(0), Push(1), Push(2)]],
        pins: false,
    };
    MODEL.explore_once("used behind its deletion", 1, 1);
}

/// Variable 0 is B's and 1 is common: one of them is deleted beside a push of both.
#[test]
fn a_variable_is_deleted_beside_a_mixed_push() {
    static OWNED: Model = Model {
        slots: 2,
        uses: &[SECOND, SECOND, SECOND, SECOND, BOTH, GONE, BOTH],
        first: &[common(0), common(1), common(2), common(3), (1, Push(4))],
        threads: &[&[Push(5)], &[Push(6)]],
        pins: false,
    };
    OWNED.explore("the owned one is deleted", 3, 100);
    static COMMON: Model = Model {
        slots: 2,
        uses: &[SECOND, SECOND, SECOND, SECOND, BOTH, SECOND_GONE, BOTH],
        first: &[common(0), common(1), common(2), common(3), (1, PushAndRun(4))],
        threads: &[&[PushAndRun(5)], &[Push(6)]],
        pins: false,
    };
    COMMON.explore("the common one is deleted", 3, 100);
    mixed();
}

fn reopened() {
    assert!(REOPENED.swap(0, SeqCst) > 0, "no slot was used again");
}

/// A deletes what it owns and uses the slot again, while B may still try to take the first variable
/// there.
#[test]
fn the_slot_of_an_owned_variable_is_used_again() {
    static MODEL: Model = Model {
        slots: 1,
        uses: &[FIRST, GONE, AGAIN, FIRST, AGAIN],
        first: &[(0, PushAndRun(0))],
        threads: &[&[PushAndRun(1), Reopen(0), Push(2)], &[Push(3), Push(4)]],
        pins: true,
    };
    MODEL.explore("an owned one's slot", 2, 100);
    reopened();
}

/// B owned it, and has not noticed that it was deleted.
#[test]
fn the_last_owner_comes_to_another_variable_in_the_slot() {
    static MODEL: Model = Model {
        slots: 1,
        uses: &[FIRST, GONE, AGAIN, FIRST, AGAIN],
        first: &[(1, PushAndRun(0))],
        threads: &[&[PushAndRun(1), Reopen(0), Push(2)], &[Push(3), Push(4)]],
        pins: true,
    };
    MODEL.explore("the slot of another's", 2, 100);
    reopened();
    // The other of a place's two states is the last one.
    static AFTER_TWO: Model = Model {
        slots: 1,
        uses: &[FIRST, FIRST, GONE, AGAIN, FIRST, AGAIN],
        first: &[(1, PushAndRun(0)), (1, PushAndRun(1))],
        threads: &[&[PushAndRun(2), Reopen(0), Push(3)], &[Push(4), Push(5)]],
        pins: true,
    };
    AFTER_TWO.explore("the slot of another's, after two pushes", 2, 100);
}

/// A was the first to share it, and has not noticed that this is over when it shares the next
/// variable in the slot. B is known as a reader of the first one.
#[test]
fn a_slot_is_shared_twice_by_the_same_pusher() {
    static MODEL: Model = Model {
        slots: 1,
        uses: &[FIRST, READ, READ, GONE, AGAIN, READ_AGAIN, AGAIN, AGAIN],
        first: &[
            (1, PushAndRun(0)),
            (0, PushAndRun(1)),
            (1, PushAndRun(2)),
            (1, PushAndRun(3)),
            (0, Reopen(0)),
            (1, PushAndRun(4)),
            (0, PushAndRun(5)),
        ],
        threads: &[&[Push(6)], &[Push(7)]],
        pins: true,
    };
    MODEL.explore("a slot shared twice", 2, 100);
    reopened();
}

#[test]
fn the_slot_of_a_common_variable_is_used_again() {
    static MODEL: Model = Model {
        slots: 1,
        uses: &[FIRST, FIRST, FIRST, FIRST, GONE, AGAIN, FIRST, AGAIN],
        first: &[(0, PushAndRun(0)), (1, PushAndRun(1)), (0, PushAndRun(2)), (1, PushAndRun(3))],
        threads: &[&[PushAndRun(4), Reopen(0), Push(5)], &[Push(6), Push(7)]],
        pins: true,
    };
    MODEL.explore("a common one's slot", 1, 100);
    reopened();
}

/// It is common again: nothing is left of how it was.
#[test]
fn a_slot_is_common_twice() {
    static MODEL: Model = Model {
        slots: 1,
        uses: &[FIRST, FIRST, FIRST, FIRST, GONE, AGAIN, AGAIN, AGAIN, AGAIN, AGAIN, AGAIN],
        first: &[
            (0, PushAndRun(0)),
            (1, PushAndRun(1)),
            (0, PushAndRun(2)),
            (1, PushAndRun(3)),
            (0, PushAndRun(4)),
            (0, Reopen(0)),
            (0, PushAndRun(5)),
            (1, PushAndRun(6)),
            (0, PushAndRun(7)),
            (1, PushAndRun(8)),
        ],
        threads: &[&[Push(9)], &[Push(10)]],
        pins: true,
    };
    MODEL.explore("common twice", 3, 100);
    reopened();
}

/// A has committed a push of 0 and 1, but not linked it, when 1 is deleted. B takes 0 and so helps
/// A. As soon as A has gone on, the slot of 1 is another's: B was not pinned at the deletion.
#[test]
fn a_helper_that_is_late_finds_a_slot_used_again() {
    const USES: [Uses; 9] = [SECOND, SECOND, SECOND, SECOND, BOTH, BOTH, SECOND_GONE, FIRST, SECOND_AGAIN];
    explore("mixed, a late helper", 3, 100, || {
        let world = World::new(2, 3, false, USES.to_vec());
        let [a, other, b] = [0, 1, 2].map(|number| world.thread(number));
        for number in 0..4 {
            [&a, &other][number % 2].go(&[PushAndRun(number)]);
        }
        a.go(&[PushAndRun(4), StopBehind(5)]);
        other.go(&[PushAndRun(6)]);
        let helper = spawn(move || b.go(&[Push(7)]));
        a.finish_last();
        a.renew(1);
        a.go(&[Push(8)]);
        helper.join().unwrap();
        world.check();
    });
}

/// B has taken the variable and pushed a write: A knows of that, and does not find it quiet.
#[test]
fn a_variable_is_not_quiet_for_one_who_owned_it() {
    explore("mixed, quiet", 2, 10, || {
        let world = World::new(1, 2, false, vec![FIRST, FIRST]);
        let [a, b] = [0, 1].map(|number| world.thread(number));
        a.go(&[PushAndRun(0)]);
        assert_eq!(a.is_quiet(0), Some(true));
        let pushed = Arc::new(AtomicBool::new(false));
        let said = pushed.clone();
        let newcomer = spawn(move || {
            b.go(&[Push(1)]);
            said.store(true, Release);
        });
        if pushed.load(Acquire) {
            assert_ne!(a.is_quiet(0), Some(true), "a wait would end too early");
        }
        newcomer.join().unwrap();
        world.check();
    });
}
