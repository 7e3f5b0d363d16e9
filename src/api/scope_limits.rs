//! What a `ScopeBuilder` has beside its variables: a priority, and limits within which the
//! operation has to start. Those make it a `LimitedScopeBuilder`, as `limited_builder.rs` does with
//! an `OperationBuilder`, so that an operation without limits is not longer for them.
//!
//! Programs call it on the thread that has opened the scope.

#![forbid(unsafe_code)]

use crate::api::scope::ScopeBuilder;
use crate::api::typed::resources::{InScope, Resources};
use crate::engine::limited::start;
use crate::error::Error;
use crate::operation::cancel_token::CancelToken;
use crate::operation::closure::IntoOutcome;
use crate::operation::context::RunContext;
use crate::operation::start_limits::StartLimits;
use std::fmt;
use std::time::Instant;

impl<'scope, 'env> ScopeBuilder<'scope, 'env> {
    /// Sets the priority, 0 by default: among ready operations, greater ones run first. It counts
    /// in a scope outside of operations. Those of a scope inside an operation run in the order in
    /// which they have become ready, whatever their priority.
    ///
    /// ```
    /// let (engine, mut urgent) = (seriatim::Engine::new()?, 0);
    /// engine.scope(|s| s.op("soon").priority(10).push(|_| urgent = 1))?;
    /// assert_eq!(urgent, 1);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn priority(mut self, priority: i32) -> Self {
        self.draft.request_mut().priority = priority;
        self
    }

    /// Puts the operation into the group of a [`CancelToken`]: it is skipped if the token is
    /// cancelled before it has started, and [`Engine::scope`](crate::Engine::scope) returns
    /// [`Cancelled`](crate::ErrorKind::Cancelled). Call it last, before the operation is pushed.
    ///
    /// ```
    /// use seriatim::{CancelToken, Engine, ErrorKind};
    /// let (engine, token) = (Engine::new()?, CancelToken::new());
    /// let found = engine.scope(|s| {
    ///     token.cancel();
    ///     s.op("search").token(&token).push(|_| unreachable!("it is skipped"))
    /// });
    /// assert_eq!(found.unwrap_err().kind(), ErrorKind::Cancelled);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn token(self, token: &CancelToken) -> LimitedScopeBuilder<'scope, 'env> {
        self.limits(token)
    }

    /// Drops the operation if it has not started by this time: it is then skipped as by a
    /// [`token`](ScopeBuilder::token), with
    /// [`DeadlineExceeded`](crate::ErrorKind::DeadlineExceeded). Call it last.
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    /// let (engine, mut answer) = (seriatim::Engine::new()?, 0);
    /// let soon = Instant::now() + Duration::from_secs(60);
    /// engine.scope(|s| s.op("in time").deadline(soon).push(|_| answer = 42))?;
    /// assert_eq!(answer, 42);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn deadline(self, deadline: Instant) -> LimitedScopeBuilder<'scope, 'env> {
        self.limits(deadline)
    }

    /// Gives the operation a [`token`](ScopeBuilder::token), a
    /// [`deadline`](ScopeBuilder::deadline), or both.
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// let limits: seriatim::StartLimits = (&seriatim::CancelToken::new()).into();
    /// engine.scope(|s| s.op("one of many").limits(limits.clone()).push(|_| ()))?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn limits(self, limits: impl Into<StartLimits>) -> LimitedScopeBuilder<'scope, 'env> {
        LimitedScopeBuilder { builder: self, limits: limits.into() }
    }
}

/// An operation of a scope that is being put together, and that starts only within its
/// [limits](StartLimits). [`ScopeBuilder::token`] and [`deadline`](ScopeBuilder::deadline) make it.
///
/// ```
/// use seriatim::{CancelToken, Engine, Write};
/// let (engine, token, mut text) = (Engine::new()?, CancelToken::new(), String::new());
/// engine.scope(|s| {
///     let text = s.part(&mut text);
///     s.op("append").token(&token).run(Write(&text), |text| text.push_str("in time"))
/// })?;
/// assert_eq!(text, "in time");
/// # Ok::<(), seriatim::Error>(())
/// ```
#[must_use = "an operation is not pushed until push() or run() is called"]
pub struct LimitedScopeBuilder<'scope, 'env: 'scope> {
    builder: ScopeBuilder<'scope, 'env>,
    limits: StartLimits,
}

