//! Assembling a graph: from the operations of a capture to a [`Program`] that can be replayed.
//!
//! Used by `api/capture.rs`, which fills a [`Recording`] and has it assembled, by
//! `api/capture_builder.rs`, and by `api/pipeline.rs`, which takes the operations as they are.
//!
//! First `merged.rs` joins the operations that a device does as one. How many lanes there are,
//! and which operations are bound to one, is decided here. The order and the other lanes come from
//! `graph/`; here they are brought together with closures, slots and blocks.
//!
//! A recording belongs to the thread that captures, but for two things. The operation that replaces
//! a parameter counts in [`Recording::changes`], on any thread, and never during a replay;
//! `device_graph.rs` reads it. The slots of private variables may be in use until their deletions
//! have run (`private.rs`).

use crate::device::{self, Context, Device};
use crate::engine::claims;
use crate::engine::core::Core;
use crate::engine::gpu::admit;
use crate::engine::holds::check_commutes;
use crate::engine::replay::guided::SEAT;
use crate::engine::replay::node_block::{NodeBlock, NodeKind};
use crate::engine::replay::part::{LENT, PART};
use crate::engine::replay::private::PrivateVariables;
use crate::engine::replay::program::{Body, LanePlace, Node, Part, Program, Replay, UsedSlot};
use crate::engine::replay::seats::{place_block, GuidedReplay};
use crate::engine::replay::spread_policy::SpreadPolicy;
use crate::engine::replay::LANE;
use crate::engine::request::Claim;
use crate::engine::settings::Kind;
use crate::error::{Error, ErrorKind};
use crate::graph::edges::{predecessors, renumbered, schedule, Adjacency, NodeUse};
use crate::graph::lanes::{Lanes, MOST_SEGMENTS};
use crate::graph::partition::partition;
use crate::graph::plan::{plan, Member};
use crate::operation::access::Mode;
use crate::operation::block::{FLAG_COPIES, FLAG_GRAPH, FLAG_PRIORITISED, FLAG_UNLOOKED};
use crate::operation::layout::MOST_ACCESSES;
use crate::operation::name::Name;
use crate::operation::property::Property;
use crate::sync::{AtomicUsize, MODELLED};
use crate::util::bucket_array::Location;
use crate::variable::handle::Variable;
use crate::variable::slot::Slot;
use crossbeam_utils::CachePadded;
use std::cell::UnsafeCell;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::Arc;

/// The most uses of variables: each makes two edges at most, which are counted in 32 bits.
const MOST_USES: usize = u32::MAX as usize / 2;

/// An operation that was captured.
pub struct Captured {
    pub body: Body,
    pub name: Name,
    pub context: Context,
    pub property: Property,
    pub priority: i32,
    /// Whether `replay/merged.rs` may join it with others.
    pub joins: Joins,
}

/// Whether an operation may be launched with others, as a graph of the driver.
#[derive(Clone, Copy, PartialEq)]
pub enum Joins {
    No,
    /// It asks for that, by `device_graph()`, also if it is alone.
    Asks,
    /// Behind others that ask, if it comes after one of them: a copy.
    Follows,
}

/// The properties of a graph as a whole.
pub struct Whole {
    /// The number of the graph, which no other graph has.
    pub id: u64,
    pub name: Name,
    /// The graph's own variable, which every replay changes.
    pub variable: Variable,
    pub spreads_after: Option<u32>,
}

/// The operations of a capture so far.
#[derive(Default)]
pub struct Recording {
    pub(super) recorded: Vec<Captured>,
    /// The uses of all operations, one operation after the other, and where those of each end.
    pub(super) uses: Vec<NodeUse>,
    pub(super) ends: Vec<u32>,
    /// The variables, in the order of their numbers in the graph, and these numbers by the index of
    /// the variable.
    pub(super) variables: Vec<Claim>,
    numbers: HashMap<u32, u32>,
    /// The devices that operations run on.
    devices: Vec<Context>,
    pub private: PrivateVariables,
    /// How often parameters of the graph were replaced.
    pub changes: Arc<AtomicU64>,
}

/// The edges of a graph, as pairs: an operation, and one that waits for it.
pub type Edges = Box<[(u32, u32)]>;

