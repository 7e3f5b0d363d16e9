//! Capturing: from recorded pushes to a graph that can be replayed.

use super::claims::Claims;
use super::core::Core;
use super::graph::{delete_own_variable, Graph};
use super::operator::Operator;
use super::pace::Pace;
use super::parameter::Parameter;
use super::push::{resolve, Claim};
use super::replay::{Body, Detached, Inner, Node, Place, Replay, Used, CALLED, LANE};
use super::settings::Kind;
use super::variable::Variable;
use super::Engine;
use crate::device::{self, Context};
use crate::error::{Error, ErrorKind};
use crate::graph::edges::{predecessors, renumbered, schedule, Use};
use crate::graph::lanes::{Lanes, MOST_SEGMENTS};
use crate::graph::partition::partition;
use crate::graph::plan::{plan, Member};
use crate::operation::block::{Block, NOTE_COPIES, NOTE_GRAPH, NOTE_PRIORITISED};
use crate::operation::closure::{IntoOutcome, Quiet};
use crate::operation::completion::Completion;
use crate::operation::context::RunContext;
use crate::operation::name::Name;
use crate::operation::property::Property;
use crate::sync::{AtomicU8, MODELLED};
use crate::variable::access::Mode;
use crate::variable::table::Slot;
use std::cell::{Cell, UnsafeCell};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;

/// A graph being captured, in [`Engine::capture`]. What is pushed through it is recorded, and not run.
///
/// ```
/// let engine = seriatim::Engine::new()?;
/// let x = engine.new_variable();
/// let (graph, ()) = engine.capture(|c| {
///     c.name("two steps");
///     c.op("first").writes([x]).push(|_| ())?;
///     c.op("second").writes([x]).push(|_| ())
/// })?;
/// graph.replay()?;
/// # Ok::<(), seriatim::Error>(())
/// ```
pub struct Capture<'a> {
    engine: &'a Engine,
    id: u64,
    name: Name,
    variable: Variable,
    recorded: Vec<Recorded>,
    uses: Vec<Use>,
    /// The graph's variables, in the order of their numbers, and the numbers.
    variables: Vec<Claim>,
    numbers: HashMap<u32, u32>,
    /// A graph was made, which sees to the variable.
    made: bool,
    spreads_after: Option<u32>,
}

/// An operation that was recorded.
struct Recorded {
    body: Body,
    name: Name,
    context: Context,
    property: Property,
    priority: i32,
    /// Its uses end here.
    uses: u32,
}

impl Engine {
    /// Captures a graph: `record` pushes operations into it, with closures that can be called again and again, and they are run, as one
    /// operation, by each [`Graph::replay`]. What `record` returns comes back beside the graph: its parameters, say.
    ///
    /// Time and memory proportional to the operations and their variables; about 150 bytes an operation beside its closure.
    ///
    /// # Errors
    /// That of `record`; no graph is made then. [`EngineFull`](ErrorKind::EngineFull) for more than a billion operations.
    ///
    /// ```
    /// let engine = seriatim::Engine::new()?;
    /// let x = engine.new_variable();
    /// let (graph, ()) = engine.capture(|c| {
    ///     (0..100).try_for_each(|_| c.op("tiny").writes([x]).push(|_| ()))
    /// })?;
    /// graph.replay()?;
    /// engine.wait_for_var(x)?;
    /// assert_eq!(engine.version(x)?, 100);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn capture<T>(&self, record: impl FnOnce(&mut Capture<'_>) -> Result<T, Error>) -> Result<(Graph, T), Error> {
        static GRAPHS: AtomicU64 = AtomicU64::new(1);
        let mut capture = Capture {
            engine: self,
            id: GRAPHS.fetch_add(1, Relaxed),
            name: Name::from("graph"),
            variable: self.new_variable(),
            recorded: Vec::new(),
            uses: Vec::new(),
            variables: Vec::new(),
            numbers: HashMap::new(),
            made: false,
            spreads_after: None,
        };
        let value = record(&mut capture)?;
        let graph = capture.finish()?;
        capture.made = true;
        Ok((graph, value))
    }
}

