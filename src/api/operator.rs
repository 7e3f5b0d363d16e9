//! Reusable operators: a closure and its variables, given once and pushed any number of times.
//!
//! An operator is not an operation: each push of it is one operation. One that does not run inside
//! its push holds the closure by an `Arc`. The builders and `src/api/push.rs` make operators.
//! `Engine::push` there pushes them, on any thread, and `src/api/capture.rs` records them.
//!
//! An operator does not change once it is made. Its closure is called on each thread that runs an
//! operation of it, on several at once. The thread that drops the last `Arc` drops it: a handle, an
//! operation that has ended, or a graph. How long it takes is kept in the engine's `InlinePolicy`
//! (`src/engine/inline/policy.rs`).
//!
//! [`Operator::push`] chooses between running here and pushing, as `push` and `try_wide` in
//! `src/engine/push/mod.rs` do for closures that are used once: a change to one is a change to the
//! others. Two things are decided when the operator is made, since they are the same at each push.
//! One is the order of its claims, which are not sorted again. The other is whether it may run
//! inside its pushes. Operations of an asynchronous one are pushed like closures (`push_erased`).

use crate::api::runs_inside::RunsInside;
use crate::device::Context;
use crate::engine::claims::Declared;
use crate::engine::core::Core;
use crate::engine::inline::cost_key::CostKey;
use crate::engine::inline::fast_path::{self, Tried};
use crate::engine::inline::policy::InlinePolicy;
use crate::engine::limited::{start, Limited};
use crate::engine::push::logged::{class_of, push_known};
use crate::engine::push::{permit_of, push, push_behind, push_enlisted, push_erased, runs_here};
use crate::engine::replay::program::{detached, sync, Body};
use crate::engine::request::{Claim, Request};
use crate::engine::resolve::resolve;
use crate::error::{Error, ErrorKind, Source};
use crate::operation::async_closure::{async_vtable, AsyncFunction};
use crate::operation::closure::{catch_call, type_key, unlearned_vtable, IntoOutcome, Keyed};
use crate::operation::completion::Completion;
use crate::operation::context::RunContext;
use crate::operation::erased_closure::erase;
use crate::operation::name::Name;
use crate::operation::property::Property;
use crate::operation::start_limits::StartLimits;
use crate::util::bucket_array::Location;
use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;

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
    inside: RunsInside,
    /// What [`class_of`] says of operations that do not run inside their pushes.
    class: Option<u8>,
    call: OperatorCall,
    claims: Box<[Claim]>,
    located: Box<[(Claim, Location)]>,
    /// With the usual context and the usual priority: each push says its own.
    request: Request,
    /// The engine learns how long the closure takes by `key`: the user's, or else that of the
    /// closure's type. `None`: this is not learned.
    inline_policy: Arc<InlinePolicy>,
    key: Option<CostKey>,
}

/// The size of the closure of an operation that does not run inside its push.
const HELD: usize = size_of::<Arc<OperatorState>>();

enum OperatorCall {
    Sync(Box<dyn SyncCall>),
    /// With the key by which the engine learns how long the closure holds its thread.
    Async(Box<Keyed<AsyncCall>>),
}