impl Recording {
    /// Records an operation, if it is valid.
    pub fn record(&mut self, core: &Core, captured: Captured, claims: &[Claim]) -> Result<(), Error> {
        device::resolve(captured.context)?;
        if captured.context.device() == Device::Gpu {
            admit::find(core, captured.context)?;
        }
        for claim in claims {
            check_commutes(claim, self.private.resolve(core, claim.variable)?)?;
        }
        // It is valid.
        if captured.context.device() == Device::Gpu && !self.devices.contains(&captured.context) {
            self.devices.push(captured.context);
        }
        for claim in claims {
            let next = self.variables.len() as u32;
            let number = *self.numbers.entry(claim.variable.index).or_insert(next);
            if number == next {
                self.variables.push(*claim);
            }
            let writes = claim.mode.changes();
            if writes {
                self.variables[number as usize].mode = Mode::Write;
            }
            self.uses.push(NodeUse { variable: number, writes });
        }
        self.recorded.push(captured);
        self.ends.push(self.uses.len() as u32);
        Ok(())
    }

    /// The uses of each operation.
    pub(super) fn uses(&self) -> Vec<&[NodeUse]> {
        let start_of = |index: usize| if index == 0 { 0 } else { self.ends[index - 1] as usize };
        (0..self.recorded.len()).map(|index| &self.uses[start_of(index)..self.ends[index] as usize]).collect()
    }

    /// The operations as they were recorded, each with its variables, and the devices that they run
    /// on. For pipelines, which have no program.
    pub fn into_operations(self) -> (Vec<(Captured, Vec<Claim>)>, Vec<Context>) {
        let claim = |used: &NodeUse| {
            let mode = if used.writes { Mode::Write } else { Mode::Read };
            Claim { mode, ..self.variables[used.variable as usize] }
        };
        let claims: Vec<Vec<Claim>> = self.uses().iter().map(|uses| uses.iter().map(claim).collect()).collect();
        (self.recorded.into_iter().zip(claims).collect(), self.devices)
    }

    /// Makes the program of the recorded operations, and their edges.
    pub fn assemble(self, core: &Arc<Core>, whole: Whole) -> Result<(Program, Edges), Error> {
        let captured = self.recorded.len();
        let mut writes = vec![0u64; self.variables.len()];
        self.uses.iter().filter(|used| used.writes).for_each(|used| writes[used.variable as usize] += 1);
        let this = if self.devices.is_empty() { self } else { self.merged(core) };
        this.assemble_merged(core, whole, captured, writes)
    }

    /// Makes the program of operations that are merged. As recorded there were `captured`, and they
    /// changed each variable as often as `writes` says.
    fn assemble_merged(
        self,
        core: &Arc<Core>,
        whole: Whole,
        captured: usize,
        writes: Vec<u64>,
    ) -> Result<(Program, Edges), Error> {
        let uses_devices = !self.devices.is_empty();
        let uses = self.uses();
        self.check_sizes(&uses)?;
        let before = predecessors(&uses, self.variables.len());
        let priorities: Vec<i32> = self.recorded.iter().map(|recorded| recorded.priority).collect();
        let order = schedule(&before, &priorities);
        let ordered = renumbered(&before, &order);
        let guided = !uses_devices && self.is_guided(core, &before);
        let threads = threads(core, guided);
        let (places, common, fixed) = self.places(core, &order, if guided { 1 } else { threads });
        let lanes = partition(&ordered, common, &fixed);
        let members: Vec<Member> = order
            .iter()
            .zip(&lanes)
            .map(|(recorded, lane)| {
                let recorded = &self.recorded[*recorded as usize];
                let detached = uses_devices || matches!(recorded.body, Body::Async(_));
                Member { lane: *lane, priority: recorded.priority, detached }
            })
            .collect();
        let mut plan = plan(&members, &ordered, places.len());
        // From positions in the schedule to numbers as recorded.
        plan.operations.iter_mut().for_each(|operation| *operation = order[*operation as usize]);
        let plain = places.len() == common && !members.iter().any(|member| member.detached);
        let edges = (0..before.len()).flat_map(|to| before.of(to).iter().map(move |from| (*from, to as u32))).collect();

        let slots: Vec<*const Slot> = self
            .variables
            .iter()
            .map(|claim| self.private.resolve(core, claim.variable).map(std::ptr::from_ref))
            .collect::<Result<_, _>>()?;
        // Private variables have no version that anybody could ask for.
        let is_private = |claim: &Claim| self.private.contains(claim.variable);
        let counted = self.variables.iter().zip(slots.iter().copied().zip(writes));
        let counted = counted.filter(|(claim, (_, writes))| *writes > 0 && !is_private(claim));
        let writes = counted.map(|(_, counted)| counted).collect();
        let (used, ranges) = used_slots(&plan.operations, &uses, &slots);
        let parts_of = uses_devices.then_some(&whole);
        let nodes = nodes(self.recorded, &plan.operations, &used, ranges, parts_of);
        let mut claims: Vec<Claim> = self.variables.into_iter().filter(|claim| !is_private(claim)).collect();
        claims.push(Claim { variable: whole.variable, mode: Mode::Write });
        let waits = plan.segments.iter().map(|segment| segment.waits_far as usize).sum();
        // The threads of a guided replay share operations, and not segments.
        let (runners, parts) = if guided { (threads, captured) } else { (places.len(), plan.segments.len()) };
        let spread_policy = SpreadPolicy::new(plain, runners, parts, waits).spread_after(whole.spreads_after);
        let claims = claims::order(&mut claims);
        let inner = Program {
            core: Arc::clone(core),
            id: whole.id,
            name: whole.name,
            claims: claims.into(),
            located: claims.iter().map(|claim| (*claim, Location::of(claim.variable.index))).collect(),
            variable: whole.variable,
            captured,
            nodes,
            uses: used.into(),
            writes,
            _private: self.private,
            lanes: Lanes::new(plan),
            guided: guided.then(|| Box::new(GuidedReplay::new(captured, threads, &SEAT))),
            blocks: places.iter().map(|place| place_block(place.property, &LANE)).collect(),
            flags: places
                .iter()
                .fold(if uses_devices { FLAG_GRAPH | FLAG_UNLOOKED } else { FLAG_GRAPH }, |flags, place| {
                    flags | place.flag()
                }),
            places: places.into(),
            devices: self.devices.into(),
            common,
            plain,
            replay: CachePadded::new(UnsafeCell::new(Replay::none(spread_policy))),
            given: CachePadded::new(AtomicUsize::new(0)),
            returned: CachePadded::new(AtomicUsize::new(0)),
        };
        Ok((inner, edges))
    }

