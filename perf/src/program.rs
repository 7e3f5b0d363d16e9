//! A program: which operations to push in which order, what each reads and changes, and what it
//! does.
//!
//! Everything that is measured is one of these, and everything that runs one gets the same: the
//! layout is that of `perf/peers/peer.h`, so that an engine written in C++ walks the same arrays
//! and calls the same bodies as one in Rust.

use std::cell::Cell;
use std::ffi::c_void;

/// What the operations of a program do.
pub trait Body: Sync {
    /// Runs a distinct operation. The engine under test must order the calls as the program's
    /// accesses demand.
    fn execute(&self, operation: u32);

    /// Called before the push of each place of the sequence; only if [`Program::pace`] was asked
    /// for.
    fn pace(&self, _place: u64) {}

    /// Sets everything back, before a run.
    fn reset(&self);

    /// Looks whether a run did its work, all of it, once, in a right order; says what is wrong if
    /// not.
    fn verify(&self) -> Result<(), String>;
}

/// The part of a program that C code sees: `struct perf_program` of `peer.h`.
#[repr(C)]
pub struct Layout {
    variables: u32,
    distinct: u32,
    read_ends: *const u32,
    reads: *const u32,
    write_ends: *const u32,
    writes: *const u32,
    length: u64,
    sequence: *const u32,
    execute: extern "C" fn(*const c_void, u32),
    pace: Option<extern "C" fn(*const c_void, u64)>,
    context: *const c_void,
}

/// A program, ready to be pushed.
pub struct Program {
    name: &'static str,
    layout: Layout,
    // What the pointers of the layout point to. Neither these nor the body are touched again.
    sequence: Vec<u32>,
    reads: Vec<u32>,
    read_ends: Vec<u32>,
    writes: Vec<u32>,
    write_ends: Vec<u32>,
    body: &'static dyn Body,
}

// SAFETY: nothing of a program changes once it is made, and its body is `Sync`; the pointers are to
// its own fields.
unsafe impl Sync for Program {}
// SAFETY: as above; the vectors' buffers and the leaked body stay where they are when the program
// moves.
unsafe impl Send for Program {}

/// What one distinct operation reads and changes.
#[derive(Clone, Default, Debug)]
pub struct Access {
    /// Variables it reads.
    pub reads: Vec<u32>,
    /// Variables it changes. None is also among the reads, and none is listed twice.
    pub writes: Vec<u32>,
}

thread_local! {
    /// How many bodies this thread has run.
    static RAN: Cell<u64> = const { Cell::new(0) };
}

/// How many bodies the calling thread has run, of any program. What a thread has run of one program
/// is the difference between two calls: so is counted who runs the bodies, whatever the engine is.
/// It costs a body one addition to a word of its thread.
pub fn ran_here() -> u64 {
    RAN.get()
}

extern "C" fn execute<B: Body>(context: *const c_void, operation: u32) {
    RAN.set(RAN.get() + 1);
    // SAFETY: the layout holds this function beside a context that is the leaked `B` it was made
    // with.
    unsafe { &*context.cast::<B>() }.execute(operation);
}

extern "C" fn pace<B: Body>(context: *const c_void, place: u64) {
    // SAFETY: as above.
    unsafe { &*context.cast::<B>() }.pace(place);
}

impl Program {
    /// Lays a program out. It is leaked, with its body: an operation can then hold a plain
    /// reference, and no engine pays for counting the operations that hold one.
    ///
    /// # Panics
    /// If the sequence names an operation, or an operation a variable, that there is not.
    pub fn new<B: Body + 'static>(
        name: &'static str,
        variables: usize,
        accesses: &[Access],
        sequence: Vec<u32>,
        body: B,
    ) -> &'static Program {
        Box::leak(Box::new(Program::lay_out(name, variables, accesses, sequence, body)))
    }

    /// The same program, whose pushes wait for [`Body::pace`].
    ///
    /// # Panics
    /// As [`Program::new`].
    pub fn paced<B: Body + 'static>(
        name: &'static str,
        variables: usize,
        accesses: &[Access],
        sequence: Vec<u32>,
        body: B,
    ) -> &'static Program {
        let mut program = Program::lay_out(name, variables, accesses, sequence, body);
        program.layout.pace = Some(pace::<B>);
        Box::leak(Box::new(program))
    }

    fn lay_out<B: Body + 'static>(
        name: &'static str,
        variables: usize,
        accesses: &[Access],
        sequence: Vec<u32>,
        body: B,
    ) -> Program {
        let body: &'static B = Box::leak(Box::new(body));
        assert!(sequence.iter().all(|operation| (*operation as usize) < accesses.len()), "an unknown operation");
        let (mut reads, mut read_ends, mut writes, mut write_ends) = (Vec::new(), vec![0], Vec::new(), vec![0]);
        for access in accesses {
            let mut named = access.reads.iter().chain(&access.writes);
            assert!(named.all(|variable| (*variable as usize) < variables), "an unknown variable");
            reads.extend_from_slice(&access.reads);
            read_ends.push(small(reads.len()));
            writes.extend_from_slice(&access.writes);
            write_ends.push(small(writes.len()));
        }
        let layout = Layout {
            variables: small(variables),
            distinct: small(accesses.len()),
            read_ends: read_ends.as_ptr(),
            reads: reads.as_ptr(),
            write_ends: write_ends.as_ptr(),
            writes: writes.as_ptr(),
            length: sequence.len() as u64,
            sequence: sequence.as_ptr(),
            execute: execute::<B>,
            pace: None,
            context: std::ptr::from_ref(body).cast(),
        };
        Program { name, layout, sequence, reads, read_ends, writes, write_ends, body }
    }

    /// What tables call it.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// What C code sees of it.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// How many variables an engine needs for it.
    pub fn variables(&self) -> usize {
        self.layout.variables as usize
    }

    /// The operations to push, in order, each as a number below [`Program::distinct`].
    pub fn sequence(&self) -> &[u32] {
        &self.sequence
    }

    /// How many different operations there are: what to prepare as reusable operators.
    pub fn distinct(&self) -> usize {
        self.layout.distinct as usize
    }

    /// The variables that operation `operation` reads.
    pub fn reads(&self, operation: u32) -> &[u32] {
        let operation = operation as usize;
        &self.reads[self.read_ends[operation] as usize..self.read_ends[operation + 1] as usize]
    }

    /// The variables that operation `operation` changes.
    pub fn writes(&self, operation: u32) -> &[u32] {
        let operation = operation as usize;
        &self.writes[self.write_ends[operation] as usize..self.write_ends[operation + 1] as usize]
    }

    /// Runs an operation, by the same pointer that C code calls.
    #[inline]
    pub fn execute(&self, operation: u32) {
        (self.layout.execute)(self.layout.context, operation);
    }

    /// Whether pushes wait for [`Body::pace`].
    pub fn is_paced(&self) -> bool {
        self.layout.pace.is_some()
    }

    /// To be called before each push, as C code does.
    #[inline]
    pub fn pace(&self, place: usize) {
        if let Some(pace) = self.layout.pace {
            pace(self.layout.context, place as u64);
        }
    }

    /// Sets the body back, before a run.
    pub fn reset(&self) {
        self.body.reset();
    }

    /// Looks whether the run did its work.
    pub fn verify(&self) -> Result<(), String> {
        self.body.verify()
    }
}

/// A number that is known to be small, as the layout keeps it.
pub(crate) fn small(value: usize) -> u32 {
    u32::try_from(value).expect("programs are smaller than 2^32")
}
