//! Calls that push: operations, operators and their uses, deletions.

use crate::bytes::has_planted_mistake;
use crate::calls::{expect, ok, Status};
use crate::engines::clone;
use crate::machine::Machine;
use crate::model::Rules;
use crate::operations::*;
use crate::wanted::Wanted;
use seriatim_c::*;
use std::ffi::CStr;
use std::ptr::{null, null_mut};
use std::sync::atomic::Ordering::SeqCst;

/// An operator, and what each of its uses does.
pub struct Operator {
    handle: *mut SeriatimOperator,
    engine: usize,
    claims: Vec<(usize, Mode)>,
    behaviour: Behaviour,
    property: u32,
}

const NAMES: [Option<&CStr>; 4] = [None, Some(c"copy"), Some(c"caf\xc3\xa9"), Some(c"")];

impl Machine<'_> {
    /// A handle of a variable for an operation on this engine: its number, or why it will be
    /// refused.
    pub fn token(&mut self, engine: usize) -> (SeriatimVariable, Result<usize, Status>) {
        let choice = usize::from(self.bytes.next());
        let variables = &self.model.variables;
        let mut living = variables.iter().enumerate().filter(|(_, other)| other.engine == engine && !other.is_deleted);
        let count = living.clone().count();
        if choice < 232 && count > 0 {
            let (number, variable) = living.nth(choice % count).expect("it is one of them");
            return (variable.token, Ok(number));
        }
        let number = self.bytes.below(variables.len());
        let variable = &variables[number];
        let refusal = if variable.engine != engine { Status::ForeignVariable } else { Status::VariableDeleted };
        match choice {
            248..=251 => (SeriatimVariable::default(), Err(Status::ForeignVariable)),
            // A generation that the place never had.
            252..=255 => {
                let generation = variable.token.generation ^ 0x4000_0000;
                (SeriatimVariable { generation, ..variable.token }, Err(refusal))
            }
            _ if variable.engine == engine && !variable.is_deleted => (variable.token, Ok(number)),
            _ => (variable.token, Err(refusal)),
        }
    }

    fn behaviour(&mut self, engine: usize, asynchronous: bool) -> Behaviour {
        let choice = self.bytes.next();
        let end = match choice % 16 {
            15 => End::Fails,
            14 if asynchronous => End::Drops,
            _ => End::Well,
        };
        let place = [Place::Inside, Place::Elsewhere, Place::Held, Place::Inside][usize::from(choice >> 4) % 4];
        Behaviour {
            asynchronous,
            end,
            // The program could wait for room, which only itself would make.
            place: if place == Place::Held && self.engines[engine].may_block() { Place::Elsewhere } else { place },
            text: [Text::Number, Text::Number, Text::None, Text::Broken][usize::from(choice >> 6)],
            work: if choice >> 4 == 3 { 3_000 } else { 0 },
            name: None,
            context: SeriatimContext::default(),
        }
    }

    /// Describes an operation. Most are as they should be.
    fn wanted(&mut self, engine: usize, asynchronous: bool) -> Wanted {
        let choice = self.bytes.next();
        let behaviour = self.behaviour(engine, asynchronous);
        let mut wanted = Wanted::new(behaviour, self.engines[engine].handle());
        for _ in 0..[1, 0, 1, 2][usize::from(choice >> 2) % 4] {
            let (token, number) = self.token(engine);
            wanted.writes.push(token);
            wanted.claim(number, Mode::Write);
        }
        for _ in 0..choice % 4 {
            let (token, number) = self.token(engine);
            wanted.reads.push(token);
            wanted.claim(number, Mode::Read);
        }
        if choice & 0x10 != 0 {
            let extras = self.bytes.next();
            wanted.operation.property = u32::from(extras % 10);
            wanted.operation.priority = i32::from(extras >> 5) - 4;
            wanted.operation.context =
                SeriatimContext { device: u32::from(extras >> 3) % 2, id: u32::from(extras >> 6) };
            wanted.behaviour.name = NAMES[usize::from(extras >> 4) % 4];
            wanted.has_deleter = extras != 77;
        }
        wanted.operation.name = wanted.behaviour.name.map_or(null(), CStr::as_ptr);
        wanted.behaviour.context = wanted.operation.context;
        wanted.behaviour.name.get_or_insert(c"");
        if choice >> 5 == 7 {
            wanted.spoil(self.bytes.next());
        }
        wanted
    }

    /// A record for what is about to be pushed.
    fn record(&mut self, wanted: &Wanted) -> Box<Record> {
        let claims =
            wanted.claims.iter().map(|(variable, mode)| (self.model.variables[*variable].cell, *mode)).collect();
        let id = self.model.operations.len();
        Box::new(Record::new(&*self.world, id, false, claims, wanted.behaviour))
    }

    /// The library has accepted an operation, or refused it.
    fn pushed(&mut self, engine: usize, record: Box<Record>, wanted: &Wanted, rules: Rules, status: Status) {
        // A full engine may refuse before it looks at anything else.
        let is_full = self.engines[engine].may_be_full() && status == Status::EngineFull;
        if is_full || !expect(status, &wanted.wrongs) {
            self.others.push((record, wanted.has_deleter));
            return;
        }
        let id = self.model.push(engine, &wanted.claims, record.behaviour, rules);
        let is_called = self.model.operations[id].is_called && wanted.has_function;
        self.model.operations[id].is_called = is_called;
        if !is_called {
            self.model.operations[id].seen = 0;
        }
        if record.behaviour.asynchronous && record.behaviour.place == Place::Held && is_called {
            self.held.push(id);
        }
        let held = &self.held;
        let behind = |variable: &usize| self.model.variables[*variable].held_by.filter(|id| held.contains(id));
        let holder = held.last().filter(|last| **last == id).copied();
        let holder = holder.or_else(|| wanted.claims.iter().find_map(|(variable, _)| behind(variable)));
        for (variable, _) in wanted.claims.iter().filter(|(_, mode)| *mode != Mode::Read) {
            self.model.variables[*variable].held_by = holder;
        }
        self.records.push((record, wanted.has_deleter));
    }

    pub fn push(&mut self, engine: usize, asynchronous: bool) {
        let mut wanted = self.wanted(engine, asynchronous);
        wanted.refuse_if(self.engines[engine].is_stopped, Status::Stopped);
        let context_wrongs = std::mem::take(&mut wanted.context_wrongs);
        wanted.wrongs.extend(context_wrongs);
        let record = self.record(&wanted);
        let calls_inside = record.behaviour.work > 0 && wanted.has_deleter && !self.engines[engine].is_shut_down;
        if calls_inside && wanted.wrongs.is_empty() {
            // The naive engine and others may run it inside this very push.
            record.engine.store(clone(wanted.handle), SeqCst);
            self.engines[engine].has_callers = true;
        }
        if has_planted_mistake() && !self.has_forgotten {
            self.has_forgotten = wanted.forget_a_read(&self.model.variables);
        }
        let operation = wanted.operation();
        let operation = if wanted.has_operation { &raw const operation } else { null() };
        let deleter: SeriatimDeleter = if wanted.has_deleter { Some(delete_record) } else { None };
        // SAFETY: what is not null is as the header wants it; the record outlives its operation.
        let status = unsafe {
            if asynchronous {
                let function: SeriatimAsyncFunction = if wanted.has_function { Some(run_record_async) } else { None };
                seriatim_push_async(wanted.handle, operation, function, record.argument(), deleter)
            } else {
                let function: SeriatimFunction = if wanted.has_function { Some(run_record) } else { None };
                seriatim_push(wanted.handle, operation, function, record.argument(), deleter)
            }
        };
        let before = self.records.len();
        let is_shut_down = self.engines[engine].is_shut_down;
        let rules = Rules { property: wanted.operation.property, is_deletion: false, is_shut_down };
        self.pushed(engine, record, &wanted, rules, status);
        let is_called = self.model.operations.get(before).is_some_and(|operation| operation.is_called);
        self.nested += u32::from(calls_inside && is_called);
    }

    pub fn new_operator(&mut self, engine: usize) {
        let asynchronous = self.bytes.next() % 2 == 1;
        let wanted = self.wanted(engine, asynchronous);
        let mut record = self.record(&wanted);
        record.is_operator = true;
        let operation = wanted.operation();
        let operation = if wanted.has_operation { &raw const operation } else { null() };
        let deleter: SeriatimDeleter = if wanted.has_deleter { Some(delete_record) } else { None };
        let mut handle = null_mut();
        // SAFETY: as for `push`.
        let status = unsafe {
            if asynchronous {
                let function: SeriatimAsyncFunction = if wanted.has_function { Some(run_record_async) } else { None };
                seriatim_operator_new_async(wanted.handle, operation, function, record.argument(), deleter, &mut handle)
            } else {
                let function: SeriatimFunction = if wanted.has_function { Some(run_record) } else { None };
                seriatim_operator_new(wanted.handle, operation, function, record.argument(), deleter, &mut handle)
            }
        };
        self.others.push((record, wanted.has_deleter));
        let made = expect(status, &wanted.wrongs);
        assert!(made != handle.is_null(), "an operator and its status do not fit");
        if made {
            let Wanted { claims, behaviour, operation, .. } = wanted;
            self.operators.push(Operator { handle, engine, claims, behaviour, property: operation.property });
        }
    }

    pub fn use_operator(&mut self, engine: usize) {
        let choice = self.bytes.next();
        if self.operators.is_empty() || self.uses + 1 == USES {
            return;
        }
        let operator = &self.operators[usize::from(choice) % self.operators.len()];
        // Most uses go where the operator belongs.
        let engine = if choice >> 4 == 15 { engine } else { operator.engine };
        self.uses += 1;
        let context = SeriatimContext { device: 0, id: self.uses as u32 };
        let behaviour = Behaviour { context, ..operator.behaviour };
        let mut wanted = Wanted::new(behaviour, self.engines[engine].handle());
        wanted.claims.clone_from(&operator.claims);
        wanted.has_deleter = false;
        wanted.refuse_if(engine != operator.engine, Status::ForeignOperator);
        wanted.refuse_if(self.engines[engine].is_stopped, Status::Stopped);
        let is_dead = |(variable, _): &(usize, Mode)| self.model.variables[*variable].is_deleted;
        wanted.refuse_if(operator.claims.iter().any(is_dead), Status::VariableDeleted);
        let (handle, property) = (operator.handle, operator.property);
        let record = self.record(&wanted);
        self.world.uses[self.uses].store(std::ptr::from_ref(&*record).cast_mut(), SeqCst);
        // SAFETY: the operator lives, and so does the engine if the handle is not null.
        let status = unsafe { seriatim_operator_push(wanted.handle, handle, context, i32::from(choice % 5) - 2) };
        let rules = Rules { property, is_deletion: false, is_shut_down: self.engines[engine].is_shut_down };
        self.pushed(engine, record, &wanted, rules, status);
    }

    /// Deletes the last operator. Its uses in flight go on.
    pub fn delete_operator(&mut self) {
        let operator = self.operators.pop();
        // SAFETY: the handle is used for the last time; null is fine.
        ok(unsafe { seriatim_operator_delete(operator.map_or(null_mut(), |operator| operator.handle)) });
    }

    pub fn delete_variable(&mut self, engine: usize) {
        let (token, number) = self.token(engine);
        let choice = self.bytes.next();
        let mut behaviour = self.behaviour(engine, false);
        behaviour.context.device = if choice == 255 { 3 } else { 0 };
        let mut wanted = Wanted::new(behaviour, self.engines[engine].handle());
        (wanted.has_function, wanted.has_deleter) = (choice % 4 != 0, choice % 8 != 7);
        wanted.claim(number, Mode::Delete);
        if !wanted.has_function {
            wanted.behaviour.end = End::Well;
        }
        wanted.refuse_if(choice == 255, Status::BadArgument);
        wanted.refuse_if(self.engines[engine].is_stopped, Status::Stopped);
        let record = self.record(&wanted);
        let function: SeriatimFunction = if wanted.has_function { Some(run_record) } else { None };
        let deleter: SeriatimDeleter = if wanted.has_deleter { Some(delete_record) } else { None };
        let (context, argument) = (wanted.behaviour.context, record.argument());
        // SAFETY: the record outlives its operation.
        let status = unsafe { seriatim_variable_delete(wanted.handle, token, context, function, argument, deleter) };
        let is_shut_down = self.engines[engine].is_shut_down;
        let rules = Rules { property: SeriatimProperty::DeleteVar as u32, is_deletion: true, is_shut_down };
        self.pushed(engine, record, &wanted, rules, status);
    }

    /// A null argument is deleted as any other, also if the push is refused.
    pub fn push_nothing(&mut self, engine: usize) {
        let engine = &self.engines[engine];
        let operation = SeriatimOperation::default();
        // SAFETY: the function does not use its argument.
        let status =
            unsafe { seriatim_push(engine.handle(), &operation, Some(do_nothing), null_mut(), Some(delete_null)) };
        self.nulls += 1;
        let mut wrongs = Vec::new();
        wrongs.extend(engine.handle().is_null().then_some(Status::NullPointer));
        wrongs.extend(engine.is_stopped.then_some(Status::Stopped));
        if !(engine.may_be_full() && status == Status::EngineFull) {
            expect(status, &wrongs);
        }
    }
}
