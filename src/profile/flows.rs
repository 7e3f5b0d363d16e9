//! Who waited for whom, worked out from what operations used and when they ran.

#![forbid(unsafe_code)]

use crate::error::Stamp;
use crate::profile::recorder::Event;
use std::collections::HashMap;

/// For each operation of `events`, the operations that it made ready, in the order in which these
/// started.
///
/// Of those that an operation has to follow on one variable, only the one that ended last is
/// counted: it is the one that held up. Operations of a replay are looked at among themselves, and
/// their graph, as one operation, among the others.
pub fn dependants(events: &[Event]) -> Vec<Vec<u32>> {
    /// The last operations that ended, on one variable.
    #[derive(Default)]
    struct Last {
        writer: Option<usize>,
        reader: Option<usize>,
    }
    let mut order: Vec<usize> = (0..events.len()).collect();
    // Operations in conflict do not overlap, so their starts are in the order of their turns.
    order.sort_by_key(|&index| (events[index].start, events[index].end));
    let mut variables: HashMap<(Option<Stamp>, (u32, u32)), Last> = HashMap::new();
    let mut dependants = vec![Vec::new(); events.len()];
    let mut before = Vec::new();
    for index in order {
        let event = &events[index];
        for used in event.uses() {
            let last = variables.entry((event.replay, used.variable())).or_default();
            if used.writes() {
                before.extend(last.reader.or(last.writer));
                *last = Last { writer: Some(index), reader: None };
            } else {
                before.extend(last.writer);
                let later = last.reader.is_none_or(|reader| events[reader].end <= event.end);
                last.reader = if later { Some(index) } else { last.reader };
            }
        }
        before.sort_unstable();
        before.dedup();
        for earlier in before.drain(..) {
            // Not of one that was skipped without its turn, because a variable was deleted.
            if events[earlier].end <= event.start {
                dependants[earlier].push(index as u32);
            }
        }
    }
    dependants
}
