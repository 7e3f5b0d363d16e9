//! Calls that wait, and those that stop, start and end engines.

use crate::calls::{expect, last_error, ok, Status};
use crate::engines::clone;
use crate::machine::{eventually, Machine};
use seriatim_c::*;
use std::ptr::null_mut;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

/// Longer than anything takes, in nanoseconds.
const LONG: u64 = 100_000_000_000;

impl Machine<'_> {
    /// Ends the operation that the program has held longest. Nothing that it holds is in front of
    /// it, so it runs before long.
    pub fn release_first(&mut self) {
        if self.held.is_empty() {
            return;
        }
        let record = &self.records[self.held.remove(0)].0;
        let mut completion = null_mut();
        eventually("an operation with nothing in front of it runs", || {
            completion = record.completion.swap(null_mut(), SeqCst);
            !completion.is_null()
        });
        record.end(completion);
    }

    pub fn release_all(&mut self) {
        while !self.held.is_empty() {
            self.release_first();
        }
    }

    pub fn wait_for_variable(&mut self, engine: usize) {
        let (token, number) = self.token(engine);
        // A wait for ever, or nearly.
        self.release_all();
        let handle = self.engines[engine].handle();
        // SAFETY: the engine lives, or the handle is null.
        let status = unsafe {
            match self.bytes.next() % 2 {
                0 => seriatim_wait_for_variable(handle, token),
                _ => seriatim_wait_for_variable_timeout(handle, token, LONG),
            }
        };
        self.waited_for_variable(engine, number, status);
    }

    pub fn wait_for_variable_briefly(&mut self, engine: usize) {
        let (token, number) = self.token(engine);
        let handle = self.engines[engine].handle();
        let nanoseconds = self.bytes.pick(&[0, 1, 1_000, 50_000]);
        // SAFETY: as above.
        let status = unsafe { seriatim_wait_for_variable_timeout(handle, token, nanoseconds) };
        let holder = number.ok().and_then(|variable| self.model.variables[variable].held_by);
        let is_held = holder.is_some_and(|holder| self.held.contains(&holder)) && !handle.is_null();
        if status == Status::TimedOut && number.is_ok() {
            assert!(!last_error().is_empty(), "a wait in vain has nothing to say");
            return;
        }
        assert!(!is_held, "a wait for what #{holder:?} holds up returned {status:?}");
        self.waited_for_variable(engine, number, status);
    }

    /// A wait for a variable has come to its end.
    fn waited_for_variable(&mut self, engine: usize, number: Result<usize, Status>, status: Status) {
        let mut wrongs = Vec::from_iter(number.err());
        wrongs.extend(self.engines[engine].handle().is_null().then_some(Status::NullPointer));
        let Some(variable) = number.ok().filter(|_| wrongs.is_empty()) else {
            expect(status, &wrongs);
            return;
        };
        self.model.wait_for_variable(variable, status, &last_error());
        self.check_variable(variable);
    }

    pub fn wait_for_all(&mut self, engine: usize) {
        self.release_all();
        let handle = self.engines[engine].handle();
        if handle.is_null() {
            // SAFETY: null is refused.
            expect(unsafe { seriatim_wait_for_all(handle) }, &[Status::NullPointer]);
        } else {
            self.wait_for_all_with(engine, handle);
        }
    }

    pub fn wait_for_all_with(&mut self, engine: usize, handle: *mut SeriatimEngine) {
        // SAFETY: the handle lives.
        let status = unsafe { seriatim_wait_for_all(handle) };
        self.waited_for_all(engine, status);
    }

    pub fn wait_for_all_briefly(&mut self, engine: usize) {
        let handle = self.engines[engine].handle();
        if handle.is_null() {
            return;
        }
        let nanoseconds = self.bytes.pick(&[0, 1_000, 50_000, LONG]);
        if nanoseconds == LONG {
            self.release_all();
        }
        let is_held = self.held.iter().any(|id| self.model.operations[*id].engine == engine);
        // SAFETY: the handle lives.
        let status = unsafe { seriatim_wait_for_all_timeout(handle, nanoseconds) };
        if status == Status::TimedOut && nanoseconds < LONG {
            return;
        }
        assert!(!is_held, "a wait for everything returned {status:?}, while the program holds an operation");
        self.waited_for_all(engine, status);
    }

    fn waited_for_all(&mut self, engine: usize, status: Status) {
        self.model.wait_for_all(engine, status, &last_error());
        self.engines[engine].has_callers = false;
        self.check_engine(engine);
    }

    /// Nothing is in flight on this engine: everything must be as the model has it.
    fn check_engine(&self, engine: usize) {
        self.check_violations();
        for (id, (record, has_deleter)) in self.records.iter().enumerate() {
            let operation = &self.model.operations[id];
            if operation.engine != engine {
                continue;
            }
            let (runs, seen) = (record.runs.load(SeqCst), record.seen.load(SeqCst));
            let expected = (u32::from(operation.is_called), operation.seen);
            assert!((runs, seen) == expected, "#{id} ran {runs} times and saw {seen:#x}, not {expected:x?}");
            // The function of an asynchronous operation may still be returning.
            let deletions = record.deletions.load(SeqCst);
            let is_done = record.behaviour.asynchronous && deletions == 0 || deletions == u32::from(*has_deleter);
            assert!(is_done, "the argument of #{id} was deleted {deletions} times");
        }
        for variable in (0..self.model.variables.len()).filter(|id| self.model.variables[*id].engine == engine) {
            self.check_variable(variable);
        }
    }

    /// Nothing that changes this variable is in flight.
    fn check_variable(&self, number: usize) {
        let variable = &self.model.variables[number];
        let value = self.world.cells[variable.cell].value.load(Relaxed);
        assert!(value == variable.value, "variable {number} is {value:#x}, not {:#x}", variable.value);
        let handle = self.engines[variable.engine].any_handle();
        if handle.is_null() {
            return;
        }
        let mut version = 0;
        // SAFETY: the handle lives.
        let status = unsafe { seriatim_variable_version(handle, variable.token, &mut version) };
        if expect(status, if variable.is_deleted { &[Status::VariableDeleted] } else { &[] }) {
            assert!(version == variable.version, "variable {number} is at {version}, not at {}", variable.version);
        }
    }

    pub fn look_at_version(&mut self, engine: usize) {
        let (token, number) = self.token(engine);
        let handle = self.engines[engine].handle();
        let mut wrongs = Vec::from_iter(number.err());
        wrongs.extend(handle.is_null().then_some(Status::NullPointer));
        let mut version = u64::MAX;
        // SAFETY: the engine lives, or the handle is null.
        if expect(unsafe { seriatim_variable_version(handle, token, &mut version) }, &wrongs) {
            let last = number.map_or(0, |number| self.model.variables[number].version);
            assert!(version <= last, "a variable is at {version}, after {last} changes");
        }
    }

    pub fn stop(&mut self, engine: usize) {
        self.release_all();
        let engine = &mut self.engines[engine];
        if engine.handle().is_null() {
            // SAFETY: null is refused.
            expect(unsafe { seriatim_engine_stop(engine.handle()) }, &[Status::NullPointer]);
            return;
        }
        // Starting threads again is dear: one stop in eight of the engines that have some.
        if engine.settings.kind != c"naive" && self.bytes.next() % 8 != 0 {
            return;
        }
        // SAFETY: the handle lives. Twice is harmless.
        unsafe {
            ok(seriatim_engine_stop(engine.handle()));
            ok(seriatim_engine_stop(engine.handle()));
        }
        engine.is_stopped = true;
    }

    pub fn start(&mut self, engine: usize) {
        let engine = &mut self.engines[engine];
        if engine.handle().is_null() {
            return;
        }
        // SAFETY: as above.
        unsafe {
            ok(seriatim_engine_start(engine.handle()));
            ok(seriatim_engine_start(engine.handle()));
        }
        engine.is_stopped = false;
    }

    /// From now on nothing runs on an engine but deletions. Only on engines that no later program
    /// uses.
    pub fn shut_down(&mut self, engine: usize) {
        let handle = self.engines[engine].handle();
        if handle.is_null() || !self.engines[engine].keeper.is_null() {
            return;
        }
        // What is in flight might run or not.
        self.wait_for_all(engine);
        // SAFETY: the handle lives.
        ok(unsafe { seriatim_engine_notify_shutdown(handle) });
        self.engines[engine].is_shut_down = true;
    }

    pub fn clone_or_delete_handle(&mut self, engine: usize) {
        let handle = self.engines[engine].handle();
        if handle.is_null() {
            return;
        }
        if self.bytes.next() % 2 == 0 {
            self.engines[engine].handles.push(clone(handle));
            return;
        }
        let is_last = self.engines[engine].handles.len() == 1 && self.engines[engine].keeper.is_null();
        if is_last && self.engines[engine].has_callers {
            // Their handles would be the last, and nobody could tell when the engine ends.
            self.wait_for_all(engine);
        }
        if is_last {
            self.release_all();
        }
        self.engines[engine].handles.pop();
        // SAFETY: the handle is used for the last time.
        ok(unsafe { seriatim_engine_delete(handle) });
        if is_last {
            // It has run what was in flight.
            self.model.forget_failures(engine);
            self.check_engine(engine);
        }
    }
}
