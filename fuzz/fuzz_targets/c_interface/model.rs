//! The sequential model: what a program does if every operation runs at the moment of its push. The
//! library may run them later and at once, but nobody must be able to tell.

use crate::calls::Status;
use crate::operations::{halfway, mix, result, Behaviour, End, Mode, Text};
use seriatim_c::SeriatimVariable;

/// A variable.
pub struct Variable {
    pub engine: usize,
    pub token: SeriatimVariable,
    /// Where its value is.
    pub cell: usize,
    pub is_deleted: bool,
    pub version: u64,
    pub value: u64,
    /// The operation whose failure it is marked with.
    mark: Option<usize>,
    /// The last operation held by the program that it must wait for, if there is one.
    pub held_by: Option<usize>,
}

impl Variable {
    pub fn new(engine: usize, token: SeriatimVariable, cell: usize) -> Variable {
        Variable { engine, token, cell, is_deleted: false, version: 0, value: 0, mark: None, held_by: None }
    }
}

/// What the model says of an operation.
pub struct Operation {
    pub engine: usize,
    pub is_called: bool,
    pub seen: u64,
    behaviour: Behaviour,
    /// Whether its failure was returned by a wait, or is none.
    is_taken: bool,
}

/// All variables and operations.
#[derive(Default)]
pub struct Model {
    pub variables: Vec<Variable>,
    pub operations: Vec<Operation>,
}

/// What else decides whether an operation runs.
#[derive(Clone, Copy)]
pub struct Rules {
    pub property: u32,
    pub is_deletion: bool,
    /// Whether its engine was told that the process is about to end.
    pub is_shut_down: bool,
}

const DELETE_VAR: u32 = seriatim_c::SeriatimProperty::DeleteVar as u32;
const NO_SKIP: u32 = seriatim_c::SeriatimProperty::NoSkip as u32;

impl Model {
    /// Pushes an operation that uses these variables, by their number; returns its number.
    pub fn push(&mut self, engine: usize, claims: &[(usize, Mode)], behaviour: Behaviour, rules: Rules) -> usize {
        let id = self.operations.len();
        let mut ordered: Vec<usize> = claims.iter().map(|(variable, _)| *variable).collect();
        ordered.sort_unstable_by_key(|variable| {
            let token = self.variables[*variable].token;
            (token.place, token.generation)
        });
        let inherited = ordered.iter().find_map(|variable| self.mark(*variable));
        let runs_anyway = rules.is_deletion || rules.property == NO_SKIP;
        let is_shut_out = rules.is_shut_down && !rules.is_deletion && rules.property != DELETE_VAR;
        let is_called = !is_shut_out && (inherited.is_none() || runs_anyway);
        let mut seen = 0;
        for (variable, _) in claims.iter().filter(|_| is_called) {
            seen = mix(seen ^ self.variables[*variable].value);
        }
        let fails = is_called && behaviour.end != End::Well;
        for (variable, mode) in claims {
            let variable = &mut self.variables[*variable];
            if *mode == Mode::Write {
                variable.version += 1;
                if is_called {
                    variable.value = result(id, halfway(id, variable.value), seen);
                }
            }
            if *mode != Mode::Read {
                variable.mark = if fails { Some(id) } else { inherited };
            }
            variable.is_deleted |= *mode == Mode::Delete;
        }
        self.operations.push(Operation { engine, is_called, seen, behaviour, is_taken: !fails });
        id
    }

    /// The failure that a variable is marked with, if nobody has taken it.
    fn mark(&self, variable: usize) -> Option<usize> {
        self.variables[variable].mark.filter(|failure| !self.operations[*failure].is_taken)
    }

    /// A wait for a variable has returned this.
    pub fn wait_for_variable(&mut self, variable: usize, status: Status, text: &str) {
        let failure = self.mark(variable);
        self.check_failure(failure, status, text);
        if let Some(failure) = failure {
            self.operations[failure].is_taken = true;
        }
    }

    /// A wait for everything has returned this.
    pub fn wait_for_all(&mut self, engine: usize, status: Status, text: &str) {
        let failure = self.operations.iter().position(|other| other.engine == engine && !other.is_taken);
        self.check_failure(failure, status, text);
        self.forget_failures(engine);
    }

    /// An engine has ended, with the errors that nobody has waited for.
    pub fn forget_failures(&mut self, engine: usize) {
        self.operations.iter_mut().filter(|other| other.engine == engine).for_each(|other| other.is_taken = true);
    }

    fn check_failure(&self, failure: Option<usize>, status: Status, text: &str) {
        let Some(failure) = failure else {
            assert!(status == Status::Ok, "a wait returned {status:?}, but nothing has failed: {text}");
            return;
        };
        let behaviour = self.operations[failure].behaviour;
        let expected = match behaviour.end {
            End::Drops => Status::CompletionDropped,
            _ => Status::OperationFailed,
        };
        assert!(status == expected, "a wait returned {status:?}, not {expected:?} of #{failure}: {text}");
        let number = format!("#{failure}");
        let end = match (behaviour.end, behaviour.text) {
            (End::Drops, _) => return,
            (_, Text::None) if behaviour.asynchronous => "without a reason",
            (_, Text::None) => "its function returned -1",
            (_, Text::Number) => &number,
            (_, Text::Broken) => &format!("{number}\u{fffd}"),
        };
        assert!(text.ends_with(end), "'{text}' does not end in '{end}'");
    }
}
