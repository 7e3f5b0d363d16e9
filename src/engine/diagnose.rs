//! A look at the operations in flight of a running engine: as a text for errors
//! ([`pending_report`]), as a graph ([`dot`]), and as two numbers ([`ready_and_running`]).
//!
//! Used by `wait/` when a wait runs out of time, by `gpu/loss.rs`, by `stats.rs`, by
//! `api/control.rs` and by `api/graph.rs`, on any thread.
//!
//! Operations come and go meanwhile. The looking thread is pinned and is a registered reader, so no
//! block that it finds in use is given to another operation while it reads. Blocks of rings are
//! used again in spite of a pin, but not during a [`Look`]. The other half of that is in
//! `push/logged.rs`: a push says that it fills a block (`ThreadCache::fills`), and takes none of a
//! ring while [`Core::state`] counts a look. `fork.rs` clears that count in the child. Operations
//! without a block are in `operation/inline_run.rs`.

use crate::engine::core::Core;
use crate::operation::access::{Mode, Ticket};
use crate::operation::block::{Block, FLAG_HELD, FLAG_WAIT, PENDING, RUNNING};
use crate::platform::asymmetric_fence::heavy;
use crate::pool::reclaim::EpochGuard;
use crate::pool::thread_cache::ThreadCache;
use crate::sync::{fence, thread, Ordering::*, MODELLED};
use crate::tickets::run::Variables;
use crate::variable::handle::Variable;
use crate::variable::names;
use std::collections::HashMap;
use std::fmt::Write;
use std::time::{Duration, Instant};

/// One operation in flight, as it was seen.
struct Seen {
    name: &'static str,
    sequence: u64,
    running: bool,
    /// The variables that it uses, and for each the operation that is next on it.
    uses: Vec<(u32, Mode, usize)>,
}

/// How often to look whether a thread still fills a block of its ring. A thread that has lost its
/// core while it fills one is left out.
const ASKS: u32 = if MODELLED { 2 } else { 1000 };

/// A look at what is pending. Pushes that begin meanwhile take no block of a ring.
struct Look<'a> {
    core: &'a Core,
    /// By number of the cache: whether no thread fills a block of its ring any more.
    still: Vec<bool>,
    /// Keeps the blocks that are of no ring, together with `Looks` (`pool/beside_epoch.rs`).
    _pin: EpochGuard,
}

impl<'a> Look<'a> {
    fn begin(core: &'a Core) -> Look<'a> {
        let mut look = Look { core, still: Vec::new(), _pin: core.local().pin() };
        core.memory.blocks.looks.begin();
        fence(SeqCst);
        core.state.begin_look();
        // Heavy side of the asymmetric fence; the light side is in `push/logged.rs`. Either the
        // push sees that a thread looks, or this thread sees that the push fills a block.
        heavy();
        // Acquire: pairs with the release of `Filling` in `push/logged.rs`, so the block that was
        // filled last is seen as it was filled.
        let is_still = |cache: &ThreadCache| {
            (0..ASKS).any(|_| {
                let fills = cache.fills.load(Acquire);
                if fills {
                    thread::yield_now();
                }
                !fills
            })
        };
        for cache in core.memory.blocks.caches.iter() {
            let number = cache.number as usize;
            look.still.resize(look.still.len().max(number + 1), false);
            look.still[number] = is_still(cache);
        }
        look
    }

    /// Whether the operation of a block runs; `None` if the block has none, or one that is not
    /// shown. Otherwise the block keeps the operation during the look.
    ///
    /// # Safety
    /// It is a block of the engine.
    unsafe fn is_running(&self, block: *mut Block) -> Option<bool> {
        // SAFETY: blocks of slabs live as long as the memory. Acquire: a block in use has its
        // header written. A block of a ring belongs for good to the cache whose ring it was laid
        // into.
        unsafe {
            let lifecycle = (*block).lifecycle.load(Acquire);
            let is_in_use = lifecycle == PENDING || lifecycle == RUNNING;
            let stays = || !Block::is_ringed(block) || self.still.get(Block::cache(block) as usize) == Some(&true);
            // The operation may end meanwhile, and the pool then has the block. It writes the body
            // and the links there, so those are not looked at.
            let is_shown = || (*block).flags & (FLAG_WAIT | FLAG_HELD) != FLAG_WAIT;
            (is_in_use && stays() && is_shown()).then_some(lifecycle == RUNNING)
        }
    }
}

impl Drop for Look<'_> {
    fn drop(&mut self) {
        self.core.state.end_look();
        self.core.memory.blocks.looks.end();
    }
}

