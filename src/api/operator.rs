//! Reusable operators: a closure and its variables, given once and pushed any number of times.
//!
//! An operator is not an operation: each push of it is one operation, which holds the closure by an
//! `Arc`. `src/api/operation.rs` and `src/api/push.rs` make operators. They are pushed by
//! `Engine::push` in `src/api/push.rs`, and recorded by `Capture::push` in `src/api/capture.rs`.
//!
//! `push_sync` chooses between running here and pushing, as `push` and `push_wide` in
//! `src/engine/push/mod.rs` do for closures that are used once: a change to one is a change to the
//! others. The claims of an operator are sorted when it is made, so its pushes do not sort.

#![forbid(unsafe_code)]

use crate::device::Context;
use crate::engine::core::Core;
use crate::engine::inline::fast_path::{self, Tried};
use crate::engine::inline::policy::{CostKey, InlinePolicy};
use crate::engine::push::{push_behind, push_enlisted, push_shipped, runs_here};
use crate::engine::replay::assemble::{detached, sync};
use crate::engine::replay::program::Body;
use crate::engine::request::{Claim, Request};
use crate::engine::resolve::resolve;
use crate::error::{Error, ErrorKind, Source};
use crate::operation::closure::{async_vtable, catch, mixed_vtable, IntoOutcome};
use crate::operation::completion::Completion;
use crate::operation::context::RunContext;
use crate::operation::name::Name;
use crate::operation::property::Property;
use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;

