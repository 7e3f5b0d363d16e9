//! Runs a program on an engine, while every operation notes what it finds.

use crate::common::{mix, Random};
use crate::program::{Body, Operation, Program, Step, Template};
use seriatim::{Completion, Context, Engine, Error, ErrorKind, Name, Operator, Property, RunContext, Variable};
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicU8, Ordering::*};
use std::sync::{mpsc, Arc, Mutex, OnceLock};
use std::time::Duration;

/// How a node uses a variable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    Read,
    Write,
    Delete,
}

/// One operation of a program: one push.
#[derive(Debug)]
pub struct Node {
    /// Each variable once, a write before a read of the same.
    pub claims: Vec<(usize, Mode)>,
    pub template: Template,
    pub priority: i32,
    pub context: u32,
    pub large: bool,
    /// The operator that it is a use of.
    pub operator: Option<usize>,
    pub children: Vec<usize>,
    /// The thread and the step at which it, or what it is nested in, is pushed.
    pub place: (usize, usize),
    pub is_nested: bool,
    /// Where its notes start.
    first: usize,
}

/// A step of a thread, by number of the node.
#[derive(Clone, Copy, Debug)]
pub enum Action {
    Push(usize),
    WaitFor(usize),
    WaitForAll,
    Restart,
}

/// A program, laid out: every push has a number.
pub struct Plan {
    pub program: Program,
    pub nodes: Vec<Node>,
    pub scripts: Vec<Vec<Action>>,
    pub serial: bool,
    pub failures: bool,
    /// The uses of each operator, in push order.
    uses: Vec<Vec<usize>>,
}

/// A context can tell so many uses of an operator apart.
const MOST_USES: usize = 1000;

impl Plan {
    pub fn new(program: Program) -> Plan {
        let mut plan = Plan {
            nodes: Vec::new(),
            scripts: Vec::new(),
            serial: program.is_serial(),
            failures: program.has_failures(),
            uses: program.operators.iter().map(|_| Vec::new()).collect(),
            program,
        };
        let pushers = plan.program.pushers.clone();
        let mut deletes = 0;
        for (pusher, steps) in pushers.iter().enumerate() {
            let mut script = Vec::new();
            for step in steps {
                let place = (pusher, script.len());
                match step {
                    Step::Push(operation) => script.push(Action::Push(plan.add_operation(operation, place, false))),
                    Step::Use(operator, priority) => {
                        // An operator belongs to one thread, so that its uses have an order.
                        let owned = *operator < plan.uses.len() && operator % pushers.len() == pusher;
                        if owned && plan.uses[*operator].len() < MOST_USES {
                            let template = plan.program.operators[*operator].clone();
                            let mut node = Node::new(template, place);
                            node.operator = Some(*operator);
                            node.priority = *priority;
                            let id = plan.add(node);
                            plan.uses[*operator].push(id);
                            script.push(Action::Push(id));
                        }
                    }
                    Step::Delete(variable) => {
                        deletes += 1;
                        // Half of the variables stay.
                        if deletes * 2 <= plan.program.shape.variables {
                            script.push(Action::Push(plan.add(Node::deletion(*variable, place))));
                        }
                    }
                    Step::WaitFor(variable) => script.push(Action::WaitFor(*variable)),
                    Step::WaitForAll => script.push(Action::WaitForAll),
                    Step::Restart => script.push(Action::Restart),
                }
            }
            plan.scripts.push(script);
        }
        plan
    }

    fn add_operation(&mut self, operation: &Operation, place: (usize, usize), is_nested: bool) -> usize {
        let mut node = Node::new(operation.template.clone(), place);
        node.priority = operation.priority;
        node.context = operation.context;
        node.large = operation.large;
        node.is_nested = is_nested;
        let id = self.add(node);
        for nested in &operation.nested {
            let child = self.add_operation(nested, place, true);
            self.nodes[id].children.push(child);
        }
        id
    }

