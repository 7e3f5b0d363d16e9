//! Reusable operators: the closure and the variables are given once, and pushed any number of times.

#![forbid(unsafe_code)]

use super::core::Core;
use super::push::{push, resolve, Claim, Request};
use crate::device::Context;
use crate::error::{Error, ErrorKind};
use crate::operation::closure::{async_vtable, sync_vtable, IntoOutcome};
use crate::operation::completion::Completion;
use crate::operation::context::RunContext;
use std::fmt;
use std::sync::Arc;

type SyncCall = dyn Fn(&RunContext<'_>) -> Result<(), String> + Send + Sync;
type AsyncCall = dyn Fn(&RunContext<'_>, Completion) + Send + Sync;

/// A reusable operation. May be pushed again while it is in flight; its closure is dropped after the last use.
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
pub struct Operator(Arc<Inner>);

struct Inner {
    engine: u32,
    claims: Box<[Claim]>,
    request: Request,
    call: Call,
}

enum Call {
    Sync(Box<SyncCall>),
    Async(Box<AsyncCall>),
}

impl Operator {
    pub(crate) fn new_sync<H, R>(core: &Core, request: Request, claims: &[Claim], closure: H) -> Result<Operator, Error>
    where
        H: Fn(&RunContext<'_>) -> R + Send + Sync + 'static,
        R: IntoOutcome,
    {
        let call = Box::new(move |run: &RunContext<'_>| closure(run).into_outcome());
        Operator::new(core, request, claims, Call::Sync(call))
    }

    pub(crate) fn new_async<K>(core: &Core, request: Request, claims: &[Claim], closure: K) -> Result<Operator, Error>
    where
        K: Fn(&RunContext<'_>, Completion) + Send + Sync + 'static,
    {
        Operator::new(core, request, claims, Call::Async(Box::new(closure)))
    }

    fn new(core: &Core, request: Request, claims: &[Claim], call: Call) -> Result<Operator, Error> {
        for claim in claims {
            resolve(core, claim.variable)?;
        }
        Ok(Operator(Arc::new(Inner { engine: core.memory.id, claims: claims.into(), request, call })))
    }

    /// Pushes one more use.
    pub(crate) fn push(&self, core: &Arc<Core>, context: Context, priority: i32) -> Result<(), Error> {
        let inner = &self.0;
        if inner.engine != core.memory.id {
            return Err(Error::new(
                ErrorKind::ForeignOperator,
                format!(
                    "operator '{}' belongs to engine {}, not to engine {}: push it to the engine that made it",
                    inner.request.name.as_str(),
                    inner.engine,
                    core.memory.id
                ),
            ));
        }
        let request = Request { context, priority, ..inner.request };
        // Each use holds the closure.
        let held = Arc::clone(inner);
        match &inner.call {
            Call::Sync(_) => {
                let call = move |run: &RunContext<'_>| match &held.call {
                    Call::Sync(call) => call(run),
                    Call::Async(_) => Ok(()),
                };
                push(core, request, &inner.claims[..], sync_vtable(&call), call)
            }
            Call::Async(_) => {
                let call = move |run: &RunContext<'_>, completion: Completion| {
                    if let Call::Async(call) = &held.call {
                        call(run, completion);
                    }
                };
                push(core, request, &inner.claims[..], async_vtable(&call), call)
            }
        }
    }
}

impl fmt::Debug for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Operator('{}')", self.0.request.name.as_str())
    }
}
