//! Owned variables: pushers that take them from each other.

#![cfg(loom)]

use loom_tests::{Model, Step::*, Uses};
use seriatim::internals::access::Mode::{Read, Write};

const ONE: Uses = &[(0, Write)];
const OTHER: Uses = &[(1, Write)];
const THIRD: Uses = &[(2, Write)];
const BOTH: Uses = &[(0, Write), (1, Write)];
const SEEN: Uses = &[(0, Read)];

#[test]
fn a_newcomer_takes_a_variable_while_its_owner_pushes() {
    static MODEL: Model = Model {
        variables: 1,
        uses: &[ONE, ONE, ONE, ONE],
        first: &[(0, Push(0))],
        threads: &[&[Push(1), Push(2)], &[Push(3)]],
        certain: &[0, 1, 2, 3],
    };
    MODEL.explore("one newcomer", 3, 500);
}

#[test]
fn two_pushers_are_the_first_to_push_to_a_variable() {
    static MODEL: Model = Model {
        variables: 2,
        uses: &[ONE, BOTH, BOTH],
        first: &[],
        threads: &[&[Push(0), Push(1)], &[Push(2)]],
        certain: &[0, 1, 2],
    };
    MODEL.explore("two first pushes", 2, 200);
}

#[test]
fn a_light_fence_is_enough_for_the_owner() {
    static MODEL: Model = Model {
        variables: 1,
        uses: &[ONE, ONE, ONE],
        first: &[(0, Push(0))],
        threads: &[&[Push(1)], &[Push(2)]],
        certain: &[0, 1, 2],
    };
    MODEL.explore_light("one newcomer and light fences", 2, 100);
}

#[test]
fn two_newcomers_and_the_owner_agree() {
    static MODEL: Model = Model {
        variables: 1,
        uses: &[ONE, ONE, ONE, ONE],
        first: &[(0, Push(0))],
        threads: &[&[Push(1)], &[Push(2)], &[Push(3)]],
        certain: &[0, 1, 2, 3],
    };
    MODEL.explore("two newcomers", 1, 500);
}

#[test]
fn a_push_of_two_variables_happens_on_both_or_on_none() {
    static MODEL: Model = Model {
        variables: 2,
        uses: &[BOTH, BOTH, BOTH],
        first: &[(1, Push(0))],
        threads: &[&[Push(2)], &[Push(1)]],
        certain: &[0, 1, 2],
    };
    MODEL.explore("two variables", 1, 500);
}

/// The owner's era has ended before: its push is void, while another takes both variables.
#[test]
fn a_void_push_misleads_nobody() {
    static MODEL: Model = Model {
        variables: 3,
        uses: &[BOTH, THIRD, THIRD, BOTH, BOTH],
        first: &[(1, Push(0)), (1, Push(1)), (0, Push(2))],
        threads: &[&[Push(3)], &[Push(4)]],
        certain: &[0, 1, 2, 3, 4],
    };
    MODEL.explore("a void push", 1, 500);
}

#[test]
fn newcomers_for_two_variables_of_one_owner() {
    static MODEL: Model = Model {
        variables: 2,
        uses: &[BOTH, BOTH, ONE, OTHER],
        first: &[(0, Push(0))],
        threads: &[&[Push(1)], &[Push(2)], &[Push(3)]],
        certain: &[0, 1, 2, 3],
    };
    MODEL.explore("two variables for two newcomers", 1, 500);
}

#[test]
fn a_variable_comes_back_to_its_owner_and_becomes_common() {
    static MODEL: Model = Model {
        variables: 1,
        uses: &[ONE, ONE, ONE, ONE, ONE],
        first: &[(0, Push(0))],
        threads: &[&[Push(1), Push(2)], &[Push(3), Push(4)]],
        certain: &[0, 1, 2, 3, 4],
    };
    MODEL.explore("there and back", 2, 500);
}

#[test]
fn several_make_a_variable_common() {
    static MODEL: Model = Model {
        variables: 1,
        uses: &[ONE, ONE, ONE, ONE, ONE, ONE],
        first: &[(0, Push(0)), (1, Push(1)), (0, Push(2))],
        threads: &[&[Push(3)], &[Push(4)], &[Push(5)]],
        certain: &[0, 1, 2, 3, 4, 5],
    };
    MODEL.explore("two make it common", 2, 500);
}

/// The owner comes back to a variable whose next change of hands makes it common, while one that
/// found it before that is late.
#[test]
fn a_late_newcomer_does_not_say_where_a_common_variable_begins() {
    static MODEL: Model = Model {
        variables: 2,
        uses: &[ONE, ONE, ONE, OTHER, OTHER, OTHER, ONE, ONE, ONE],
        first: &[(0, Push(0)), (1, Push(1)), (0, Push(2)), (0, Push(3)), (1, Push(4)), (0, Push(5))],
        threads: &[&[Push(6)], &[Push(7)], &[Push(8)]],
        certain: &[0, 1, 2, 3, 4, 5, 6, 7, 8],
    };
    MODEL.explore("late where it becomes common", 1, 100);
}