    /// Whether threads share the operations as they come: if none waits for another, each ends with
    /// its call, and any worker may run it.
    fn is_guided(&self, core: &Core, before: &Adjacency) -> bool {
        let runs_anywhere =
            |of: &Captured| matches!(of.body, Body::Sync(_)) && elsewhere(core, of.context, of.property).is_none();
        core.settings.kind != Kind::Naive
            && self.recorded.len() > 1
            && self.recorded.iter().all(runs_anywhere)
            && (0..before.len()).all(|operation| before.of(operation).is_empty())
    }

    /// Refuses a graph with too many operations or uses of variables.
    fn check_sizes(&self, uses: &[&[NodeUse]]) -> Result<(), Error> {
        if self.recorded.len() >= MOST_SEGMENTS || self.uses.len() >= MOST_USES {
            return Err(Error::new(
                ErrorKind::EngineFull,
                format!(
                    "a graph cannot have {} operations with {} uses of variables: {MOST_SEGMENTS} at most, with {MOST_USES}",
                    self.recorded.len(),
                    self.uses.len()
                ),
            ));
        }
        if !self.devices.is_empty() && uses.iter().any(|uses| uses.len() >= MOST_ACCESSES) {
            return Err(Error::new(
                ErrorKind::EngineFull,
                format!("an operation of a graph with devices cannot use {MOST_ACCESSES} variables"),
            ));
        }
        Ok(())
    }

    /// The places of the lanes: first the common lanes, for any operation, one a thread; then one
    /// for each other place where operations have to run. Also returns the number of common lanes,
    /// and for each operation (in `order`) the lane that it has to be in, if any.
    fn places(&self, core: &Core, order: &[u32], common: usize) -> (Vec<LanePlace>, usize, Vec<Option<u32>>) {
        let mut places: Vec<LanePlace> =
            (0..common).map(|worker| LanePlace { property: Property::Normal, worker, device: None }).collect();
        let fixed = order.iter().map(|recorded| {
            let Captured { context, property, .. } = &self.recorded[*recorded as usize];
            let place = elsewhere(core, *context, *property)?;
            let lane = places[common..].iter().position(|other| *other == place).unwrap_or_else(|| {
                places.push(place);
                places.len() - common - 1
            });
            Some((common + lane) as u32)
        });
        let fixed = fixed.collect();
        (places, common, fixed)
    }
}