    fn add(&mut self, mut node: Node) -> usize {
        node.first = self.nodes.last().map_or(0, |last| last.first + last.claims.len());
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    fn notes(&self) -> usize {
        self.nodes.last().map_or(0, |last| last.first + last.claims.len())
    }
}

impl Node {
    fn new(template: Template, place: (usize, usize)) -> Node {
        let mut claims: Vec<(usize, Mode)> = Vec::new();
        let writes = template.writes.iter().map(|variable| (*variable, Mode::Write));
        for (variable, mode) in writes.chain(template.reads.iter().map(|variable| (*variable, Mode::Read))) {
            if claims.iter().all(|(other, _)| *other != variable) {
                claims.push((variable, mode));
            }
        }
        Node {
            claims,
            template,
            priority: 0,
            context: 0,
            large: false,
            operator: None,
            children: Vec::new(),
            place,
            is_nested: false,
            first: 0,
        }
    }

    fn deletion(variable: usize, place: (usize, usize)) -> Node {
        let template = Template {
            reads: Vec::new(),
            writes: Vec::new(),
            property: Property::DeleteVar,
            body: Body::Return,
            work: 0,
        };
        Node { claims: vec![(variable, Mode::Delete)], ..Node::new(template, place) }
    }

    pub fn is_deletion(&self) -> bool {
        self.claims.first().is_some_and(|(_, mode)| *mode == Mode::Delete)
    }
}

/// What an operation noted about one variable.
#[derive(Clone, Copy, Debug)]
pub struct Note {
    /// How many operations had changed it, or had been skipped in place of that.
    pub turn: u64,
    pub hash: u64,
    /// What the engine said its version was; `None` if the variable was refused by then.
    pub version: Option<u64>,
}

#[derive(Default)]
struct Place {
    turn: AtomicU64,
    hash: AtomicU64,
    version: AtomicU64,
}

const NO_VERSION: u64 = u64::MAX;

/// A variable's contents. Nothing guards them but the engine's promise: plain loads and stores, and a race is no undefined
/// behaviour but a wrong result.
#[derive(Default)]
pub struct Cell {
    pub turn: AtomicU64,
    pub hash: AtomicU64,
    /// The writer inside, plus one.
    writer: AtomicU64,
}

/// The push was accepted.
pub const ACCEPTED: u8 = 1;
/// The push was refused because of a deleted variable.
pub const DELETED: u8 = 1 << 1;
/// The push was refused for want of room.
pub const FULL: u8 = 1 << 2;
/// The closure was called.
pub const CALLED: u8 = 1 << 3;
/// The closure was called, and what it started has ended.
pub const ENDED: u8 = 1 << 4;
/// The closure was dropped without having been called.
pub const DROPPED: u8 = 1 << 5;

/// A program that runs.
pub struct World {
    pub plan: Plan,
    engine: Engine,
    pub tokens: Vec<Variable>,
    pub cells: Vec<Cell>,
    outcomes: Vec<AtomicU8>,
    notes: Vec<Place>,
    violations: Mutex<Vec<String>>,
}

/// What a wait returned: the number of the node whose failure it took.
pub type Wait = Result<Option<usize>, ErrorKind>;

/// All that came of a run.
pub struct Outcome {
    pub world: Arc<World>,
    /// What each thread's waits returned, by step of its script.
    pub waits: Vec<Vec<(usize, Wait)>>,
    /// The wait for everything at the end, and a second one.
    pub last: [Wait; 2],
    /// The versions of the variables that live.
    pub versions: Vec<Option<u64>>,
}

impl World {
    pub fn outcome(&self, node: usize) -> u8 {
        self.outcomes[node].load(SeqCst)
    }

