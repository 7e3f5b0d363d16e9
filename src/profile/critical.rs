//! The critical path of recorded operations, and the slack of each. Used by `profile/mod.rs`, on a
//! copy of the events, and by `profile/table.rs`, which shows them.
//!
//! Kelley and Walker's method (1959): forwards, when each operation could have started at the
//! earliest if there were a thread for each; backwards, how much has to come behind it. What an
//! operation had to follow is worked out from the variables that it used and from when it ran, as
//! in `profile/flows.rs`. There only the operation counts that held another up, here each that
//! could have.

#![forbid(unsafe_code)]

use crate::error::Stamp;
use crate::profile::recorder::Event;
use std::collections::HashMap;

/// The chain of operations, each of which had to follow the one before it, that took the longest to
/// run: however many workers there are, the operations take no less than that.
///
/// An operation of a captured graph is looked at among those of its replay, and the graph, if it
/// has a name, as one operation among the others. This is the path of the longest of these groups.
///
/// ```
/// use std::time::Duration;
/// let engine = seriatim::Engine::new()?;
/// let x = engine.new_variable();
/// engine.start_profiling();
/// engine.op("aside").push(|_| ())?;
/// for _ in 0..3 {
///     engine.op("step").writes([x]).push(|_| std::thread::sleep(Duration::from_millis(1)))?;
/// }
/// engine.wait_for_all()?;
/// let profile = engine.profile();
/// let path = profile.critical_path();
/// assert!(path.operations.iter().all(|at| profile.events()[*at].name == "step"));
/// assert_eq!(path.operations.len(), 3);
/// assert!(path.length >= 3_000_000 && path.parallelism() >= 1.0);
/// # Ok::<(), seriatim::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct CriticalPath {
    /// The operations in the order in which they ran, by their places in
    /// [`Profile::events`](crate::Profile::events).
    pub operations: Vec<usize>,
    /// How long they ran together, in nanoseconds. Of an operation with a
    /// [span](crate::Event::device) on a device, that counts.
    pub length: u64,
    /// How long all operations ran, those beside the path included.
    pub work: u64,
    /// From the first push to the last end.
    pub elapsed: u64,
}

impl CriticalPath {
    /// How many operations could run at once on average: with more workers than that some are idle.
    /// 0 if nothing was recorded.
    ///
    /// ```
    /// let engine = seriatim::Engine::new()?;
    /// assert_eq!(engine.profile().critical_path().parallelism(), 0.0);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn parallelism(&self) -> f64 {
        if self.length == 0 {
            return 0.0;
        }
        self.work as f64 / self.length as f64
    }
}

/// How long an operation ran, on its device if it has one.
pub fn length(event: &Event) -> u64 {
    match event.device() {
        Some(span) => span.end - span.start,
        None => event.end.saturating_sub(event.start),
    }
}

/// For each operation those that it had to follow.
struct Before {
    /// Where those of each begin in `all`; one more than there are operations.
    starts: Vec<usize>,
    all: Vec<usize>,
}

impl Before {
    fn of(&self, place: usize) -> &[usize] {
        &self.all[self.starts[place]..self.starts[place + 1]]
    }
}

/// The operations in the order of their starts, and for each of that order those before it.
fn order(events: &[Event]) -> (Vec<usize>, Before) {
    /// The last write of a variable, and the reads since then.
    #[derive(Default)]
    struct LastUses {
        writer: Option<usize>,
        readers: Vec<usize>,
    }
    let mut order: Vec<usize> = (0..events.len()).collect();
    order.sort_by_key(|&index| (events[index].start, events[index].end));
    let mut variables: HashMap<(Option<Stamp>, (u32, u32)), LastUses> = HashMap::new();
    let mut before = Before { starts: vec![0], all: Vec::new() };
    for &index in &order {
        let event = &events[index];
        let first = before.all.len();
        for used in event.uses() {
            let last = variables.entry((event.replay, used.variable())).or_default();
            if used.writes() {
                if last.readers.is_empty() {
                    before.all.extend(last.writer);
                }
                before.all.append(&mut last.readers);
                last.writer = Some(index);
            } else {
                before.all.extend(last.writer);
                last.readers.push(index);
            }
        }
        // What was skipped out of turn may have ended later, and has held up nothing.
        let mut kept = before.all.split_off(first);
        kept.retain(|&earlier| earlier != index && events[earlier].end <= event.start);
        kept.sort_unstable();
        kept.dedup();
        before.all.append(&mut kept);
        before.starts.push(before.all.len());
    }
    (order, before)
}

