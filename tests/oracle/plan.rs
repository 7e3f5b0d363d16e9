//! A program, laid out: every push has a number, known before anything runs.

use crate::program::{Body, Operation, Program, Step, Template};
use seriatim::Property;

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
    pub first: usize,
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
    pub uses: Vec<Vec<usize>>,
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

    pub fn notes(&self) -> usize {
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
