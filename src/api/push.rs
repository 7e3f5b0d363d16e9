//! The methods of `Engine` that push: the builder form, the long forms, operators and deletions.
//!
//! They are called by programs, and on any thread. Each turns its arguments into a `Request` and
//! claims, and ends in `push` of `src/engine/push/mod.rs`; those of operators end in
//! `src/api/operator.rs`. The same pushes in builder form are in `src/api/operation.rs`, and
//! `tests/forms.rs` compares the forms.

#![forbid(unsafe_code)]

use crate::api::engine::Engine;
use crate::api::operation::OperationBuilder;
use crate::api::operator::Operator;
use crate::device::Context;
use crate::engine::draft::VariableLists;
use crate::engine::push;
use crate::engine::request::{Claim, Request};
use crate::error::Error;
use crate::operation::access::Mode;
use crate::operation::async_closure::async_vtable;
use crate::operation::block::FLAG_DELETE;
use crate::operation::closure::{sync_vtable, IntoOutcome};
use crate::operation::completion::Completion;
use crate::operation::context::RunContext;
use crate::operation::name::Name;
use crate::operation::property::Property;
use crate::operation::start_limits::StartLimits;
use crate::variable::handle::Variable;

impl Engine {
    /// Starts an operation in builder form. Nothing is pushed until its
    /// [`push`](OperationBuilder::push).
    ///
    /// ```
    /// let engine = seriatim::Engine::new()?;
    /// let [x, y] = [engine.new_variable(), engine.new_variable()];
    /// engine.op("axpy").reads([x]).writes([y]).priority(2).push(|_| ())?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    #[inline]
    pub fn op(&self, name: impl Into<Name>) -> OperationBuilder<'_> {
        OperationBuilder::new(self, name.into())
    }

    /// Pushes an operation that ends when its closure returns. Lock-free; allocates nothing in
    /// steady state for closures of up to 512 bytes; takes time proportional to the number of
    /// variables.
    ///
    /// Worst case: its own steps, the steps of operations that other threads are in the middle of
    /// pushing, and a slice of the blocks that have come back. If none is free, 64 blocks are made.
    /// `src/engine/README.md` has it in full.
    ///
    /// # Errors
    /// The closure is not called on [`VariableDeleted`](crate::ErrorKind::VariableDeleted),
    /// [`ForeignVariable`](crate::ErrorKind::ForeignVariable),
    /// [`PrivateVariable`](crate::ErrorKind::PrivateVariable),
    /// [`UnknownDevice`](crate::ErrorKind::UnknownDevice),
    /// [`DeviceUnavailable`](crate::ErrorKind::DeviceUnavailable),
    /// [`DeviceLost`](crate::ErrorKind::DeviceLost), [`EngineFull`](crate::ErrorKind::EngineFull)
    /// (at the bound with [`WhenFull::WouldBlock`](crate::WhenFull::WouldBlock), or for more than 8
    /// million variables), [`Stopped`](crate::ErrorKind::Stopped). The push that finds workers
    /// missing starts them: then also on [`ThreadRefused`](crate::ErrorKind::ThreadRefused) and
    /// [`PriorityRefused`](crate::ErrorKind::PriorityRefused). It is dropped before the call
    /// returns; but if another thread deletes a variable during the call, it may be dropped later,
    /// when the other variables are free.
    ///
    /// # Panics
    /// Never. A panic of the closure fails the operation.
    ///
    /// ```
    /// use seriatim::{Context, Engine, Property};
    /// let engine = Engine::new()?;
    /// let [x, y] = [engine.new_variable(), engine.new_variable()];
    /// engine.push_sync(|_| (), Context::cpu(0), &[x], &[y], Property::Normal, 0, "copy")?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    #[allow(clippy::too_many_arguments)]
    #[inline]
    pub fn push_sync<F, R>(
        &self,
        closure: F,
        context: Context,
        reads: &[Variable],
        writes: &[Variable],
        property: Property,
        priority: i32,
        name: impl Into<Name>,
    ) -> Result<(), Error>
    where
        F: FnOnce(&RunContext<'_>) -> R + Send + 'static,
        R: IntoOutcome,
    {
        let request = Request { context, property, priority, ..Request::named(name.into()) };
        push::push(self.core(), &request, VariableLists { reads, writes }, sync_vtable(&closure), closure)
    }

    /// Pushes an asynchronous operation, which ends when its [`Completion`] says so, on any thread.
    /// A worker calls the closure, or the push itself: on the naive engine, with
    /// [`Property::Async`], and where the closure is short, as
    /// [`short`](crate::OperationBuilder::short) says.
    ///
    /// Worst case: the same as for [`push_sync`](Engine::push_sync).
    ///
    /// # Errors
    /// Those of [`push_sync`](Engine::push_sync).
    ///
    /// ```
    /// use seriatim::{Context, Engine, Property};
    /// let engine = Engine::new()?;
    /// let x = engine.new_variable();
    /// let start = |_: &seriatim::RunContext<'_>, completion: seriatim::Completion| {
    ///     std::thread::spawn(move || completion.complete());
    /// };
    /// engine.push_async(start, Context::cpu(0), &[], &[x], Property::Async, 0, "read")?;
    /// engine.wait_for_var(x)?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    #[allow(clippy::too_many_arguments)]
    pub fn push_async<G>(
        &self,
        closure: G,
        context: Context,
        reads: &[Variable],
        writes: &[Variable],
        property: Property,
        priority: i32,
        name: impl Into<Name>,
    ) -> Result<(), Error>
    where
        G: FnOnce(&RunContext<'_>, Completion) + Send + 'static,
    {
        let request = Request { context, property, priority, ..Request::named(name.into()) };
        push::push(self.core(), &request, VariableLists { reads, writes }, async_vtable(&closure), closure)
    }

    fn long_form(
        &self,
        context: Context,
        reads: &[Variable],
        writes: &[Variable],
        property: Property,
        priority: i32,
        name: Name,
    ) -> OperationBuilder<'_> {
        self.op(name)
            .context(context)
            .reads(reads.iter().copied())
            .writes(writes.iter().copied())
            .property(property)
            .priority(priority)
    }

    /// Makes a reusable [`Operator`]: a closure and its variables, which [`push`](Engine::push)
    /// pushes any number of times.
    ///
    /// # Errors
    /// [`VariableDeleted`](crate::ErrorKind::VariableDeleted),
    /// [`ForeignVariable`](crate::ErrorKind::ForeignVariable),
    /// [`PrivateVariable`](crate::ErrorKind::PrivateVariable).
    ///
    /// ```
    /// use seriatim::{Context, Engine, Property};
    /// let engine = Engine::new()?;
    /// let x = engine.new_variable();
    /// let step = engine.new_operator(|_| (), &[], &[x], Property::Normal, "step")?;
    /// engine.push(&step, Context::cpu(0), 0)?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn new_operator<H, R>(
        &self,
        closure: H,
        reads: &[Variable],
        writes: &[Variable],
        property: Property,
        name: impl Into<Name>,
    ) -> Result<Operator, Error>
    where
        H: Fn(&RunContext<'_>) -> R + Send + Sync + 'static,
        R: IntoOutcome,
    {
        self.long_form(Context::cpu(0), reads, writes, property, 0, name.into()).operator(closure)
    }

    /// Makes a reusable asynchronous [`Operator`]. Like [`new_operator`](Engine::new_operator), but
    /// its operations end when their [`Completion`] says so.
    ///
    /// # Errors
    /// Those of [`new_operator`](Engine::new_operator).
    ///
    /// ```
    /// use seriatim::{Completion, Context, Engine, Property, RunContext};
    /// let engine = Engine::new()?;
    /// let tick = |_: &RunContext<'_>, completion: Completion| completion.complete();
    /// let tick = engine.new_async_operator(tick, &[], &[], Property::Async, "tick")?;
    /// engine.push(&tick, Context::cpu(0), 0)?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn new_async_operator<K>(
        &self,
        closure: K,
        reads: &[Variable],
        writes: &[Variable],
        property: Property,
        name: impl Into<Name>,
    ) -> Result<Operator, Error>
    where
        K: Fn(&RunContext<'_>, Completion) + Send + Sync + 'static,
    {
        self.long_form(Context::cpu(0), reads, writes, property, 0, name.into()).async_operator(closure)
    }

    /// Pushes an operator once more, as a new operation. Earlier operations of it may still be in
    /// flight.
    ///
    /// Worst case: the same as for [`push_sync`](Engine::push_sync), but the variables are sorted
    /// already.
    ///
    /// # Errors
    /// Those of [`push_sync`](Engine::push_sync), and
    /// [`ForeignOperator`](crate::ErrorKind::ForeignOperator).
    ///
    /// ```
    /// use seriatim::{Context, Engine};
    /// let engine = Engine::new()?;
    /// let step = engine.op("step").operator(|_| ())?;
    /// for _ in 0..3 {
    ///     engine.push(&step, Context::cpu(0), 0)?;
    /// }
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    #[inline]
    pub fn push(&self, operator: &Operator, context: Context, priority: i32) -> Result<(), Error> {
        operator.push(self.core(), context, priority)
    }

    /// Like [`push`](Engine::push), but the operation starts only within its limits: a token, a
    /// deadline, or both. Operators that are declared short, and those of engines with
    /// [`inline_below`](crate::Builder::inline_below), are shipped to a worker all the same.
    ///
    /// # Errors
    /// Those of [`push`](Engine::push). A token that is cancelled already is none: the operation is
    /// pushed, and skipped in its turn.
    ///
    /// ```
    /// use seriatim::{CancelToken, Context, Engine, ErrorKind};
    /// let engine = Engine::new()?;
    /// let (x, token) = (engine.new_variable(), CancelToken::new());
    /// let step = engine.op("step").write(x).operator(|_| ())?;
    /// engine.push_limited(&step, Context::cpu(0), 0, &token)?;
    /// engine.wait_for_var(x)?;
    /// token.cancel();
    /// engine.push_limited(&step, Context::cpu(0), 0, &token)?;
    /// assert_eq!(engine.wait_for_var(x).unwrap_err().kind(), ErrorKind::Cancelled);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn push_limited(
        &self,
        operator: &Operator,
        context: Context,
        priority: i32,
        limits: impl Into<StartLimits>,
    ) -> Result<(), Error> {
        operator.push_limited(self.core(), (context, priority), limits.into())
    }

    /// Drops this handle of an operator, as `drop` does. The closure is dropped with the last
    /// handle, or after the last operation of it if that ends later.
    ///
    /// ```
    /// let engine = seriatim::Engine::new()?;
    /// let step = engine.op("step").operator(|_| ())?;
    /// engine.push(&step, seriatim::Context::cpu(0), 0)?;
    /// engine.delete_operator(step);
    /// engine.wait_for_all()?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn delete_operator(&self, operator: Operator) {
        drop(operator);
    }

    /// Deletes a variable: `closure` runs after its last use, and every copy of the handle is
    /// refused from now on.
    ///
    /// The closure runs even if the variable is marked by a failure.
    ///
    /// Worst case: the same as for [`push_sync`](Engine::push_sync) with one variable.
    ///
    /// # Errors
    /// Those of [`push_sync`](Engine::push_sync); the variable then lives on.
    ///
    /// ```
    /// use seriatim::{Context, Engine, ErrorKind};
    /// let engine = Engine::new()?;
    /// let x = engine.new_variable();
    /// engine.op("use").writes([x]).push(|_| ())?;
    /// engine.delete_variable(|_| println!("nobody uses it any more"), Context::cpu(0), x)?;
    /// let refused = engine.op("late").reads([x]).push(|_| ());
    /// assert_eq!(refused.unwrap_err().kind(), ErrorKind::VariableDeleted);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn delete_variable<F, R>(&self, closure: F, context: Context, variable: Variable) -> Result<(), Error>
    where
        F: FnOnce(&RunContext<'_>) -> R + Send + 'static,
        R: IntoOutcome,
    {
        let request = Request {
            context,
            property: Property::DeleteVar,
            flags: FLAG_DELETE,
            ..Request::named(Name::from("delete variable"))
        };
        let claim = Claim { variable, mode: Mode::Delete };
        push::push(self.core(), &request, &[claim][..], sync_vtable(&closure), closure)
    }
}
