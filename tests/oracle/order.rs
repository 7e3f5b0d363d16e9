//! The one order in which a run happened, from what its operations noted.

use crate::plan::{Action, Mode};
use crate::world::*;
use seriatim::{Property, WhenFull};
use std::collections::VecDeque;

/// Whether a node came out with all of these bits.
pub fn has(world: &World, node: usize, bits: u8) -> bool {
    world.outcome(node) & bits == bits
}

/// Whether an operation took its place in the order: it was accepted, and ran or was skipped.
pub fn took_place(world: &World, node: usize) -> bool {
    has(world, node, ACCEPTED)
}

/// Whether nothing is known of what a node found: it was skipped, and its closure is used again.
pub fn leaves_no_note(world: &World, node: usize) -> bool {
    world.outcome(node) & (CALLED | DROPPED) == 0
}

/// What a check returns that has failed.
pub fn fail<T>(text: String) -> Result<T, String> {
    Err(text)
}

/// Every push was accepted or refused, every closure called or dropped, and each once.
pub fn check_outcomes(world: &World) -> Result<(), String> {
    let mut parents = vec![None; world.plan.nodes.len()];
    for (id, node) in world.plan.nodes.iter().enumerate() {
        node.children.iter().for_each(|child| parents[*child] = Some(id));
    }
    let shape = &world.plan.program.shape;
    let may_be_full = shape.bound > 0 && shape.when_full == WhenFull::WouldBlock;
    for (id, node) in world.plan.nodes.iter().enumerate() {
        let outcome = world.outcome(id);
        let pushed = parents[id].is_none_or(|parent| has(world, parent, CALLED));
        let operator = node.is_reused();
        let fits = match outcome & (ACCEPTED | DELETED | FULL) {
            0 => !pushed && outcome == 0,
            ACCEPTED => {
                let skipped = if operator { 0 } else { DROPPED };
                match outcome & !ACCEPTED {
                    called if called == CALLED | ENDED => true,
                    // Only a failure lets an operation be skipped, and never one of these.
                    other => {
                        other == skipped
                            && world.plan.failures
                            && node.template.property != Property::NoSkip
                            && !node.is_deletion()
                    }
                }
            }
            DELETED => outcome == if operator { DELETED } else { DELETED | DROPPED },
            FULL => outcome == if operator { FULL } else { FULL | DROPPED } && may_be_full && !node.is_nested,
            _ => false,
        };
        if !fits || (outcome != 0 && !pushed) {
            return fail(format!("#{id} came out as {outcome:#b}: {node:?}"));
        }
    }
    Ok(())
}

/// Operations that one thread pushes, and those that an operation pushes behind itself, keep their
/// order on every variable.
pub fn check_program_order(world: &World) -> Result<(), String> {
    let deleted_by_nobody = deleted_by_nobody(world);
    for script in &world.plan.scripts {
        let mut floors = vec![Floor::default(); world.cells.len()];
        for action in script {
            match action {
                Action::Push(node) => follow(world, *node, &mut floors, &deleted_by_nobody)?,
                Action::Replay(graph, number, _) => {
                    let nodes = &world.plan.graphs[*graph].replays[*number].nodes;
                    nodes.iter().try_for_each(|node| follow(world, *node, &mut floors, &deleted_by_nobody))?;
                }
                _ => {}
            }
        }
    }
    Ok(())
}

/// The earliest turn at which a variable may be seen next.
#[derive(Clone, Copy, Default)]
struct Floor {
    turn: u64,
    /// The same for what does not commute, if operations that do came last.
    after_commuting: u64,
    deleted: bool,
}

fn deleted_by_nobody(world: &World) -> Vec<bool> {
    let mut untouched = vec![true; world.cells.len()];
    for (id, node) in world.plan.nodes.iter().enumerate() {
        if node.is_deletion() && took_place(world, id) {
            untouched[node.claims[0].0] = false;
        }
    }
    untouched
}

