//! Reusable operators: the closure and the variables are given once, and pushed any number of
//! times.

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
use crate::operation::closure::{async_vtable, catch, mixed_vtable, sync_vtable, IntoOutcome};
use crate::operation::completion::Completion;
use crate::operation::context::RunContext;
use crate::operation::name::Name;
use crate::operation::property::Property;
use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;

type SyncCall = dyn Fn(&RunContext<'_>) -> Result<(), Source> + Send + Sync;
type AsyncCall = dyn Fn(&RunContext<'_>, Completion) + Send + Sync;

/// A reusable operation. May be pushed again while it is in flight; its closure is dropped after
/// the last use.
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
    /// What its closure costs is learned by the key that the user gave, or else by its type.
    costs: Arc<InlinePolicy>,
    key: CostKey,
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
        let key = key.unwrap_or_else(|| CostKey::of_type(sync_vtable(&*call)));
        Operator::new(core, request, claims, OperatorCall::Sync(call), key)
    }

    pub(crate) fn new_async<K>(core: &Core, request: Request, claims: &[Claim], closure: K) -> Result<Operator, Error>
    where
        K: Fn(&RunContext<'_>, Completion) + Send + Sync + 'static,
    {
        let key = CostKey::of_type(async_vtable(&closure));
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
        Ok(Operator(Arc::new(OperatorState { engine, claims: claims.into(), request, call, costs, key })))
    }

    /// What a capture records of one more use.
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

    /// Pushes one more use of a synchronous closure, which does not run inside the push.
    #[inline(never)]
    fn push_held(&self, core: &Arc<Core>, request: Request, behind: bool) -> Result<(), Error> {
        // Each use holds the closure.
        let held = Arc::clone(&self.0);
        let call = move |run: &RunContext<'_>| match &held.call {
            OperatorCall::Sync(call) => held.costs.measure(|| Some(held.key), || call(run)),
            OperatorCall::Async(_) => Ok(()),
        };
        let (claims, body) = (&self.0.claims[..], mixed_vtable(&call));
        if behind {
            push_behind(core, &request, claims, body, call)
        } else {
            push_shipped(core, &request, claims, body, call)
        }
    }

    /// As [`Operator::push`], of a synchronous closure.
    fn push_sync(&self, core: &Arc<Core>, request: Request, call: &SyncCall) -> Result<(), Error> {
        let inner = &self.0;
        let mut tried = Tried::NotNow;
        if runs_here(core, &request, || inner.costs.are_short(|| Some(inner.key))) {
            let call = |run: &RunContext<'_>| catch(|| inner.costs.measure(|| Some(inner.key), || call(run)));
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

    /// Pushes one more use.
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

// As an engine: the closure is called inside operations only, which catch its panics.
impl UnwindSafe for Operator {}
impl RefUnwindSafe for Operator {}

impl fmt::Debug for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Operator('{}')", self.0.request.name.as_str())
    }
}