    pub fn notes(&self, node: usize) -> impl Iterator<Item = (usize, Mode, Note)> + '_ {
        let node = &self.plan.nodes[node];
        node.claims.iter().zip(&self.notes[node.first..]).map(|((variable, mode), place)| {
            let version = place.version.load(Relaxed);
            let note = Note {
                turn: place.turn.load(Relaxed),
                hash: place.hash.load(Relaxed),
                version: (version != NO_VERSION).then_some(version),
            };
            (*variable, *mode, note)
        })
    }

    pub fn violations(&self) -> Vec<String> {
        self.violations.lock().unwrap().clone()
    }

    #[cold]
    fn violation(&self, what: String) {
        self.violations.lock().unwrap().push(what);
    }

    /// Notes what all variables of an operation show. It has them to itself now.
    fn note(&self, id: usize) {
        let node = &self.plan.nodes[id];
        for ((variable, mode), place) in node.claims.iter().zip(&self.notes[node.first..]) {
            let cell = &self.cells[*variable];
            place.turn.store(cell.turn.load(Relaxed), Relaxed);
            place.hash.store(cell.hash.load(Relaxed), Relaxed);
            let version = self.engine.version(self.tokens[*variable]).unwrap_or(NO_VERSION);
            place.version.store(version, Relaxed);
            let writer = cell.writer.load(Relaxed);
            if writer != 0 {
                self.violation(format!("#{id} runs while #{} changes variable {variable}", writer - 1));
            }
            if *mode != Mode::Read {
                cell.writer.store(id as u64 + 1, Relaxed);
            }
        }
    }

    /// The first half of an operation's changes.
    fn start_changes(&self, id: usize) {
        for (variable, mode, note) in self.notes(id) {
            if mode == Mode::Write {
                self.cells[variable].hash.store(halfway(id, note.hash), Relaxed);
            }
        }
    }

    /// The other half, after which the operation may end; checks that nobody else has been at its variables.
    fn finish_changes(&self, id: usize, half_done: bool) {
        let body = self.plan.nodes[id].template.body;
        let seen = self.notes(id).fold(0, |seen, (_, _, note)| mix(seen ^ note.hash));
        for (variable, mode, note) in self.notes(id) {
            let cell = &self.cells[variable];
            let expected = if half_done && mode == Mode::Write { halfway(id, note.hash) } else { note.hash };
            let writer = if mode == Mode::Read { 0 } else { id as u64 + 1 };
            let now = [&cell.turn, &cell.hash, &cell.writer].map(|word| word.load(Relaxed));
            if now != [note.turn, expected, writer] {
                self.violation(format!("variable {variable} changed while #{id} had it: {now:?} after {note:?}"));
            }
            if mode == Mode::Write {
                cell.hash.store(result(id, body, note.hash, seen), Relaxed);
                cell.turn.store(note.turn + 1, Relaxed);
            }
            if mode != Mode::Read {
                cell.writer.store(0, Relaxed);
            }
        }
    }

    fn set(&self, id: usize, bits: u8) {
        let before = self.outcomes[id].fetch_or(bits, SeqCst);
        if before & bits != 0 {
            self.violation(format!("#{id} has had {bits:#b} twice"));
        }
    }
}

/// What a variable holds while an operation is half done.
pub fn halfway(id: usize, old: u64) -> u64 {
    mix(old ^ (id as u64).rotate_left(32))
}

/// What an operation leaves in a variable: depends on itself, on the old contents and on all that it saw.
pub fn result(id: usize, body: Body, old: u64, seen: u64) -> u64 {
    match body {
        body if !body.changes() => old,
        Body::DropElsewhere => halfway(id, old),
        _ => mix(mix(old).wrapping_add(seen) ^ id as u64),
    }
}

/// What a closure owns: it tells when it is dropped without having been called.
struct Ticket {
    world: Arc<World>,
    id: usize,
    called: bool,
}

impl Ticket {
    fn new(world: &Arc<World>, id: usize) -> Ticket {
        Ticket { world: Arc::clone(world), id, called: false }
    }

    fn run(&mut self) {
        self.called = true;
        run(&self.world, self.id);
    }

