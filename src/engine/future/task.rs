//! A future that is an asynchronous operation. [`Task`] has it, in a block of the pool.
//!
//! `api/push_future.rs` pushes an operation whose closure has the task ([`Prepared`]). The thread
//! that calls the closure polls the future first. A thread that wakes the task later queues its
//! block, like the part of a graph (`replay/part.rs`). A worker of the operation's group takes it
//! and polls again. The naive engine has no workers, so there the waking thread polls.
//! `util/poll_state.rs` sees to it that one thread at a time has the task. When the future is ready
//! or has unwound, it is dropped, and the completion ends the operation.
//!
//! References to the task are counted: one for each waker, and one while it is queued or polled.
//! If none is left, nothing can wake the task any more. Then the thread that has dropped the last
//! one drops the future, and the operation fails.
//!
//! The operation is in flight until then. So the engine does not stop, and its workers stay.

use crate::device::{Context, Device};
use crate::engine::core::{Core, ReadyCause};
use crate::engine::nesting::{enter, inside, leave};
use crate::error::{ErrorKind, Failure, Fault};
use crate::operation::access::ACCESSES_OFFSET;
use crate::operation::block::Block;
use crate::operation::closure::{catch, drop_quietly, is_inline, Cost, IntoOutcome, Run, Vtable};
use crate::operation::completion::Completion;
use crate::operation::context::RunContext;
use crate::operation::layout::{class_for, Layout};
use crate::operation::name::Name;
use crate::operation::property::Property;
use crate::sync::{fence, AtomicUsize, Ordering::*};
use crate::util::poll_state::PollState;
use std::cell::UnsafeCell;
use std::future::Future;
use std::mem::{size_of, ManuallyDrop};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::pin::Pin;
use std::ptr::NonNull;
use std::sync::Arc;
use std::task::{Poll, RawWaker, RawWakerVTable, Waker};

/// As many wakers may refer to a task. A program that forgets wakers could wrap the count, which
/// has 32 bits on some machines, and the task would be freed under the wakers that it still has. So
/// the process ends at half of what the count holds, as it does for an `Arc`: the other half is
/// room for threads that count before one of them has seen that.
const MOST_WAKERS: usize = isize::MAX as usize;

/// What an operation asks for, as far as its future's polls need it.
#[derive(Clone, Copy)]
pub struct PollKind {
    pub property: Property,
    pub priority: i32,
}

/// A future under way, or one whose operation has not been called yet.
struct Task<F> {
    /// The wakers, and one while the task is queued or polled, or its operation not called.
    count: AtomicUsize,
    state: PollState,
    core: Arc<Core>,
    /// While the operation waits for the future. Both are of the thread that polls, or of the last
    /// one.
    completion: UnsafeCell<Option<Completion>>,
    future: UnsafeCell<Option<F>>,
}

/// Whether such a future fits into a block: another one has to be boxed.
pub const fn fits<F>() -> bool {
    is_inline::<Task<F>>()
}

/// A task whose operation has not been called yet. Dropping it drops the future.
pub struct Prepared<F>(NonNull<Task<F>>)
where
    F: Future + Send + 'static,
    F::Output: IntoOutcome;

// SAFETY: it is the only reference to the task, whose future may be sent.
unsafe impl<F> Send for Prepared<F>
where
    F: Future + Send + 'static,
    F::Output: IntoOutcome,
{
}

impl<F> Prepared<F>
where
    F: Future + Send + 'static,
    F::Output: IntoOutcome,
{
    /// A task in a block of the calling thread, which must not be inside a push. The future fits.
    pub fn new(core: &Arc<Core>, kind: PollKind, future: F) -> Prepared<F> {
        debug_assert!(fits::<F>());
        let local = core.local();
        // SAFETY: the thread is not inside a push, so it holds nothing that it read from a tail.
        // The block is ours, and large enough. Nobody else knows the task yet.
        unsafe {
            let block = local.allocate(class_for(0, size_of::<Task<F>>(), false, Layout::Plain));
            Block::renew(block, 0, false);
            Block::set_name(block, Name::default());
            Block::set_kind(block, kind.property, Context::cpu(0));
            (*block).flags = 0;
            (*block).priority = kind.priority;
            (*block).body = Task::<F>::VTABLE;
            (*block).sequence = local.next_sequence();
            let task = Block::closure(block, Layout::Plain).cast::<Task<F>>();
            task.write(Task {
                count: AtomicUsize::new(1),
                state: PollState::new(),
                core: Arc::clone(core),
                completion: UnsafeCell::new(None),
                future: UnsafeCell::new(Some(future)),
            });
            Prepared(NonNull::new_unchecked(task))
        }
    }

    /// The operation is called: polls the future.
    pub fn begin(self, run: &RunContext<'_>, completion: Completion) {
        let task = ManuallyDrop::new(self).0.as_ptr();
        // SAFETY: the task is this call's alone, with its reference.
        unsafe {
            let (core, block) = (&(*task).core, block_of(task));
            let property = Block::property(block);
            // Later polls on a device have no stream, so the ordinary workers make them. They may
            // not be there yet. The engine does not end its threads meanwhile, since the operation
            // is in flight.
            let on_device = run.context().device() == Device::Gpu;
            let context = if on_device { Context::cpu(0) } else { run.context() };
            Block::set_kind(block, property, context);
            let admitted = if on_device { core.dispatch.admit(core, property, context) } else { Ok(()) };
            if let Err(error) = admitted {
                Task::release(task);
                return completion.fail(error);
            }
            *(*task).completion.get() = Some(completion);
            Task::poll(task);
        }
    }
}

