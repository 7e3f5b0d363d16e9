//! `KeyedBuilder`: the builder form of a push whose cost is learned by a key of the program's.
//! `OperationBuilder::cost_key` in `src/api/operation.rs` makes it, and its methods are those that
//! end such a builder. One thread at a time has it.

#![forbid(unsafe_code)]

use crate::api::engine::Engine;
use crate::api::operator::Operator;
use crate::engine::draft::Draft;
use crate::engine::inline::cost_key::CostKey;
use crate::engine::push::push;
use crate::error::Error;
use crate::operation::async_closure::async_vtable;
use crate::operation::closure::{IntoOutcome, Keyed};
use crate::operation::completion::Completion;
use crate::operation::context::RunContext;
use std::fmt;

/// An operation that is being put together and has a key for its cost, from
/// [`OperationBuilder::cost_key`](crate::OperationBuilder::cost_key).
///
/// ```
/// let engine = seriatim::Engine::new()?;
/// let boxed: Box<dyn FnOnce() + Send> = Box::new(|| ());
/// engine.op("boxed").cost_key(1).push(move |_| boxed())?;
/// # Ok::<(), seriatim::Error>(())
/// ```
#[must_use = "an operation is not pushed until push() is called"]
pub struct KeyedBuilder<'a> {
    engine: &'a Engine,
    draft: Draft,
    key: u64,
}

impl<'a> KeyedBuilder<'a> {
    #[inline]
    pub(super) fn new(engine: &'a Engine, draft: Draft, key: u64) -> KeyedBuilder<'a> {
        KeyedBuilder { engine, draft, key }
    }

    /// Pushes the operation, as [`OperationBuilder::push`](crate::OperationBuilder::push) does.
    /// Closures of up to 504 bytes cost no allocation: the key takes eight.
    ///
    /// # Errors
    /// See [`Engine::push_sync`].
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// engine.op("task").cost_key(7).push(|_| ())?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    #[inline]
    pub fn push<F, R>(mut self, closure: F) -> Result<(), Error>
    where
        F: FnOnce(&RunContext<'_>) -> R + Send + 'static,
        R: IntoOutcome,
    {
        let ((request, claims), keyed) = (self.draft.parts(), Keyed { key: self.key, closure });
        push(self.engine.core(), request, claims, keyed.vtable(), keyed)
    }

    /// Makes a reusable [`Operator`], as
    /// [`OperationBuilder::operator`](crate::OperationBuilder::operator) does.
    ///
    /// # Errors
    /// See [`Engine::new_operator`].
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// let step = engine.op("step").cost_key(7).operator(|_| ())?;
    /// engine.push(&step, seriatim::Context::default(), 0)?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn operator<H, R>(mut self, closure: H) -> Result<Operator, Error>
    where
        H: Fn(&RunContext<'_>) -> R + Send + Sync + 'static,
        R: IntoOutcome,
    {
        let (request, key) = (*self.draft.request(), CostKey::given(self.key));
        Operator::new_sync(self.engine.core(), request, self.draft.ordered(), Some(key), closure)
    }

    /// Pushes an asynchronous operation, as
    /// [`OperationBuilder::push_async`](crate::OperationBuilder::push_async) does.
    ///
    /// # Errors
    /// See [`Engine::push_sync`].
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// engine.op("task").cost_key(7).push_async(|_, completion| completion.complete())?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn push_async<G>(mut self, closure: G) -> Result<(), Error>
    where
        G: FnOnce(&RunContext<'_>, Completion) + Send + 'static,
    {
        let ((request, claims), keyed) = (self.draft.parts(), Keyed { key: self.key, closure });
        push(self.engine.core(), request, claims, async_vtable(&keyed), keyed)
    }

    /// Makes a reusable asynchronous [`Operator`], as
    /// [`OperationBuilder::async_operator`](crate::OperationBuilder::async_operator) does.
    ///
    /// # Errors
    /// See [`Engine::new_operator`].
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// let tick = engine.op("tick").cost_key(7).async_operator(|_, completion| completion.complete())?;
    /// engine.push(&tick, seriatim::Context::default(), 0)?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn async_operator<K>(mut self, closure: K) -> Result<Operator, Error>
    where
        K: Fn(&RunContext<'_>, Completion) + Send + Sync + 'static,
    {
        let request = *self.draft.request();
        Operator::new_async(self.engine.core(), request, self.draft.ordered(), Some(self.key), closure)
    }
}

impl fmt::Debug for KeyedBuilder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyedBuilder('{}', {})", self.draft.request().name.as_str(), self.key)
    }
}
