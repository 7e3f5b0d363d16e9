//! What is pending, and behind what: for errors of waits that ran out of time, and as a graph.
//!
//! A look at a running engine: operations come and go meanwhile. The looker is pinned and counted among those who look at tails,
//! so no block that it finds in use is given to another operation while it reads.

use super::core::Core;
use super::variable::Variable;
use crate::operation::block::{Block, NOTE_WAIT, PENDING, RUNNING};
use crate::sync::{fence, Ordering::*};
use crate::variable::access::{Access, Mode, Node};
use crate::variable::state::State;
use std::collections::HashMap;
use std::fmt::Write;

/// One operation in flight, as it was seen.
struct Seen {
    name: &'static str,
    sequence: u64,
    running: bool,
    /// The variables it uses, and the operation that is next on each.
    uses: Vec<(u32, Mode, usize)>,
}

/// Looks at every block that is in use, and at what runs without one. Keyed by the block's address.
fn look(core: &Core) -> HashMap<usize, Seen> {
    let local = core.local();
    let _pin = local.pin();
    fence(SeqCst);
    let mut seen = HashMap::new();
    for block in core.memory.blocks() {
        // SAFETY: blocks of slabs live as long as the memory. Acquire on `lifecycle`: a block in use has its header written, and it
        // is not reused while we are pinned.
        unsafe {
            let lifecycle = (*block).lifecycle.load(Acquire);
            if lifecycle != PENDING && lifecycle != RUNNING || (*block).notes & NOTE_WAIT != 0 {
                continue;
            }
            let node: *mut Node = block.cast();
            let uses = (0..(*node).count).map(|index| {
                let access = Node::access(node, index);
                let next = State((*access).state.load(Acquire)).next();
                let next_node = if next.is_null() { std::ptr::null_mut() } else { Access::node(next) };
                ((*access).variable, (*access).mode(), next_node.addr())
            });
            let block: *mut Block = block;
            seen.insert(
                block.addr(),
                Seen {
                    name: Block::name(block),
                    sequence: (*block).sequence,
                    running: lifecycle == RUNNING,
                    uses: uses.collect(),
                },
            );
        }
    }
    // What runs inside a push has no block. Nobody is linked behind it but behind the access that it borrows.
    for running in core.memory.homes.iter().filter_map(|home| home.running.look()) {
        let mode = |reads| if reads { Mode::Read } else { Mode::Write };
        let uses = running.uses.iter().map(|(index, reads)| (*index, mode(*reads), 0)).collect();
        let key = usize::try_from(running.sequence).unwrap_or(usize::MAX) << 1 | 1; // No block has an odd address.
        seen.insert(key, Seen { name: running.name, sequence: running.sequence, running: true, uses });
    }
    seen
}

fn title(seen: &Seen) -> String {
    format!("'{}' #{}", shown(seen.name), seen.sequence)
}

/// A name for people.
pub fn shown(name: &str) -> &str {
    if name.is_empty() {
        "(unnamed)"
    } else {
        name
    }
}

/// A text as it stands between the quotes of a Graphviz label.
pub fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}

/// A sentence on what is pending: what runs, and what waits behind it; on one variable, or on all.
pub fn pending_report(core: &Core, variable: Option<Variable>) -> String {
    const NAMED: usize = 5;
    let seen = look(core);
    let concerns = |seen: &Seen| variable.is_none_or(|v| seen.uses.iter().any(|(index, ..)| *index == v.index));
    let list = |running: bool, only: bool| {
        let mut found: Vec<&Seen> =
            seen.values().filter(|seen| seen.running == running && (!only || concerns(seen))).collect();
        found.sort_by_key(|seen| seen.sequence);
        let mut text: Vec<String> = found.iter().take(NAMED).map(|seen| title(seen)).collect();
        if found.len() > NAMED {
            text.push(format!("and {} more", found.len() - NAMED));
        }
        text.join(", ")
    };
    let mut text = String::new();
    let pending = list(false, true);
    let _ = match (list(true, true), pending.as_str()) {
        (running, "") if running.is_empty() => write!(text, "nothing is pending any more"),
        (running, "") => write!(text, "running {running}"),
        (running, pending) if running.is_empty() => {
            let others = list(true, false);
            if others.is_empty() {
                write!(text, "pending {pending}")
            } else {
                write!(text, "pending {pending}, while {others} runs")
            }
        }
        (running, pending) => write!(text, "running {running}; behind it {pending}"),
    };
    text
}

/// The operations in flight as a Graphviz graph: an edge from each to those that wait for it, one a variable.
pub fn dot(core: &Core) -> String {
    let seen = look(core);
    let mut order: Vec<(&usize, &Seen)> = seen.iter().collect();
    order.sort_by_key(|(_, seen)| seen.sequence);
    let mut text = String::from("digraph seriatim {\n  rankdir=LR;\n  node [shape=box];\n");
    for (_, from) in &order {
        let label = escaped(&title(from));
        let style = if from.running { ", style=filled" } else { "" };
        let _ = writeln!(text, "  n{} [label=\"{label}\"{style}];", from.sequence);
    }
    for (_, from) in &order {
        for (variable, mode, next) in &from.uses {
            let Some(to) = seen.get(next) else { continue };
            let style = if *mode == Mode::Read { ", style=dashed" } else { "" };
            let _ = writeln!(text, "  n{} -> n{} [label=\"v{variable}\"{style}];", from.sequence, to.sequence);
        }
    }
    text.push_str("}\n");
    text
}
