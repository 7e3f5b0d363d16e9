//! A program pushed by the functions of the C interface, as a C program would push it, and the
//! asynchronous pushes of Rust beside it. For `instructions.rs`.

use std::ffi::{c_int, c_void, CStr};
use std::hint::black_box;
use std::ptr::{null, null_mut, without_provenance_mut};
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use seriatim::{Completion, Context, Engine, Kind, Property, RunContext, Variable};
use seriatim_c::{
    seriatim_builder_build, seriatim_builder_new, seriatim_builder_set, seriatim_completion_complete,
    seriatim_operator_new, seriatim_operator_push, seriatim_push, seriatim_push_async, seriatim_variable_new,
    SeriatimCompletion, SeriatimContext, SeriatimEngine, SeriatimOperation, SeriatimOperator, SeriatimRunContext,
    SeriatimSetting, SeriatimStatus, SeriatimVariable,
};
use seriatim_perf::entrants::accesses::{distinct, Accesses};
use seriatim_perf::program::Program;
use seriatim_perf::workloads::{self, COUNTED_OPERATIONS};

/// How the operations are pushed.
#[derive(Clone, Copy)]
pub enum Way {
    Push,
    /// With a name, as the text that C has.
    PushNamed,
    PushAsync,
    PushOperator,
}

/// What is counted: a program that one thread pushes on a naive engine, by a way of C or of Rust.
pub enum Counted {
    C(InC),
    Async(InRust<4>),
    Bytes64(InRust<64>),
    Bytes65(InRust<65>),
    Bytes512(InRust<512>),
}

impl Counted {
    pub fn in_c(way: Way, workload: &str) -> Counted {
        Counted::C(InC::new(way, workload))
    }

    pub fn asynchronous(workload: &str) -> Counted {
        Counted::Async(InRust::new(workload))
    }

    pub fn closures(bytes: usize, workload: &str) -> Counted {
        match bytes {
            64 => Counted::Bytes64(InRust::new(workload)),
            65 => Counted::Bytes65(InRust::new(workload)),
            _ => Counted::Bytes512(InRust::new(workload)),
        }
    }

    pub fn push(&self) {
        match self {
            Counted::C(ready) => ready.push(),
            Counted::Async(ready) => ready.push_async(),
            Counted::Bytes64(ready) => ready.push(),
            Counted::Bytes65(ready) => ready.push(),
            Counted::Bytes512(ready) => ready.push(),
        }
    }

    pub fn check(&self) {
        match self {
            Counted::C(ready) => ready.check(),
            Counted::Async(ready) => ready.check(),
            Counted::Bytes64(ready) => ready.check(),
            Counted::Bytes65(ready) => ready.check(),
            Counted::Bytes512(ready) => ready.check(),
        }
    }
}

/// The program that runs: C functions have one argument, which says the operation.
static PROGRAM: AtomicPtr<Program> = AtomicPtr::new(null_mut());

fn program() -> &'static Program {
    // SAFETY: `named` has stored a program that lives as long as the process.
    unsafe { &*PROGRAM.load(Relaxed) }
}

fn named(workload: &str) -> &'static Program {
    let program = workloads::named(workload, COUNTED_OPERATIONS).expect("a known workload");
    PROGRAM.store(std::ptr::from_ref(program).cast_mut(), Relaxed);
    program
}

unsafe extern "C-unwind" fn run(argument: *mut c_void, _: *const SeriatimRunContext<'_>) -> c_int {
    program().execute(argument.addr() as u32);
    0
}

unsafe extern "C-unwind" fn start(
    argument: *mut c_void,
    _: *const SeriatimRunContext<'_>,
    completion: *mut SeriatimCompletion,
) {
    program().execute(argument.addr() as u32);
    // SAFETY: the completion is this call's.
    good(unsafe { seriatim_completion_complete(completion) });
}

fn good(status: SeriatimStatus) {
    assert_eq!(status, SeriatimStatus::Ok);
}

/// A naive engine of the C interface, and a program that it has run once.
pub struct InC {
    way: Way,
    name: Option<&'static CStr>,
    program: &'static Program,
    engine: *mut SeriatimEngine,
    accesses: Accesses<SeriatimVariable>,
    operators: Vec<*mut SeriatimOperator>,
}

