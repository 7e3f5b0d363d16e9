//! Operations for the models: pushed, run and completed by the library's protocol code; what they do is checked.

use crate::Blocks;
use loom::cell::UnsafeCell;
use seriatim::internals::access::{Access, Mode, Node, Sink};
use seriatim::internals::chain::{self, Chain, Enlisted};
use seriatim::internals::loan::Loan;
use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// A variable and the value that it guards. The cell is loom's: two threads in it at once, one of them writing, fail the model, and so
/// does a value that is read without a happens-before edge to its write.
pub struct Var {
    chain: Chain,
    value: UnsafeCell<Vec<usize>>,
    reads: Mutex<Vec<(usize, usize)>>,
}

/// What an execution did.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// The writes of each variable, in order.
    pub writes: Vec<Vec<usize>>,
    /// The reads of each variable: which operation, and how many writes it saw.
    pub reads: Vec<Vec<(usize, usize)>>,
    /// How often each operation ran.
    pub runs: Vec<usize>,
    /// How often each operation was cancelled.
    pub cancelled: Vec<usize>,
    /// How often each operation's block was spent.
    pub spent: Vec<usize>,
    /// How often each operation ran on loans, without its block.
    pub lent: Vec<usize>,
}

/// The variables of a model, and a fixed set of operations over them.
pub struct Program {
    vars: Vec<Var>,
    ops: Vec<Vec<(usize, Mode)>>,
    blocks: Blocks,
    runs: Vec<AtomicUsize>,
    cancelled: Vec<AtomicUsize>,
    spent: Vec<AtomicUsize>,
    lent: Vec<AtomicUsize>,
    detaching: bool,
    reusing: bool,
}

// SAFETY: the values are guarded by the protocol, which is what the models check.
unsafe impl Sync for Var {}
// SAFETY: as above.
unsafe impl Send for Var {}

struct Found<'a> {
    program: &'a Program,
    ready: Vec<*mut Node>,
    /// Called once, where a push looks for the chain of its second access in order to enlist it.
    stall: RefCell<Stall<'a>>,
}

/// How often the push will ask for that chain before, and what is called then.
type Stall<'a> = Option<(usize, Box<dyn FnOnce() + 'a>)>;

impl Found<'_> {
    fn new(program: &Program) -> Found<'_> {
        Found { program, ready: Vec::new(), stall: RefCell::new(None) }
    }
}

impl Sink for Found<'_> {
    fn chain(&self, variable: u32) -> *const Chain {
        let now = self.stall.borrow_mut().take_if(|(before, _)| {
            let is_next = variable == 1 && *before == 0;
            *before -= usize::from(variable == 1 && !is_next);
            is_next
        });
        if let Some((_, stall)) = now {
            stall();
        }
        &raw const self.program.vars[variable as usize].chain
    }

    fn ready(&mut self, node: *mut Node) {
        self.ready.push(node);
    }

    fn spent(&mut self, node: *mut Node) {
        let op = self.program.number(node);
        let before = self.program.spent[op].fetch_add(1, Ordering::Relaxed);
        assert_eq!(before, 0, "the block of operation {op} was spent twice");
        if self.program.reusing {
            // SAFETY: spent, and no thread pushes any more, so nobody looks.
            unsafe { self.program.use_again(node) };
        }
        if self.program.detaching {
            // SAFETY: spent just now, and chains live as long as the program.
            unsafe { chain::detach(node, |variable| self.chain(variable)) };
            for (index, (var, _)) in self.program.ops[op].iter().enumerate() {
                // SAFETY: blocks live as long as the program.
                let access = unsafe { Node::access(node, index as u32) };
                assert!(!self.program.vars[*var].chain.ends_with(access), "a tail leads to a block that may be reused");
            }
        }
    }
}

impl Program {
    /// `vars` variables, and for each operation the variables that it uses, in ascending order.
    pub fn new(vars: usize, ops: &[&[(usize, Mode)]]) -> Arc<Program> {
        Program::make(vars, ops, false, false)
    }

    /// As [`Program::new`], and every block is detached as soon as it is spent, as it is before it goes to the reclaimer. No tail may lead to
    /// it then.
    pub fn detaching(vars: usize, ops: &[&[(usize, Mode)]]) -> Arc<Program> {
        Program::make(vars, ops, true, false)
    }

    /// As [`Program::new`], and every block is filled anew as soon as it is spent: what comes to it late, or is not ordered before that,
    /// fails the model. For operations that are all [enlisted](Program::enlist) before one is run.
    pub fn reusing(vars: usize, ops: &[&[(usize, Mode)]]) -> Arc<Program> {
        Program::make(vars, ops, false, true)
    }