#[test]
fn reads_are_counted_by_one_owner_after_the_other() {
    static MODEL: Model = Model {
        variables: 1,
        uses: &[ONE, SEEN, ONE, SEEN, ONE],
        first: &[(0, Push(0))],
        threads: &[&[Push(1), Push(2)], &[Push(3), Push(4)]],
        certain: &[0, 1, 2, 3, 4],
    };
    MODEL.explore("reads and writes", 2, 500);
}

/// The owner runs what it has pushed and uses the blocks again; the newcomer parks on the last
/// write, or finds that it has ended.
#[test]
fn blocks_are_used_again_meanwhile() {
    static MODEL: Model = Model {
        variables: 2,
        uses: &[BOTH, ONE, OTHER, ONE],
        first: &[(0, PushAndRun(0))],
        threads: &[&[PushAndRun(1), PushAndRun(2)], &[PushAndRun(3)]],
        certain: &[0, 1, 2, 3],
    };
    MODEL.explore("blocks used again", 2, 500);
}

#[test]
fn an_owner_that_stops_before_it_commits_is_in_nobodys_way() {
    static MODEL: Model = Model {
        variables: 1,
        uses: &[ONE, ONE, ONE, ONE],
        first: &[(0, Push(0))],
        threads: &[&[Push(1), StopBefore(2)], &[Push(3)]],
        certain: &[0, 1, 3],
    };
    MODEL.explore("stopped before the commit", 3, 100);
}

/// A newcomer that is late finds the operation of a push that is not committed, and will not be.
#[test]
fn an_operation_of_a_later_era_is_not_finished() {
    static MODEL: Model = Model {
        variables: 2,
        uses: &[BOTH, OTHER, BOTH],
        first: &[(1, PushAndRun(0))],
        threads: &[&[PushAndRun(2)], &[PushAndRun(1)]],
        certain: &[0, 1, 2],
    };
    MODEL.explore_once("a later operation", 2, 500);
}

/// The threads behind a pusher finish its last push: also the second one, since the first may have
/// stopped.
#[test]
fn an_owner_that_stops_behind_its_commit_leaves_nothing_unfinished() {
    static MODEL: Model = Model {
        variables: 2,
        uses: &[BOTH, BOTH, ONE, OTHER],
        first: &[(0, Push(0))],
        threads: &[&[StopBehind(1)], &[StopBefore(2)], &[Push(3)]],
        certain: &[0, 3],
    };
    MODEL.explore("stopped behind the commit", 1, 500);
}

/// Variable 1 is common. What is committed on variable 0 is enlisted on variable 1 by the pusher or
/// by the threads that take variable 0.
#[test]
fn owned_and_common_variables_in_one_push() {
    static MODEL: Model = Model {
        variables: 2,
        uses: &[OTHER, OTHER, OTHER, OTHER, BOTH, BOTH, BOTH],
        first: &[(0, Push(0)), (1, Push(1)), (0, Push(2)), (1, Push(3)), (0, Push(4))],
        threads: &[&[Push(5)], &[Push(6)]],
        certain: &[0, 1, 2, 3, 4, 5, 6],
    };
    MODEL.explore("owned and common", 2, 100);
}

#[test]
fn an_owner_that_stops_before_it_enlists_is_helped() {
    static MODEL: Model = Model {
        variables: 2,
        uses: &[OTHER, OTHER, OTHER, OTHER, BOTH, BOTH, BOTH],
        first: &[(0, Push(0)), (1, Push(1)), (0, Push(2)), (1, Push(3)), (0, Push(4))],
        threads: &[&[StopBehind(5)], &[Push(6)]],
        certain: &[0, 1, 2, 3, 4, 6],
    };
    MODEL.explore("owned and common, stopped", 2, 100);
}

/// Both read what was another's before; the second joins the first, or both find it still owned.
#[test]
fn readers_share_a_variable_and_the_owner_comes_back() {
    static MODEL: Model = Model {
        variables: 1,
        uses: &[ONE, SEEN, SEEN, ONE],
        first: &[(0, Push(0))],
        threads: &[&[Push(3)], &[Push(1)], &[Push(2)]],
        certain: &[0, 1, 2, 3],
    };
    MODEL.explore("readers share", 1, 500);
}

#[test]
fn a_reader_joins_while_the_share_is_closed() {
    static MODEL: Model = Model {
        variables: 1,
        uses: &[ONE, SEEN, SEEN, SEEN, ONE],
        first: &[(0, Push(0)), (1, Push(1))],
        threads: &[&[Push(4)], &[Push(2), Push(3)]],
        certain: &[0, 1, 2, 3, 4],
    };
    MODEL.explore("joins while closed", 3, 500);
}

