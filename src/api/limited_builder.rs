//! `LimitedBuilder`: the builder form of a push with limits, a token or a deadline.
//! `OperationBuilder::token`, `deadline` and `limits` make it, and stand here so that
//! `src/api/operation.rs` need not know it. Its other methods are those that end such a builder.
//! One thread at a time has it.
//!
//! Each of them wraps the program's closure (`src/engine/limited.rs`) or future
//! (`src/engine/future/limited.rs`), and pushes it by the method of `OperationBuilder` with the
//! same name. Those with results of values are in `src/api/typed/compute.rs`. So a push without
//! limits is not longer for it. Operators, graphs and pipelines take limits where they are pushed:
//! `src/api/operator.rs`, `graph.rs` and `pipeline.rs`.

#![forbid(unsafe_code)]

use crate::api::operation::OperationBuilder;
use crate::api::pending::Pending;
use crate::api::typed::resources::Resources;
use crate::engine::future::limited::LimitedFuture;
use crate::engine::limited::{start, Limited};
use crate::error::Error;
use crate::operation::async_closure::AsyncFunction;
use crate::operation::cancel_token::CancelToken;
use crate::operation::closure::IntoOutcome;
use crate::operation::completion::Completion;
use crate::operation::context::RunContext;
use crate::operation::start_limits::StartLimits;
use std::fmt;
use std::future::Future;
use std::time::Instant;

/// An operation that is being put together, and that starts only within its limits:
/// [`StartLimits`] says what they are. [`OperationBuilder::token`] and
/// [`deadline`](OperationBuilder::deadline) make it.
///
/// Its methods push as those of [`OperationBuilder`] do, and return the same errors. Limits take 24
/// of the 512 bytes that a closure may have without an allocation.
///
/// ```
/// use seriatim::{CancelToken, Engine};
/// use std::time::{Duration, Instant};
/// let engine = Engine::new()?;
/// let (x, token) = (engine.new_variable(), CancelToken::new());
/// let soon = Instant::now() + Duration::from_secs(60);
/// engine.op("both").write(x).token(&token).deadline(soon).push(|_| ())?;
/// engine.wait_for_var(x)?;
/// # Ok::<(), seriatim::Error>(())
/// ```
#[must_use = "an operation is not pushed until push() is called"]
pub struct LimitedBuilder<'a> {
    pub(in crate::api) builder: OperationBuilder<'a>,
    pub(in crate::api) limits: StartLimits,
}

impl<'a> OperationBuilder<'a> {
    /// Puts the operation into the group of a [`CancelToken`]: it is skipped if the token is
    /// cancelled before it has started. Call it last, before the operation is pushed.
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// let token = seriatim::CancelToken::new();
    /// token.cancel();
    /// engine.op("late").token(&token).push(|_| ())?;
    /// assert_eq!(engine.wait_for_all().unwrap_err().kind(), seriatim::ErrorKind::Cancelled);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    #[inline]
    pub fn token(self, token: &CancelToken) -> LimitedBuilder<'a> {
        self.limits(token)
    }

    /// Drops the operation if it has not started by this time: it is then skipped as by a
    /// [`token`](Self::token), with [`DeadlineExceeded`](crate::ErrorKind::DeadlineExceeded), when
    /// its turn comes. Call it last, before the operation is pushed.
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    /// # let engine = seriatim::Engine::new()?;
    /// engine.op("in time").deadline(Instant::now() + Duration::from_secs(60)).push(|_| ())?;
    /// engine.wait_for_all()?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    #[inline]
    pub fn deadline(self, deadline: Instant) -> LimitedBuilder<'a> {
        self.limits(deadline)
    }

    /// Gives the operation a [`token`](Self::token), a [`deadline`](Self::deadline), or both.
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// let limits: seriatim::StartLimits = (&seriatim::CancelToken::new()).into();
    /// engine.op("one of many").limits(limits.clone()).push(|_| ())?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    #[inline]
    pub fn limits(self, limits: impl Into<StartLimits>) -> LimitedBuilder<'a> {
        LimitedBuilder { builder: self, limits: limits.into() }
    }
}