fn follow(world: &World, id: usize, floors: &mut [Floor], deleted_by_nobody: &[bool]) -> Result<(), String> {
    let node = &world.plan.nodes[id];
    let outcome = world.outcome(id);
    let together = world.plan.pushed_with(id);
    let mut claimed = world.plan.nodes[together].iter().flat_map(|node| &node.claims).map(|(variable, _)| *variable);
    if outcome & DELETED != 0 && claimed.clone().all(|variable| deleted_by_nobody[variable]) {
        return fail(format!("#{id} was refused, but none of its variables was deleted"));
    }
    if outcome & ACCEPTED == 0 {
        return Ok(());
    }
    if let Some(variable) = claimed.find(|variable| floors[*variable].deleted) {
        return fail(format!("#{id} was accepted behind the deletion of variable {variable}"));
    }
    if leaves_no_note(world, id) {
        return Ok(());
    }
    for (variable, mode, note) in world.notes(id) {
        let commutes = mode == Mode::Write && world.plan.commutes(id, variable);
        let Floor { turn, after_commuting, .. } = floors[variable];
        let floor = if commutes { turn } else { turn.max(after_commuting) };
        if note.turn < floor {
            return fail(format!(
                "#{id} saw turn {} of variable {variable}, and something before it turn {floor} or later",
                note.turn
            ));
        }
        if commutes {
            floors[variable].after_commuting = after_commuting.max(note.turn + 1);
        } else {
            floors[variable].turn = note.turn + u64::from(mode == Mode::Write);
        }
        floors[variable].deleted = mode == Mode::Delete;
    }
    if outcome & CALLED != 0 && !node.children.is_empty() {
        let mut inner = floors.to_vec();
        node.children.iter().try_for_each(|child| follow(world, *child, &mut inner, deleted_by_nobody))?;
    }
    Ok(())
}

/// What used one variable.
#[derive(Default)]
struct Uses {
    writers: Vec<(u64, usize)>,
    readers: Vec<(u64, usize)>,
    deletion: Option<(u64, usize)>,
}

/// One order of all operations that agrees with every variable, in which those of a replay follow
/// each other: it exists if the engine kept its promise.
pub fn total_order(world: &World) -> Result<Vec<usize>, String> {
    let count = world.plan.nodes.len();
    let mut uses: Vec<Uses> = world.cells.iter().map(|_| Uses::default()).collect();
    for node in (0..count).filter(|node| took_place(world, *node) && !leaves_no_note(world, *node)) {
        for (variable, mode, note) in world.notes(node) {
            let place = (note.turn, node);
            match mode {
                Mode::Read => uses[variable].readers.push(place),
                Mode::Write => uses[variable].writers.push(place),
                Mode::Delete => {
                    if let Some((_, other)) = uses[variable].deletion.replace(place) {
                        return fail(format!("variable {variable} was deleted by #{other} and by #{node}"));
                    }
                }
            }
        }
    }
    let mut followers = vec![Vec::new(); count];
    let mut waits_for = vec![0u32; count];
    let together = |node: usize| world.plan.nodes[node].replay.unwrap_or(node);
    let mut edge = |before: usize, after: usize| {
        let (before, after) = (together(before), together(after));
        if before != after {
            followers[before].push(after);
            waits_for[after] += 1;
        }
    };
    for (variable, uses) in uses.iter_mut().enumerate() {
        uses.writers.sort_unstable();
        if let Some((turn, (_, node))) = uses.writers.iter().enumerate().find(|(turn, (seen, _))| *turn as u64 != *seen)
        {
            return fail(format!("the writers of variable {variable} saw turns out of step: #{node} at turn {turn}"));
        }
        uses.writers.windows(2).for_each(|pair| edge(pair[0].1, pair[1].1));
        let writes = uses.writers.len();
        // What comes at the end: the deletion, if there is one.
        let last = uses.deletion.map(|(_, node)| node);
        if let Some((turn, node)) = uses.deletion {
            if turn != writes as u64 {
                return fail(format!("#{node} deleted variable {variable} at turn {turn} of {writes}"));
            }
            uses.writers.last().iter().for_each(|(_, writer)| edge(*writer, node));
        }
        for (turn, reader) in &uses.readers {
            let turn = *turn as usize;
            if turn > writes {
                return fail(format!("#{reader} saw turn {turn} of variable {variable}, of {writes}"));
            }
            if turn > 0 {
                edge(uses.writers[turn - 1].1, *reader);
            }
            if let Some(next) = uses.writers.get(turn).map(|(_, writer)| *writer).or(last) {
                edge(*reader, next);
            }
        }
    }
    let is_first = |node: &usize| together(*node) == *node && took_place(world, *node);
    let mut ready: VecDeque<usize> = (0..count).filter(|node| is_first(node) && waits_for[*node] == 0).collect();
    let mut order = Vec::with_capacity(count);
    while let Some(node) = ready.pop_front() {
        order.extend(world.plan.pushed_with(node));
        for follower in &followers[node] {
            waits_for[*follower] -= 1;
            if waits_for[*follower] == 0 {
                ready.push_back(*follower);
            }
        }
    }
    match (0..count).find(|node| waits_for[*node] > 0) {
        Some(node) => fail(format!("there is no total order: #{node} is in a circle")),
        None => Ok(order),
    }
}