    fn make(vars: usize, ops: &[&[(usize, Mode)]], detaching: bool, reusing: bool) -> Arc<Program> {
        let counters = || ops.iter().map(|_| AtomicUsize::new(0)).collect();
        let program = Arc::new(Program {
            vars: (0..vars)
                .map(|_| Var { chain: Chain::closed(), value: UnsafeCell::new(Vec::new()), reads: Mutex::default() })
                .collect(),
            ops: ops.iter().map(|op| op.to_vec()).collect(),
            blocks: Blocks::new(ops.len()),
            runs: counters(),
            cancelled: counters(),
            spent: counters(),
            lent: counters(),
            detaching,
            reusing,
        });
        for var in &program.vars {
            // SAFETY: the program does not move, and no other thread knows it yet.
            unsafe { Chain::open(&var.chain) };
        }
        program
    }

    fn number(&self, node: *mut Node) -> usize {
        self.blocks.iter().position(|block| *block == node.addr()).expect("a block of this program")
    }

    /// Pushes an operation, and runs what becomes ready on this thread.
    pub fn push(&self, op: usize) -> Enlisted {
        self.push_through(op, Found::new(self))
    }

    /// As [`Program::push`] of an operation on variables 0 and 1, and calls `meanwhile` when it is enlisted on the first of them only.
    pub fn push_stalling(&self, op: usize, meanwhile: impl FnOnce()) -> Enlisted {
        let found = Found::new(self);
        // It asks for that chain once before, to fetch its line.
        *found.stall.borrow_mut() = Some((1, Box::new(meanwhile)));
        self.push_through(op, found)
    }

    /// Enlists an operation without running anything. Says whether it is ready: then somebody is to [run](Program::run) it.
    pub fn enlist(&self, op: usize) -> bool {
        let mut found = Found::new(self);
        let enlisted = self.fill_and_enlist(op, &mut found);
        assert!(found.ready.is_empty(), "a push has made something else ready");
        enlisted == Enlisted::Ready
    }

    /// Runs an operation that is ready, and what it makes ready, on this thread.
    pub fn run(&self, op: usize) {
        let mut found = Found::new(self);
        found.ready.push(self.blocks.pointer(op).cast());
        self.run_ready(found);
    }

    /// Fills a spent block with the operation that it had, as if that were another one that waits.
    ///
    /// # Safety
    /// No thread looks at tails.
    unsafe fn use_again(&self, node: *mut Node) {
        let op = self.number(node);
        // SAFETY: by the contract nobody else uses the block: loom checks that of each word.
        unsafe {
            (*node).wait.with_mut(|wait| *wait = 1);
            (*node).unspent.with_mut(|unspent| *unspent = 100);
            for index in 0..self.ops[op].len() {
                (*Node::access(node, index as u32)).state.with_mut(|state| *state = 0);
            }
        }
    }

    fn push_through(&self, op: usize, mut found: Found<'_>) -> Enlisted {
        let enlisted = self.fill_and_enlist(op, &mut found);
        let node: *mut Node = self.blocks.pointer(op).cast();
        match enlisted {
            Enlisted::Ready => found.ready.push(node),
            Enlisted::Cancelled => {
                self.cancelled[op].fetch_add(1, Ordering::Relaxed);
                // SAFETY: ready and ours; a cancelled operation completes without running.
                unsafe { chain::complete(node, None, &mut found) };
            }
            Enlisted::Waiting | Enlisted::CancelledWaiting => {}
        }
        self.run_ready(found);
        enlisted
    }

    fn fill_and_enlist(&self, op: usize, found: &mut Found<'_>) -> Enlisted {
        let node: *mut Node = self.blocks.pointer(op).cast();
        // SAFETY: each operation is pushed once, its accesses are in order, and blocks are not reused while anybody pushes.
        unsafe {
            node.write(Node::new(self.ops[op].len() as u32));
            for (index, (var, mode)) in self.ops[op].iter().enumerate() {
                Node::access(node, index as u32).write(Access::new(*var as u32, index as u32, *mode));
            }
            chain::enlist(node, found)
        }
    }

    /// Runs an operation on one variable on a loan for which the variable comes home, if it is idle; pushes it otherwise. Says whether it ran on the loan.
    ///
    /// Only one thread does so, and only if the variable is away and no other thread has looked at it before.
    pub fn come_home_or_push(&self, op: usize) -> bool {
        // SAFETY: blocks are never reused within an execution; the rest is the caller's word.
        self.on_a_loan_or_push(op, |chain, mode, found| unsafe { chain.lend_coming_home(mode, found) })
    }

    /// Runs an operation on one variable on a loan of the variable's own access, or pushes it.
    pub fn lend_at_home_or_push(&self, op: usize) -> bool {
        self.on_a_loan_or_push(op, |chain, mode, _| chain.lend_at_home(mode != Mode::Read, false))
    }

