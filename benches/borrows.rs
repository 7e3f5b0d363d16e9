//! A program whose operations borrow the value that they have declared, for `instructions.rs`: what
//! a borrow inside an operation costs.

use seriatim::{Context, Data, Engine, Kind, Property, RunContext, Variable};
use seriatim_perf::entrants::accesses::Accesses;
use seriatim_perf::program::Program;
use seriatim_perf::workloads::{self, COUNTED_OPERATIONS};

/// What an operation does with its value.
#[derive(Clone, Copy)]
pub enum Borrow {
    Nothing,
    Read,
    Write,
}

/// A naive engine, and a program that it has run once, whose operations all change one value.
pub struct Borrows {
    borrow: Borrow,
    program: &'static Program,
    engine: Engine,
    accesses: Accesses<Variable>,
    /// Leaked: to count its handles would cost as much as the borrow.
    value: &'static Data<u64>,
}

impl Borrows {
    pub fn new(borrow: Borrow, workload: &str) -> Borrows {
        let program = workloads::named(workload, COUNTED_OPERATIONS).expect("a known workload");
        let engine = Engine::builder().kind(Kind::Naive).build().expect("an engine");
        let value: &Data<u64> = Box::leak(Box::new(Data::new(&engine, 0)));
        assert_eq!(program.variables(), 1, "each operation borrows the one value");
        let accesses = Accesses::new(program, || value.variable());
        let ready = Borrows { borrow, program, engine, accesses, value };
        ready.push();
        program.reset();
        ready
    }

    #[inline]
    pub fn push(&self) {
        let (program, value) = (self.program, self.value);
        match self.borrow {
            Borrow::Nothing => self.push_all(move |operation| program.execute(operation)),
            Borrow::Read => self.push_all(move |operation| {
                let _value = value.read().expect("it is declared");
                program.execute(operation);
            }),
            Borrow::Write => self.push_all(move |operation| {
                let _value = value.write().expect("it is declared");
                program.execute(operation);
            }),
        }
    }

    #[inline]
    fn push_all(&self, body: impl Fn(u32) + Copy + Send + 'static) {
        for operation in self.program.sequence().iter().copied() {
            let body = move |_: &RunContext<'_>| body(operation);
            let (reads, writes) = (self.accesses.reads(operation), self.accesses.writes(operation));
            let pushed =
                self.engine.push_sync(body, Context::default(), reads, writes, Property::Normal, 0, "benchmark");
            pushed.expect("a push");
        }
    }

    pub fn check(&self) {
        self.program.verify().expect("the result of a serial run");
    }
}
