//! The engine: enlists pushed operations with their variables, and runs them on its workers once
//! these allow it.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex};

use super::operation::{Claims, Operation, OperationBlock, ReusableOperation, Source};
use super::queue::{BlockingQueue, Order};
use super::variable::Var;

/// A reusable operation, to be pushed any number of times to the engine that made it.
pub struct Operator {
    engine: u64,
    operation: NonNull<ReusableOperation>,
}

// SAFETY: an operator only names an operation, which is `Send` and `Sync`, to its engine, which
// owns it.
unsafe impl Send for Operator {}
// SAFETY: as above.
unsafe impl Sync for Operator {}

/// The engine, with its own workers. Dropping it runs what is left and joins them.
///
/// Any threads may push, but not two at once operations that use several variables each. A push
/// enlists with one variable after the other, so each of two could come before the other somewhere,
/// and both would wait for ever. That is the original's way too; its front ends push one at a time,
/// under a lock of their own.
pub struct Engine {
    identity: u64,
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    /// What the operators point to, until the workers are gone.
    operations: Mutex<Vec<Arc<ReusableOperation>>>,
}

/// What the workers use too.
struct Shared {
    queue: BlockingQueue<Box<OperationBlock>>,
    /// Operations pushed and not yet complete. Raised by itself, lowered under `waiting`.
    pending: AtomicUsize,
    /// Protects what the sleepers on `finished` wait for, so that none misses its signal.
    waiting: Mutex<()>,
    finished: Condvar,
}

impl Engine {
    /// An engine whose workers take operations first in, first out, as the original's do for a CPU
    /// device.
    pub fn new(workers: usize) -> Engine {
        Engine::with_order(workers, Order::Fifo)
    }

    /// An engine whose workers take operations in the given order.
    pub fn with_order(workers: usize, order: Order) -> Engine {
        static IDENTITY: AtomicU64 = AtomicU64::new(0);
        assert!(workers > 0, "an engine without workers never runs anything");
        let shared = Arc::new(Shared {
            queue: BlockingQueue::new(order),
            pending: AtomicUsize::new(0),
            waiting: Mutex::new(()),
            finished: Condvar::new(),
        });
        let workers = (0..workers)
            .map(|index| {
                let shared = Arc::clone(&shared);
                std::thread::Builder::new()
                    .name(format!("baseline-{index}"))
                    .spawn(move || shared.work())
                    .expect("a worker thread")
            })
            .collect();
        let identity = IDENTITY.fetch_add(1, Ordering::Relaxed);
        Engine { identity, shared, workers, operations: Mutex::new(Vec::new()) }
    }

    pub fn new_variable(&self) -> Var {
        Var::new(self.identity)
    }

    /// Pushes a function to run once its variables allow it. No variable may be listed twice,
    /// except as a read: the original waits for itself then, and so does this.
    pub fn push(&self, body: impl FnOnce() + Send + 'static, reads: &[Var], writes: &[Var], priority: i32) {
        let operation = Operation { reads: reads.to_vec(), writes: writes.to_vec(), body: Box::new(body) as Box<_> };
        self.submit(Source::Temporary(Box::new(operation)), reads, writes, priority);
    }

    /// Prepares an operation that is pushed more than once. It is kept until the engine is dropped.
    pub fn new_operator(&self, body: impl Fn() + Send + Sync + 'static, reads: &[Var], writes: &[Var]) -> Operator {
        let operation: Arc<ReusableOperation> =
            Arc::new(Operation { reads: reads.to_vec(), writes: writes.to_vec(), body: Box::new(body) as Box<_> });
        let pointer = NonNull::from(&*operation);
        self.operations.lock().push(operation);
        Operator { engine: self.identity, operation: pointer }
    }

    pub fn push_operator(&self, operator: &Operator, priority: i32) {
        assert_eq!(operator.engine, self.identity, "an operator of another engine");
        // SAFETY: this engine made the operator, and keeps what it points to until it is dropped.
        let operation = unsafe { operator.operation.as_ref() };
        self.submit(Source::Reusable(operator.operation), &operation.reads, &operation.writes, priority);
    }

    fn submit(&self, source: Source, reads: &[Var], writes: &[Var], priority: i32) {
        for variable in reads.iter().chain(writes) {
            assert_eq!(variable.engine(), self.identity, "a variable of another engine");
        }
        let mut claims = Claims::new(source, priority, reads.len() + writes.len());
        self.shared.pending.fetch_add(1, Ordering::Relaxed);
        for variable in reads {
            variable.append_read(claims.issue());
        }
        for variable in writes {
            variable.append_write(claims.issue());
        }
        if let Some(block) = claims.issue().release() {
            self.shared.dispatch(block);
        }
    }

    /// Waits until every write of the variable that was pushed before has ended.
    pub fn wait_for_var(&self, variable: Var) {
        if variable.ready_to_read() {
            return;
        }
        let done = Arc::new(AtomicBool::new(false));
        let (shared, signal) = (Arc::clone(&self.shared), Arc::clone(&done));
        let body = move || {
            {
                let _waiting = shared.waiting.lock();
                signal.store(true, Ordering::Relaxed);
            }
            shared.finished.notify_all();
        };
        self.push(body, &[variable], &[], 0);
        self.shared.wait_until(|| done.load(Ordering::Relaxed));
    }

    /// Waits until every operation that was pushed has ended.
    pub fn wait_for_all(&self) {
        self.shared.wait_until(|| self.shared.pending.load(Ordering::Relaxed) == 0);
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.wait_for_all();
        self.shared.queue.close();
        for worker in self.workers.drain(..) {
            worker.join().expect("workers do not panic");
        }
    }
}

impl Shared {
    /// The life of a worker.
    fn work(&self) {
        let _guard = AbortOnPanic;
        while let Some(block) = self.queue.pop() {
            self.execute(*block);
        }
    }

    fn dispatch(&self, block: Box<OperationBlock>) {
        let priority = block.priority;
        self.queue.push(block, priority);
    }

    fn execute(&self, block: OperationBlock) {
        match block.source {
            Source::Temporary(operation) => {
                let Operation { reads, writes, body } = *operation;
                body();
                self.complete(&reads, &writes);
            }
            Source::Reusable(operation) => {
                // SAFETY: the engine keeps its operations until it has joined this worker.
                let operation = unsafe { operation.as_ref() };
                (operation.body)();
                self.complete(&operation.reads, &operation.writes);
            }
        }
    }

    fn complete(&self, reads: &[Var], writes: &[Var]) {
        for variable in reads {
            variable.complete_read(|block| self.dispatch(block));
        }
        for variable in writes {
            variable.complete_write(|block| self.dispatch(block));
        }
        let before = {
            let _waiting = self.waiting.lock();
            self.pending.fetch_sub(1, Ordering::Relaxed)
        };
        if before == 1 {
            self.finished.notify_all();
        }
    }

    /// Sleeps until `condition` holds. The thread that makes it true does so under the mutex of
    /// `waiting`, which also orders everything that went before.
    fn wait_until(&self, condition: impl Fn() -> bool) {
        let mut waiting = self.waiting.lock();
        while !condition() {
            self.finished.wait(&mut waiting);
        }
    }
}

/// Ends the process when a body panics: its dependants would wait for ever.
struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::process::abort();
        }
    }
}
