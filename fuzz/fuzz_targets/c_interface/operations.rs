//! What the operations do when the library calls them: they note what they see, change what they
//! may change, and end as they were told to.

use crate::calls::{last_error, Status};
use crate::engines::NESTED_THREADS;
use seriatim_c::*;
use std::ffi::{c_int, c_void, CStr, CString};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering::*};
use std::sync::{mpsc, Mutex, OnceLock};

/// How an operation ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    Well,
    Fails,
    /// Only asynchronous operations can.
    Drops,
}

/// Where an asynchronous operation ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    Inside,
    /// On a thread that is not the engine's.
    Elsewhere,
    /// Where and when the program says so.
    Held,
}

/// What an operation says when it fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Text {
    None,
    Number,
    /// The number, and bytes that are not UTF-8.
    Broken,
}

/// What an operation is to do.
#[derive(Clone, Copy, Debug)]
pub struct Behaviour {
    pub asynchronous: bool,
    pub end: End,
    pub place: Place,
    pub text: Text,
    pub work: u32,
    /// What it must be told when it runs: its name, if it was given one, and its context.
    pub name: Option<&'static CStr>,
    pub context: SeriatimContext,
}

/// How an operation uses a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    Read,
    Write,
    Delete,
}

/// What variables stand for. Nothing guards it but the engine's promise: plain loads and stores, so
/// a broken promise is no undefined behaviour but a wrong number.
#[derive(Default)]
pub struct Cell {
    pub value: AtomicU64,
    /// The writer inside, plus one.
    writer: AtomicU64,
}

/// How many cells there are, each for one variable at most.
pub const CELLS: usize = 64;
/// How many uses of operators there are: their contexts tell them apart.
pub const USES: usize = 200;

/// What all operations of one program share.
pub struct World {
    pub cells: [Cell; CELLS],
    /// The uses of operators, by the number of their context.
    pub uses: [AtomicPtr<Record>; USES],
    pub nested_runs: AtomicU32,
    pub nested_deletions: AtomicU32,
    pub violations: Mutex<Vec<String>>,
}

impl World {
    pub fn new() -> World {
        World {
            cells: std::array::from_fn(|_| Cell::default()),
            uses: std::array::from_fn(|_| AtomicPtr::default()),
            nested_runs: AtomicU32::new(0),
            nested_deletions: AtomicU32::new(0),
            violations: Mutex::default(),
        }
    }

    fn violation(&self, text: String) {
        self.violations.lock().expect("noting does not panic").push(text);
    }
}

/// One operation: what it is to do, and what became of it. Its address is the argument that the
/// library is given.
pub struct Record {
    pub world: *const World,
    pub id: usize,
    /// Whether it is the argument of an operator, whose uses have records of their own.
    pub is_operator: bool,
    /// The cells that it uses, each once.
    pub claims: Vec<(usize, Mode)>,
    pub behaviour: Behaviour,
    pub text: CString,
    pub runs: AtomicU32,
    /// A hash of all that it saw.
    pub seen: AtomicU64,
    pub deletions: AtomicU32,
    pub completion: AtomicPtr<SeriatimCompletion>,
    /// A handle to its engine, for calls from inside. Deleted with the record's argument.
    pub engine: AtomicPtr<SeriatimEngine>,
}

impl Record {
    pub fn new(
        world: *const World,
        id: usize,
        is_operator: bool,
        claims: Vec<(usize, Mode)>,
        behaviour: Behaviour,
    ) -> Record {
        let text = match behaviour.text {
            Text::Broken => [format!("#{id}").as_bytes(), b"\xff"].concat(),
            _ => format!("#{id}").into_bytes(),
        };
        Record {
            world,
            id,
            is_operator,
            claims,
            behaviour,
            text: CString::new(text).expect("there is no zero inside"),
            runs: AtomicU32::new(0),
            seen: AtomicU64::new(0),
            deletions: AtomicU32::new(0),
            completion: AtomicPtr::default(),
            engine: AtomicPtr::default(),
        }
    }

    pub fn argument(&self) -> *mut c_void {
        std::ptr::from_ref(self).cast_mut().cast()
    }

    fn world(&self) -> &World {
        // SAFETY: the machine keeps the world until every record's operation is over.
        unsafe { &*self.world }
    }

