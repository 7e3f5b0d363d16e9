//! The baseline: the original's design, with its mutexes.

use parking_lot::Mutex;

use super::accesses::{distinct, Accesses};
use super::baseline::{Engine, Operator, Var};
use super::{Runner, Shared, Style};
use crate::program::Program;

/// A baseline engine, and what was prepared on it.
pub struct Mutexed {
    style: Style,
    prepared: Option<Prepared>,
    engine: Engine,
    /// Whose turn it is, of several pushers: see [`Engine`].
    turn: Mutex<()>,
}

struct Prepared {
    program: &'static Program,
    accesses: Accesses<Var>,
    operators: Vec<Operator>,
}

impl Mutexed {
    pub fn start(workers: usize, style: Style) -> Mutexed {
        Mutexed { style, prepared: None, engine: Engine::new(workers), turn: Mutex::new(()) }
    }
}

impl Runner for Mutexed {
    fn prepare(&mut self, program: &'static Program) -> Result<(), String> {
        let accesses = Accesses::new(program, || self.engine.new_variable());
        let operator = |operation| {
            let body = move || program.execute(operation);
            self.engine.new_operator(body, accesses.reads(operation), accesses.writes(operation))
        };
        let operators = match self.style {
            Style::Operators => distinct(program).map(operator).collect(),
            _ => Vec::new(),
        };
        self.prepared = Some(Prepared { program, accesses, operators });
        Ok(())
    }

    fn run(&mut self) {
        self.push_part(0, 1);
        self.wait();
    }

    fn version(&self) -> String {
        String::from("in-tree")
    }

    fn shared(&self) -> Option<&(dyn Shared + '_)> {
        Some(self)
    }
}

impl Shared for Mutexed {
    fn push_part(&self, part: usize, parts: usize) {
        let Prepared { program, accesses, operators } = self.prepared.as_ref().expect("a prepared program");
        let program: &'static Program = program;
        for (place, operation) in program.sequence().iter().copied().enumerate().skip(part).step_by(parts) {
            program.pace(place);
            let variables = program.reads(operation).len() + program.writes(operation).len();
            let _turn = (parts > 1 && variables > 1).then(|| self.turn.lock());
            match self.style {
                Style::Operators => self.engine.push_operator(&operators[operation as usize], 0),
                _ => {
                    let (reads, writes) = (accesses.reads(operation), accesses.writes(operation));
                    self.engine.push(move || program.execute(operation), reads, writes, 0);
                }
            }
        }
    }

    fn wait(&self) {
        self.engine.wait_for_all();
    }
}