impl<'a> Capture<'a> {
    /// Starts an operation of the graph. As [`Engine::op`].
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// # let x = engine.new_variable();
    /// let (graph, ()) = engine.capture(|c| c.op("one").writes([x]).push(|_| ()))?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn op(&mut self, name: impl Into<Name>) -> CaptureBuilder<'_, 'a> {
        CaptureBuilder {
            name: name.into(),
            claims: Claims::new(),
            context: Context::cpu(0),
            property: Property::Normal,
            priority: 0,
            capture: self,
        }
    }

    /// Records a use of an operator. As [`Engine::push`].
    ///
    /// # Errors
    /// As [`CaptureBuilder::push`], and [`ForeignOperator`](ErrorKind::ForeignOperator).
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// # let x = engine.new_variable();
    /// let step = engine.op("step").writes([x]).operator(|_| ())?;
    /// let (graph, ()) = engine.capture(|c| c.push(&step, seriatim::Context::cpu(0), 0))?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn push(&mut self, operator: &Operator, context: Context, priority: i32) -> Result<(), Error> {
        let (name, property, claims, body) = operator.captured(self.engine.core())?;
        self.record(body, name, context, property, priority, claims)
    }

    /// A value that the operations of the graph can read, and that can be replaced between replays.
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// let (graph, rate) = engine.capture(|c| Ok(c.parameter(0.5)))?;
    /// rate.set(0.25)?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn parameter<T: Send + Sync + 'static>(&mut self, value: T) -> Parameter<T> {
        Parameter::new(self.engine.core(), self.id, self.variable, value)
    }

    /// Names the graph, for profiles and for what is said of waits that run out of time. It is "graph" otherwise.
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// let (graph, ()) = engine.capture(|c| Ok(c.name("time step")))?;
    /// assert!(format!("{graph:?}").contains("time step"));
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn name(&mut self, name: impl Into<Name>) {
        self.name = name.into();
    }

    /// Replays are spread over all lanes after so many operations, whatever the clock says: for tests.
    #[doc(hidden)]
    pub fn spreads_after(&mut self, operations: u32) {
        self.spreads_after = Some(operations);
    }

    fn record(
        &mut self,
        body: Body,
        name: Name,
        context: Context,
        property: Property,
        priority: i32,
        claims: &[Claim],
    ) -> Result<(), Error> {
        let core = self.engine.core();
        device::resolve(context)?;
        for claim in claims {
            resolve(core, claim.variable)?;
        }
        for claim in claims {
            let next = self.variables.len() as u32;
            let number = *self.numbers.entry(claim.variable.index).or_insert(next);
            if number == next {
                self.variables.push(*claim);
            }
            let writes = claim.mode != Mode::Read;
            if writes {
                self.variables[number as usize].mode = Mode::Write;
            }
            self.uses.push(Use { variable: number, writes });
        }
        self.recorded.push(Recorded { body, name, context, property, priority, uses: self.uses.len() as u32 });
        Ok(())
    }

    /// Resolves what was recorded.
    fn finish(&mut self) -> Result<Graph, Error> {
        let core = self.engine.core();
        if self.recorded.len() >= MOST_SEGMENTS || self.uses.len() >= u32::MAX as usize {
            return Err(Error::new(
                ErrorKind::EngineFull,
                format!("a graph cannot have {} operations: {MOST_SEGMENTS} at most", self.recorded.len()),
            ));
        }
        let start_of = |index: usize| if index == 0 { 0 } else { self.recorded[index - 1].uses as usize };
        let uses: Vec<&[Use]> = (0..self.recorded.len())
            .map(|index| &self.uses[start_of(index)..self.recorded[index].uses as usize])
            .collect();
        let before = predecessors(&uses, self.variables.len());
        let priorities: Vec<i32> = self.recorded.iter().map(|recorded| recorded.priority).collect();
        let order = schedule(&before, &priorities);
        let ordered = renumbered(&before, &order);
        let (places, common, fixed) = self.places(&order);
        let lanes = partition(&ordered, common, &fixed);
        let members: Vec<Member> = order
            .iter()
            .zip(&lanes)
            .map(|(recorded, lane)| {
                let recorded = &self.recorded[*recorded as usize];
                let detached = matches!(recorded.body, Body::Async(_));
                Member { lane: *lane, priority: recorded.priority, detached }
            })
            .collect();
        let mut plan = plan(&members, &ordered, places.len());
        // From places in the schedule to numbers as recorded.
        plan.operations.iter_mut().for_each(|operation| *operation = order[*operation as usize]);
        let plain = places.len() == common && !members.iter().any(|member| member.detached);
        let edges = (0..before.len()).flat_map(|to| before.of(to).iter().map(move |from| (*from, to as u32))).collect();

        let slots: Vec<*const Slot> = self
            .variables
            .iter()
            .map(|claim| resolve(core, claim.variable).map(std::ptr::from_ref))
            .collect::<Result<_, _>>()?;
        let mut writes = vec![0u64; slots.len()];
        self.uses.iter().filter(|used| used.writes).for_each(|used| writes[used.variable as usize] += 1);
        let writes = slots.iter().copied().zip(writes).filter(|(_, writes)| *writes > 0).collect();
        let mut used = Vec::with_capacity(self.uses.len());
        let mut ranges = Vec::with_capacity(self.recorded.len());
        for operation in &plan.operations {
            let start = used.len() as u32;
            used.extend(
                uses[*operation as usize]
                    .iter()
                    .map(|of| Used { slot: slots[of.variable as usize], writes: of.writes }),
            );
            ranges.push(start..used.len() as u32);
        }
        let recorded = std::mem::take(&mut self.recorded);
        let mut recorded: Vec<Option<Recorded>> = recorded.into_iter().map(Some).collect();
        let nodes = plan
            .operations
            .iter()
            .zip(ranges)
            .filter_map(|(operation, uses)| {
                let Recorded { body, name, context, property, .. } = recorded[*operation as usize].take()?;
                Some(Node { body, name, context, property, uses })
            })
            .collect();
        let mut claims = Claims::new();
        claims.add_all(&self.variables);
        claims.add(self.variable, Mode::Write);
        let waits = plan.segments.iter().map(|segment| segment.waits_far as usize).sum();
        let pace = Pace::new(plain, places.len(), plan.segments.len(), waits).spread_after(self.spreads_after);
        let inner = Inner {
            core: Arc::clone(core),
            id: self.id,
            name: self.name,
            claims: claims.ordered().into(),
            variable: self.variable,
            nodes,
            uses: used.into(),
            writes,
            lanes: Lanes::new(plan),
            blocks: places.iter().map(lane_block).collect(),
            notes: places.iter().fold(NOTE_GRAPH, |notes, place| notes | place.note()),
            places: places.into(),
            common,
            plain,
            replay: UnsafeCell::new(Replay::none(pace)),
        };
        Ok(Graph::new(inner, edges))
    }

    /// The lanes: first those for any operation, one a thread; then one for each other place where operations are to run. With them how many are of
    /// the first kind, and the lanes of the operations (in `order`) that have to be elsewhere.
    fn places(&self, order: &[u32]) -> (Vec<Place>, usize, Vec<Option<u32>>) {
        let common = threads(self.engine.core());
        let mut places: Vec<Place> = (0..common).map(|worker| Place { property: Property::Normal, worker }).collect();
        let fixed = order.iter().map(|recorded| {
            let Recorded { context, property, .. } = &self.recorded[*recorded as usize];
            let place = elsewhere(self.engine.core(), *context, *property)?;
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

impl Drop for Capture<'_> {
    fn drop(&mut self) {
        if !self.made {
            // Nobody has seen it but parameters, which are refused from now on. A stopped engine keeps it until its end.
            delete_own_variable(self.engine.core(), self.variable, |_| ());
        }
    }
}

/// How many threads can run operations of a graph at once: the workers, and a thread that waits and helps, if there is a core for it.
fn threads(core: &Core) -> usize {
    let settings = &core.settings;
    match settings.kind {
        Kind::Naive => 1,
        _ if MODELLED => 2,
        _ => {
            let cores = std::thread::available_parallelism().map_or(1, usize::from);
            let waiter = usize::from(settings.waiters_help && settings.cpu_workers < cores);
            settings.cpu_workers + waiter
        }
    }
}

/// Where an operation has to run, if any worker will not do.
fn elsewhere(core: &Core, context: Context, property: Property) -> Option<Place> {
    match (core.settings.kind, property) {
        (Kind::Naive, _) => None,
        (_, Property::CopyFromGpu | Property::CopyToGpu) => Some(Place { property: Property::CopyFromGpu, worker: 0 }),
        (Kind::Pooled, _) => None,
        (_, Property::CpuPrioritized) => Some(Place { property, worker: 0 }),
        _ if context.id() > 0 => {
            let worker = (context.id() as usize - 1) % core.settings.cpu_workers;
            Some(Place { property: Property::Normal, worker })
        }
        _ => None,
    }
}

impl Place {
    /// What a push has to know of it.
    fn note(self) -> u8 {
        match self.property {
            Property::CopyFromGpu => NOTE_COPIES,
            Property::CpuPrioritized => NOTE_PRIORITISED,
            _ => 0,
        }
    }
}

/// The block by which a lane is handed to a thread.
fn lane_block(place: &Place) -> UnsafeCell<Block> {
    let mut block = std::mem::MaybeUninit::<Block>::uninit();
    // SAFETY: the memory is ours, aligned, and as large as a block of class 0.
    let mut block = unsafe {
        Block::initialise(block.as_mut_ptr(), 0);
        block.assume_init()
    };
    block.property = place.property;
    block.body = &raw const LANE;
    UnsafeCell::new(block)
}

/// An operation of a graph being put together, from [`Capture::op`].
///
/// ```
/// # let engine = seriatim::Engine::new()?;
/// # let [x, y] = [engine.new_variable(), engine.new_variable()];
/// let (graph, ()) = engine.capture(|c| c.op("axpy").reads([x]).writes([y]).priority(2).push(|_| ()))?;
/// # Ok::<(), seriatim::Error>(())
/// ```
#[must_use = "an operation is not recorded until push() is called"]
pub struct CaptureBuilder<'c, 'a> {
    capture: &'c mut Capture<'a>,
    name: Name,
    claims: Claims,
    context: Context,
    property: Property,
    priority: i32,
}

impl CaptureBuilder<'_, '_> {
    /// Adds variables that the operation reads.
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// # let x = engine.new_variable();
    /// let (graph, ()) = engine.capture(|c| c.op("look").reads([x]).push(|_| ()))?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn reads(mut self, variables: impl IntoIterator<Item = impl Into<Variable>>) -> Self {
        variables.into_iter().for_each(|variable| self.claims.add(variable.into(), Mode::Read));
        self
    }

    /// Adds variables that the operation changes.
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// # let x = engine.new_variable();
    /// let (graph, ()) = engine.capture(|c| c.op("change").writes([x]).push(|_| ()))?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn writes(mut self, variables: impl IntoIterator<Item = impl Into<Variable>>) -> Self {
        variables.into_iter().for_each(|variable| self.claims.add(variable.into(), Mode::Write));
        self
    }

    /// Adds one variable that the operation reads.
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// # let x = engine.new_variable();
    /// let (graph, ()) = engine.capture(|c| c.op("look").read(x).push(|_| ()))?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn read(self, variable: impl Into<Variable>) -> Self {
        self.reads([variable])
    }

    /// Adds one variable that the operation changes.
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// # let x = engine.new_variable();
    /// let (graph, ()) = engine.capture(|c| c.op("change").write(x).push(|_| ()))?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn write(self, variable: impl Into<Variable>) -> Self {
        self.writes([variable])
    }

    /// Among ready operations of the graph that one thread could run, greater priorities run first.
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// let (graph, ()) = engine.capture(|c| c.op("soon").priority(3).push(|_| ()))?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn priority(mut self, priority: i32) -> Self {
        self.priority = priority;
        self
    }

    /// What kind of work the operation is: copies and prioritised ones run on their own workers.
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// let (graph, ()) = engine.capture(|c| c.op("report").property(seriatim::Property::NoSkip).push(|_| ()))?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn property(mut self, property: Property) -> Self {
        self.property = property;
        self
    }

    /// Where the operation runs.
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// let (graph, ()) = engine.capture(|c| c.op("first worker").context(seriatim::Context::cpu(1)).push(|_| ()))?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn context(mut self, context: Context) -> Self {
        self.context = context;
        self
    }

    /// Records the operation; in each replay it ends when the closure returns. Replays do not overlap, so the closure may change what it owns.
    ///
    /// # Errors
    /// [`VariableDeleted`](ErrorKind::VariableDeleted), [`ForeignVariable`](ErrorKind::ForeignVariable),
    /// [`UnknownDevice`](ErrorKind::UnknownDevice), [`DeviceUnavailable`](ErrorKind::DeviceUnavailable): nothing is then recorded.
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// let mut count = 0;
    /// let (graph, ()) = engine.capture(|c| {
    ///     c.op("count").push(move |_| {
    ///         count += 1;
    ///         println!("replay {count}");
    ///     })
    /// })?;
    /// graph.replay()?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn push<F, R>(mut self, mut closure: F) -> Result<(), Error>
    where
        F: FnMut(&RunContext<'_>) -> R + Send + 'static,
        R: IntoOutcome,
    {
        let body = sync(move |run| closure(run).into_outcome());
        let claims = self.claims.ordered();
        self.capture.record(body, self.name, self.context, self.property, self.priority, claims)
    }

    /// Records an asynchronous operation: in each replay it ends when its completion was used and the closure has returned.
    ///
    /// # Errors
    /// As [`push`](CaptureBuilder::push).
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// # let x = engine.new_variable();
    /// let (graph, ()) = engine.capture(|c| {
    ///     c.op("fetch").writes([x]).push_async(|_, completion| {
    ///         std::thread::spawn(move || completion.complete());
    ///     })
    /// })?;
    /// graph.replay()?;
    /// engine.wait_for_var(x)?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn push_async<G>(mut self, closure: G) -> Result<(), Error>
    where
        G: FnMut(&RunContext<'_>, Completion) + Send + 'static,
    {
        let body = detached(closure);
        let claims = self.claims.ordered();
        self.capture.record(body, self.name, self.context, self.property, self.priority, claims)
    }
}

/// An operation that ends with its call.
pub(super) fn sync(closure: impl FnMut(&RunContext<'_>) -> Result<(), String> + Send + 'static) -> Body {
    Body::Sync(UnsafeCell::new(Quiet::new(Box::new(closure))))
}

/// An operation that ends later than its call.
pub(super) fn detached(closure: impl FnMut(&RunContext<'_>, Completion) + Send + 'static) -> Body {
    Body::Async(Box::new(Detached {
        call: UnsafeCell::new(Quiet::new(Box::new(closure))),
        stage: AtomicU8::new(CALLED),
        outcome: UnsafeCell::new(Ok(())),
        started: Cell::new((0, None)),
    }))
}
