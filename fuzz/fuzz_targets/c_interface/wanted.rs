//! Operations as a program describes them, well or badly.

use crate::calls::Status;
use crate::model::Variable;
use crate::operations::*;
use seriatim_c::*;
use std::ptr::null;

/// An operation as the program describes it, and all that is wrong with it.
pub struct Wanted {
    pub reads: Vec<SeriatimVariable>,
    pub writes: Vec<SeriatimVariable>,
    /// The variables by their number, each once, if all of them can be used.
    pub claims: Vec<(usize, Mode)>,
    pub operation: SeriatimOperation,
    pub behaviour: Behaviour,
    pub handle: *mut SeriatimEngine,
    pub has_function: bool,
    pub has_operation: bool,
    pub has_deleter: bool,
    /// What it may be refused for; what is wrong with its context is not looked at when it becomes
    /// an operator.
    pub wrongs: Vec<Status>,
    pub context_wrongs: Vec<Status>,
}

impl Wanted {
    /// An operation without variables, with which nothing is wrong, unless there is no engine.
    pub fn new(behaviour: Behaviour, handle: *mut SeriatimEngine) -> Wanted {
        let mut wanted = Wanted {
            reads: Vec::new(),
            writes: Vec::new(),
            claims: Vec::new(),
            operation: SeriatimOperation::default(),
            behaviour,
            handle,
            has_function: true,
            has_operation: true,
            has_deleter: true,
            wrongs: Vec::new(),
            context_wrongs: Vec::new(),
        };
        wanted.refuse_if(handle.is_null(), Status::NullPointer);
        wanted
    }

    pub fn refuse_if(&mut self, is_wrong: bool, status: Status) {
        self.wrongs.extend(is_wrong.then_some(status));
    }

    /// Uses a variable, or what is none. The first way to use it counts, so writes come first.
    pub fn claim(&mut self, variable: Result<usize, Status>, mode: Mode) {
        match variable {
            Err(refusal) => self.wrongs.push(refusal),
            Ok(variable) if self.claims.iter().all(|(other, _)| *other != variable) => {
                self.claims.push((variable, mode));
            }
            Ok(_) => {}
        }
    }

    /// The operation for the library: points into this.
    pub fn operation(&self) -> SeriatimOperation {
        let mut operation = self.operation;
        if operation.read_count == 0 && !self.reads.is_empty() {
            (operation.reads, operation.read_count) = (self.reads.as_ptr(), self.reads.len());
        }
        if operation.write_count == 0 && !self.writes.is_empty() {
            (operation.writes, operation.write_count) = (self.writes.as_ptr(), self.writes.len());
        }
        operation
    }

    /// Makes one thing wrong.
    pub fn spoil(&mut self, how: u8) {
        let number = u32::from(how >> 4);
        match how % 12 {
            0 => {
                self.handle = std::ptr::null_mut();
                self.wrongs.push(Status::NullPointer);
            }
            1 => {
                self.has_operation = false;
                self.wrongs.push(Status::NullPointer);
            }
            2 => {
                self.has_function = false;
                self.wrongs.push(Status::NullPointer);
            }
            3 => {
                self.operation.name = c"caf\xe9".as_ptr();
                self.wrongs.push(Status::InvalidUtf8);
            }
            4 => {
                (self.operation.reads, self.operation.read_count) = (null(), number as usize + 1);
                self.wrongs.push(Status::NullPointer);
            }
            5 => {
                static ONE: SeriatimVariable = SeriatimVariable { place: 0, generation: 0 };
                (self.operation.writes, self.operation.write_count) = (&ONE, usize::MAX - number as usize);
                self.wrongs.push(Status::BadArgument);
            }
            6 => {
                self.operation.property = 16 << number;
                self.wrongs.push(Status::BadArgument);
            }
            7 => {
                self.operation.context.device = 3 << number;
                self.context_wrongs.push(Status::BadArgument);
            }
            8 | 9 => {
                self.operation.context = SeriatimContext { device: SeriatimDevice::Gpu as u32, id: number * 100 };
                self.context_wrongs.extend([Status::DeviceUnavailable, Status::UnknownDevice]);
            }
            10 => {
                self.operation.context.id = 1024 << number;
                self.context_wrongs.push(Status::UnknownDevice);
            }
            // The last device that there is.
            _ => self.operation.context.id = 1023,
        }
        self.behaviour.context = self.operation.context;
    }

    /// The planted mistake: the library is not told of one variable that the operation reads.
    /// Whether there was one.
    ///
    /// Not of an operation that the program holds: the library may run it where the model says
    /// that a failure keeps it from running. Nothing would end it then, and a wait would hang.
    pub fn forget_a_read(&mut self, variables: &[Variable]) -> bool {
        let may_forget = self.wrongs.is_empty() && self.behaviour.place != Place::Held;
        let read = self.claims.iter().find(|(_, mode)| *mode == Mode::Read);
        let Some((variable, _)) = read.filter(|_| may_forget) else { return false };
        let token = variables[*variable].token;
        self.reads.retain(|other| *other != token);
        true
    }
}
