//! Operations on values with a result: `compute_on` and `try_compute_on`. Programs call them on the
//! thread that pushes.
//!
//! The values are entered and lent as `run.rs` does it, and the result is a `Pending`
//! (`src/api/pending.rs`).

use crate::api::limited_builder::LimitedBuilder;
use crate::api::operation::OperationBuilder;
use crate::api::pending::Pending;
use crate::api::typed::resources::{refused, Entering, Resources};
use crate::engine::future::cell::promise;
use crate::engine::future::computed::Computed;
use crate::engine::limited::start;
use crate::engine::push::push;
use crate::error::Error;
use crate::operation::context::RunContext;
use std::convert::Infallible;

impl OperationBuilder<'_> {
    /// Pushes an operation on values, whose result is what the closure returns: as
    /// [`run`](OperationBuilder::run) lends values, and [`compute`](OperationBuilder::compute)
    /// gives results. A closure that may fail is for
    /// [`try_compute_on`](OperationBuilder::try_compute_on).
    ///
    /// # Errors
    /// Those of [`run`](OperationBuilder::run). Then there is no result.
    ///
    /// ```
    /// use seriatim::{Engine, Pending};
    /// let engine = Engine::new()?;
    /// let x = engine.value(vec![1.0, 2.0, 3.0]);
    /// let sum: Pending<f64> = engine.op("sum").compute_on(&x, |x| x.iter().sum())?;
    /// assert_eq!(sum.wait()?, 6.0);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    #[inline]
    pub fn compute_on<V, F, T>(self, resources: V, closure: F) -> Result<Pending<T>, Error>
    where
        V: Resources,
        F: for<'a> FnOnce(V::Item<'a>) -> T + Send + 'static,
        T: Send + 'static,
    {
        self.try_compute_on(resources, move |items: V::Item<'_>| Ok::<T, Infallible>(closure(items)))
    }

    /// Like [`compute_on`](OperationBuilder::compute_on), for a closure that may fail. Its error
    /// fails the operation, and is the result.
    ///
    /// # Errors
    /// Those of [`run`](OperationBuilder::run).
    ///
    /// ```
    /// use seriatim::{Engine, Write};
    /// let engine = Engine::new()?;
    /// let (text, count) = (engine.value(String::from("12")), engine.value(0));
    /// let parsed = engine.op("parse").try_compute_on((&text, Write(&count)), |(text, count)| {
    ///     *count += 1;
    ///     text.parse::<u32>()
    /// })?;
    /// assert_eq!((parsed.wait()?, *count.read()?), (12, 1));
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    #[inline]
    pub fn try_compute_on<V, F, T, E>(mut self, resources: V, closure: F) -> Result<Pending<T>, Error>
    where
        V: Resources,
        F: for<'a> FnOnce(V::Item<'a>) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let typed = self.draft.count();
        let mut entry = Entering::new(&mut self.draft);
        if let Err(error) = resources.check(&entry) {
            return refused(closure, error);
        }
        let held = resources.enter(&mut entry);
        let closure = move |_: &RunContext<'_>| {
            // SAFETY: this is the operation, whose claims are those that were entered.
            closure(unsafe { V::lend(&held) })
        };
        let core = self.engine.core();
        let (request, claims) = self.draft.typed_parts(typed);
        let (promise, awaited) = promise(core);
        let computed = Computed { closure, promise };
        push(core, request, claims, computed.vtable::<E>(), computed)?;
        Ok(Pending(awaited))
    }
}

impl LimitedBuilder<'_> {
    /// Pushes an operation on values with a result, as [`OperationBuilder::compute_on`] does. If it
    /// is skipped by its limits, the result is that error.
    ///
    /// # Errors
    /// See [`OperationBuilder::run`].
    ///
    /// ```
    /// use seriatim::{CancelToken, Engine, ErrorKind};
    /// let engine = Engine::new()?;
    /// let (x, token) = (engine.value(20), CancelToken::new());
    /// token.cancel();
    /// let double = engine.op("double").token(&token).compute_on(&x, |x| x * 2)?;
    /// assert_eq!(double.wait().unwrap_err().kind(), ErrorKind::Cancelled);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    #[inline]
    pub fn compute_on<V, F, T>(self, resources: V, closure: F) -> Result<Pending<T>, Error>
    where
        V: Resources,
        F: for<'a> FnOnce(V::Item<'a>) -> T + Send + 'static,
        T: Send + 'static,
    {
        let limits = self.limits;
        self.builder
            .try_compute_on(resources, move |items: V::Item<'_>| start(limits, closure, |closure| Ok(closure(items))))
    }

    /// As [`compute_on`](LimitedBuilder::compute_on), for a closure that may fail.
    ///
    /// # Errors
    /// See [`OperationBuilder::run`].
    ///
    /// ```
    /// let engine = seriatim::Engine::new()?;
    /// let (text, token) = (engine.value("12"), seriatim::CancelToken::new());
    /// let parsed = engine.op("parse").token(&token).try_compute_on(&text, |text| text.parse::<u32>())?;
    /// assert_eq!(parsed.wait()?, 12);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    #[inline]
    pub fn try_compute_on<V, F, T, E>(self, resources: V, closure: F) -> Result<Pending<T>, Error>
    where
        V: Resources,
        F: for<'a> FnOnce(V::Item<'a>) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let limits = self.limits;
        self.builder.try_compute_on(resources, move |items: V::Item<'_>| {
            start(limits, closure, |closure| closure(items).map_err(E::into))
        })
    }
}