    fn run_sync(&mut self) -> Result<(), String> {
        self.called = true;
        run_sync(&self.world, self.id)
    }

    fn run_async(&mut self, completion: Completion) {
        self.called = true;
        run_async(&self.world, self.id, completion);
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if self.called {
            return;
        }
        let (world, id) = (&self.world, self.id);
        // If it was skipped, it is inside the engine and has its variables to itself. If it was refused, it has not.
        let inside = world.engine.start().is_err();
        if world.plan.failures && inside && world.plan.nodes[id].template.property != Property::NoSkip {
            world.note(id);
            for (variable, mode, note) in world.notes(id) {
                if mode == Mode::Write {
                    world.cells[variable].turn.store(note.turn + 1, Relaxed);
                    world.cells[variable].writer.store(0, Relaxed);
                }
            }
        }
        world.set(id, DROPPED);
    }
}

/// The part of an operation that runs in its closure.
fn run(world: &Arc<World>, id: usize) {
    let node = &world.plan.nodes[id];
    world.set(id, CALLED);
    world.note(id);
    (0..node.template.work).for_each(|_| std::hint::spin_loop());
    for child in &node.children {
        push(world, &[], *child);
    }
    match node.template.body {
        Body::Panic | Body::PanicWithCompletion => {
            world.finish_changes(id, false);
            world.set(id, ENDED);
            resume_unwind(Box::new(format!("#{id}")));
        }
        body if body.is_elsewhere() => world.start_changes(id),
        _ => {
            world.finish_changes(id, false);
            world.set(id, ENDED);
        }
    }
}

/// The part that ends it.
fn finish(world: &Arc<World>, id: usize, completion: Completion) {
    let body = world.plan.nodes[id].template.body;
    if body.is_elsewhere() {
        world.finish_changes(id, true);
        world.set(id, ENDED);
    }
    match body {
        Body::Complete | Body::CompleteElsewhere => completion.complete(),
        Body::FailByCompletion | Body::FailElsewhere => completion.fail(format_args!("#{id}")),
        _ => drop(completion),
    }
}

fn run_async(world: &Arc<World>, id: usize, completion: Completion) {
    run(world, id);
    if world.plan.nodes[id].template.body.is_elsewhere() {
        completers()[id % COMPLETERS].send((Arc::clone(world), id, completion)).expect("the completers live for ever");
    } else {
        finish(world, id, completion);
    }
}

fn run_sync(world: &Arc<World>, id: usize) -> Result<(), String> {
    run(world, id);
    match world.plan.nodes[id].template.body {
        Body::Fail | Body::FailEarly => Err(format!("#{id}")),
        _ => Ok(()),
    }
}

const COMPLETERS: usize = 2;

type Completer = mpsc::Sender<(Arc<World>, usize, Completion)>;

/// Threads that end operations of any engine.
fn completers() -> &'static [Completer; COMPLETERS] {
    static THREADS: OnceLock<[Completer; COMPLETERS]> = OnceLock::new();
    THREADS.get_or_init(|| {
        std::array::from_fn(|_| {
            let (send, receive) = mpsc::channel::<(Arc<World>, usize, Completion)>();
            std::thread::spawn(move || {
                for (world, id, completion) in receive {
                    (0..mix(id as u64) % 200).for_each(|_| std::hint::spin_loop());
                    finish(&world, id, completion);
                }
            });
            send
        })
    })
}

/// Names that lead back from an error to its operation.
fn name(id: usize) -> Name {
    static NAMES: OnceLock<Vec<Name>> = OnceLock::new();
    let names = NAMES.get_or_init(|| (0..20_000).map(|id| Name::from(format!("#{id}"))).collect());
    names.get(id).copied().unwrap_or_default()
}

/// The node that an error speaks of.
fn node_of(error: &Error) -> Option<usize> {
    let text = error.to_string();
    let number = text.rsplit_once('#')?.1;
    let end = number.find(|character: char| !character.is_ascii_digit()).unwrap_or(number.len());
    number[..end].parse().ok()
}