impl<F> Drop for Prepared<F>
where
    F: Future + Send + 'static,
    F::Output: IntoOutcome,
{
    fn drop(&mut self) {
        // SAFETY: its reference, and the only one.
        unsafe { Task::release(self.0.as_ptr()) };
    }
}

impl<F> Task<F>
where
    F: Future + Send + 'static,
    F::Output: IntoOutcome,
{
    const VTABLE: &'static Vtable = &Vtable { run: Run::Part(Self::run), discard: ignore, cost: Cost::Unknown };
    const WAKER: &'static RawWakerVTable =
        &RawWakerVTable::new(Self::clone_waker, Self::wake, Self::wake_by_ref, Self::drop_waker);

    /// Polls a task that was queued, on the thread that has taken its block.
    unsafe fn run(storage: *mut u8, _: Option<usize>) {
        // SAFETY: the block is that of a task, which has a reference for the queue.
        unsafe {
            let task = storage.cast::<Task<F>>();
            let core = Arc::clone(&(*task).core);
            if core.is_cut_off() {
                // The future is the parent's, also if its waker is called here. The reference for
                // the queue keeps the task, as the engine keeps all that was in flight.
                return;
            }
            let local = core.local();
            // The operation may be over before this thread has left the task (`run_part` in
            // `replay/part.rs` has the same).
            local.count_called();
            Task::poll(task);
            local.count_returned();
            core.quiescence.notify(|| core.is_quiescent());
        }
    }

    /// Polls the future, and ends the operation if that is ready.
    ///
    /// # Safety
    /// The caller was told to by `state`, and gives up a reference.
    unsafe fn poll(task: *mut Task<F>) {
        // SAFETY: the reference keeps the task, and `state` gives the future to one thread at a
        // time. The future does not move: the task stays in its block until it is dropped. The
        // waker that is lent has no reference of its own, and is not dropped.
        unsafe {
            (*task).state.begin();
            let waker = ManuallyDrop::new(Waker::from_raw(RawWaker::new(task.cast_const().cast(), Self::WAKER)));
            let mut context = std::task::Context::from_waker(&waker);
            let Some(future) = &mut *(*task).future.get() else { return Task::release(task) };
            let future = Pin::new_unchecked(future);
            let local = (*task).core.local();
            enter(local);
            let polled = catch_unwind(AssertUnwindSafe(|| future.poll(&mut context)));
            let outcome = match polled {
                Ok(Poll::Pending) => None,
                Ok(Poll::Ready(output)) => Some(catch(|| output.into_outcome())),
                Err(payload) => Some(Err(Fault::panicked(payload))),
            };
            if outcome.is_some() {
                (*task).state.finish();
                drop_future(task);
            }
            leave(local);
            match outcome {
                Some(outcome) => {
                    if let Some(completion) = (*(*task).completion.get()).take() {
                        completion.end_with(outcome);
                    }
                    Task::release(task);
                }
                None if (*task).state.end() => Task::queue(task),
                None => Task::release(task),
            }
        }
    }

    /// Hands the task to a thread that will poll it.
    ///
    /// # Safety
    /// The caller was told to by `state`, and gives a reference to the queue.
    unsafe fn queue(task: *mut Task<F>) {
        // SAFETY: the block is in no list, as the task was not queued. From then on the task may be
        // over, so the engine is kept.
        unsafe {
            let core = Arc::clone(&(*task).core);
            let block = block_of(task);
            (*block).link = std::ptr::null_mut();
            core.dispatch.submit(&core, core.local(), block, ReadyCause::Later);
        }
    }

    /// Gives up a reference.
    ///
    /// # Safety
    /// It is the caller's.
    unsafe fn release(task: *mut Task<F>) {
        // Release, and acquire below: the thread that gives up the last reference comes after all
        // that others have done with the task.
        // SAFETY: by the contract.
        if unsafe { (*task).count.fetch_sub(1, Release) } == 1 {
            fence(Acquire);
            // SAFETY: it was the last reference.
            unsafe { Task::end(task) };
        }
    }

    /// Frees the task. If its operation still waits for the future, nothing can wake that: the
    /// operation fails.
    ///
    /// # Safety
    /// No reference is left.
    unsafe fn end(task: *mut Task<F>) {
        // SAFETY: the task is this thread's alone. Its fields are dropped in place, or read once.
        unsafe {
            let core = (&raw const (*task).core).read();
            let local = core.local();
            inside(local, || drop_future(task));
            if let Some(completion) = (*(*task).completion.get()).take() {
                let message =
                    "its future waits, and nothing can wake it any more: a future must keep the waker of its \
                               last poll until it is ready";
                completion.end_with(Err(Fault::new(ErrorKind::CompletionDropped, message.to_owned(), None)));
            }
            local.retire(block_of(task));
            core.flush(local);
        }
    }

    unsafe fn clone_waker(task: *const ()) -> RawWaker {
        // Relaxed: the caller has a reference.
        // SAFETY: the waker that is copied has a reference.
        let before = unsafe { (*task.cast::<Task<F>>()).count.fetch_add(1, Relaxed) };
        if before > MOST_WAKERS {
            std::process::abort();
        }
        RawWaker::new(task, Self::WAKER)
    }

    unsafe fn wake(task: *const ()) {
        let task = task.cast::<Task<F>>().cast_mut();
        // SAFETY: the waker's reference goes to the queue, or is given up.
        unsafe {
            if (*task).state.wake() {
                Task::queue(task);
            } else {
                Task::release(task);
            }
        }
    }

    unsafe fn wake_by_ref(task: *const ()) {
        let task = task.cast::<Task<F>>().cast_mut();
        // SAFETY: the waker has a reference, so there may be one more.
        unsafe {
            if (*task).state.wake() {
                (*task).count.fetch_add(1, Relaxed);
                Task::queue(task);
            }
        }
    }

    unsafe fn drop_waker(task: *const ()) {
        // SAFETY: the waker's reference.
        unsafe { Task::release(task.cast::<Task<F>>().cast_mut()) };
    }
}

