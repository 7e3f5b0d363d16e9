//! Runs a program on an engine, while every operation notes what it finds.

use crate::common::{mix, Random};
use crate::graphs::{self, Held};
use crate::plan::{Action, Mode, Node, Plan, Use};
use crate::program::{Body, Program, Template};
use crate::world::*;
use seriatim::{Completion, Context, Engine, Error, ErrorKind, Name, Operator, Property, RunContext};
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::*};
use std::sync::{mpsc, Arc, Mutex, OnceLock};
use std::time::Duration;

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
        // If it was skipped, it is inside the engine and has its variables to itself. If it was
        // refused, it has not.
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
    let node = &world.plan.nodes[id];
    if node.large && node.template.work > 100 && is_planted("hang") {
        // An operation of another rare kind never ends.
        return std::mem::forget(completion);
    }
    match body {
        Body::Complete | Body::CompleteElsewhere => completion.complete(),
        Body::FailByCompletion | Body::FailElsewhere => completion.fail(format!("#{id}")),
        _ => drop(completion),
    }
}

pub fn run_async(world: &Arc<World>, id: usize, completion: Completion) {
    run(world, id);
    if world.plan.nodes[id].template.body.is_elsewhere() {
        completers()[id % COMPLETERS].send((Arc::clone(world), id, completion)).expect("the completers live for ever");
    } else {
        finish(world, id, completion);
    }
}

pub fn run_sync(world: &Arc<World>, id: usize) -> Result<(), String> {
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
    const MOST: usize = if cfg!(miri) { 64 } else { 20_000 };
    let names = NAMES.get_or_init(|| (0..MOST).map(|id| Name::from(format!("#{id}"))).collect());
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
    } else if let Some((operator, number)) = node.operator {
        // Its closure is made already; the context tells it which use it is.
        world.engine.push(&operators[operator], Context::cpu(number as u32 + 1), node.priority)
    } else {
        push_once(world, node, Ticket::new(world, id))
    };
    note_outcome(world, &[id], outcome);
}

/// Notes how the push of these nodes came out.
pub fn note_outcome(world: &World, nodes: &[usize], outcome: Result<(), Error>) {
    let bits = match outcome.as_ref().map_err(Error::kind) {
        Ok(()) => ACCEPTED,
        Err(ErrorKind::VariableDeleted) => DELETED,
        Err(ErrorKind::EngineFull) => FULL,
        Err(_) => return world.violation(format!("{nodes:?} were refused: {outcome:?}")),
    };
    nodes.iter().for_each(|node| world.set(*node, bits));
}

/// Whether `SERIATIM_ORACLE_TEETH` asks for this bug.
pub fn is_planted(bug: &str) -> bool {
    static PLANTED: OnceLock<Option<String>> = OnceLock::new();
    PLANTED.get_or_init(|| std::env::var("SERIATIM_ORACLE_TEETH").ok()).as_deref() == Some(bug)
}

/// What an operation of one rare kind says that it reads and writes, with one write turned into a
/// read. The check knows nothing of it, and must find out.
fn wrong_claims(node: &Node) -> Option<(Vec<usize>, Vec<usize>)> {
    let template = &node.template;
    let rare = template.writes.len() == 2 && template.reads.len() == 1 && node.large && template.work > 100;
    if !rare || !is_planted("claims") {
        return None;
    }
    let wrong = template.writes[1];
    let mut reads = template.reads.clone();
    reads.push(wrong);
    Some((reads, template.writes.iter().copied().filter(|variable| *variable != wrong).collect()))
}

/// The variables on which an operation commutes, and those that it writes.
pub fn changes(world: &World, template: &Template) -> (Vec<usize>, Vec<usize>) {
    let commutative = world.plan.program.shape.commutative;
    template.writes.iter().partition(|variable| template.commutes && **variable < commutative)
}

