//! Reads a program and makes its calls, one after another, on one thread.

use crate::bytes::Bytes;
use crate::calls::ok;
use crate::engines::{Engine, SETTINGS};
use crate::model::{Model, Variable};
use crate::operations::*;
use crate::pushes::Operator;
use seriatim_c::*;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

const MOST_CALLS: usize = 120;

/// A program that runs.
pub struct Machine<'a> {
    pub bytes: Bytes<'a>,
    pub world: Box<World>,
    pub engines: Vec<Engine>,
    pub model: Model,
    /// The accepted operations, by the model's numbers, and whether each has a deleter.
    pub records: Vec<(Box<Record>, bool)>,
    /// The records of operations that were refused, and those of operators: only their deleters are
    /// left to be checked.
    pub others: Vec<(Box<Record>, bool)>,
    pub operators: Vec<Operator>,
    /// The operations that the program holds, in push order.
    pub held: Vec<usize>,
    pub uses: usize,
    pub nested: u32,
    pub nulls: u32,
    /// Whether the planted mistake was made.
    pub has_forgotten: bool,
}

/// Runs the program of an input.
pub fn run(input: &[u8]) {
    let mut bytes = Bytes::new(input);
    let choice = bytes.next();
    let number = usize::from(choice) % SETTINGS.len();
    // Threads cost more than a program.
    let is_new = choice >> 5 == 7 && (SETTINGS[number].kind == c"naive" || bytes.next() % 8 == 7);
    let engine = if is_new { Engine::new(number) } else { Engine::kept(number) };
    let other = (number + 1 + usize::from(choice >> 3) % (SETTINGS.len() - 1)) % SETTINGS.len();
    let mut machine = Machine {
        bytes,
        world: Box::new(World::new()),
        engines: vec![engine, Engine::kept(other)],
        model: Model::default(),
        records: Vec::new(),
        others: Vec::new(),
        operators: Vec::new(),
        held: Vec::new(),
        uses: 0,
        nested: 0,
        nulls: NULLS_DELETED.load(SeqCst),
        has_forgotten: false,
    };
    for engine in [0, 0, 0, 1] {
        machine.new_variable(engine);
    }
    for _ in 0..MOST_CALLS {
        if machine.bytes.is_empty() {
            break;
        }
        machine.step();
    }
    machine.end();
}

impl Machine<'_> {
    fn step(&mut self) {
        let choice = self.bytes.next();
        let engine = if choice >> 6 == 3 { self.engines.len() - 1 } else { 0 };
        match choice & 0x3f {
            0..=21 => self.push(engine, false),
            22..=29 => self.push(engine, true),
            30..=31 => self.new_operator(engine),
            32..=36 => self.use_operator(engine),
            37 => self.delete_operator(),
            38..=39 => self.new_variable(engine),
            40..=41 => self.look_at_version(engine),
            42..=43 => self.delete_variable(engine),
            44..=47 => self.wait_for_variable(engine),
            48..=50 => self.wait_for_variable_briefly(engine),
            51 => self.wait_for_all(engine),
            52 => self.wait_for_all_briefly(engine),
            53..=55 => self.release_first(),
            56 => self.stop(engine),
            57 => self.start(engine),
            58 => self.clone_or_delete_handle(engine),
            59 => self.push_nothing(engine),
            60 => self.misuse(engine),
            61 => self.look_around(engine),
            62 => self.shut_down(engine),
            _ => self.new_engine(),
        }
    }

    fn new_engine(&mut self) {
        let number = self.bytes.below(SETTINGS.len());
        // One without threads is enough for what a third is needed for.
        if self.engines.len() < 3 && SETTINGS[number].kind == c"naive" {
            self.engines.push(Engine::new(number));
            self.new_variable(self.engines.len() - 1);
        }
    }

    pub fn new_variable(&mut self, engine: usize) {
        let cell = self.model.variables.len();
        let handle = self.engines[engine].handle();
        if cell == CELLS || handle.is_null() {
            return;
        }
        let mut token = SeriatimVariable::default();
        // SAFETY: the engine lives.
        ok(unsafe { seriatim_variable_new(handle, &mut token) });
        let known = self.model.variables.iter().any(|other| other.token == token);
        assert!(!known && token != SeriatimVariable::default(), "a new variable has the handle of another");
        self.model.variables.push(Variable::new(engine, token, cell));
    }

    /// Ends everything, and checks what is left.
    fn end(&mut self) {
        self.release_all();
        while !self.operators.is_empty() {
            self.delete_operator();
        }
        for engine in 0..self.engines.len() {
            self.end_engine(engine);
        }
        self.check_violations();
        // A last use of an operator, or an asynchronous function, may just be giving its argument
        // up.
        eventually("every deleter is called exactly once", || {
            let mut all = self.records.iter().chain(&self.others);
            all.all(|(record, has_deleter)| record.deletions.load(SeqCst) == u32::from(*has_deleter))
        });
        eventually("operations that were pushed from inside run once, and are deleted once", || {
            let counts = [&self.world.nested_runs, &self.world.nested_deletions].map(|count| count.load(SeqCst));
            counts == [self.nested; 2]
        });
        eventually("every null argument is deleted once", || NULLS_DELETED.load(SeqCst) == self.nulls);
    }

    /// Ends an engine, or leaves it to the next program as this one has found it.
    fn end_engine(&mut self, engine: usize) {
        let handle = self.engines[engine].any_handle();
        if handle.is_null() {
            return;
        }
        // SAFETY: the handle lives.
        ok(unsafe { seriatim_engine_start(handle) });
        self.engines[engine].is_stopped = false;
        self.wait_for_all_with(engine, handle);
        for variable in self.model.variables.iter_mut().filter(|other| other.engine == engine && !other.is_deleted) {
            let anywhere = SeriatimContext::default();
            // SAFETY: the handle lives, and there is no argument.
            let status =
                unsafe { seriatim_variable_delete(handle, variable.token, anywhere, None, std::ptr::null_mut(), None) };
            ok(status);
            variable.is_deleted = true;
        }
        self.wait_for_all_with(engine, handle);
        for handle in self.engines[engine].handles.drain(..) {
            // SAFETY: each handle is the program's, and used for the last time.
            ok(unsafe { seriatim_engine_delete(handle) });
        }
    }

    /// What the operations themselves found wrong.
    pub fn check_violations(&self) {
        let violations = self.world.violations.lock().expect("noting does not panic");
        if let Some(violation) = violations.first() {
            panic!("{violation} (and {} more)", violations.len() - 1);
        }
    }
}

/// Waits for something that must come true before long.
pub fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !is_so() {
        assert!(Instant::now() < deadline, "it does not happen that {what}");
        std::thread::yield_now();
    }
}