impl<'a> LimitedBuilder<'a> {
    /// Adds a token, in place of an earlier one: see [`OperationBuilder::token`].
    ///
    /// ```
    /// # use std::time::{Duration, Instant};
    /// # let engine = seriatim::Engine::new()?;
    /// # let (token, soon) = (seriatim::CancelToken::new(), Instant::now() + Duration::from_secs(60));
    /// engine.op("both").deadline(soon).token(&token).push(|_| ())?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn token(self, token: &CancelToken) -> LimitedBuilder<'a> {
        LimitedBuilder { limits: self.limits.token(token), ..self }
    }

    /// Adds a deadline, in place of an earlier one: see [`OperationBuilder::deadline`].
    ///
    /// ```
    /// # use std::time::{Duration, Instant};
    /// # let engine = seriatim::Engine::new()?;
    /// # let (token, soon) = (seriatim::CancelToken::new(), Instant::now() + Duration::from_secs(60));
    /// engine.op("both").token(&token).deadline(soon).push(|_| ())?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn deadline(self, deadline: Instant) -> LimitedBuilder<'a> {
        LimitedBuilder { limits: self.limits.deadline(deadline), ..self }
    }

    /// Pushes the operation, as [`OperationBuilder::push`] does.
    ///
    /// # Errors
    /// See [`Engine::push_sync`](crate::Engine::push_sync). A token that is cancelled already is no
    /// error of the push: the operation is pushed, and skipped in its turn.
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// let token = seriatim::CancelToken::new();
    /// engine.op("task").token(&token).push(|_| ())?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    #[inline]
    pub fn push<F, R>(self, closure: F) -> Result<(), Error>
    where
        F: FnOnce(&RunContext<'_>) -> R + Send + 'static,
        R: IntoOutcome,
    {
        let limits = self.limits;
        let call = move |run: &RunContext<'_>| start(limits, closure, |closure| closure(run).into_outcome());
        self.builder.push(call)
    }

    /// Pushes an asynchronous operation, as [`OperationBuilder::push_async`] does. It has started
    /// when its closure is called: from then on its completion ends it.
    ///
    /// # Errors
    /// See [`push`](LimitedBuilder::push).
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// let token = seriatim::CancelToken::new();
    /// engine.op("task").token(&token).push_async(|_, completion| completion.complete())?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn push_async<G>(self, closure: G) -> Result<(), Error>
    where
        G: FnOnce(&RunContext<'_>, Completion) + Send + 'static,
    {
        let limited = Limited { limits: self.limits, function: closure };
        self.builder.push_async(move |run, completion| limited.start(run, completion))
    }

    /// Pushes a future as an operation, as [`OperationBuilder::push_future`] does. The deadline is
    /// for its first poll. The token is looked at before each poll: a cancelled future is dropped,
    /// and not polled again, and its operation fails with
    /// [`Cancelled`](crate::ErrorKind::Cancelled).
    ///
    /// Cancelling wakes nobody. A future that waits is dropped when its waker is called next, so
    /// let what it waits for end, or have it wait for the cancellation as well.
    ///
    /// # Errors
    /// See [`push`](LimitedBuilder::push). The future is dropped then.
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// let token = seriatim::CancelToken::new();
    /// token.cancel();
    /// engine.op("fetch").token(&token).push_future(async { unreachable!("it is not polled") as () })?;
    /// assert_eq!(engine.wait_for_all().unwrap_err().kind(), seriatim::ErrorKind::Cancelled);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn push_future<F>(self, future: F) -> Result<(), Error>
    where
        F: Future + Send + 'static,
        F::Output: IntoOutcome,
    {
        self.builder.push_future(LimitedFuture::new(self.limits, future))
    }

    /// Pushes an operation with a result, as [`OperationBuilder::compute`] does. If it is skipped
    /// by its limits, the result is that error.
    ///
    /// # Errors
    /// See [`push`](LimitedBuilder::push).
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// let token = seriatim::CancelToken::new();
    /// token.cancel();
    /// let sum = engine.op("sum").token(&token).compute(|_| 42)?;
    /// assert_eq!(sum.wait().unwrap_err().kind(), seriatim::ErrorKind::Cancelled);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    #[inline]
    pub fn compute<F, T>(self, closure: F) -> Result<Pending<T>, Error>
    where
        F: FnOnce(&RunContext<'_>) -> T + Send + 'static,
        T: Send + 'static,
    {
        let limits = self.limits;
        self.builder.try_compute(move |run| start(limits, closure, |closure| Ok(closure(run))))
    }

    /// As [`compute`](LimitedBuilder::compute), for a closure that may fail.
    ///
    /// # Errors
    /// See [`push`](LimitedBuilder::push).
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// let token = seriatim::CancelToken::new();
    /// let parsed = engine.op("parse").token(&token).try_compute(|_| "12".parse::<u32>())?;
    /// assert_eq!(parsed.wait()?, 12);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    #[inline]
    pub fn try_compute<F, T, E>(self, closure: F) -> Result<Pending<T>, Error>
    where
        F: FnOnce(&RunContext<'_>) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let limits = self.limits;
        self.builder.try_compute(move |run| start(limits, closure, |closure| closure(run).map_err(E::into)))
    }

    /// Pushes an operation that is lent values, as [`OperationBuilder::run`] does.
    ///
    /// # Errors
    /// See [`OperationBuilder::run`].
    ///
    /// ```
    /// use seriatim::{CancelToken, Engine, Write};
    /// let engine = Engine::new()?;
    /// let (x, token) = (engine.value(1), CancelToken::new());
    /// engine.op("double").token(&token).run(Write(&x), |x| *x *= 2)?;
    /// assert_eq!(*x.read()?, 2);
    /// token.cancel();
    /// engine.op("double").token(&token).run(Write(&x), |x| *x *= 2)?;
    /// assert!(x.read().is_err());
    /// assert_eq!(*x.read()?, 2);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    #[inline]
    pub fn run<V, F, R>(self, resources: V, closure: F) -> Result<(), Error>
    where
        V: Resources,
        F: for<'v> FnOnce(V::Item<'v>) -> R + Send + 'static,
        R: IntoOutcome,
    {
        self.run_with(resources, move |_: &RunContext<'_>, items: V::Item<'_>| closure(items))
    }

    /// As [`run`](LimitedBuilder::run), with the run context.
    ///
    /// # Errors
    /// See [`OperationBuilder::run`].
    ///
    /// ```
    /// use seriatim::{CancelToken, Engine, Write};
    /// let engine = Engine::new()?;
    /// let (name, token) = (engine.value(String::new()), CancelToken::new());
    /// engine.op("named").token(&token).run_with(Write(&name), |run, name| *name = run.name().into())?;
    /// assert_eq!(*name.read()?, "named");
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    #[inline]
    pub fn run_with<V, F, R>(self, resources: V, closure: F) -> Result<(), Error>
    where
        V: Resources,
        F: for<'v> FnOnce(&RunContext<'_>, V::Item<'v>) -> R + Send + 'static,
        R: IntoOutcome,
    {
        let limits = self.limits;
        self.builder.run_with(resources, move |run: &RunContext<'_>, items: V::Item<'_>| {
            start(limits, closure, |closure| closure(run, items).into_outcome())
        })
    }
}

impl fmt::Debug for LimitedBuilder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LimitedBuilder").field("builder", &self.builder).field("limits", &self.limits).finish()
    }
}