/// Looks at every block that is in use, and at the operations that run inside their pushes, without
/// a block. The keys are addresses of blocks, and odd numbers for the operations without one.
fn look(core: &Core) -> HashMap<usize, Seen> {
    let look = Look::begin(core);
    let mut seen = HashMap::new();
    let mut tickets: HashMap<u32, Vec<(Ticket, bool, usize)>> = HashMap::new();
    for block in core.memory.blocks.slabs.blocks() {
        // SAFETY: a block of the engine, which keeps its operation if it has one.
        unsafe {
            let Some(running) = look.is_running(block) else { continue };
            let uses = (0..(*block).count).map(|index| {
                let access = Block::access(block, index);
                let (variable, mode) = ((*access).variable, (*access).mode().plain());
                let ticket = Ticket::of((*access).ticket.load(Acquire));
                tickets.entry(variable).or_default().push((ticket, mode != Mode::Read, block.addr()));
                (variable, mode, 0)
            });
            seen.insert(
                block.addr(),
                Seen { name: Block::name(block), sequence: (*block).sequence, running, uses: uses.collect() },
            );
        }
    }
    for (variable, mut order) in tickets {
        // The reads behind one write have different numbers of reads; the next write has the count
        // of them all.
        order.sort_unstable_by_key(|(ticket, writes, _)| (ticket.writes, ticket.reads, *writes));
        for pair in order.windows(2) {
            let uses = seen.get_mut(&pair[0].2).into_iter().flat_map(|seen| &mut seen.uses);
            uses.filter(|(index, _, _)| *index == variable).for_each(|(_, _, next)| *next = pair[1].2);
        }
    }
    // An operation that runs inside its push has no block, and so no ticket to be found.
    for running in core.memory.blocks.caches.iter().filter_map(|cache| cache.running.look()) {
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

/// The number of a variable, and its name if it has one.
fn variable_label(core: &Core, index: u32) -> String {
    // Relaxed: the drawing is of a moving engine.
    let generation = core.memory.table.get(index).map_or(0, |slot| slot.generation.load(Relaxed));
    let name = names::get((core.memory.id, index), names::ordinal(generation));
    name.map_or_else(|| format!("v{index}"), |name| format!("v{index} {}", escaped(name)))
}

/// A text as it stands between the quotes of a Graphviz label.
pub fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}

/// How many blocks a report looks at in any case; [`REPORT_TIME`] is how long it then goes on. It
/// is the last thing that a wait does when its time is up.
const LEAST_BLOCKS: usize = 256;
const REPORT_TIME: Duration = Duration::from_micros(20);
/// Blocks between two readings of the clock.
const BLOCKS_A_READING: usize = 64;

/// Operations of one kind: how many, and the first in push order.
#[derive(Default)]
struct Few {
    count: usize,
    first: Vec<(u64, &'static str)>,
}

impl Few {
    const NAMED: usize = 5;

    fn add(&mut self, sequence: u64, name: &'static str) {
        self.count += 1;
        let place = self.first.partition_point(|(other, _)| *other < sequence);
        if place < Few::NAMED {
            self.first.truncate(Few::NAMED - 1);
            self.first.insert(place, (sequence, name));
        }
    }

    fn list(&self) -> String {
        let title = |(sequence, name): &(u64, &str)| format!("'{}' #{sequence}", shown(name));
        let mut text: Vec<String> = self.first.iter().map(title).collect();
        if self.count > self.first.len() {
            text.push(format!("and {} more", self.count - self.first.len()));
        }
        text.join(", ")
    }
}

/// How many operations wait for nothing but a thread or a device, and how many run.
pub fn ready_and_running(core: &Core) -> (u64, u64) {
    let look = Look::begin(core);
    let inside = core.memory.blocks.caches.iter().filter_map(|cache| cache.running.look()).count();
    let (mut ready, mut running) = (0, inside as u64);
    for block in core.memory.blocks.slabs.blocks() {
        // SAFETY: a block of the engine, which keeps its operation if it has one.
        unsafe {
            let Some(runs) = look.is_running(block) else { continue };
            let has_come = |index: u32| {
                let access = Block::access(block, index);
                // Relaxed: the number is for people, and rests on nothing.
                let ticket = Ticket::of((*access).ticket.load(Relaxed));
                core.memory.table.progress((*access).variable).has_come(ticket, (*access).mode())
            };
            if runs {
                running += 1;
            } else if Block::is_voided(block) || (0..(*block).count).all(has_come) {
                ready += 1;
            }
        }
    }
    (ready, running)
}

const NOTHING: &str = "nothing is pending any more";

/// A sentence on what is pending, on one variable or on all: what runs, and what waits behind it.
/// Looks at the operations that run inside pushes, then at blocks for a moment; says so if there
/// are more blocks.
pub fn pending_report(core: &Core, variable: Option<Variable>) -> String {
    let look = Look::begin(core);
    let (mut running, mut others, mut pending) = (Few::default(), Few::default(), Few::default());
    let concerns = |index: u32| variable.is_none_or(|variable| variable.index == index);
    let start = Instant::now();
    for seen in core.memory.blocks.caches.iter().filter_map(|cache| cache.running.look()) {
        let own = variable.is_none() || seen.uses.iter().any(|(index, _)| concerns(*index));
        if own { &mut running } else { &mut others }.add(seen.sequence, seen.name);
    }
    let (mut looked, mut all) = (0, true);
    for block in core.memory.blocks.slabs.blocks() {
        if looked >= LEAST_BLOCKS && looked % BLOCKS_A_READING == 0 && start.elapsed() >= REPORT_TIME {
            all = false;
            break;
        }
        looked += 1;
        // SAFETY: a block of the engine, which keeps its operation if it has one.
        unsafe {
            let Some(runs) = look.is_running(block) else { continue };
            let own = variable.is_none()
                || (0..(*block).count).any(|index| concerns((*Block::access(block, index)).variable));
            match (runs, own) {
                (true, true) => &mut running,
                (true, false) => &mut others,
                (false, true) => &mut pending,
                (false, false) => continue,
            }
            .add((*block).sequence, Block::name(block));
        }
    }
    let mut text = match (running.list(), pending.list(), others.list()) {
        (running, pending, _) if running.is_empty() && pending.is_empty() && all => NOTHING.to_owned(),
        (running, pending, others) if running.is_empty() && pending.is_empty() => {
            if others.is_empty() {
                "what holds it up was not found".to_owned()
            } else {
                format!("{others} runs")
            }
        }
        (running, pending, _) if pending.is_empty() => format!("running {running}"),
        (running, pending, others) if running.is_empty() => {
            if others.is_empty() {
                format!("pending {pending}")
            } else {
                format!("pending {pending}, while {others} runs")
            }
        }
        (running, pending, _) => format!("running {running}; behind it {pending}"),
    };
    if let Some(queued) = core.gpus.report() {
        if all && text == NOTHING {
            text.clear();
        } else {
            text.push_str("; ");
        }
        text.push_str(&queued);
    }
    if !all {
        let _ = write!(text, " (seen in the {looked} blocks that were made first: dump_dot() looks at all)");
    }
    text
}

/// The operations in flight as a Graphviz graph: an edge from each to those that wait for it, one a
/// variable.
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
            let label = variable_label(core, *variable);
            let _ = writeln!(text, "  n{} -> n{} [label=\"{label}\"{style}];", from.sequence, to.sequence);
        }
    }
    text.push_str("}\n");
    text
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::operation::async_closure::async_vtable;
    use crate::operation::block::BLANK;
    use crate::operation::context::RunContext;
    use crate::operation::layout::{class_for, Layout};
    use crate::operation::property::Property;
    use crate::{Completion, Context, Engine, Kind};

    /// A wait may end in the middle of a look, and its block goes back to the pool, which keeps a
    /// list in the place of the body. Here that place has what would be shown.
    #[test]
    fn what_the_pool_keeps_in_a_block_is_not_looked_at() {
        let engine = Engine::builder().kind(Kind::Naive).build().unwrap();
        let local = engine.core().local();
        let body = async_vtable(&|_: &RunContext<'_>, completion: Completion| completion.complete());
        // SAFETY: the block is ours from the pool, and goes back there as it came.
        unsafe {
            let block = local.allocate(class_for(0, 0, false, Layout::Plain));
            Block::renew(block, 0, false);
            Block::set_kind(block, Property::Normal, Context::cpu(0));
            Block::set_name(block, "wait".into());
            (*block).flags = FLAG_WAIT;
            let own = std::mem::replace(&mut (*block).body, body);
            Block::enter(block, RUNNING);
            let (dot, running) = (engine.dump_dot(), ready_and_running(engine.core()).1);
            Block::enter(block, BLANK);
            (*block).body = own;
            local.retire(block);
            assert!(!dot.contains("wait") && running == 0, "{dot}");
        }
    }
}
