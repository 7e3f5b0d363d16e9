//! Scopes inside operations: a child is taken once, as it was left, and the thread that joins is
//! called for each child that it may have to run, and for the last end. Then the cycles: what a
//! child of a scope waits for is a child of the same scope, so two threads in each other's scopes
//! both get out.

#![cfg(loom)]

use loom::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use loom_tests::{explore, spawn, Blocks, Guarded};
use seriatim::internals::block::Block;
use seriatim::internals::ready::ReadyRow;
use seriatim::internals::registry::OpenScopes;
use seriatim::internals::scope_state::ScopeState;
use seriatim::internals::thread;
use std::ptr::null;
use std::sync::Arc;

/// Operations, each of which is to run once, behind what was written before it was put anywhere.
struct Children {
    blocks: Blocks,
    values: Vec<Guarded>,
    ran: AtomicUsize,
}

impl Children {
    fn new(count: usize) -> Arc<Children> {
        let values = (0..count).map(|_| Guarded::new()).collect();
        Arc::new(Children { blocks: Blocks::new(count), values, ran: AtomicUsize::new(0) })
    }

    /// Puts a child into a row.
    fn put(&self, row: &ReadyRow, number: usize) {
        self.values[number].set(1);
        row.put(self.blocks.pointer(number));
    }

    /// Runs a child; returns its number.
    fn run(&self, block: *mut Block) -> usize {
        let number = self.blocks.iter().position(|known| *known == block.addr()).expect("one of ours");
        assert_eq!(self.values[number].get(), 1, "run twice, or not as it was left");
        self.values[number].set(2);
        self.ran.fetch_add(1, Relaxed);
        number
    }

    /// Runs all that a row has.
    fn run_all(&self, row: &ReadyRow) {
        loop {
            let block = row.take();
            if block.is_null() {
                return;
            }
            self.run(block);
        }
    }
}

#[test]
fn two_threads_that_add_and_take_lose_no_child() {
    explore("ready row, two threads", 2, 500, || {
        let (row, children) = (Arc::new(ReadyRow::new()), Children::new(4));
        let (theirs, their_children) = (Arc::clone(&row), Arc::clone(&children));
        let other = spawn(move || {
            their_children.put(&theirs, 0);
            their_children.put(&theirs, 1);
            their_children.run_all(&theirs);
        });
        children.put(&row, 2);
        children.put(&row, 3);
        children.run_all(&row);
        other.join().unwrap();
        children.run_all(&row);
        assert_eq!(children.ran.load(Relaxed), 4);
    });
}

/// The row is in order: a thread that finds nothing where it begins has not missed its own child,
/// wherever it began to put that.
#[test]
fn who_has_added_a_child_finds_one() {
    explore("ready row, own child or another's", 3, 50, || {
        let (row, children) = (Arc::new(ReadyRow::new()), Children::new(3));
        let (theirs, their_children) = (Arc::clone(&row), Arc::clone(&children));
        let other = spawn(move || their_children.put(&theirs, 0));
        for number in [1, 2] {
            children.put(&row, number);
            let block = row.take();
            assert!(!block.is_null(), "a child that lies there is not found");
            children.run(block);
        }
        other.join().unwrap();
        children.run_all(&row);
        assert_eq!(children.ran.load(Relaxed), 3);
    });
}

/// A scope as `OpenScope::join` and `Core::run_children` use it.
struct Scope {
    state: Arc<ScopeState>,
    children: Arc<Children>,
}

impl Scope {
    fn new(children: &Arc<Children>) -> Scope {
        // SAFETY: it is inside of no other.
        Scope { state: unsafe { ScopeState::begin(null()) }, children: Arc::clone(children) }
    }

    fn share(&self) -> Scope {
        Scope { state: Arc::clone(&self.state), children: Arc::clone(&self.children) }
    }

    /// Pushes a child without variables.
    fn push(&self, number: usize) {
        self.state.add_child();
        self.children.put(&self.state.ready, number);
    }

    /// Makes a child ready that was counted before: `Core::offer`.
    fn offer(&self, number: usize) {
        self.children.put(&self.state.ready, number);
        self.state.call();
    }

    /// Runs what is ready, and `behind` each child what its end does.
    fn run(&self, behind: &dyn Fn(usize)) {
        loop {
            let block = self.state.ready.take();
            if block.is_null() {
                return;
            }
            let number = self.children.run(block);
            self.state.end_child();
            behind(number);
        }
    }