/// The slots that the operations of a plan use, one operation after the other, and the range of
/// each.
fn used_slots(operations: &[u32], uses: &[&[NodeUse]], slots: &[*const Slot]) -> (Vec<UsedSlot>, Vec<Range<u32>>) {
    let mut used = Vec::with_capacity(uses.iter().map(|uses| uses.len()).sum());
    let mut ranges = Vec::with_capacity(operations.len());
    for operation in operations {
        let start = used.len() as u32;
        let slot = |of: &NodeUse| UsedSlot { slot: slots[of.variable as usize], writes: of.writes };
        used.extend(uses[*operation as usize].iter().map(slot));
        ranges.push(start..used.len() as u32);
    }
    (used, ranges)
}

/// The operations of a program, in the order of the plan. In a graph that uses devices they are
/// parts of `parts_of`.
fn nodes(
    recorded: Vec<Captured>,
    operations: &[u32],
    used: &[UsedSlot],
    ranges: Vec<Range<u32>>,
    parts_of: Option<&Whole>,
) -> Box<[Node]> {
    let mut recorded: Vec<Option<Captured>> = recorded.into_iter().map(Some).collect();
    let node = |(operation, uses): (&u32, Range<u32>)| {
        let captured = recorded[*operation as usize].take()?;
        let captured = match parts_of {
            Some(whole) => part(captured, &used[uses.start as usize..uses.end as usize], whole),
            None => captured,
        };
        let Captured { body, name, context, property, .. } = captured;
        Some(Node { body, name, context, property, uses })
    };
    operations.iter().zip(ranges).filter_map(node).collect()
}

/// How many threads can run operations of a graph at once: the workers, and one helper if there is
/// a core for it. Where threads share the operations as they come there is always room for a
/// helper: nobody waits for it.
fn threads(core: &Core, guided: bool) -> usize {
    let settings = &core.settings;
    match settings.kind {
        Kind::Naive => 1,
        _ if MODELLED => 2,
        _ => {
            let cores = std::thread::available_parallelism().map_or(1, usize::from);
            let waiter = usize::from(settings.waiters_help && (guided || settings.cpu_workers < cores));
            settings.cpu_workers + waiter
        }
    }
}

/// The place where an operation has to run; `None` if any worker will do.
/// `engine/dispatch/pooled.rs` and `engine/dispatch/per_device.rs` have the same rule for
/// operations outside graphs.
fn elsewhere(core: &Core, context: Context, property: Property) -> Option<LanePlace> {
    let place = |property, worker| Some(LanePlace { property, worker, device: None });
    match (core.settings.kind, property) {
        (Kind::Naive, _) => None,
        _ if context.device() == Device::Gpu => {
            Some(LanePlace { property: Property::Normal, worker: 0, device: Some(context) })
        }
        (_, property) if property.is_io() => place(Property::CopyFromGpu, 0),
        (Kind::Pooled, _) => None,
        (_, Property::CpuPrioritized) => place(property, 0),
        _ if context.id() > 0 => {
            let worker = (context.id() as usize - 1) % core.settings.cpu_workers;
            place(Property::Normal, worker)
        }
        _ => None,
    }
}

impl LanePlace {
    /// The flag by which a push makes sure that the workers of this place are there
    /// (`push/admission.rs`).
    fn flag(self) -> u16 {
        match self.property {
            Property::CopyFromGpu => FLAG_COPIES,
            Property::CpuPrioritized => FLAG_PRIORITISED,
            _ => 0,
        }
    }
}

/// Makes an operation one of a graph that uses devices: gives it a block. One of a device also
/// reads the graph's own variable there, so that the graph is deleted when the device is done.
fn part(captured: Captured, uses: &[UsedSlot], whole: &Whole) -> Captured {
    let Captured { body, name, context, property, priority, .. } = captured;
    let on_device = context.device() == Device::Gpu;
    // SAFETY: slots live as long as the engine's memory.
    let used =
        uses.iter().map(|used| (unsafe { &*used.slot }.index(), if used.writes { Mode::Write } else { Mode::Read }));
    let uses: Vec<(u32, Mode)> = used.chain(on_device.then_some((whole.variable.index, Mode::Read))).collect();
    let kind = NodeKind { name, context, property, has_stream: on_device && !property.runs_on_pusher() };
    let block = NodeBlock::new(kind, &uses, &PART, LENT);
    let body = Body::Part(Box::new(Part { body, block, priority }));
    Captured { body, name, context, property, priority, joins: Joins::No }
}