fn wait_outcome(outcome: Result<(), Error>) -> Wait {
    match outcome {
        Ok(()) => Ok(None),
        Err(error) => match (error.kind(), node_of(&error)) {
            (ErrorKind::OperationFailed | ErrorKind::OperationPanicked | ErrorKind::CompletionDropped, Some(node)) => {
                Ok(Some(node))
            }
            (kind, _) => Err(kind),
        },
    }
}

/// Pushes a node, and notes whether it was accepted.
fn push(world: &Arc<World>, operators: &[Operator], id: usize) {
    let node = &world.plan.nodes[id];
    let outcome = if node.is_deletion() {
        let mut ticket = Ticket::new(world, id);
        world.engine.delete_variable(move |_| ticket.run(), Context::cpu(0), world.tokens[node.claims[0].0])
    } else if let Some(operator) = node.operator {
        // Its closure is made already; the context tells it which use it is.
        let number = world.plan.uses[operator].binary_search(&id).expect("a use is one of its operator's");
        world.engine.push(&operators[operator], Context::cpu(number as u32 + 1), node.priority)
    } else {
        push_once(world, node, Ticket::new(world, id))
    };
    match outcome.as_ref().map_err(Error::kind) {
        Ok(()) => world.set(id, ACCEPTED),
        Err(ErrorKind::VariableDeleted) => world.set(id, DELETED),
        Err(ErrorKind::EngineFull) => world.set(id, FULL),
        Err(_) => world.violation(format!("#{id} was refused: {outcome:?}")),
    }
}

fn push_once(world: &Arc<World>, node: &Node, mut ticket: Ticket) -> Result<(), Error> {
    let tokens = |variables: &[usize]| variables.iter().map(|variable| world.tokens[*variable]).collect::<Vec<_>>();
    let builder = world.engine.op(name(ticket.id)).priority(node.priority).property(node.template.property);
    // With repeats, and with what is both read and written.
    let builder = builder.reads(tokens(&node.template.reads)).writes(tokens(&node.template.writes));
    let builder = builder.context(Context::cpu(node.context));
    let ballast = [0u8; 100];
    match (node.template.body.is_async(), node.large) {
        (false, false) => builder.push(move |_| ticket.run_sync()),
        (false, true) => builder.push(move |_| {
            std::hint::black_box(&ballast);
            ticket.run_sync()
        }),
        (true, false) => builder.push_async(move |_, completion| ticket.run_async(completion)),
        (true, true) => builder.push_async(move |_, completion| {
            std::hint::black_box(&ballast);
            ticket.run_async(completion);
        }),
    }
}

fn make_operator(world: &Arc<World>, index: usize) -> Operator {
    let template = &world.plan.program.operators[index];
    let tokens = |variables: &[usize]| variables.iter().map(|variable| world.tokens[*variable]).collect::<Vec<_>>();
    let builder = world.engine.op("an operator").property(template.property);
    let builder = builder.reads(tokens(&template.reads)).writes(tokens(&template.writes));
    let own = Arc::clone(world);
    let use_of = move |run: &RunContext<'_>| own.plan.uses[index][run.context().id() as usize - 1];
    let own = Arc::clone(world);
    let operator = if template.body.is_async() {
        builder.async_operator(move |run, completion| run_async(&own, use_of(run), completion))
    } else {
        builder.operator(move |run| run_sync(&own, use_of(run)))
    };
    operator.expect("the variables are new")
}

