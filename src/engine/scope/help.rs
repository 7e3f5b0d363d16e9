//! Running the children of a scope: the thread that joins, and the threads that are invited.
//!
//! `scope/open.rs` calls [`Core::run_children`] and [`Core::invite`], on the thread that has opened
//! the scope, and `scope/offer.rs` the second one, on any thread. An invitation is an operation of
//! the engine, which finds its scopes in `scope/registry.rs`. Or it is a child of a scope further
//! out whose thread is asleep. No state here.

use crate::engine::core::Core;
use crate::engine::push::{make_free, push_erased};
use crate::engine::request::{Claim, Request};
use crate::engine::scope::child::ScopeChild;
use crate::engine::scope::innermost::within;
use crate::engine::scope::state::ScopeState;
use crate::operation::block::{Block, FLAG_PLACELESS, FLAG_SCOPED};
use crate::operation::closure::unlearned_vtable;
use crate::operation::context::RunContext;
use crate::operation::erased_closure::erase;
use crate::operation::name::Name;
use crate::operation::property::Property;
use std::sync::Arc;

/// After so many children a thread sends spent blocks back to their caches.
const FLUSHED_AFTER: u32 = 64;
/// An invited worker looks at its own queue again after so many.
const INVITED_FOR: u32 = 1024;

/// A thread that is asked to run children of scopes. Dropped when it begins, or never will.
struct Invitation(Arc<Core>);

impl Drop for Invitation {
    fn drop(&mut self) {
        self.0.scopes.begins_one();
    }
}

impl Invitation {
    /// Runs children of whatever scopes are found, until there are none.
    fn accept(self, worker: Option<usize>) {
        let core = Arc::clone(&self.0);
        drop(self);
        let mut left = INVITED_FOR;
        while let Some(scope) = core.scopes.find(|_| true).filter(|_| !core.is_cut_off()) {
            left -= core.run_children(&scope, worker, left);
            if left == 0 {
                // This worker looks at its own queue first.
                return core.ask_a_worker();
            }
        }
    }
}

impl Core {
    /// Runs the ready children of a scope, `most` at most, until there is none; says how many it
    /// ran.
    pub fn run_children(self: &Arc<Self>, state: &Arc<ScopeState>, worker: Option<usize>, most: u32) -> u32 {
        let local = self.local();
        let mut ran = 0;
        while ran < most && !self.is_cut_off() {
            let child = state.ready.take();
            if child.is_null() {
                break;
            }
            // SAFETY: the child was taken, and has not ended, so the scope is open. It is ready,
            // and ours.
            unsafe {
                if !state.ready.is_empty() {
                    self.invite(state, state.sleeping_outside().as_ref());
                }
                within(self, state, || self.execute(local, child, worker));
            }
            ran += 1;
            if ran % FLUSHED_AFTER == 0 {
                self.flush(local);
            }
        }
        if ran > 0 {
            self.flush(local);
        }
        ran
    }

    /// Asks for one more thread to run children of the scope: the one that joins the scope
    /// `outside`, which was asleep, else a worker.
    pub fn invite(self: &Arc<Self>, state: &Arc<ScopeState>, outside: Option<&Arc<ScopeState>>) {
        match outside {
            Some(outside) => self.invitation_to(outside, state).send(),
            None => self.show_to_workers(state),
        }
    }

    /// Asks a worker to run children of the scope, which may be over.
    pub fn show_to_workers(self: &Arc<Self>, state: &Arc<ScopeState>) {
        if self.workers.is_some() {
            self.scopes.show(self.local().cache().number, state);
            self.ask_a_worker();
        }
    }

    /// Has an invitation queued, for the next worker that has nothing to do; several if some have.
    fn ask_a_worker(self: &Arc<Self>) {
        let Some(workers) = self.workers.as_ref() else { return };
        if self.scopes.queues_one(|| workers.has_idle()) {
            self.push_invitation();
        }
    }

    #[cold]
    #[inline(never)]
    fn push_invitation(self: &Arc<Self>) {
        let invitation = Invitation(Arc::clone(self));
        let call = move |run: &RunContext<'_>| invitation.accept(run.worker());
        // Refused only if the system has no thread for a worker: then the threads that are there
        // run the children.
        let _ = erase(unlearned_vtable(&call), call, |call| {
            push_erased(self, &Request::named(Name::default()), &[] as &[Claim], call)
        });
    }

    /// What asks the thread that joins a scope further out: a child of that scope, which counts
    /// from now on. The caller is sure that the scope is open now: it stays so until the child has
    /// ended.
    #[cold]
    #[inline(never)]
    pub fn invitation_to(self: &Arc<Self>, outside: &Arc<ScopeState>, state: &Arc<ScopeState>) -> ChildInvitation {
        let (core, state) = (Arc::clone(self), Arc::clone(state));
        let call = move |run: &RunContext<'_>| _ = core.run_children(&state, run.worker(), INVITED_FOR);
        // Of this property it is not skipped, whatever becomes of the children.
        let (property, flags) = (Property::DeleteVar, FLAG_SCOPED | FLAG_PLACELESS);
        let request = Request { property, flags, ..Request::named(Name::default()) };
        let child = ScopeChild::new(outside, call);
        let block = erase(child.vtable(), child, |child| make_free(self, &request, child));
        ChildInvitation { outside: Arc::clone(outside), block }
    }
}

/// A child that asks the thread of its scope to run children of another one.
#[must_use = "the scope waits for it"]
pub struct ChildInvitation {
    outside: Arc<ScopeState>,
    block: *mut Block,
}

impl ChildInvitation {
    /// Puts it into the list of its scope.
    pub fn send(self) {
        self.outside.ready.put(self.block);
        self.outside.call();
    }
}