type AsyncCall = dyn Fn(&RunContext<'_>, Completion) + Send + Sync;

/// The closure of an asynchronous operation in flight.
struct HeldAsync(Arc<OperatorState>);

impl AsyncFunction for HeldAsync {
    fn key(&self) -> u64 {
        match &self.0.call {
            OperatorCall::Sync(_) => 0,
            OperatorCall::Async(call) => call.key,
        }
    }

    fn start(self, run: &RunContext<'_>, completion: Completion) {
        if let OperatorCall::Async(call) = &self.0.call {
            (call.closure)(run, completion);
        }
    }
}

/// The closure of a synchronous operator.
trait SyncCall: Send + Sync {
    fn call(&self, run: &RunContext<'_>) -> Result<(), Source>;

    /// Runs an operation inside its push, if its tickets have come. It is compiled for each type of
    /// closure, so that the closure is a part of it.
    fn run_inside(&self, inner: &OperatorState, core: &Arc<Core>) -> Tried;
}

impl<H> SyncCall for H
where
    H: Fn(&RunContext<'_>) -> Result<(), Source> + Send + Sync,
{
    fn call(&self, run: &RunContext<'_>) -> Result<(), Source> {
        self(run)
    }

    fn run_inside(&self, inner: &OperatorState, core: &Arc<Core>) -> Tried {
        // What runs inside its push has no flags.
        let request = Request::named(inner.request.name);
        let measure = |run: &RunContext<'_>| {
            inner.inline_policy.measure(
                || inner.key,
                #[inline(always)]
                || self(run),
            )
        };
        fast_path::run(core, &request, &inner.declared(), |run: &RunContext<'_>| catch_call(run, || measure(run)))
    }
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
        let request = Operator::usual(request);
        // Inlined into both functions of `SyncCall`, of which an operation calls one.
        let call = Box::new(
            #[inline(always)]
            move |run: &RunContext<'_>| closure(run).into_outcome(),
        );
        let key = key.unwrap_or_else(CostKey::of_type::<H>);
        let call = (RunsInside::of(core, &request, claims.len()), OperatorCall::Sync(call));
        Operator::new(core, request, claims, call, key)
    }

    pub(crate) fn new_async<K>(
        core: &Core,
        request: Request,
        claims: &[Claim],
        key: Option<u64>,
        closure: K,
    ) -> Result<Operator, Error>
    where
        K: Fn(&RunContext<'_>, Completion) + Send + Sync + 'static,
    {
        let key = key.unwrap_or_else(type_key::<K>);
        // Where it starts is decided when it has its tickets: `HeldAsync` has the key.
        let call = (RunsInside::Never, OperatorCall::Async(Box::new(Keyed { key, closure })));
        Operator::new(core, Operator::usual(request), claims, call, CostKey::given(key))
    }

    /// Each push of an operator says the context and the priority.
    fn usual(request: Request) -> Request {
        Request { context: Context::cpu(0), priority: 0, ..request }
    }

    fn new(
        core: &Core,
        request: Request,
        claims: &[Claim],
        (inside, call): (RunsInside, OperatorCall),
        key: CostKey,
    ) -> Result<Operator, Error> {
        for claim in claims {
            resolve(core, claim.variable)?;
        }
        let (engine, inline_policy) = (core.memory.id, Arc::clone(&core.inline_policy));
        let key = core.learned.has(request.property).then_some(key);
        let located = claims.iter().map(|claim| (*claim, Location::of(claim.variable.index))).collect();
        let class = class_of(&request, claims.len(), HELD);
        let claims = claims.into();
        Ok(Operator(Arc::new(OperatorState {
            engine,
            inside,
            class,
            call,
            claims,
            located,
            request,
            inline_policy,
            key,
        })))
    }

    /// Returns the parts that `Capture::push` records: the name, the property, the variables and a
    /// body that holds the closure.
    pub(crate) fn captured(&self, core: &Core) -> Result<(Name, Property, &[Claim], Body), Error> {
        self.check(core)?;
        let inner = &self.0;
        let held = Arc::clone(inner);
        let body = match &inner.call {
            OperatorCall::Sync(_) => sync(move |run| match &held.call {
                OperatorCall::Sync(call) => call.call(run),
                OperatorCall::Async(_) => Ok(()),
            }),
            OperatorCall::Async(_) => detached(move |run, completion| {
                if let OperatorCall::Async(call) = &held.call {
                    (call.closure)(run, completion);
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

    /// Pushes the operator once more: for `Engine::push`. An operation runs here if it may and its
    /// tickets come at once; else [`Operator::push_held`] pushes it.
    #[inline(always)]
    pub(crate) fn push(&self, core: &Arc<Core>, context: Context, priority: i32) -> Result<(), Error> {
        self.check(core)?;
        let inner = &*self.0;
        let inside = matches!(inner.inside, RunsInside::Always)
            || matches!(inner.inside, RunsInside::WhenShort) && inner.inline_policy.runs_inside(|| inner.key);
        let mut tried = Tried::NotNow;
        if let (true, OperatorCall::Sync(call)) = (inside && context == Context::cpu(0), &inner.call) {
            tried = call.run_inside(inner, core);
        }
        match tried {
            Tried::Ran => Ok(()),
            tried => self.push_held(core, context, priority, matches!(tried, Tried::Busy)),
        }
    }

    /// Pushes the operator with limits, as a closure that is used once: for `Engine::push_limited`.
    pub(crate) fn push_limited(&self, core: &Arc<Core>, to: (Context, i32), limits: StartLimits) -> Result<(), Error> {
        self.check(core)?;
        let (held, request) = (Arc::clone(&self.0), Request { context: to.0, priority: to.1, ..self.0.request });
        if let OperatorCall::Async(_) = held.call {
            return self.push_async(core, &request, Limited { limits, function: HeldAsync(held) });
        }
        // Not measured: so the usual calls are, in one place, which is inlined.
        let call = move |run: &RunContext<'_>| {
            start(limits, held, |held| match &held.call {
                OperatorCall::Sync(call) => call.call(run),
                OperatorCall::Async(_) => Ok(()),
            })
        };
        push(core, &request, self.0.declared(), unlearned_vtable(&call), call)
    }

    /// Pushes an operation that does not run inside the push, or has many variables. `behind` says
    /// that it would have run here, but its variables were busy.
    #[inline(never)]
    fn push_held(&self, core: &Arc<Core>, context: Context, priority: i32, mut behind: bool) -> Result<(), Error> {
        let inner = &*self.0;
        if let OperatorCall::Async(_) = inner.call {
            let request = Request { context, priority, ..inner.request };
            return self.push_async(core, &request, HeldAsync(Arc::clone(&self.0)));
        }
        if let RunsInside::Wide = inner.inside {
            match inner.run_wide(core, context) {
                Tried::Ran => return Ok(()),
                tried => behind = matches!(tried, Tried::Busy),
            }
        }
        // Each operation in flight keeps the closure alive.
        let held = Arc::clone(&self.0);
        let call = move |run: &RunContext<'_>| held.call(run);
        let request = &inner.request;
        let usual = context == request.context && priority == request.priority && !behind;
        let body = unlearned_vtable(&call);
        erase(body, call, |call| {
            let mut tried = Tried::NotNow;
            if let Some(class) = inner.class.filter(|_| usual) {
                assert!(call.size() == HELD, "it holds the operator and nothing else");
                let kind = (request.property, request.name);
                let is_logged = call.offer(|from| {
                    // SAFETY: `from` holds a closure of this size, and is used no more if the
                    // operation was logged. The class is that of these claims and such a closure.
                    unsafe {
                        let store = |to: *mut u8| to.copy_from_nonoverlapping(from, HELD);
                        tried = push_known(core, class, kind, &inner.declared(), body, store);
                    }
                    matches!(tried, Tried::Ran)
                });
                if is_logged {
                    return Ok(());
                }
            }
            let request = &Request { context, priority, ..inner.request };
            match behind {
                true => push_behind(core, request, &inner.claims, call),
                false => push_enlisted(core, request, &inner.claims, call, permit_of(core, &tried)),
            }
        })
    }

    #[inline(never)]
    fn push_async(&self, core: &Arc<Core>, request: &Request, call: impl AsyncFunction) -> Result<(), Error> {
        erase(async_vtable(&call), call, |call| push_erased(core, request, &self.0.claims[..], call))
    }
}

impl OperatorState {
    /// Calls the closure of a synchronous operation that has a block, and measures it.
    #[inline(always)]
    fn call(&self, run: &RunContext<'_>) -> Result<(), Source> {
        match &self.call {
            OperatorCall::Sync(call) => self.inline_policy.measure(|| self.key, || call.call(run)),
            OperatorCall::Async(_) => Ok(()),
        }
    }

    #[inline(always)]
    fn declared(&self) -> Declared<'_> {
        Declared { claims: &self.claims, located: &self.located }
    }

    /// Runs an operation with more than [`fast_path::FEW`] variables inside its push, if it may and
    /// its tickets have come.
    #[cold]
    #[inline(never)]
    fn run_wide(&self, core: &Arc<Core>, context: Context) -> Tried {
        let OperatorCall::Sync(call) = &self.call else { return Tried::NotNow };
        let request = &Request { context, ..self.request };
        if !runs_here(core, request, || self.inline_policy.runs_inside(|| self.key)) {
            return Tried::NotNow;
        }
        let mut call =
            |run: &RunContext<'_>| catch_call(run, || self.inline_policy.measure(|| self.key, || call.call(run)));
        fast_path::run_wide(core, request, &self.claims, &mut call)
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
