//! An open scope: what a push into it checks and does, and how it is joined.
//!
//! `api/scope.rs` opens one on the stack of the thread that called it, and pushes and joins there.
//! `THREADS_DEPTH` and `KEPT_LIST` are each thread's own.

use crate::engine::claims::{ClaimSource, TypedClaims};
use crate::engine::core::Core;
use crate::engine::push::admission::cut_off;
use crate::engine::push::{make_free, push, push_erased};
use crate::engine::request::{Claim, Request};
use crate::engine::resolve::kill;
use crate::engine::scope::child::ScopeChild;
use crate::engine::scope::innermost;
use crate::engine::scope::state::ScopeState;
use crate::engine::wait::for_scope::for_scope;
use crate::engine::wait::held_list;
use crate::error::{Error, ErrorKind, Failure, Stamp};
use crate::operation::access::Mode;
use crate::operation::block::{FLAG_BEYOND, FLAG_DELETE, FLAG_PLACELESS, FLAG_SCOPED};
use crate::operation::closure::{drop_quietly, sync_vtable, IntoOutcome};
use crate::operation::context::RunContext;
use crate::operation::erased_closure::{erase_borrowing, ErasedClosure};
use crate::operation::name::Name;
use crate::operation::property::Property;
use crate::sync::{thread, thread_local, MODELLED};
use crate::util::spin::Spin;
use crate::variable::handle::Variable;
use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::ptr::null;
use std::sync::Arc;
use std::time::Duration;

/// The most scopes that a thread has open inside each other. `Engine::scope` gives this number.
pub const MOST_OPEN: u32 = 128;
/// The most children of a scope.
const MOST_CHILDREN: u32 = if MODELLED { 8 } else { 1 << 31 };

/// So many children of a scope further in a thread runs before it looks at its own list again.
const HELPED_BEFORE_A_LOOK: u32 = 1;

/// How long a thread that joins looks whether it is called before it parks, and how long of that it
/// keeps its core.
const JOINER_SPINS: Duration = Duration::from_micros(50);
const JOINER_SPINS_AWAKE: Duration = Duration::from_micros(20);

thread_local! {
    /// How many scopes the thread has open.
    static THREADS_DEPTH: Cell<u32> = const { Cell::new(0) };
    /// An empty list that the thread keeps for its next scope.
    static KEPT_LIST: Cell<Vec<Variable>> = const { Cell::new(Vec::new()) };
}

/// A scope that the calling thread has opened, and joins.
pub struct OpenScope<'e> {
    core: &'e Arc<Core>,
    /// Dropped by the scope's own drop.
    state: ManuallyDrop<Arc<ScopeState>>,
    /// Whether it is inside an operation of its engine.
    inside: bool,
    pushed: Cell<u32>,
    /// The variables that were made in the scope.
    made: Cell<Vec<Variable>>,
}

