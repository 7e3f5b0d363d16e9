//! Checks a run against a serial replay in the one order in which it happened.

use crate::common::mix;
use crate::order::*;
use crate::plan::{Action, Mode};
use crate::program::Body;
use crate::world::*;
use seriatim::Property;
use std::collections::{BTreeSet, HashMap};

/// Checks a run. The error says what is wrong.
pub fn check(outcome: &Outcome) -> Result<(), String> {
    let world = &*outcome.world;
    if let Some(violation) = world.violations().first() {
        return Err(format!("{violation} (and {} more)", world.violations().len() - 1));
    }
    check_outcomes(world)?;
    let mut replay = Replay::new(outcome);
    if world.plan.serial {
        replay.run_script()?;
    } else {
        check_program_order(world)?;
        replay.read_waits()?;
        for node in total_order(world)? {
            replay.step(node)?;
        }
        replay.check_last_waits()?;
    }
    replay.check_end()
}

/// When a failure was taken, as far as the operations can tell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Taken {
    /// By a wait of this thread at this step.
    At(usize, usize),
    /// By some wait at some time, or by none.
    Perhaps,
}

/// Whether a failure still concerned an operation when it came to it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Live {
    Yes,
    No,
    Perhaps,
}

/// What a variable may be marked with: nothing, or the failure of a node.
type Marks = BTreeSet<Option<usize>>;

/// The serial execution, step by step.
struct Replay<'a> {
    outcome: &'a Outcome,
    world: &'a World,
    turns: Vec<u64>,
    versions: Vec<u64>,
    /// The replay that was the last to change a variable, and how often it has: its own operations
    /// see none of that.
    replayed: Vec<(usize, u64)>,
    hashes: Vec<u64>,
    deleted: Vec<bool>,
    marks: Vec<Marks>,
    /// The failures so far, in push order where that is known.
    failed: BTreeSet<usize>,
    taken: HashMap<usize, Taken>,
}