    fn violation(&self, text: &str) {
        self.world().violation(format!("#{}: {text}", self.id));
    }

    /// The text with which it fails.
    fn failure(&self) -> *const std::ffi::c_char {
        if self.behaviour.text == Text::None {
            null()
        } else {
            self.text.as_ptr()
        }
    }

    /// The part that runs in the function: looks at everything, and does half of the changes.
    fn start(&self) {
        if self.runs.fetch_add(1, SeqCst) != 0 {
            self.violation("it runs twice");
        }
        let cells = &self.world().cells;
        let mut seen = 0;
        for (cell, mode) in &self.claims {
            let cell = &cells[*cell];
            let value = cell.value.load(Relaxed);
            seen = mix(seen ^ value);
            let writer = cell.writer.load(Relaxed);
            if writer != 0 {
                self.violation(&format!("it runs while #{} changes what it uses", writer - 1));
            }
            if *mode != Mode::Read {
                cell.writer.store(self.id as u64 + 1, Relaxed);
            }
            if *mode == Mode::Write {
                cell.value.store(halfway(self.id, value), Relaxed);
            }
        }
        self.seen.store(seen, SeqCst);
        (0..self.behaviour.work).for_each(|_| std::hint::spin_loop());
    }

    /// The other half, after which the operation may end.
    fn finish(&self) {
        let cells = &self.world().cells;
        let seen = self.seen.load(SeqCst);
        for (cell, mode) in &self.claims {
            let cell = &cells[*cell];
            let writer = cell.writer.load(Relaxed);
            if writer != if *mode == Mode::Read { 0 } else { self.id as u64 + 1 } {
                self.violation("something else changed what it uses");
            }
            if *mode == Mode::Write {
                cell.value.store(result(self.id, cell.value.load(Relaxed), seen), Relaxed);
            }
            cell.writer.store(0, Relaxed);
        }
    }

    /// Ends an asynchronous operation.
    pub fn end(&self, completion: *mut SeriatimCompletion) {
        self.finish();
        let text = self.failure();
        // SAFETY: each completion comes here once; the text lives as long as the record.
        let status = unsafe {
            match self.behaviour.end {
                End::Well => seriatim_completion_complete(completion),
                End::Fails => seriatim_completion_fail(completion, text),
                End::Drops => seriatim_completion_drop(completion),
            }
        };
        // Nothing of the record may be used from here on but what is the world's: the program may
        // be over.
        assert!(status == Status::Ok, "a completion was refused: {}", last_error());
    }

    /// Looks at what the library tells an operation.
    fn look_around(&self, run: *const SeriatimRunContext) {
        let Behaviour { name, context, .. } = self.behaviour;
        // SAFETY: the context is this call's.
        unsafe {
            let told = CStr::from_ptr(seriatim_run_context_name(run));
            if name.is_some_and(|name| told != name) || seriatim_run_context_context(run) != context {
                self.violation(&format!("it is told the name {told:?}, or the context, of another operation"));
            }
            if seriatim_run_context_worker(run) < -1 || seriatim_run_context_nested_threads(run) != NESTED_THREADS {
                self.violation("its worker or its number of threads cannot be");
            }
        }
        self.call_from_inside();
    }

    /// A wait inside an operation is refused, a push is not.
    fn call_from_inside(&self) {
        let engine = self.engine.load(SeqCst);
        if engine.is_null() {
            return;
        }
        let operation = SeriatimOperation::default();
        let argument = self.world.cast_mut().cast();
        // SAFETY: the handle is the record's own, and the world outlives all operations.
        let (waited, pushed) = unsafe {
            let pushed = seriatim_push(engine, &operation, Some(run_nested), argument, Some(delete_nested));
            (seriatim_wait_for_all(engine), pushed)
        };
        if (waited, pushed) != (Status::WaitInsideOperation, Status::Ok) {
            self.violation(&format!("inside, a wait returned {waited:?} and a push {pushed:?}"));
        }
    }
}

