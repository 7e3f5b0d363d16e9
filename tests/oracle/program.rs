//! Programs for the oracle: what several threads push, wait for and delete, on which engine.

use seriatim::{Engine, IdlePolicy, Kind, Property, WhenFull};
use std::time::Duration;

/// A program.
#[derive(Clone, Debug)]
pub struct Program {
    pub shape: Shape,
    pub operators: Vec<Template>,
    pub graphs: Vec<Recording>,
    /// What each thread does, one after another.
    pub pushers: Vec<Vec<Step>>,
}

/// The engine, and what surrounds the program.
#[derive(Clone, Debug)]
pub struct Shape {
    pub kind: Kind,
    pub workers: usize,
    pub idle: IdlePolicy,
    pub waiters_help: bool,
    pub bound: usize,
    pub when_full: WhenFull,
    /// In nanoseconds.
    pub inline_below: u64,
    pub variables: usize,
    /// How many of them are commutative, the first ones.
    pub commutative: usize,
    /// Whether one more thread draws the graph all the time.
    pub watched: bool,
}

/// A step of one thread.
#[derive(Clone, Debug)]
pub enum Step {
    Push(Operation),
    /// Pushes an operator, if it is this thread's.
    Use(usize, i32),
    /// Replays a graph with a priority, if it is this thread's; gives its operations another value;
    /// drops it.
    Replay(usize, i32),
    Set(usize, u64),
    Drop(usize),
    Delete(usize),
    WaitFor(usize),
    WaitForAll,
    /// Stops the engine and starts it again; only where one thread pushes.
    Restart,
}

/// What an operation uses and does.
#[derive(Clone, Debug)]
pub struct Template {
    pub reads: Vec<usize>,
    pub writes: Vec<usize>,
    /// Whether it commutes on those of its `writes` that are commutative.
    pub commutes: bool,
    pub property: Property,
    pub body: Body,
    /// Rounds of spinning, so that operations overlap.
    pub work: u32,
}

/// An operation that is pushed once.
#[derive(Clone, Debug)]
pub struct Operation {
    pub template: Template,
    pub priority: i32,
    pub context: u32,
    /// Whether its closure is too large for its block.
    pub large: bool,
    /// What it pushes while it runs.
    pub nested: Vec<Operation>,
}

/// A graph, captured before the threads start.
#[derive(Clone, Debug)]
pub struct Recording {
    pub members: Vec<Member>,
    /// After how many operations a replay goes from one thread to all lanes; `None`: when the
    /// engine finds that it pays.
    pub spreads_after: Option<u32>,
    /// Whether closures find out by counting their calls which replay they are in, or by a
    /// parameter: when some are skipped.
    pub counts: bool,
    /// Whether it is a pipeline, whose operations are pushed one by one.
    pub overlaps: bool,
}

/// An operation of a graph.
#[derive(Clone, Debug)]
pub enum Member {
    Push(Operation),
    /// A use of an operator, with a priority.
    Use(usize, i32),
}

/// How an operation goes on and ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Body {
    Return,
    Fail,
    /// Fails before it has changed anything.
    FailEarly,
    Panic,
    Complete,
    FailByCompletion,
    DropCompletion,
    PanicWithCompletion,
    /// On another thread, before which only half the work is done.
    CompleteElsewhere,
    FailElsewhere,
    DropElsewhere,
}

impl Shape {
    /// An engine of this shape.
    pub fn engine(&self) -> Engine {
        let builder = Engine::builder().kind(self.kind).cpu_workers(self.workers).priority_workers(2).idle(self.idle);
        let builder = builder.bound(self.bound).when_full(self.when_full).waiters_help(self.waiters_help);
        let builder = builder.inline_below(Duration::from_nanos(self.inline_below));
        builder.build().expect("the settings are valid")
    }
}

impl Body {
    pub fn is_async(self) -> bool {
        !matches!(self, Body::Return | Body::Fail | Body::FailEarly | Body::Panic)
    }

    pub fn fails(self) -> bool {
        !matches!(self, Body::Return | Body::Complete | Body::CompleteElsewhere)
    }

    pub fn is_elsewhere(self) -> bool {
        matches!(self, Body::CompleteElsewhere | Body::FailElsewhere | Body::DropElsewhere)
    }

    /// Whether the operation gets as far as to change its variables, or at least to its first half.
    pub fn changes(self) -> bool {
        !matches!(self, Body::FailEarly | Body::Panic | Body::DropCompletion | Body::PanicWithCompletion)
    }

    /// The same, but for completions that are dropped, whose errors name no more than the
    /// operation.
    fn telling(self) -> Body {
        match self {
            Body::DropCompletion | Body::DropElsewhere => Body::FailByCompletion,
            body => body,
        }
    }

    /// The same without the failure.
    pub fn mended(self) -> Body {
        match self {
            Body::Return | Body::Fail | Body::FailEarly | Body::Panic => Body::Return,
            body if body.is_elsewhere() => Body::CompleteElsewhere,
            _ => Body::Complete,
        }
    }
}