unsafe fn ignore(_: *mut u8, _: Option<&Arc<Failure>>) {}

/// The block that a task lies in.
///
/// # Safety
/// `task` is where a task was put in its block.
unsafe fn block_of<F>(task: *mut Task<F>) -> *mut Block {
    // SAFETY: the block has no accesses and no times, so its closure begins there.
    unsafe { task.byte_sub(ACCESSES_OFFSET).cast() }
}

/// Drops the future where it is, if it is still there.
///
/// # Safety
/// The future is the caller's.
unsafe fn drop_future<F>(task: *mut Task<F>) {
    // SAFETY: by the contract. The assignment drops what was there, in its place.
    drop_quietly(DropInPlace(unsafe { &mut *(*task).future.get() }));
}

/// Empties a place when it is dropped.
struct DropInPlace<'a, F>(&'a mut Option<F>);

impl<F> Drop for DropInPlace<'_, F> {
    fn drop(&mut self) {
        *self.0 = None;
    }
}

#[cfg(all(test, not(any(loom, shuttle, miri))))]
mod tests {
    use super::*;
    use crate::Engine;
    use std::process::Command;

    /// Set for the child process, whose end is looked at.
    const CHILD: &str = "SERIATIM_TEST_FORGOTTEN_WAKERS";

    #[test]
    fn a_program_that_forgets_wakers_ends_before_their_count_wraps() {
        const OWN: &str = "engine::future::task::tests::a_program_that_forgets_wakers_ends_before_their_count_wraps";
        if std::env::var_os(CHILD).is_some() {
            forget_wakers();
        }
        let mut child = Command::new(std::env::current_exe().unwrap());
        let output = child.args(["--exact", OWN, "--nocapture"]).env(CHILD, "").output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.contains("the most") && !said.contains("too many"), "{said}");
        assert!(!output.status.success());
    }

    /// Copies a waker when there are as many as there may be, and once more.
    fn forget_wakers() {
        let engine = Engine::builder().cpu_workers(1).build().unwrap();
        let kind = PollKind { property: Property::Normal, priority: 0 };
        let prepared = Prepared::new(engine.core(), kind, std::future::pending::<()>());
        let task = prepared.0.as_ptr();
        // SAFETY: the task is this thread's, with one reference, which the waker stands for.
        unsafe {
            let waker =
                Waker::from_raw(RawWaker::new(task.cast_const().cast(), Task::<std::future::Pending<()>>::WAKER));
            (*task).count.store(MOST_WAKERS, Relaxed);
            std::mem::forget(waker.clone());
            println!("the most");
            std::mem::forget(waker.clone());
            println!("too many");
            std::process::exit(0);
        }
    }
}