impl InC {
    fn new(way: Way, workload: &str) -> InC {
        let program = named(workload);
        let mut engine = null_mut();
        let mut builder = null_mut();
        // SAFETY: the handles are live, and the texts end with a zero byte.
        unsafe {
            good(seriatim_builder_new(&raw mut builder));
            let kind = SeriatimSetting { key: c"ENGINE".as_ptr(), value: c"naive".as_ptr() };
            good(seriatim_builder_set(builder, &raw const kind, 1));
            good(seriatim_builder_build(builder, &raw mut engine));
        }
        let accesses = Accesses::new(program, || {
            let mut variable = SeriatimVariable::default();
            // SAFETY: the engine is live.
            good(unsafe { seriatim_variable_new(engine, &raw mut variable) });
            variable
        });
        let name = matches!(way, Way::PushNamed).then_some(c"benchmark");
        let mut ready = InC { way, name, program, engine, accesses, operators: Vec::new() };
        if let Way::PushOperator = way {
            ready.operators = distinct(program).map(|operation| ready.operator(operation)).collect();
        }
        ready.push();
        program.reset();
        ready
    }

    #[inline]
    fn described(&self, operation: u32) -> SeriatimOperation {
        let (reads, writes) = (self.accesses.reads(operation), self.accesses.writes(operation));
        SeriatimOperation {
            name: self.name.map_or(null(), CStr::as_ptr),
            context: SeriatimContext::default(),
            reads: reads.as_ptr(),
            read_count: reads.len(),
            writes: writes.as_ptr(),
            write_count: writes.len(),
            property: 0,
            priority: 0,
            profiled: 0,
            device_graph: 0,
        }
    }

    fn operator(&self, operation: u32) -> *mut SeriatimOperator {
        let (described, mut operator) = (self.described(operation), null_mut());
        let argument = without_provenance_mut(operation as usize);
        // SAFETY: the engine is live, and the operation is as it says.
        good(unsafe {
            seriatim_operator_new(self.engine, &raw const described, Some(run), argument, None, &raw mut operator)
        });
        operator
    }

    #[inline]
    fn push(&self) {
        for operation in self.program.sequence() {
            let argument = without_provenance_mut(*operation as usize);
            // SAFETY: the engine is live, and the operation is as it says.
            good(unsafe {
                match self.way {
                    Way::Push | Way::PushNamed => {
                        let described = self.described(*operation);
                        seriatim_push(self.engine, black_box(&raw const described), Some(run), argument, None)
                    }
                    Way::PushAsync => {
                        let described = self.described(*operation);
                        seriatim_push_async(self.engine, black_box(&raw const described), Some(start), argument, None)
                    }
                    Way::PushOperator => {
                        let operator = self.operators[*operation as usize];
                        seriatim_operator_push(self.engine, operator, SeriatimContext::default(), 0)
                    }
                }
            });
        }
    }

    fn check(&self) {
        self.program.verify().expect("the result of a serial run");
    }
}

/// A naive engine, and a program that it has run once, of asynchronous operations or of closures
/// with so many bytes.
pub struct InRust<const BYTES: usize> {
    program: &'static Program,
    engine: Engine,
    accesses: Accesses<Variable>,
}

impl<const BYTES: usize> InRust<BYTES> {
    fn new(workload: &str) -> InRust<BYTES> {
        let (program, engine) = (named(workload), Engine::builder().kind(Kind::Naive).build().expect("an engine"));
        let accesses = Accesses::new(program, || engine.new_variable());
        let ready = InRust { program, engine, accesses };
        ready.push();
        ready.push_async();
        program.reset();
        ready
    }

    /// The number of the operation is the closure's first four bytes.
    #[inline]
    fn push(&self) {
        for operation in self.program.sequence().iter().copied() {
            let mut bytes = [0; BYTES];
            bytes[..4].copy_from_slice(&operation.to_ne_bytes());
            let body = move |_: &RunContext<'_>| {
                let number = black_box(&bytes)[..4].try_into().expect("four bytes");
                program().execute(u32::from_ne_bytes(number));
            };
            let (reads, writes) = (self.accesses.reads(operation), self.accesses.writes(operation));
            let pushed =
                self.engine.push_sync(body, Context::default(), reads, writes, Property::Normal, 0, "benchmark");
            pushed.expect("a push");
        }
    }

    #[inline]
    fn push_async(&self) {
        for operation in self.program.sequence().iter().copied() {
            let body = move |_: &RunContext<'_>, completion: Completion| {
                program().execute(operation);
                completion.complete();
            };
            let (reads, writes) = (self.accesses.reads(operation), self.accesses.writes(operation));
            let pushed =
                self.engine.push_async(body, Context::default(), reads, writes, Property::Normal, 0, "benchmark");
            pushed.expect("a push");
        }
    }

    fn check(&self) {
        self.program.verify().expect("the result of a serial run");
    }
}
