//! Pushes for interfaces to other languages: the variables are read where they lie, in the form `V`
//! that they have there. What a closure costs is learned for each key that the caller gives, or
//! that its [`AsyncFunction`] has, and not for each type. `capi/src/operation.rs` calls them, on
//! any thread. In all else they are `push_sync` and `push_async` of `api/push.rs`.

#![forbid(unsafe_code)]

use crate::api::engine::Engine;
use crate::device::Context;
use crate::engine::draft::VariableLists;
use crate::engine::limited::{start, Limited};
use crate::engine::push::push;
use crate::engine::request::Request;
use crate::error::Error;
use crate::operation::async_closure::{async_vtable, AsyncFunction};
use crate::operation::block::FLAG_PROFILED;
use crate::operation::closure::{IntoOutcome, Keyed};
use crate::operation::context::RunContext;
use crate::operation::name::Name;
use crate::operation::property::Property;
use crate::operation::start_limits::StartLimits;
use crate::variable::handle::Variable;

/// An operation but for its closure. No part of the interface that is promised to stay.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Listed<'a, V> {
    pub name: Name,
    pub context: Context,
    pub property: Property,
    pub priority: i32,
    pub is_profiled: bool,
    pub reads: &'a [V],
    pub writes: &'a [V],
}

impl<'a, V> Listed<'a, V> {
    #[inline]
    fn parts(&self) -> (Request, VariableLists<'a, V>) {
        let Listed { name, context, property, priority, is_profiled, reads, writes } = *self;
        let flags = if is_profiled { FLAG_PROFILED } else { 0 };
        (Request { context, property, priority, name, flags }, VariableLists { reads, writes })
    }
}

impl Engine {
    /// Like [`Engine::push_sync`], with a key as of
    /// [`cost_key`](crate::OperationBuilder::cost_key).
    #[doc(hidden)]
    #[inline]
    pub fn push_listed<V, F, R>(&self, operation: &Listed<'_, V>, key: u64, closure: F) -> Result<(), Error>
    where
        V: Copy + Into<Variable>,
        F: FnOnce(&RunContext<'_>) -> R + Send + 'static,
        R: IntoOutcome,
    {
        let ((request, variables), keyed) = (operation.parts(), Keyed { key, closure });
        push(self.core(), &request, variables, keyed.vtable(), keyed)
    }

    /// Like [`Engine::push_async`]. The function has its key.
    #[doc(hidden)]
    #[inline]
    pub fn push_listed_async<V, G>(&self, operation: &Listed<'_, V>, function: G) -> Result<(), Error>
    where
        V: Copy + Into<Variable>,
        G: AsyncFunction,
    {
        let (request, variables) = operation.parts();
        push(self.core(), &request, variables, async_vtable(&function), function)
    }
    /// Like [`Engine::push_listed`], within limits.
    #[doc(hidden)]
    pub fn push_listed_limited<V, F, R>(
        &self,
        operation: &Listed<'_, V>,
        key: u64,
        limits: StartLimits,
        closure: F,
    ) -> Result<(), Error>
    where
        V: Copy + Into<Variable>,
        F: FnOnce(&RunContext<'_>) -> R + Send + 'static,
        R: IntoOutcome,
    {
        let call = move |run: &RunContext<'_>| start(limits, closure, |closure| closure(run).into_outcome());
        self.push_listed(operation, key, call)
    }

    /// Like [`Engine::push_listed_async`], within limits.
    #[doc(hidden)]
    pub fn push_listed_async_limited<V, G>(
        &self,
        operation: &Listed<'_, V>,
        limits: StartLimits,
        function: G,
    ) -> Result<(), Error>
    where
        V: Copy + Into<Variable>,
        G: AsyncFunction,
    {
        self.push_listed_async(operation, Limited { limits, function })
    }
}