    fn on_a_loan_or_push(&self, op: usize, lend: impl FnOnce(&Chain, Mode, &mut Found<'_>) -> Option<Loan>) -> bool {
        let mut found = Found::new(self);
        let (var, mode) = self.ops[op][0];
        let loan = lend(&self.vars[var].chain, mode, &mut found);
        if let Some(loan) = loan {
            self.body(op);
            self.lent[op].fetch_add(1, Ordering::Relaxed);
            // SAFETY: taken above.
            unsafe { loan.give_back(&mut found) };
        }
        self.run_ready(found);
        if loan.is_none() {
            let _ = self.push(op);
        }
        loan.is_some()
    }

    /// Runs an operation on loans, if all its variables are idle; pushes it otherwise. Says whether it ran on loans.
    pub fn lend_or_push(&self, op: usize) -> bool {
        self.lend_around(op, || ())
    }

    /// As [`Program::lend_or_push`], and calls `inside` while the variables are lent.
    pub fn lend_around(&self, op: usize, inside: impl FnOnce()) -> bool {
        let mut found = Found::new(self);
        let mut loans = Vec::new();
        for (var, mode) in &self.ops[op] {
            // SAFETY: blocks are never reused within an execution.
            match unsafe { self.vars[*var].chain.lend(*mode) } {
                Some(loan) => loans.push(loan),
                None => break,
            }
        }
        let granted = loans.len() == self.ops[op].len();
        if granted {
            self.body(op);
            self.lent[op].fetch_add(1, Ordering::Relaxed);
            inside();
        }
        // SAFETY: each was taken above.
        loans.into_iter().for_each(|loan| unsafe { loan.give_back(&mut found) });
        self.run_ready(found);
        if !granted {
            let _ = self.push(op);
        }
        granted
    }

    fn run_ready(&self, mut found: Found<'_>) {
        while let Some(node) = found.ready.pop() {
            let op = self.number(node);
            // SAFETY: the operation is ready and ours.
            unsafe {
                let cancelled = (*node).wait.load(loom::sync::atomic::Ordering::Relaxed)
                    & seriatim::internals::access::CANCELLED
                    != 0;
                if cancelled {
                    self.cancelled[op].fetch_add(1, Ordering::Relaxed);
                    chain::complete(node, None, &mut found);
                    continue;
                }
                self.body(op);
                match self.ops[op][0] {
                    (var, Mode::Delete) => self.vars[var].chain.close(node, &mut found),
                    // Some on a worker, of which the word of the access then has the number.
                    _ => chain::complete(node, (op % 2 == 1).then_some(op), &mut found),
                }
            }
        }
    }

    fn body(&self, op: usize) {
        let before = self.runs[op].fetch_add(1, Ordering::Relaxed);
        assert_eq!(before, 0, "operation {op} ran twice");
        for (var, mode) in &self.ops[op] {
            let var = &self.vars[*var];
            match mode {
                // SAFETY: loom checks it.
                Mode::Read => var.value.with(|value| unsafe {
                    var.reads.lock().unwrap().push((op, (*value).len()));
                }),
                // SAFETY: loom checks it.
                Mode::Write | Mode::Delete => var.value.with_mut(|value| unsafe { (*value).push(op) }),
            }
        }
    }

    /// Whether a deleted variable's tail rests where it is to stay.
    pub fn is_closed(&self, var: usize) -> bool {
        self.vars[var].chain.is_closed()
    }

    /// What was done. After all threads are joined.
    pub fn trace(&self) -> Trace {
        let counts = |counters: &[AtomicUsize]| counters.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        Trace {
            // SAFETY: all threads are joined.
            writes: self.vars.iter().map(|var| var.value.with(|value| unsafe { (*value).clone() })).collect(),
            reads: self.vars.iter().map(|var| var.reads.lock().unwrap().clone()).collect(),
            runs: counts(&self.runs),
            cancelled: counts(&self.cancelled),
            spent: counts(&self.spent),
            lent: counts(&self.lent),
        }
    }

    /// Checks what must hold in every execution without deletions: each operation ran once, every write is there, and any two
    /// operations that meet on two variables meet in the same order.
    pub fn check(&self) -> Trace {
        let trace = self.trace();
        assert!(trace.runs.iter().all(|runs| *runs == 1), "an operation was lost: {trace:?}");
        for (first, second) in pairs(self.ops.len()) {
            let orders: Vec<bool> =
                (0..self.vars.len()).filter_map(|var| self.order(&trace, var, first, second)).collect();
            assert!(
                orders.windows(2).all(|pair| pair[0] == pair[1]),
                "operations {first} and {second} run in different orders: {trace:?}"
            );
        }
        trace
    }

    /// Whether `first` came before `second` on `var`, if they conflict there.
    fn order(&self, trace: &Trace, var: usize, first: usize, second: usize) -> Option<bool> {
        let place = |op: usize| {
            let mode = self.ops[op].iter().find(|(used, _)| *used == var)?.1;
            if mode == Mode::Read {
                let seen = trace.reads[var].iter().find(|(reader, _)| *reader == op)?.1;
                // After the write that it saw last.
                Some((2 * seen, true))
            } else {
                let at = trace.writes[var].iter().position(|writer| *writer == op)?;
                Some((2 * at + 1, false))
            }
        };
        let (first, second) = (place(first)?, place(second)?);
        (!(first.1 && second.1)).then_some(first.0 < second.0)
    }
}

fn pairs(count: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..count).flat_map(move |second| (0..second).map(move |first| (first, second)))
}
