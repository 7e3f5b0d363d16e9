//! The threads of a group of workers: starting, stopping and joining them, and their names.
//!
//! `engine/core.rs` starts groups, `engine/dispatch/` and `engine/gpu/admit.rs` stop them, on the
//! threads that `group.rs` names. `engine/thread_hooks.rs` gives the names. The lock is
//! `Group::threads`: one thread at a time starts the group, and others wait for that. Nothing of
//! the program runs under it, and no thread is joined under it by a start: a worker that begins may
//! call a hook of the program, which may push, and the push starts what it needs.

use crate::error::Error;
use crate::platform::affinity;
use crate::sync::thread::{self, JoinHandle};
use crate::sync::{fence, thread_local, Ordering::*};
use crate::worker::group::Group;
use crate::worker::Host;
use std::cell::Cell;
use std::mem::take;
use std::ptr::null;
use std::sync::Arc;

thread_local! {
    /// The group and the number of the worker that the calling thread is, to compare with.
    static WORKER: Cell<(*const (), usize)> = const { Cell::new((null(), 0)) };
}

impl Group {
    /// What the workers' threads are called if the program does not say otherwise.
    pub fn usual_names(&self) -> impl Iterator<Item = String> + '_ {
        (0..self.workers.len()).map(|index| self.usual_name(index))
    }

    fn usual_name(&self, index: usize) -> String {
        format!("{}-{index}", self.plan.name)
    }

    /// Says what the workers' threads are called. Called before the first start.
    pub fn set_names(&self, names: Vec<String>) {
        let _ = self.names.set(names);
    }

    /// Starts the workers, unless they are running. If the system refuses a thread, or its
    /// priority, the ones started before are stopped again, and the error is returned; also to who
    /// wants to start the group meanwhile.
    #[cold]
    pub fn start<H: Host>(self: &Arc<Self>, host: &Arc<H>) -> Result<(), Error> {
        let mut threads = self.threads.lock();
        if self.is_started() {
            return Ok(());
        }
        if let Some(refusal) = &threads.fails {
            return Err(refusal.clone());
        }
        self.stop.store(false, Relaxed);
        self.lock_warnings().clear();
        self.ready.store(0, Relaxed);
        // The thread that starts the workers is one that pushes. If there are more cores than
        // workers, its own core is left to it. Otherwise two threads would share a core beside a
        // free one, which the system notices only after some milliseconds.
        let cores = &self.plan.cores;
        let own = affinity::current().and_then(|core| cores.iter().position(|other| *other == core)).unwrap_or(0);
        for index in 0..self.workers.len() {
            self.workers[index].assign((!cores.is_empty()).then(|| cores[(own + 1 + index) % cores.len()]));
            let group = Arc::clone(self);
            let host = Arc::clone(host);
            let name = self.names.get().map_or_else(|| self.usual_name(index), |names| names[index].clone());
            let spawned = thread::Builder::new().name(name).spawn(move || group.work(index, &host));
            let refused = match spawned {
                Ok(thread) => {
                    let refused = self.prioritise(index, &thread).err();
                    threads.handles.push(thread);
                    refused
                }
                Err(said) => Some(self.thread_refused(index, &said)),
            };
            if let Some(error) = refused {
                let begun = take(&mut threads.handles);
                threads.fails = Some(error.clone());
                drop(threads);
                self.join(begun);
                self.threads.lock().fails = None;
                return Err(error);
            }
        }
        self.started.store(true, Release);
        Ok(())
    }

    /// Stops the workers and joins their threads. All submitted operations have been run before: a
    /// worker that sees `stop` looks for others only once. No start is under way: those of pushes
    /// are under their pins, and the caller keeps the others out.
    pub fn stop(&self) {
        let threads = {
            let mut threads = self.threads.lock();
            self.started.store(false, Relaxed);
            take(&mut threads.handles)
        };
        self.join(threads);
    }

    /// The calling thread is this worker, to its end.
    pub(super) fn be_worker(&self, index: usize) {
        WORKER.with(|worker| worker.set((self.address(), index)));
    }

    fn is_worker(&self, index: usize) -> bool {
        WORKER.try_with(Cell::get).is_ok_and(|worker| worker == (self.address(), index))
    }

    fn join(&self, threads: Vec<JoinHandle<()>>) {
        self.stop.store(true, SeqCst);
        fence(SeqCst);
        for worker in &self.workers {
            worker.inbox.wake();
        }
        for (index, thread) in threads.into_iter().enumerate() {
            // A thread cannot wait for its own end. It sees `stop` when it is back in its loop.
            if self.is_worker(index) {
                continue;
            }
            // Workers catch the panics of operations. A worker thread that ended by another panic
            // has nothing more to report here.
            let _ = thread.join();
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::operation::block::Block;
    use crate::worker::group::{GroupPlan, IdlePolicy};
    use std::sync::atomic::AtomicUsize;
    use std::sync::mpsc::{sync_channel, SyncSender};
    use std::time::Duration;

    /// Stops its group on the first worker that has nothing to run.
    struct Stopping(Arc<Group>, AtomicUsize, SyncSender<()>);

    impl Host for Stopping {
        unsafe fn run(self: &Arc<Self>, _: *mut Block, _: Option<usize>) {
            unreachable!("nothing is submitted");
        }

        unsafe fn settle(&self, _: *mut Block) -> bool {
            unreachable!("nothing is logged");
        }

        fn depth(&self) -> u32 {
            0
        }

        fn idle(&self) {
            if self.0.is_ready() && self.1.fetch_add(1, Relaxed) == 0 {
                self.0.stop();
            }
        }

        fn end_worker(&self) {
            self.2.send(()).expect("the test waits for it");
        }
    }

    #[test]
    fn a_worker_that_stops_its_own_group_joins_the_others_and_ends() {
        let group = Arc::new(Group::new(GroupPlan {
            name: "stops",
            workers: 2,
            logged: false,
            shared: false,
            idle: IdlePolicy::Spin,
            spin_for: Duration::ZERO,
            cores: Vec::new(),
            move_callers: false,
            fifo_priority: 0,
        }));
        let (ends, ended) = sync_channel(2);
        group.start(&Arc::new(Stopping(Arc::clone(&group), AtomicUsize::new(0), ends))).unwrap();
        for _ in 0..2 {
            ended.recv_timeout(Duration::from_secs(60)).expect("both workers end");
        }
        assert!(!group.is_started());
    }
}