#[test]
fn a_light_fence_is_enough_for_who_joins() {
    static MODEL: Model = Model {
        variables: 1,
        uses: &[ONE, SEEN, SEEN, ONE],
        first: &[(0, Push(0)), (1, Push(1))],
        threads: &[&[Push(2)], &[Push(3)]],
        certain: &[0, 1, 2, 3],
    };
    MODEL.explore_light("joins with light fences", 2, 100);
}

/// A member whose era has ended for the sake of another variable joins again, while one writes that
/// is a member as well.
#[test]
fn a_member_joins_again_while_another_writes() {
    static MODEL: Model = Model {
        variables: 2,
        uses: &[ONE, SEEN, SEEN, SEEN, OTHER, OTHER, SEEN, ONE],
        first: &[(1, Push(0)), (0, Push(1)), (1, Push(2)), (0, Push(3)), (0, Push(4)), (1, Push(5))],
        threads: &[&[Push(6)], &[Push(7)]],
        certain: &[0, 1, 2, 3, 4, 5, 6, 7],
    };
    MODEL.explore("joins again", 3, 500);
}

/// The era in which it joins again is over, which it has not noticed: no fence brings what it
/// writes.
#[test]
fn a_member_joins_again_in_an_era_that_is_over() {
    static MODEL: Model = Model {
        variables: 3,
        uses: &[ONE, SEEN, SEEN, SEEN, OTHER, OTHER, THIRD, THIRD, SEEN, ONE],
        first: &[
            (0, Push(0)),
            (1, Push(1)),
            (0, Push(2)),
            (1, Push(3)),
            (1, Push(4)),
            (0, Push(5)),
            (1, Push(6)),
            (0, Push(7)),
        ],
        threads: &[&[Push(9)], &[Push(8)]],
        certain: &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9],
    };
    MODEL.explore("joins again too late", 2, 500);
}

/// The same for a member that has owned the variable: its count then is no part of the share.
#[test]
fn an_owner_joins_in_an_era_that_is_over() {
    static MODEL: Model = Model {
        variables: 2,
        uses: &[ONE, SEEN, SEEN, OTHER, OTHER, SEEN, ONE],
        first: &[(1, Push(0)), (1, Push(1)), (0, Push(2)), (1, Push(3)), (0, Push(4))],
        threads: &[&[Push(6)], &[Push(5)]],
        certain: &[0, 1, 2, 3, 4, 5, 6],
    };
    MODEL.explore("joins too late", 2, 500);
}

#[test]
fn two_writers_close_one_share_while_a_member_joins_again() {
    static MODEL: Model = Model {
        variables: 2,
        uses: &[ONE, SEEN, OTHER, OTHER, SEEN, ONE, ONE],
        first: &[(0, Push(0)), (2, Push(1)), (2, Push(2)), (1, Push(3))],
        threads: &[&[Push(5)], &[Push(6)], &[Push(4)]],
        certain: &[0, 1, 2, 3, 4, 5, 6],
    };
    MODEL.explore("two close one share", 1, 500);
}

/// The thread that writes finishes what a member has pushed last.
#[test]
fn a_member_that_stops_behind_its_commit_leaves_nothing_unfinished() {
    static MODEL: Model = Model {
        variables: 1,
        uses: &[ONE, SEEN, SEEN, SEEN, ONE],
        first: &[(0, Push(0)), (1, Push(1))],
        threads: &[&[Push(4)], &[StopBehind(2)], &[StopBefore(3)]],
        certain: &[0, 1, 4],
    };
    MODEL.explore("a member stops", 1, 500);
}

/// The share ends too soon, so the variable becomes common, whichever thread finds it closed.
#[test]
fn a_share_that_does_not_pay_makes_a_variable_common() {
    static MODEL: Model = Model {
        variables: 1,
        uses: &[ONE, ONE, SEEN, SEEN, ONE, ONE],
        first: &[(0, Push(0)), (1, Push(1)), (0, Push(2))],
        threads: &[&[Push(4)], &[Push(3)], &[Push(5)]],
        certain: &[0, 1, 2, 3, 4, 5],
    };
    MODEL.explore("a share that does not pay", 1, 500);
}

#[test]
fn who_waits_for_another_pusher_runs_what_that_has_finished() {
    static MODEL: Model = Model {
        variables: 2,
        uses: &[ONE, BOTH, ONE, ONE],
        first: &[(0, Push(0))],
        threads: &[&[Push(1), Push(2)], &[Pull(0), Pull(0)]],
        certain: &[0, 1, 2],
    };
    MODEL.explore("pulling from another", 3, 200);
    static CLOSED: Model = Model {
        variables: 1,
        uses: &[ONE, ONE, ONE],
        first: &[(0, Push(0))],
        threads: &[&[Push(1)], &[Push(2)], &[Pull(0)]],
        certain: &[0, 1, 2],
    };
    CLOSED.explore("pulling from one whose era is closed", 2, 200);
}