impl<'a> Replay<'a> {
    fn new(outcome: &'a Outcome) -> Replay<'a> {
        let world = &*outcome.world;
        let variables = world.cells.len();
        Replay {
            outcome,
            world,
            turns: vec![0; variables],
            versions: vec![0; variables],
            replayed: vec![(usize::MAX, 0); variables],
            hashes: vec![0; variables],
            deleted: vec![false; variables],
            marks: vec![Marks::from([None]); variables],
            failed: BTreeSet::new(),
            taken: HashMap::new(),
        }
    }

    /// One thread has pushed everything, so the order is that of its steps, and every wait has its
    /// place in it.
    fn run_script(&mut self) -> Result<(), String> {
        let mut waits = self.outcome.waits[0].iter();
        for (step, action) in self.world.plan.scripts[0].iter().enumerate() {
            match *action {
                Action::Push(node) => self.push(&[node])?,
                Action::Replay(graph, number, _) => self.push(&self.world.plan.graphs[graph].replays[number].nodes)?,
                Action::WaitFor(variable) => {
                    let (_, wait) = waits.next().expect("every wait is noted");
                    self.wait_for(step, variable, *wait)?;
                }
                Action::WaitForAll => {
                    let (_, wait) = waits.next().expect("every wait is noted");
                    self.wait_for_all(step, *wait)?;
                }
                Action::Restart | Action::Set(..) | Action::Drop(_) => {}
            }
        }
        self.wait_for_all(usize::MAX, self.outcome.last[0])?;
        self.wait_for_all(usize::MAX, self.outcome.last[1])
    }

    /// What was pushed together.
    fn push(&mut self, nodes: &[usize]) -> Result<(), String> {
        let world = self.world;
        let mut claims = nodes.iter().flat_map(|node| &world.plan.nodes[*node].claims);
        let refused = claims.any(|(variable, _)| self.deleted[*variable]);
        for node in nodes {
            // A full engine refuses before it looks at the variables.
            if refused != has(world, *node, DELETED) && !has(world, *node, FULL) {
                return fail(format!("#{node} came out as {:#b}", world.outcome(*node)));
            }
            if took_place(world, *node) {
                self.step(*node)?;
            }
        }
        Ok(())
    }

    fn wait_for(&mut self, step: usize, variable: usize, wait: Wait) -> Result<(), String> {
        let mut marks = self.marks[variable].iter().flatten().copied();
        let live = marks.rfind(|failure| !self.taken.contains_key(failure));
        let expected = if self.deleted[variable] { Err(seriatim::ErrorKind::VariableDeleted) } else { Ok(live) };
        if wait != expected {
            return fail(format!(
                "the wait for variable {variable} at step {step} returned {wait:?}, not {expected:?}"
            ));
        }
        self.taken.extend(live.filter(|_| wait.is_ok()).map(|failure| (failure, Taken::At(0, step))));
        Ok(())
    }

    fn wait_for_all(&mut self, step: usize, wait: Wait) -> Result<(), String> {
        let left: Vec<usize> =
            self.failed.iter().copied().filter(|failure| !self.taken.contains_key(failure)).collect();
        let first = left.first().copied();
        // Of those of one replay, whichever was noted first.
        let fits = match (wait, first) {
            (Ok(Some(taken)), Some(first)) => {
                left.contains(&taken) && self.world.plan.pushed_with(first).contains(&taken)
            }
            _ => wait == Ok(first),
        };
        if !fits {
            return fail(format!("the wait for everything at step {step} returned {wait:?}, not {first:?}"));
        }
        self.failed.iter().for_each(|failure| {
            self.taken.entry(*failure).or_insert(Taken::At(0, step));
        });
        Ok(())
    }

    /// Several threads have pushed: what their waits returned tells when which failure was taken.
    fn read_waits(&mut self) -> Result<(), String> {
        for (pusher, waits) in self.outcome.waits.iter().enumerate() {
            for (step, wait) in waits {
                match *wait {
                    Ok(None) | Err(seriatim::ErrorKind::VariableDeleted) => {}
                    Ok(Some(failure)) => self.take(failure, Taken::At(pusher, *step))?,
                    Err(kind) => return fail(format!("the wait of thread {pusher} at step {step} returned {kind:?}")),
                }
            }
        }
        if let Ok(Some(failure)) = self.outcome.last[0] {
            self.take(failure, Taken::At(usize::MAX, 0))?;
        }
        // A wait for everything takes all failures that there are, and names one of them.
        if self.waits_for_all() {
            for node in 0..self.world.plan.nodes.len() {
                if self.fails(node) {
                    self.taken.entry(node).or_insert(Taken::Perhaps);
                }
            }
        }
        Ok(())
    }

    fn waits_for_all(&self) -> bool {
        self.world.plan.scripts.iter().flatten().any(|action| matches!(action, Action::WaitForAll))
    }

    fn fails(&self, node: usize) -> bool {
        has(self.world, node, CALLED) && self.world.plan.nodes[node].template.body.fails()
    }

    fn take(&mut self, failure: usize, by: Taken) -> Result<(), String> {
        if failure >= self.world.plan.nodes.len() || !self.fails(failure) {
            return fail(format!("a wait returned the failure of #{failure}, which did not fail"));
        }
        match self.taken.insert(failure, by) {
            None => Ok(()),
            Some(other) => fail(format!("the failure of #{failure} was taken twice: {other:?} and {by:?}")),
        }
    }

    /// The end, where several threads have pushed.
    fn check_last_waits(&self) -> Result<(), String> {
        let [first, second] = self.outcome.last;
        if second != Ok(None) || first.is_err() {
            return fail(format!("the last waits returned {first:?} and {second:?}"));
        }
        if self.waits_for_all() {
            return Ok(());
        }
        // Nothing was taken unseen. Of the failures of each thread, its first comes first.
        let left = || self.failed.iter().filter(|failure| !self.taken.contains_key(failure));
        let Ok(Some(returned)) = first else {
            return left().next().map_or(Ok(()), |failure| fail(format!("the failure of #{failure} is lost")));
        };
        let node = |id: usize| &self.world.plan.nodes[id];
        let earlier = |failure: &&usize| {
            let ((thread, step), (other, later)) = (node(**failure).place, node(returned).place);
            thread == other && step < later
        };
        match left().filter(|failure| !node(**failure).is_nested && !node(returned).is_nested).find(earlier) {
            Some(failure) => {
                fail(format!("the last wait returned #{returned}, but #{failure} was pushed before and failed"))
            }
            None => Ok(()),
        }
    }

    /// Whether a failure concerned a node, going by where the node was pushed and when the failure
    /// was taken.
    fn live(&self, failure: usize, node: usize) -> Live {
        let (pusher, step) = self.world.plan.nodes[node].place;
        let nested = self.world.plan.nodes[node].is_nested;
        match self.taken.get(&failure) {
            None => Live::Yes,
            // The replay itself takes failures when it comes to the wait.
            Some(_) if self.world.plan.serial => Live::No,
            Some(Taken::At(taker, at)) if *taker == pusher && step > *at => Live::No,
            // What a thread pushed before its wait is concerned, even if it comes to run after it.
            Some(Taken::At(taker, at)) if *taker == pusher && step < *at && !nested => Live::Yes,
            Some(Taken::At(usize::MAX, _)) => Live::Yes,
            Some(_) => Live::Perhaps,
        }
    }

    /// The failures that a node may have found: the first in the order of its variables.
    fn inherited(&self, id: usize) -> Marks {
        let world = self.world;
        let mut variables: Vec<usize> = world.plan.nodes[id].claims.iter().map(|(variable, _)| *variable).collect();
        variables.sort_unstable_by_key(|variable| world.tokens[*variable].into_raw());
        let mut found = Marks::new();
        for variable in variables {
            let mut may_go_on = false;
            for mark in &self.marks[variable] {
                let live = mark.map_or(Live::No, |failure| self.live(failure, id));
                if live != Live::No {
                    found.insert(*mark);
                }
                may_go_on |= live != Live::Yes;
            }
            if !may_go_on {
                return found;
            }
        }
        found.insert(None);
        found
    }

    /// One operation.
    fn step(&mut self, id: usize) -> Result<(), String> {
        let world = self.world;
        let node = &world.plan.nodes[id];
        let called = has(world, id, CALLED);
        let mut inherited = self.inherited(id);
        let runs_anyway = node.template.property == Property::NoSkip || node.is_deletion();
        if !called {
            inherited.remove(&None);
        } else if !runs_anyway {
            inherited.retain(Option::is_none);
        }
        if inherited.is_empty() {
            let what = if called { "ran, although it found a failure" } else { "was skipped without a failure" };
            return fail(format!("#{id} {what}: {node:?}"));
        }
        if self.fails(id) {
            self.failed.insert(id);
            inherited = Marks::from([Some(id)]);
        }
        // What is skipped and used again leaves no notes and no turn, but a version.
        let notes = called || has(world, id, DROPPED);
        let mut seen = 0;
        for (variable, _, note) in world.notes(id).filter(|_| notes) {
            let expected = (self.turns[variable], self.hashes[variable]);
            if (note.turn, note.hash) != expected {
                return fail(format!("#{id} found {note:?} in variable {variable}, not {expected:?}"));
            }
            let version = self.versions[variable] - self.own_changes(id, variable);
            if note.version.is_some_and(|noted| noted != version) {
                return fail(format!("#{id} found {note:?} of variable {variable}, at version {version}"));
            }
            if self.deleted[variable] {
                return fail(format!("#{id} used variable {variable} after its deletion"));
            }
            seen = mix(seen ^ note.hash);
        }
        for (variable, mode) in &node.claims {
            match mode {
                Mode::Read => continue,
                Mode::Delete => self.deleted[*variable] = true,
                Mode::Write => {
                    self.turns[*variable] += u64::from(notes);
                    self.versions[*variable] += 1;
                    if let Some(replay) = node.replay {
                        self.replayed[*variable] = (replay, self.own_changes(id, *variable) + 1);
                    }
                    if called {
                        self.hashes[*variable] = result(id, node.template.body, self.hashes[*variable], seen);
                    }
                }
            }
            self.marks[*variable] = inherited.clone();
        }
        Ok(())
    }

    /// How often the replay of a node has changed a variable before it.
    fn own_changes(&self, id: usize, variable: usize) -> u64 {
        let (replay, changes) = self.replayed[variable];
        if self.world.plan.nodes[id].replay == Some(replay) {
            changes
        } else {
            0
        }
    }

    /// What is left at the end is what the replay says.
    fn check_end(&self) -> Result<(), String> {
        for (variable, cell) in self.world.cells.iter().enumerate() {
            let left = [&cell.turn, &cell.hash].map(|word| word.load(std::sync::atomic::Ordering::Relaxed));
            let expected = [self.turns[variable], self.hashes[variable]];
            if left != expected {
                return fail(format!("variable {variable} ended as {left:?}, not {expected:?}"));
            }
            let version = (!self.deleted[variable]).then_some(self.versions[variable]);
            if self.outcome.versions[variable] != version {
                let version = (self.outcome.versions[variable], version);
                return fail(format!("variable {variable} ended at version {:?}, not {:?}", version.0, version.1));
            }
        }
        Ok(())
    }
}

/// The bodies that end in a failure, for the thread that counts them.
pub fn failures(outcome: &Outcome) -> usize {
    let world = &outcome.world;
    let fails = |node: &usize| {
        has(world, *node, CALLED)
            && world.plan.nodes[*node].template.body != Body::Return
            && world.plan.nodes[*node].template.body.fails()
    };
    (0..world.plan.nodes.len()).filter(fails).count()
}