pub const GOOD: [Body; 3] = [Body::Return, Body::Complete, Body::CompleteElsewhere];
pub const BAD: [Body; 8] = [
    Body::Fail,
    Body::FailEarly,
    Body::Panic,
    Body::FailByCompletion,
    Body::DropCompletion,
    Body::PanicWithCompletion,
    Body::FailElsewhere,
    Body::DropElsewhere,
];
pub const PROPERTIES: [Property; 10] = [
    Property::Normal,
    Property::CpuPrioritized,
    Property::CopyFromGpu,
    Property::CopyToGpu,
    Property::GpuPrioritized,
    Property::Async,
    Property::DeleteVar,
    Property::NoSkip,
    Property::Short,
    Property::Io,
];

impl Program {
    /// Whether the order of everything is known beforehand: one thread pushes, no operation does,
    /// and none commutes.
    pub fn is_serial(&self) -> bool {
        self.shape.commutative == 0
            && self.pushers.len() == 1
            && !self.operations().any(|operation| !operation.nested.is_empty())
    }

    /// Whether anything fails, so that operations may be skipped.
    pub fn has_failures(&self) -> bool {
        fn fails(operation: &Operation) -> bool {
            operation.template.body.fails() || operation.nested.iter().any(fails)
        }
        self.operators.iter().any(|operator| operator.body.fails()) || self.operations().any(fails)
    }

    fn operations(&self) -> impl Iterator<Item = &Operation> {
        let steps = self.pushers.iter().flatten();
        let pushed = steps.filter_map(|step| if let Step::Push(operation) = step { Some(operation) } else { None });
        let members = self.graphs.iter().flat_map(|graph| &graph.members);
        pushed.chain(
            members.filter_map(|member| if let Member::Push(operation) = member { Some(operation) } else { None }),
        )
    }

    /// Visits all templates.
    pub fn templates(&mut self, visit: &mut impl FnMut(&mut Template)) {
        fn inside(operation: &mut Operation, visit: &mut impl FnMut(&mut Template)) {
            visit(&mut operation.template);
            operation.nested.iter_mut().for_each(|operation| inside(operation, visit));
        }
        self.operators.iter_mut().for_each(&mut *visit);
        for step in self.pushers.iter_mut().flatten() {
            if let Step::Push(operation) = step {
                inside(operation, visit);
            }
        }
        for member in self.graphs.iter_mut().flat_map(|graph| &mut graph.members) {
            if let Member::Push(operation) = member {
                inside(operation, visit);
            }
        }
    }

    /// Takes out what the check could not tell apart from the outside. A closure that is dropped
    /// without having been called was skipped because of a failure, or refused; where both can
    /// happen at any time, one of them has to go.
    pub fn tamed(mut self) -> Program {
        let (serial, failures) = (self.is_serial(), self.has_failures());
        if failures {
            self.shape.when_full = match self.shape.when_full {
                WhenFull::WouldBlock => WhenFull::Block,
                other => other,
            };
        }
        if !serial {
            // An operator's closure does not tell when it is skipped.
            self.operators.iter_mut().for_each(|operator| operator.property = Property::NoSkip);
            let keep = |step: &Step| match step {
                Step::Delete(_) => !failures,
                Step::Restart => false,
                _ => true,
            };
            self.pushers.iter_mut().for_each(|steps| steps.retain(keep));
        }
        // Their completions do not say which use it was.
        self.operators.iter_mut().for_each(|operator| operator.body = operator.body.telling());
        let operators = self.operators.len();
        let deletes = self.pushers.iter().flatten().any(|step| matches!(step, Step::Delete(_)));
        let would_block = self.shape.when_full == WhenFull::WouldBlock;
        for graph in &mut self.graphs {
            graph.members.retain(|member| !matches!(member, Member::Use(operator, _) if *operator >= operators));
            for member in &mut graph.members {
                if let Member::Push(operation) = member {
                    operation.template.body = operation.template.body.telling();
                }
            }
            graph.counts &= !failures;
            // A pipeline may be refused in its middle; and an operation that fails and changes
            // nothing is skipped from then on.
            graph.overlaps &= !failures && !deletes && (self.shape.bound == 0 || !would_block);
            if failures && !serial {
                graph.members.splice(0..0, [Member::Push(first_member(&self.operators, &graph.members))]);
            }
        }
        self
    }
}

/// A member of a graph that runs before all others, whatever has failed, and changes what they
/// change: so the place of each replay among all that is pushed can be told, though some of the
/// others are skipped and leave no note.
fn first_member(operators: &[Template], members: &[Member]) -> Operation {
    let mut template = Template {
        reads: vec![],
        writes: vec![],
        commutes: false,
        property: Property::NoSkip,
        body: Body::Return,
        work: 0,
    };
    for member in members {
        let other = match member {
            Member::Push(operation) => &operation.template,
            Member::Use(operator, _) => &operators[*operator],
        };
        template.reads.extend(&other.reads);
        template.writes.extend(&other.writes);
    }
    Operation { template, priority: 0, context: 0, large: false, nested: Vec::new() }
}
