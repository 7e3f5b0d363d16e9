//! A program, laid out: every push has a number, known before anything runs.

use crate::program::{Body, Member, Operation, Program, Step, Template};
use seriatim::Property;

/// How a node uses a variable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    Read,
    Write,
    Delete,
}

/// One operation of a program: one push.
#[derive(Clone, Debug)]
pub struct Node {
    /// Each variable once, a write before a read of the same.
    pub claims: Vec<(usize, Mode)>,
    pub template: Template,
    pub priority: i32,
    pub context: u32,
    pub large: bool,
    /// The operator that it is a use of, and which of its uses.
    pub operator: Option<(usize, usize)>,
    /// If it is part of a replay of a graph: the first node of that. The operations of a pipeline
    /// are pushed one by one.
    pub replay: Option<usize>,
    /// Whether it is part of a replay, of a graph or a pipeline.
    pub is_captured: bool,
    pub children: Vec<usize>,
    /// The thread and the step at which it, or what it is nested in, is pushed.
    pub place: (usize, usize),
    pub is_nested: bool,
    /// Where its notes start.
    pub first: usize,
}

/// A step of a thread, by number of the node.
#[derive(Clone, Copy, Debug)]
pub enum Action {
    Push(usize),
    /// A graph, which of its replays, and with which priority.
    Replay(usize, usize, i32),
    Set(usize, u64),
    Drop(usize),
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
    /// The uses of each operator.
    pub uses: Vec<Vec<Use>>,
    pub graphs: Vec<Graph>,
}

/// What a use of an operator is.
#[derive(Clone, Copy)]
pub enum Use {
    /// A node.
    Push(usize),
    /// A graph and which of its members.
    Member(usize, usize),
}

/// A graph, laid out.
pub struct Graph {
    pub members: Vec<Node>,
    pub replays: Vec<Replay>,
}

/// A replay of a graph.
pub struct Replay {
    /// The node of each member.
    pub nodes: Vec<usize>,
    /// What its operations are to find in the graph's parameter.
    pub value: u64,
}

/// A context can tell so many uses of an operator apart.
const MOST_USES: usize = 1000;
/// Replays are left out when there are so many nodes.
const MOST_NODES: usize = 12_000;

impl Plan {
    pub fn new(program: Program) -> Plan {
        let mut plan = Plan {
            nodes: Vec::new(),
            scripts: Vec::new(),
            serial: program.is_serial(),
            failures: program.has_failures(),
            uses: program.operators.iter().map(|_| Vec::new()).collect(),
            graphs: Vec::new(),
            program,
        };
        plan.add_graphs();
        let mut values = vec![0; plan.graphs.len()];
        let mut dropped = vec![false; plan.graphs.len()];
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
                            node.operator = Some((*operator, plan.uses[*operator].len()));
                            node.priority = *priority;
                            let id = plan.add(node);
                            plan.uses[*operator].push(Use::Push(id));
                            script.push(Action::Push(id));
                        }
                    }
                    Step::Replay(graph, _) | Step::Set(graph, _) | Step::Drop(graph)
                        if *graph >= dropped.len() || graph % pushers.len() != pusher || dropped[*graph] => {}
                    Step::Replay(graph, priority) => {
                        if plan.nodes.len() < MOST_NODES {
                            plan.add_replay(*graph, place, values[*graph]);
                            script.push(Action::Replay(*graph, plan.graphs[*graph].replays.len() - 1, *priority));
                        }
                    }
                    Step::Set(graph, value) => {
                        values[*graph] = *value;
                        script.push(Action::Set(*graph, *value));
                    }
                    Step::Drop(graph) => {
                        dropped[*graph] = true;
                        script.push(Action::Drop(*graph));
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

    fn add_graphs(&mut self) {
        for (number, graph) in self.program.graphs.iter().enumerate() {
            let mut members = Vec::new();
            for member in &graph.members {
                match member {
                    Member::Push(operation) => members.push(Node::of(operation, (0, 0), false)),
                    Member::Use(operator, priority) => {
                        let uses = &mut self.uses[*operator];
                        // Half of them, so that some are left for those that are pushed.
                        if uses.len() < MOST_USES / 2 {
                            let template = self.program.operators[*operator].clone();
                            let operator = Some((*operator, uses.len()));
                            uses.push(Use::Member(number, members.len()));
                            members.push(Node { operator, priority: *priority, ..Node::new(template, (0, 0)) });
                        }
                    }
                }
            }
            self.graphs.push(Graph { members, replays: Vec::new() });
        }
    }

    fn add_replay(&mut self, graph: usize, place: (usize, usize), value: u64) {
        let first = self.nodes.len();
        let mut nodes = Vec::new();
        let together = (!self.program.graphs[graph].overlaps).then_some(first);
        for index in 0..self.graphs[graph].members.len() {
            let id = self.add(Node {
                place,
                replay: together,
                is_captured: true,
                ..self.graphs[graph].members[index].clone()
            });
            nodes.push(id);
        }
        // Behind them all, so that a replay is a range.
        let members: Vec<_> = self.program.graphs[graph].members.clone();
        let pushed = members.iter().filter_map(|member| if let Member::Push(op) = member { Some(op) } else { None });
        let own = nodes.iter().copied().filter(|id| self.nodes[*id].operator.is_none()).collect::<Vec<_>>();
        for (id, operation) in own.into_iter().zip(pushed) {
            self.add_children(id, operation, place);
        }
        self.graphs[graph].replays.push(Replay { nodes, value });
    }

    fn add_operation(&mut self, operation: &Operation, place: (usize, usize), is_nested: bool) -> usize {
        let id = self.add(Node::of(operation, place, is_nested));
        self.add_children(id, operation, place);
        id
    }

    fn add_children(&mut self, id: usize, operation: &Operation, place: (usize, usize)) {
        for nested in &operation.nested {
            let child = self.add_operation(nested, place, true);
            self.nodes[id].children.push(child);
        }
    }

    fn add(&mut self, mut node: Node) -> usize {
        node.first = self.nodes.last().map_or(0, |last| last.first + last.claims.len());
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    /// What is pushed together with a node: the nodes of its replay, or itself.
    pub fn pushed_with(&self, id: usize) -> std::ops::Range<usize> {
        let Some(first) = self.nodes[id].replay else { return id..id + 1 };
        let others = self.nodes[first..].iter().take_while(|node| node.replay == Some(first)).count();
        first..first + others
    }

    /// Whether a node commutes on a variable that it changes: then its place among others that do
    /// is any. In a graph or a pipeline they keep their order.
    pub fn commutes(&self, id: usize, variable: usize) -> bool {
        let node = &self.nodes[id];
        node.template.commutes && !node.is_captured && variable < self.program.shape.commutative
    }

    pub fn notes(&self) -> usize {
        self.nodes.last().map_or(0, |last| last.first + last.claims.len())
    }
}

impl Node {
    fn of(operation: &Operation, place: (usize, usize), is_nested: bool) -> Node {
        Node {
            priority: operation.priority,
            context: operation.context,
            large: operation.large,
            is_nested,
            ..Node::new(operation.template.clone(), place)
        }
    }

    /// Whether its closure is used again and again, so that nothing tells when it is skipped.
    pub fn is_reused(&self) -> bool {
        self.operator.is_some() || self.is_captured
    }

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
            replay: None,
            is_captured: false,
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
            commutes: false,
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