/// Finds the critical path, and the slack of each operation.
pub fn path_and_slack(events: &[Event]) -> (CriticalPath, Vec<u64>) {
    let (order, before) = order(events);
    let lengths: Vec<u64> = events.iter().map(length).collect();
    // When each would end, if each began as soon as it may; and what it waits for last.
    let (mut ends, mut last) = (vec![0_u64; events.len()], vec![None; events.len()]);
    // The operation of each replay that would end last. `None`: of what is in no replay.
    let mut latest: HashMap<Option<Stamp>, usize> = HashMap::new();
    for (place, &index) in order.iter().enumerate() {
        last[index] = before.of(place).iter().copied().max_by_key(|&earlier| ends[earlier]);
        ends[index] = last[index].map_or(0, |earlier| ends[earlier]).saturating_add(lengths[index]);
        let of_all = latest.entry(events[index].replay).or_insert(index);
        if ends[index] > ends[*of_all] {
            *of_all = index;
        }
    }
    // How long what has to come behind it takes at least.
    let mut behind = vec![0_u64; events.len()];
    for (place, &index) in order.iter().enumerate().rev() {
        for &earlier in before.of(place) {
            behind[earlier] = behind[earlier].max(behind[index].saturating_add(lengths[index]));
        }
    }
    // Nothing is above the longest path, unless times are so large that sums are cut.
    let slack = |(index, event): (usize, &Event)| {
        ends[latest[&event.replay]].saturating_sub(ends[index]).saturating_sub(behind[index])
    };
    let slack = events.iter().enumerate().map(slack).collect();
    let longest = latest.values().copied().max_by_key(|&index| (ends[index], events[index].replay.is_none()));
    let Some(end) = longest else { return (CriticalPath::default(), slack) };
    let mut operations: Vec<usize> = std::iter::successors(Some(end), |&index| last[index]).collect();
    operations.reverse();
    let of_group = || events.iter().enumerate().filter(|(_, event)| event.replay == events[end].replay);
    let first = of_group().map(|(_, event)| event.push).min().unwrap_or_default();
    let over = of_group().map(|(_, event)| event.device().map_or(event.end, |span| span.end.max(event.end))).max();
    let path = CriticalPath {
        operations,
        length: ends[end],
        work: of_group().fold(0, |sum: u64, (index, _)| sum.saturating_add(lengths[index])),
        elapsed: over.unwrap_or_default().saturating_sub(first),
    };
    (path, slack)
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::profile::recorder::event_of;

    const R: bool = false;
    const W: bool = true;

    #[test]
    fn of_a_diamond_the_longer_side_is_critical_and_the_other_has_slack() {
        let events = [
            event_of(None, (0, 10), &[(1, W), (2, W)]),
            event_of(None, (10, 40), &[(1, W)]),
            event_of(None, (10, 15), &[(2, W)]),
            event_of(None, (40, 47), &[(1, R), (2, R)]),
            event_of(None, (0, 46), &[]),
        ];
        let (path, slack) = path_and_slack(&events);
        assert_eq!((path.operations, path.length), (vec![0, 1, 3], 47));
        assert_eq!((path.work, path.elapsed), (10 + 30 + 5 + 7 + 46, 47));
        assert_eq!(slack, [0, 0, 25, 0, 1]);
    }

    /// The read that ended last is at the end of no long chain: it began late.
    #[test]
    fn each_read_before_a_write_counts_and_not_only_the_last() {
        let events = [
            event_of(None, (0, 50), &[(1, W)]),
            event_of(None, (50, 60), &[(1, R), (2, R)]),
            event_of(None, (90, 91), &[(2, R)]),
            event_of(None, (91, 95), &[(2, W)]),
        ];
        let (path, slack) = path_and_slack(&events);
        assert_eq!((path.operations, path.length), (vec![0, 1, 3], 64));
        assert_eq!(slack, [0, 0, 59, 0]);
    }

    #[test]
    fn time_without_work_is_not_on_the_path() {
        let events = [event_of(None, (0, 10), &[(1, W)]), event_of(None, (500, 520), &[(1, W)])];
        let (path, slack) = path_and_slack(&events);
        assert_eq!((path.length, path.elapsed, slack), (30, 520, vec![0, 0]));
        assert!((path.parallelism() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn operations_of_a_replay_are_looked_at_among_themselves() {
        let replay = Some(Stamp::new(0, 7));
        let events = [
            event_of(None, (0, 100), &[(1, W)]),
            event_of(replay, (0, 60), &[(1, W)]),
            event_of(replay, (0, 20), &[(2, W)]),
            event_of(replay, (60, 90), &[(1, W)]),
        ];
        let (path, slack) = path_and_slack(&events);
        assert_eq!((path.operations, path.length, path.work), (vec![0], 100, 100));
        assert_eq!(slack, [0, 0, 70, 0]);
        let (of_replay, _) = path_and_slack(&events[1..]);
        assert_eq!((of_replay.operations, of_replay.length, of_replay.work), (vec![0, 2], 90, 110));
    }

    #[test]
    fn nothing_has_no_path() {
        assert_eq!(path_and_slack(&[]), (CriticalPath::default(), Vec::new()));
    }

    /// Against all paths, of random operations on few variables.
    #[test]
    fn the_path_is_the_longest_of_all() {
        let mut state = 1_u64;
        let mut random = move |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for _ in 0..300 {
            let mut events = Vec::new();
            let mut uses: Vec<Vec<(u32, bool)>> = Vec::new();
            for place in 0..8_u64 {
                // One after the other, so that each could have held up each later one.
                let start = place * 100;
                let count = random(3);
                let used: Vec<(u32, bool)> =
                    (0..count).map(|n| (n as u32 * 2 + random(2) as u32, random(2) == 0)).collect();
                events.push(event_of(None, (start, start + 1 + random(99)), &used));
                uses.push(used);
            }
            let conflict = |one: usize, other: usize| {
                uses[one].iter().any(|(v, w)| uses[other].iter().any(|(u, x)| v == u && (*w || *x)))
            };
            let through = |set: u32| {
                let chain: Vec<usize> = (0..8).filter(|place| set >> place & 1 == 1).collect();
                let is_chain = chain.windows(2).all(|pair| conflict(pair[0], pair[1]));
                is_chain.then(|| (set, chain.iter().map(|&index| length(&events[index])).sum::<u64>()))
            };
            let chains: Vec<(u32, u64)> = (0..256).filter_map(through).collect();
            let longest = chains.iter().map(|(_, length)| *length).max().unwrap();
            let (path, slack) = path_and_slack(&events);
            assert_eq!(path.length, longest);
            assert!(path.operations.windows(2).all(|pair| conflict(pair[0], pair[1])), "{path:?}");
            for (index, slack) in slack.iter().enumerate() {
                let own = chains.iter().filter(|(set, _)| set >> index & 1 == 1).map(|(_, length)| *length).max();
                assert_eq!(*slack, longest - own.unwrap(), "operation {index}");
            }
        }
    }
}