impl<'e> OpenScope<'e> {
    /// Opens a scope.
    pub fn new(core: &'e Arc<Core>) -> Result<OpenScope<'e>, Error> {
        if core.is_cut_off() {
            return Err(cut_off());
        }
        let depth = THREADS_DEPTH.with(Cell::get);
        if depth >= MOST_OPEN {
            return Err(too_deep());
        }
        THREADS_DEPTH.with(|open| open.set(depth + 1));
        let inside = core.is_inside();
        // SAFETY: the calling thread is inside a child of that scope until this one is joined.
        let state = unsafe { ScopeState::begin(if inside { innermost::current(core) } else { null() }) };
        let made = KEPT_LIST.try_with(Cell::take).unwrap_or_default();
        let state = ManuallyDrop::new(state);
        Ok(OpenScope { core, state, inside, pushed: Cell::new(0), made: Cell::new(made) })
    }

    /// What tells the scope from all others that are open.
    pub fn identity(&self) -> *const () {
        Arc::as_ptr(&self.state).cast()
    }

    /// Takes a variable that is made for the scope, which deletes it at its end.
    pub fn add_variable(&self, variable: Variable) {
        let mut made = self.made.take();
        made.push(variable);
        self.made.set(made);
    }

    /// Pushes a child. So many of its `claims` are `own`: of variables that were made in this
    /// scope.
    ///
    /// # Safety
    /// The scope is joined before what the closure borrows ends.
    pub unsafe fn push<F, R>(
        &self,
        request: &Request,
        claims: TypedClaims<'_>,
        own: usize,
        closure: F,
    ) -> Result<(), Error>
    where
        F: FnOnce(&RunContext<'_>) -> R + Send,
        R: IntoOutcome,
    {
        if let Err(error) = self.admits(&claims, own) {
            drop_quietly(closure);
            return Err(error);
        }
        self.pushed.set(self.pushed.get() + 1);
        // SAFETY: the contract is passed on.
        unsafe {
            if const { ScopeChild::<F>::fits() } {
                self.push_child(request, claims, ScopeChild::new(&self.state, closure))
            } else {
                let closure = Box::new(closure);
                self.push_child(request, claims, ScopeChild::new(&self.state, move |run: &RunContext<'_>| closure(run)))
            }
        }
    }

    /// # Safety
    /// As [`OpenScope::push`].
    unsafe fn push_child<F, R>(
        &self,
        request: &Request,
        claims: TypedClaims<'_>,
        child: ScopeChild<F>,
    ) -> Result<(), Error>
    where
        F: FnOnce(&RunContext<'_>) -> R + Send,
        R: IntoOutcome,
    {
        // SAFETY: the scope waits until the closure is gone.
        let pushed =
            unsafe { erase_borrowing(child.vtable::<R>(), child, |child| self.push_any(request, claims, child)) };
        if pushed.is_err() {
            self.state.count_uncalled(false);
        }
        pushed
    }

    fn push_any(&self, request: &Request, claims: TypedClaims<'_>, child: &mut ErasedClosure<'_>) -> Result<(), Error> {
        let core = self.core;
        if !self.inside {
            return push_erased(core, request, claims, child);
        }
        let flags = request.flags | FLAG_SCOPED;
        if claims.count() > 0 {
            // It comes to `Core::offer` when it is ready.
            return push_erased(core, &Request { flags, ..*request }, claims, child);
        }
        let request = Request { flags: flags | FLAG_PLACELESS, ..*request };
        self.state.ready.put(make_free(core, &request, child));
        // SAFETY: the caller has the scope open.
        let outside = unsafe { self.state.sleeping_outside() };
        core.invite(&self.state, outside.as_ref());
        Ok(())
    }

    /// Whether a child on these variables may be pushed.
    fn admits(&self, claims: &TypedClaims<'_>, own: usize) -> Result<(), Error> {
        if self.pushed.get() >= MOST_CHILDREN {
            let text = format!("a scope has {MOST_CHILDREN} children at most: join it, and open another one");
            return Err(Error::new(ErrorKind::EngineFull, text));
        }
        if self.inside {
            if own == claims.claims.len() {
                return Ok(());
            }
            return Err(Error::new(
                ErrorKind::WaitInsideOperation,
                "a scope inside an operation would wait for an operation on a variable that it has not made, which may come after \
                 the operation itself: lend it a part() of what the operation holds, or push it outside of the scope",
            ));
        }
        // The thread would wait for a child that waits for the thread.
        claims.claims.iter().try_for_each(|claim| held_list::refuse_own(claim.variable, claim.mode))
    }

    /// Waits until every child has ended. An error if that will never be, in the child of a `fork`:
    /// then no thread is left that could run one.
    pub fn join(&self) -> Result<(), Error> {
        // A completion that the thread owes may still come, and make a child ready.
        self.wait_for_children().inspect_err(|_| self.state.leave_children())
    }

    fn wait_for_children(&self) -> Result<(), Error> {
        let (core, state) = (self.core, &self.state);
        if !self.inside {
            return for_scope(core, state);
        }
        loop {
            core.run_children(state, None, u32::MAX);
            if state.is_over() {
                return Ok(());
            }
            if core.is_cut_off() {
                return Err(cut_off());
            }
            if let Some(descendant) = core.scopes.find(|other| other.is_inside(state)) {
                core.run_children(&descendant, None, HELPED_BEFORE_A_LOOK);
                continue;
            }
            if !state.falls_asleep() {
                return Ok(());
            }
            if state.ready.is_empty() {
                rest(state);
            } else {
                state.gets_up();
            }
        }
    }

    /// After the join: the error of the child that was pushed first, of those that have failed.
    /// Their failures count as taken.
    pub fn take_error(&self) -> Option<Error> {
        let mut first = None::<Arc<Failure>>;
        for failure in self.state.take_failures() {
            let local = self.core.local();
            let _ = failure.take(Stamp::new(local.cache().number, local.next_sequence()));
            if first.as_ref().is_none_or(|first| failure.sequence < first.sequence) {
                first = Some(failure);
            }
        }
        first.map(|failure| failure.error.clone()).or_else(|| self.state.has_uncalled().then(uncalled))
    }
}

impl Drop for OpenScope<'_> {
    fn drop(&mut self) {
        self.state.take_failures().for_each(drop);
        let mut made = self.made.take();
        made.drain(..).for_each(|variable| delete(self.core, variable));
        if !MODELLED {
            let _ = KEPT_LIST.try_with(|kept| kept.set(made));
        }
        if self.inside {
            self.core.scopes.retract(self.core.local().cache().number, &self.state);
        }
        // SAFETY: the state is not used again.
        ScopeState::keep(unsafe { ManuallyDrop::take(&mut self.state) });
        let _ = THREADS_DEPTH.try_with(|open| open.set(open.get() - 1));
    }
}

/// Deletes a variable of the scope, behind the last of its children that have used it.
fn delete(core: &Arc<Core>, variable: Variable) {
    let flags = FLAG_DELETE | FLAG_BEYOND;
    let request = Request { property: Property::DeleteVar, flags, ..Request::named(Name::from("delete part")) };
    let claim = Claim { variable, mode: Mode::Delete };
    let end = |_: &RunContext<'_>| ();
    if push(core, &request, &[claim][..], sync_vtable(&end), end).is_err() {
        // A stopped engine keeps the variable until it ends.
        let _ = kill(core, variable);
    }
}

/// Sleeps until the thread is called.
fn rest(state: &ScopeState) {
    let mut spin = Spin::new(JOINER_SPINS_AWAKE, JOINER_SPINS);
    while state.is_asleep() {
        if !spin.pause() {
            thread::park();
        }
    }
}

#[cold]
fn too_deep() -> Error {
    Error::new(
        ErrorKind::EngineFull,
        format!("this thread has {MOST_OPEN} scopes open inside each other: go on without a scope from there"),
    )
}

#[cold]
fn uncalled() -> Error {
    let text = "operations of the scope were not called, because the engine was told of the shutdown";
    Error::new(ErrorKind::Stopped, text)
}
