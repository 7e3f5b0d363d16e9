//! Dependencies between recorded operations, worked out from the variables that they used and from
//! when they ran. Used by `profile/trace.rs`, for the arrows of a trace.
//!
//! `graph/edges.rs` has the rule for graphs; there a write waits for all reads, and no times are
//! known.

#![forbid(unsafe_code)]

use crate::error::Stamp;
use crate::profile::recorder::Event;
use std::collections::HashMap;

/// Returns, for each operation of `events`, the operations that it made ready, in the order in
/// which these started.
///
/// An operation may have to follow several others on one variable. Only the last of them to end
/// counts, since that held the operation up. Operations of a replay are compared with each other.
/// With operations outside of it the graph is compared as a whole, as one operation.
pub fn dependants(events: &[Event]) -> Vec<Vec<u32>> {
    /// The write, and the read since then, that ended last on one variable.
    #[derive(Default)]
    struct Last {
        writer: Option<usize>,
        reader: Option<usize>,
    }
    let mut order: Vec<usize> = (0..events.len()).collect();
    // Conflicting operations do not overlap, so their starts are in the order in which they had to
    // run.
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
            // An operation that was skipped out of turn, because a variable was deleted, may have
            // ended later. It has held up nothing.
            if events[earlier].end <= event.start {
                dependants[earlier].push(index as u32);
            }
        }
    }
    dependants
}