    fn join(&self, behind: &dyn Fn(usize)) {
        loop {
            self.run(behind);
            if self.state.is_over() || !self.state.falls_asleep() {
                return;
            }
            if self.state.ready.is_empty() {
                while self.state.is_asleep() {
                    thread::park();
                }
            } else {
                self.state.gets_up();
            }
        }
    }
}

/// The child's end is the last that its thread does with the state, which may be gone by then.
#[test]
fn the_end_of_the_last_child_calls_the_thread_that_joins() {
    explore("scope, two threads", 3, 300, || {
        let children = Children::new(2);
        let scope = Scope::new(&children);
        scope.push(0);
        scope.push(1);
        let theirs = scope.share();
        let other = spawn(move || theirs.run(&|_| ()));
        scope.join(&|_| ());
        // What the children did is seen: each is over.
        assert!(children.values.iter().all(|value| value.get() == 2));
        drop(scope);
        other.join().unwrap();
    });
}

/// The thread that has run the first child makes the second one ready, and then runs nothing more:
/// it may be a worker that has something else to do. The thread that joins must not sleep on.
#[test]
fn a_child_that_an_end_makes_ready_calls_the_thread_that_joins() {
    explore("scope, a child behind another", 3, 300, || {
        let children = Children::new(2);
        let scope = Scope::new(&children);
        scope.push(0);
        scope.state.add_child();
        let theirs = scope.share();
        let other = spawn(move || {
            let block = theirs.state.ready.take();
            if !block.is_null() {
                let number = theirs.children.run(block);
                theirs.state.end_child();
                if number == 0 {
                    theirs.offer(1);
                }
            }
        });
        let own = scope.share();
        scope.join(&move |number| {
            if number == 0 {
                own.offer(1);
            }
        });
        assert_eq!(children.ran.load(Relaxed), 2);
        other.join().unwrap();
    });
}

/// Each has opened a scope, and runs a child of the other's: the cycle that rule 2 of
/// `src/engine/scope/mod.rs` leaves out would be one that waits, in that child, for its own scope.
/// A child waits for nothing, so both scopes end.
#[test]
fn two_threads_in_each_other_s_scopes_both_get_out() {
    explore("two scopes, two threads", 2, 500, || {
        let children = Children::new(4);
        let (first, second) = (Scope::new(&children), Scope::new(&children));
        let shared = [first.share(), second.share()];
        first.push(0);
        first.push(1);
        let other = spawn(move || {
            // The thread that opened `second` is the one that joins it in the model: the state
            // names it, so it is only helped here.
            shared[0].run(&|_| ());
            shared[1].run(&|_| ());
        });
        second.push(2);
        second.push(3);
        second.join(&|_| ());
        first.join(&|_| ());
        assert_eq!(children.ran.load(Relaxed), 4);
        other.join().unwrap();
    });
}

/// A scope that is taken out of the registry is there for as long as the thread has it, also when
/// its own thread has retracted it and let go.
#[test]
fn a_scope_that_is_found_is_there_though_it_is_over() {
    explore("registry, one finds and one retracts", 3, 100, || {
        let (scopes, children) = (Arc::new(OpenScopes::new(1)), Children::new(2));
        let scope = Scope::new(&children);
        scope.push(0);
        scope.push(1);
        scopes.show(0, &scope.state);
        let (theirs, their_children) = (Arc::clone(&scopes), Arc::clone(&children));
        let other = spawn(move || {
            while let Some(state) = theirs.find(|_| true) {
                Scope { state, children: Arc::clone(&their_children) }.run(&|_| ());
            }
        });
        scope.join(&|_| ());
        scopes.retract(0, &scope.state);
        drop(scope);
        other.join().unwrap();
        assert_eq!(children.ran.load(Relaxed), 2);
    });
}

/// One invitation at least lies in the queue, and no more than there are workers.
#[test]
fn invitations_are_counted() {
    explore("registry, invitations", 3, 20, || {
        let scopes = Arc::new(OpenScopes::new(1));
        let queued = Arc::new(AtomicUsize::new(0));
        let ask = |scopes: &OpenScopes, queued: &AtomicUsize| {
            if scopes.queues_one(|| true) {
                assert_eq!(queued.fetch_add(1, Relaxed), 0, "more invitations than workers");
                queued.fetch_sub(1, Relaxed);
                scopes.begins_one();
            }
        };
        let (theirs, count) = (Arc::clone(&scopes), Arc::clone(&queued));
        let other = spawn(move || ask(&theirs, &count));
        ask(&scopes, &queued);
        other.join().unwrap();
        assert!(scopes.queues_one(|| false), "the queue is empty, and nobody is asked");
    });
}