/// Runs a program to its end.
pub fn execute(engine: &Engine, program: Program) -> Outcome {
    let plan = Plan::new(program);
    let variables = plan.program.shape.variables;
    let world = Arc::new(World {
        tokens: (0..variables).map(|_| engine.new_variable()).collect(),
        cells: (0..variables).map(|_| Cell::default()).collect(),
        outcomes: plan.nodes.iter().map(|_| AtomicU8::new(0)).collect(),
        notes: (0..plan.notes()).map(|_| Place::default()).collect(),
        violations: Mutex::default(),
        engine: engine.clone(),
        plan,
    });
    let operators: Vec<Operator> =
        (0..world.plan.program.operators.len()).map(|index| make_operator(&world, index)).collect();
    let over = Arc::new(AtomicBool::new(false));
    let watcher = world.plan.program.shape.watched.then(|| {
        let (world, over) = (Arc::clone(&world), Arc::clone(&over));
        std::thread::spawn(move || watch(&world, &over))
    });
    let scripts = world.plan.scripts.len();
    let waits = if scripts == 1 {
        vec![run_script(&world, &operators, 0)]
    } else {
        let start = |pusher| {
            let (world, operators) = (Arc::clone(&world), operators.clone());
            std::thread::spawn(move || run_script(&world, &operators, pusher))
        };
        let threads: Vec<_> = (0..scripts).map(start).collect();
        threads.into_iter().map(|thread| thread.join().expect("a script does not panic")).collect()
    };
    // The operators go while their last uses are in flight.
    drop(operators);
    let first = engine.wait_for_all_timeout(Duration::from_secs(120));
    let last = [wait_outcome(first), wait_outcome(engine.wait_for_all())];
    over.store(true, Relaxed);
    if let Some(watcher) = watcher {
        watcher.join().expect("looking does not panic");
    }
    let versions = world.tokens.iter().map(|token| engine.version(*token).ok()).collect();
    // Their places are for the next program on this engine.
    for token in &world.tokens {
        let _ = engine.delete_variable(|_| (), Context::cpu(0), *token);
    }
    Outcome { world, waits, last, versions }
}

/// Looks at the engine from outside, again and again.
fn watch(world: &World, over: &AtomicBool) {
    let mut random = Random(7);
    while !over.load(Relaxed) {
        assert!(world.engine.dump_dot().starts_with("digraph"));
        let _ = world.engine.version(random.pick(&world.tokens));
        std::thread::sleep(Duration::from_micros(500));
    }
}

/// What one thread does.
fn run_script(world: &Arc<World>, operators: &[Operator], pusher: usize) -> Vec<(usize, Wait)> {
    let mut waits = Vec::new();
    let mut pushed: Vec<usize> = Vec::new();
    for (step, action) in world.plan.scripts[pusher].iter().enumerate() {
        match *action {
            Action::Push(id) => {
                push(world, operators, id);
                pushed.push(id);
            }
            Action::WaitFor(variable) => {
                let outcome = wait_outcome(world.engine.wait_for_var(world.tokens[variable]));
                if outcome.is_ok() {
                    check_over(world, pushed.iter().copied().filter(|id| writes(&world.plan.nodes[*id], variable)));
                }
                waits.push((step, outcome));
            }
            Action::WaitForAll => {
                waits.push((step, wait_outcome(world.engine.wait_for_all())));
                check_over(world, pushed.drain(..));
            }
            Action::Restart => {
                if let Err(error) = world.engine.stop().and_then(|()| world.engine.start()) {
                    world.violation(format!("the engine did not start again: {error}"));
                }
                check_over(world, pushed.drain(..));
            }
        }
    }
    waits
}

fn writes(node: &Node, variable: usize) -> bool {
    node.claims.contains(&(variable, Mode::Write))
}

/// A wait has returned: what it is for must have ended.
fn check_over(world: &World, nodes: impl Iterator<Item = usize>) {
    for id in nodes {
        let outcome = world.outcome(id);
        let skipped_operator = world.plan.nodes[id].operator.is_some() && outcome & CALLED == 0;
        if outcome & ACCEPTED != 0 && outcome & (ENDED | DROPPED) == 0 && !skipped_operator {
            world.violation(format!("a wait returned before #{id} had ended"));
        }
    }
}