impl<'scope> LimitedScopeBuilder<'scope, '_> {
    /// Adds a token, in place of an earlier one: see [`ScopeBuilder::token`].
    ///
    /// ```
    /// # use std::time::{Duration, Instant};
    /// # let engine = seriatim::Engine::new()?;
    /// # let (token, soon) = (seriatim::CancelToken::new(), Instant::now() + Duration::from_secs(60));
    /// engine.scope(|s| s.op("both").deadline(soon).token(&token).push(|_| ()))?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn token(self, token: &CancelToken) -> Self {
        LimitedScopeBuilder { limits: self.limits.token(token), ..self }
    }

    /// Adds a deadline, in place of an earlier one: see [`ScopeBuilder::deadline`].
    ///
    /// ```
    /// # use std::time::{Duration, Instant};
    /// # let engine = seriatim::Engine::new()?;
    /// # let (token, soon) = (seriatim::CancelToken::new(), Instant::now() + Duration::from_secs(60));
    /// engine.scope(|s| s.op("both").token(&token).deadline(soon).push(|_| ()))?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn deadline(self, deadline: Instant) -> Self {
        LimitedScopeBuilder { limits: self.limits.deadline(deadline), ..self }
    }

    /// Pushes the operation, as [`ScopeBuilder::push`] does. It has started when its closure is
    /// called.
    ///
    /// # Errors
    /// Those of [`ScopeBuilder::push`]. A token that is cancelled already is no error of the push.
    ///
    /// ```
    /// let (engine, token, mut x) = (seriatim::Engine::new()?, seriatim::CancelToken::new(), 1);
    /// engine.scope(|s| s.op("double").token(&token).push(|_| x *= 2))?;
    /// assert_eq!(x, 2);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn push<F, R>(self, closure: F) -> Result<(), Error>
    where
        F: FnOnce(&RunContext<'_>) -> R + Send + 'scope,
        R: IntoOutcome,
    {
        let limits = self.limits;
        let call = move |run: &RunContext<'_>| start(limits, closure, |closure| closure(run).into_outcome());
        self.builder.push(call)
    }

    /// Pushes the operation with what it uses, as [`ScopeBuilder::run`] does.
    ///
    /// # Errors
    /// Those of [`ScopeBuilder::run`].
    ///
    /// ```
    /// use seriatim::{CancelToken, Engine, Write};
    /// let (engine, token, mut x) = (Engine::new()?, CancelToken::new(), 1);
    /// engine.scope(|s| {
    ///     let x = s.part(&mut x);
    ///     s.op("double").token(&token).run(Write(&x), |x| *x *= 2)
    /// })?;
    /// assert_eq!(x, 2);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn run<V, F, R>(self, resources: V, closure: F) -> Result<(), Error>
    where
        V: Resources<InScope<'scope>>,
        F: for<'a> FnOnce(V::Item<'a>) -> R + Send + 'scope,
        R: IntoOutcome,
    {
        self.run_with(resources, move |_: &RunContext<'_>, items: V::Item<'_>| closure(items))
    }

    /// As [`run`](LimitedScopeBuilder::run), with the run context.
    ///
    /// # Errors
    /// Those of [`ScopeBuilder::run`].
    ///
    /// ```
    /// use seriatim::{CancelToken, Engine, Write};
    /// let (engine, token, mut name) = (Engine::new()?, CancelToken::new(), String::new());
    /// engine.scope(|s| {
    ///     let name = s.part(&mut name);
    ///     s.op("named").token(&token).run_with(Write(&name), |run, name| *name = run.name().to_owned())
    /// })?;
    /// assert_eq!(name, "named");
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn run_with<V, F, R>(self, resources: V, closure: F) -> Result<(), Error>
    where
        V: Resources<InScope<'scope>>,
        F: for<'a> FnOnce(&RunContext<'_>, V::Item<'a>) -> R + Send + 'scope,
        R: IntoOutcome,
    {
        let limits = self.limits;
        self.builder.run_with(resources, move |run: &RunContext<'_>, items: V::Item<'_>| {
            start(limits, closure, |closure| closure(run, items).into_outcome())
        })
    }
}

impl fmt::Debug for LimitedScopeBuilder<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LimitedScopeBuilder").field("builder", &self.builder).field("limits", &self.limits).finish()
    }
}