type SyncCall = dyn Fn(&RunContext<'_>) -> Result<(), Source> + Send + Sync;
type AsyncCall = dyn Fn(&RunContext<'_>, Completion) + Send + Sync;

/// A closure and the variables that it uses, to be pushed any number of times. Each push of it, by
/// [`Engine::push`](crate::Engine::push), is one operation. It may be pushed again while earlier
/// operations of it are in flight. Its closure is dropped with the last handle, or after the last
/// of its operations if that ends later.
///
/// ```
/// let engine = seriatim::Engine::new()?;
/// let x = engine.new_variable();
/// let step = engine.new_operator(|_| (), &[], &[x], seriatim::Property::Normal, "step")?;
/// for _ in 0..10 {
///     engine.push(&step, seriatim::Context::default(), 0)?;
/// }
/// engine.wait_for_var(x)?;
/// assert_eq!(engine.version(x)?, 10);
/// # Ok::<(), seriatim::Error>(())
/// ```
#[derive(Clone)]
pub struct Operator(Arc<OperatorState>);

struct OperatorState {
    engine: u32,
    claims: Box<[Claim]>,
    request: Request,
    call: OperatorCall,
    /// The engine learns how long the closure takes by `key`: the user's, or else that of the
    /// closure's type. `None`: this is not learned.
    costs: Arc<InlinePolicy>,
    key: Option<CostKey>,
}

enum OperatorCall {
    Sync(Box<SyncCall>),
    Async(Box<AsyncCall>),
}

impl Operator {
    pub(crate) fn new_sync<H, R>(
        core: &Core,
        request: Request,
        claims: &[Claim],
        key: Option<CostKey>,
        closure: H,
    ) -> Result<Operator, Error>
    where
        H: Fn(&RunContext<'_>) -> R + Send + Sync + 'static,
        R: IntoOutcome,
    {
        let call = Box::new(move |run: &RunContext<'_>| closure(run).into_outcome());
        let key = key.unwrap_or_else(CostKey::of_type::<H>);
        Operator::new(core, request, claims, OperatorCall::Sync(call), key)
    }

    pub(crate) fn new_async<K>(core: &Core, request: Request, claims: &[Claim], closure: K) -> Result<Operator, Error>
    where
        K: Fn(&RunContext<'_>, Completion) + Send + Sync + 'static,
    {
        let key = CostKey::of_type::<K>();
        Operator::new(core, request, claims, OperatorCall::Async(Box::new(closure)), key)
    }

    fn new(
        core: &Core,
        request: Request,
        claims: &[Claim],
        call: OperatorCall,
        key: CostKey,
    ) -> Result<Operator, Error> {
        for claim in claims {
            resolve(core, claim.variable)?;
        }
        let (engine, costs) = (core.memory.id, Arc::clone(&core.costs));
        let key = core.learned.has(request.property).then_some(key);
        Ok(Operator(Arc::new(OperatorState { engine, claims: claims.into(), request, call, costs, key })))
    }

    /// What `Capture::push` records: the name, the property, the variables and a body that holds
    /// the closure.
    pub(crate) fn captured(&self, core: &Core) -> Result<(Name, Property, &[Claim], Body), Error> {
        self.check(core)?;
        let inner = &self.0;
        let held = Arc::clone(inner);
        let body = match &inner.call {
            OperatorCall::Sync(_) => sync(move |run| match &held.call {
                OperatorCall::Sync(call) => call(run),
                OperatorCall::Async(_) => Ok(()),
            }),
            OperatorCall::Async(_) => detached(move |run, completion| {
                if let OperatorCall::Async(call) = &held.call {
                    call(run, completion);
                }
            }),
        };
        Ok((inner.request.name, inner.request.property, &inner.claims, body))
    }

    #[inline]
    fn check(&self, core: &Core) -> Result<(), Error> {
        if self.0.engine == core.memory.id {
            return Ok(());
        }
        Err(self.foreign(core))
    }

    #[cold]
    fn foreign(&self, core: &Core) -> Error {
        let inner = &self.0;
        Error::new(
            ErrorKind::ForeignOperator,
            format!(
                "operator '{}' belongs to engine {}, not to engine {}: push it to the engine that made it",
                inner.request.name.as_str(),
                inner.engine,
                core.memory.id
            ),
        )
    }

    /// Pushes an operation of a synchronous closure that does not run inside the push. `behind`
    /// says that it would have run here, but its variables were busy.
    #[inline(never)]
    fn push_held(&self, core: &Arc<Core>, request: Request, behind: bool) -> Result<(), Error> {
        // Each operation in flight keeps the closure alive.
        let held = Arc::clone(&self.0);
        let call = move |run: &RunContext<'_>| match &held.call {
            OperatorCall::Sync(call) => held.costs.measure(|| held.key, || call(run)),
            OperatorCall::Async(_) => Ok(()),
        };
        let (claims, body) = (&self.0.claims[..], mixed_vtable(&call));
        if behind {
            push_behind(core, &request, claims, body, call)
        } else {
            push_shipped(core, &request, claims, body, call)
        }
    }

    /// Pushes an operation of a synchronous closure. It runs here if `runs_here` allows that and
    /// its tickets come at once; else [`Operator::push_held`] pushes it.
    fn push_sync(&self, core: &Arc<Core>, request: Request, call: &SyncCall) -> Result<(), Error> {
        let inner = &self.0;
        let mut tried = Tried::NotNow;
        if runs_here(core, &request, || inner.costs.runs_inside(|| inner.key)) {
            let call = |run: &RunContext<'_>| catch(|| inner.costs.measure(|| inner.key, || call(run)));
            let claims = &inner.claims[..];
            if claims.len() <= fast_path::FEW {
                tried = fast_path::run(core, &request, &claims, call);
            } else if claims.len() <= fast_path::MANY {
                tried = fast_path::run_wide(core, &request, claims, &mut { call });
            }
        }
        match tried {
            Tried::Ran => Ok(()),
            tried => self.push_held(core, request, matches!(tried, Tried::Busy)),
        }
    }

    /// Pushes the operator once more: for `Engine::push`.
    pub(crate) fn push(&self, core: &Arc<Core>, context: Context, priority: i32) -> Result<(), Error> {
        self.check(core)?;
        let inner = &self.0;
        let request = Request { context, priority, ..inner.request };
        match &inner.call {
            OperatorCall::Sync(call) => self.push_sync(core, request, call),
            OperatorCall::Async(_) => {
                let held = Arc::clone(inner);
                let call = move |run: &RunContext<'_>, completion: Completion| {
                    if let OperatorCall::Async(call) = &held.call {
                        call(run, completion);
                    }
                };
                push_enlisted(core, &request, &inner.claims, async_vtable(&call), call)
            }
        }
    }
}

// Like `Engine`, an operator is never left half changed: its closure is called inside operations
// only, which catch its panics.
impl UnwindSafe for Operator {}
impl RefUnwindSafe for Operator {}

impl fmt::Debug for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Operator('{}')", self.0.request.name.as_str())
    }
}