/// The record of this call.
///
/// # Safety
/// The argument is a record's.
unsafe fn record<'a>(argument: *mut c_void, run: *const SeriatimRunContext) -> &'a Record {
    // SAFETY: records live as long as the world; a use has its place in it before it is pushed.
    unsafe {
        let record = &*argument.cast::<Record>();
        if record.deletions.load(SeqCst) > 0 {
            record.violation("it runs with an argument that was deleted");
        }
        if !record.is_operator {
            return record;
        }
        let number = seriatim_run_context_context(run).id as usize;
        &*record.world().uses[number].load(SeqCst)
    }
}

pub unsafe extern "C-unwind" fn run_record(argument: *mut c_void, run: *const SeriatimRunContext) -> c_int {
    // SAFETY: pushed with records only.
    let record = unsafe { record(argument, run) };
    record.start();
    record.look_around(run);
    record.finish();
    if record.behaviour.end == End::Well {
        return 0;
    }
    // SAFETY: the context is this call's, and the text lives as long as the record.
    let status = unsafe { seriatim_run_context_set_error(run, record.failure()) };
    if status != Status::Ok {
        record.violation("it cannot say why it fails");
    }
    -1
}

pub unsafe extern "C-unwind" fn run_record_async(
    argument: *mut c_void,
    run: *const SeriatimRunContext,
    completion: *mut SeriatimCompletion,
) {
    // SAFETY: pushed with records only.
    let record = unsafe { record(argument, run) };
    record.start();
    record.look_around(run);
    match record.behaviour.place {
        Place::Inside => record.end(completion),
        Place::Held => record.completion.store(completion, SeqCst),
        Place::Elsewhere => {
            let errand = Errand(record, completion);
            completer().send(errand).expect("the completer lives for ever");
        }
    }
}

pub unsafe extern "C" fn delete_record(argument: *mut c_void) {
    // SAFETY: given with records only, which live as long as the world.
    let record = unsafe { &*argument.cast::<Record>() };
    // SAFETY: the handle is the record's own.
    let status = unsafe { seriatim_engine_delete(record.engine.swap(null_mut(), SeqCst)) };
    if status != Status::Ok {
        record.violation("a handle cannot be deleted");
    }
    record.deletions.fetch_add(1, SeqCst);
}

unsafe extern "C-unwind" fn run_nested(argument: *mut c_void, _: *const SeriatimRunContext) -> c_int {
    // SAFETY: pushed with the world.
    unsafe { &*argument.cast::<World>() }.nested_runs.fetch_add(1, SeqCst);
    0
}

unsafe extern "C" fn delete_nested(argument: *mut c_void) {
    // SAFETY: as above.
    unsafe { &*argument.cast::<World>() }.nested_deletions.fetch_add(1, SeqCst);
}

/// Null arguments whose deleter was called, in this process. Whoever counts them pushes one after
/// another.
pub static NULLS_DELETED: AtomicU32 = AtomicU32::new(0);

pub unsafe extern "C" fn delete_null(argument: *mut c_void) {
    assert!(argument.is_null());
    NULLS_DELETED.fetch_add(1, SeqCst);
}

pub unsafe extern "C-unwind" fn do_nothing(_: *mut c_void, _: *const SeriatimRunContext) -> c_int {
    0
}

/// An operation to be ended by another thread.
struct Errand(*const Record, *mut SeriatimCompletion);

// SAFETY: records and completions may be used on any thread.
unsafe impl Send for Errand {}

fn completer() -> &'static mpsc::Sender<Errand> {
    static COMPLETER: OnceLock<mpsc::Sender<Errand>> = OnceLock::new();
    COMPLETER.get_or_init(|| {
        let (send, receive) = mpsc::channel::<Errand>();
        std::thread::spawn(move || {
            for Errand(record, completion) in receive {
                // SAFETY: the record lives until its operation is over.
                unsafe { (*record).end(completion) };
            }
        });
        send
    })
}

/// Scrambles a word.
pub fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// What a cell holds while an operation is half done.
pub fn halfway(id: usize, old: u64) -> u64 {
    mix(old ^ (id as u64).rotate_left(32))
}

/// What an operation leaves in a cell of which half the change is done: depends on itself, on the
/// old value and on all that it saw.
pub fn result(id: usize, halfway: u64, seen: u64) -> u64 {
    mix(mix(halfway).wrapping_add(seen) ^ id as u64)
}