fn push_once(world: &Arc<World>, node: &Node, mut ticket: Ticket) -> Result<(), Error> {
    let tokens = |variables: &[usize]| variables.iter().map(|variable| world.tokens[*variable]).collect::<Vec<_>>();
    let builder = world.engine.op(name(ticket.id)).priority(node.priority).property(node.template.property);
    // With repeats, and with what is both read and written.
    let builder = match wrong_claims(node) {
        None => {
            let (commuting, written) = changes(world, &node.template);
            let builder = builder.reads(tokens(&node.template.reads)).writes(tokens(&written));
            // Read as well where it commutes: then it commutes.
            builder.commutes(tokens(&commuting))
        }
        Some((reads, writes)) => builder.reads(tokens(&reads)).writes(tokens(&writes)),
    };
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
    let (commuting, written) = changes(world, template);
    let builder = builder.reads(tokens(&template.reads)).writes(tokens(&written)).commutes(tokens(&commuting));
    let own = Arc::clone(world);
    let use_of = move |run: &RunContext<'_>| match own.plan.uses[index][run.context().id() as usize - 1] {
        Use::Push(id) => id,
        Use::Member(graph, member) => graphs::node_of_call(&own, graph, member, run),
    };
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
    execute_plan(engine, Plan::new(program))
}

/// Runs a program that is laid out already.
pub fn execute_plan(engine: &Engine, plan: Plan) -> Outcome {
    let variables = plan.program.shape.variables;
    let world = Arc::new(World {
        tokens: (0..variables)
            .map(|number| match number < plan.program.shape.commutative {
                true => engine.new_commutative_variable(),
                false => engine.new_variable(),
            })
            .collect(),
        cells: (0..variables).map(|_| Cell::default()).collect(),
        outcomes: plan.nodes.iter().map(|_| AtomicU8::new(0)).collect(),
        places: (0..plan.notes()).map(|_| Place::default()).collect(),
        violations: Mutex::default(),
        graphs: graphs::none_captured(&plan),
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
    let graphs = graphs::capture_all(&world, &operators);
    let (waits, kept) = if scripts == 1 {
        let (waits, kept) = run_script(&world, &operators, graphs, 0);
        (vec![waits], vec![kept])
    } else {
        let mut shares: Vec<Vec<Held>> = (0..scripts).map(|_| Vec::new()).collect();
        graphs.into_iter().for_each(|graph| shares[graph.index % scripts].push(graph));
        let start = |(pusher, graphs)| {
            let (world, operators) = (Arc::clone(&world), operators.clone());
            std::thread::spawn(move || run_script(&world, &operators, graphs, pusher))
        };
        let threads: Vec<_> = shares.into_iter().enumerate().map(start).collect();
        threads.into_iter().map(|thread| thread.join().expect("a script does not panic")).unzip()
    };
    // The operators go while their last uses are in flight, and so have half of the graphs.
    drop(operators);
    let first = engine.wait_for_all_timeout(Duration::from_secs(120));
    let last = [wait_outcome(first), wait_outcome(engine.wait_for_all())];
    over.store(true, Relaxed);
    if let Some(watcher) = watcher {
        watcher.join().expect("looking does not panic");
    }
    graphs::drop_all(&world, kept.into_iter().flatten());
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

/// What one thread does. Returns its waits, and graphs that are to be dropped when all is over.
fn run_script(
    world: &Arc<World>,
    operators: &[Operator],
    mut graphs: Vec<Held>,
    pusher: usize,
) -> (Vec<(usize, Wait)>, Vec<Held>) {
    let mut waits = Vec::new();
    let mut pushed: Vec<usize> = Vec::new();
    for (step, action) in world.plan.scripts[pusher].iter().enumerate() {
        match *action {
            Action::Push(id) => {
                push(world, operators, id);
                pushed.push(id);
            }
            Action::Replay(graph, number, priority) => {
                let graph = graphs::find(&mut graphs, graph);
                pushed.extend(graphs::replay(world, graph, number, priority));
            }
            Action::Set(graph, value) => graphs::set(world, graph, value),
            Action::Drop(graph) => graphs.retain(|held| held.index != graph),
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
    graphs.retain(|held| held.index % 2 == 1);
    (waits, graphs)
}

fn writes(node: &Node, variable: usize) -> bool {
    node.claims.contains(&(variable, Mode::Write))
}

/// A wait has returned: what it is for must have ended.
fn check_over(world: &World, nodes: impl Iterator<Item = usize>) {
    for id in nodes {
        let outcome = world.outcome(id);
        let skipped_silently = world.plan.nodes[id].is_reused() && outcome & CALLED == 0;
        if outcome & ACCEPTED != 0 && outcome & (ENDED | DROPPED) == 0 && !skipped_silently {
            world.violation(format!("a wait returned before #{id} had ended"));
        }
    }
}
