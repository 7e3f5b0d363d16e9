//! The typed ends of builders: `run`, `run_with`, and what is like them in a capture and for
//! operators. Programs call them on the thread that pushes or captures.
//!
//! The closure of the operation has the addresses that the resources entered (`resources.rs`), and
//! makes the references when it is called. The rest is a push as any other (`src/api/operation.rs`,
//! `src/api/capture_builder.rs`), but for the check that no value is lent twice: `TypedClaims` in
//! `src/engine/claims.rs`. The quick ways of a push find that out by themselves, so it costs
//! nothing there.

use crate::api::capture_builder::CaptureBuilder;
use crate::api::operation::OperationBuilder;
use crate::api::operator::Operator;
use crate::api::typed::resources::{refused, Entering, Keepers, Resources};
use crate::engine::push::push;
use crate::error::Error;
use crate::operation::closure::{drop_quietly, sync_vtable, IntoOutcome};
use crate::operation::context::RunContext;

impl OperationBuilder<'_> {
    /// Pushes the operation with the values that it uses, of which the closure is given plain
    /// references: `&T` for `&value`, `&mut T` for [`Write(&value)`](crate::Write). The operation
    /// ends when the closure returns. [`Resources`] lists what can be named.
    ///
    /// What the closure is given cannot leave it, and a handle that it has captured leads to no
    /// value: so what is not named here is not touched. A closure that fails returns a `Result`, as
    /// for [`push`](OperationBuilder::push). If it fails or panics, the values that it changes stay
    /// as it has left them, and are marked: operations that use them are skipped, until a wait or a
    /// guard has taken the error.
    ///
    /// Variables that were declared before ([`reads`](OperationBuilder::reads) and so on) order the
    /// operation as well.
    ///
    /// Worst case: the same as for [`Engine::push_sync`](crate::Engine::push_sync), and *k*² or *k*
    /// log *k* to look for aliases if the operation is enlisted. A slice of values allocates the
    /// list of their addresses. Nothing is counted: an operation on two values takes some
    /// instructions more than one on their bare variables.
    ///
    /// # Errors
    /// [`BorrowConflict`](crate::ErrorKind::BorrowConflict) if a value is named twice, once to
    /// change it; and those of [`Engine::push_sync`](crate::Engine::push_sync), of which
    /// [`ForeignVariable`](crate::ErrorKind::ForeignVariable) says that a value is of another
    /// engine. [`BufferMismatch`](crate::ErrorKind::BufferMismatch) if an array of a device is
    /// named, and the operation is none of that device. Nothing is pushed then.
    ///
    /// ```
    /// use seriatim::{Engine, ErrorKind, Write};
    /// let engine = Engine::new()?;
    /// let (x, y) = (engine.value(2), engine.value(1));
    /// engine.op("multiply").run((&x, Write(&y)), |(x, y)| *y *= x)?;
    /// engine.op("check").run(&y, |y| if *y == 2 { Ok(()) } else { Err("not two") })?;
    /// let aliases = engine.op("add").run((&x, Write(&x)), |(one, other)| *other += one);
    /// assert_eq!(aliases.unwrap_err().kind(), ErrorKind::BorrowConflict);
    /// engine.wait_for_all()?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    #[inline]
    pub fn run<V, F, R>(mut self, resources: V, closure: F) -> Result<(), Error>
    where
        V: Resources,
        F: for<'a> FnOnce(V::Item<'a>) -> R + Send + 'static,
        R: IntoOutcome,
    {
        let typed = self.draft.count();
        let mut entry = Entering::new(&mut self.draft);
        if let Err(error) = resources.check(&entry) {
            return refused(closure, error);
        }
        let held = resources.enter(&mut entry);
        let call = move |_: &RunContext<'_>| {
            // SAFETY: this is the operation, whose claims are those that were entered.
            closure(unsafe { V::lend(&held) })
        };
        let (request, claims) = self.draft.typed_parts(typed);
        push(self.engine.core(), request, claims, sync_vtable(&call), call)
    }

    /// Like [`run`](OperationBuilder::run), with the run context: where the operation runs, under
    /// which name, on which stream.
    ///
    /// # Errors
    /// Those of [`run`](OperationBuilder::run).
    ///
    /// ```
    /// use seriatim::{Engine, Write};
    /// let engine = Engine::new()?;
    /// let (x, name) = (engine.value(1), engine.value(String::new()));
    /// engine.op("named").run_with((&x, Write(&name)), |run, (x, name)| {
    ///     *name = format!("{} {x}", run.name());
    /// })?;
    /// assert_eq!(*name.read()?, "named 1");
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    #[inline]
    pub fn run_with<V, F, R>(mut self, resources: V, closure: F) -> Result<(), Error>
    where
        V: Resources,
        F: for<'a> FnOnce(&RunContext<'_>, V::Item<'a>) -> R + Send + 'static,
        R: IntoOutcome,
    {
        let typed = self.draft.count();
        let mut entry = Entering::new(&mut self.draft);
        if let Err(error) = resources.check(&entry) {
            return refused(closure, error);
        }
        let held = resources.enter(&mut entry);
        let call = move |run: &RunContext<'_>| {
            // SAFETY: as in `run`.
            closure(run, unsafe { V::lend(&held) })
        };
        let (request, claims) = self.draft.typed_parts(typed);
        push(self.engine.core(), request, claims, sync_vtable(&call), call)
    }

    /// Makes a reusable [`Operator`] of an operation on values, as
    /// [`operator`](OperationBuilder::operator) does of one on variables. It has handles of the
    /// values. Operations of it that only read may run at once.
    ///
    /// # Errors
    /// [`BorrowConflict`](crate::ErrorKind::BorrowConflict) if a value is named twice, once to
    /// change it; those of [`Engine::new_operator`](crate::Engine::new_operator).
    ///
    /// ```
    /// use seriatim::{Context, Engine, Write};
    /// let engine = Engine::new()?;
    /// let count = engine.value(0);
    /// let step = engine.op("count").operator_on(Write(&count), |count| *count += 1)?;
    /// for _ in 0..3 {
    ///     engine.push(&step, Context::cpu(0), 0)?;
    /// }
    /// assert_eq!(*count.read()?, 3);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn operator_on<V, H, R>(mut self, resources: V, closure: H) -> Result<Operator, Error>
    where
        V: Resources,
        H: for<'a> Fn(V::Item<'a>) -> R + Send + Sync + 'static,
        R: IntoOutcome,
    {
        let typed = self.draft.count();
        let (held, mut kept) = (resources.enter(&mut Entering::new(&mut self.draft)), Keepers::default());
        resources.keep(&mut kept);
        let call = move |_: &RunContext<'_>| {
            let _ = &kept;
            // SAFETY: this is an operation of the operator, whose claims are those that were
            // entered.
            closure(unsafe { V::lend(&held) })
        };
        match self.draft.typed_parts(typed).1.check() {
            Ok(()) => self.operator(call),
            Err(error) => {
                drop_quietly(call);
                Err(error)
            }
        }
    }
}

impl CaptureBuilder<'_> {
    /// Records an operation on values, of which the closure is given references in each replay, as
    /// [`OperationBuilder::run`] gives them. No two calls of it overlap, so it may change what it
    /// owns. The graph has handles of the values.
    ///
    /// # Errors
    /// [`BorrowConflict`](crate::ErrorKind::BorrowConflict) if a value is named twice, once to
    /// change it; those of [`push`](CaptureBuilder::push). Nothing is recorded then.
    ///
    /// ```
    /// use seriatim::{Engine, Write};
    /// let engine = Engine::new()?;
    /// let (x, y) = (engine.value(1), engine.value(0));
    /// let (graph, ()) = engine.capture(|c| {
    ///     c.op("add").run((&x, Write(&y)), |(x, y)| *y += x)?;
    ///     c.op("double").run(Write(&x), |x| *x *= 2)
    /// })?;
    /// (0..10).try_for_each(|_| graph.replay())?;
    /// assert_eq!(*y.read()?, 1023);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn run<V, F, R>(self, resources: V, mut closure: F) -> Result<(), Error>
    where
        V: Resources,
        F: for<'a> FnMut(V::Item<'a>) -> R + Send + 'static,
        R: IntoOutcome,
    {
        self.run_with(resources, move |_: &RunContext<'_>, items: V::Item<'_>| closure(items))
    }

    /// Like [`run`](CaptureBuilder::run), with the run context.
    ///
    /// # Errors
    /// Those of [`run`](CaptureBuilder::run).
    ///
    /// ```
    /// use seriatim::{Engine, Write};
    /// let engine = Engine::new()?;
    /// let x = engine.value(1.0);
    /// let (graph, rate) = engine.capture(|c| {
    ///     let (rate, by) = (c.parameter(0.5), c.parameter(0.5));
    ///     let of = rate.clone();
    ///     c.op("scale").run_with(Write(&x), move |run, x| of.get(run).map(|rate| *x *= *rate))?;
    ///     drop(by);
    ///     Ok(rate)
    /// })?;
    /// graph.replay()?;
    /// rate.set(0.1)?;
    /// assert_eq!(*x.read()?, 0.5);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn run_with<V, F, R>(mut self, resources: V, mut closure: F) -> Result<(), Error>
    where
        V: Resources,
        F: for<'a> FnMut(&RunContext<'_>, V::Item<'a>) -> R + Send + 'static,
        R: IntoOutcome,
    {
        let typed = self.draft.count();
        let mut entry = Entering::new(&mut self.draft);
        if let Err(error) = resources.check(&entry) {
            return refused(closure, error);
        }
        let (held, mut kept) = (resources.enter(&mut entry), Keepers::default());
        resources.keep(&mut kept);
        let call = move |run: &RunContext<'_>| {
            let _ = &kept;
            // SAFETY: this is the operation of the graph, whose claims are those that were entered.
            closure(run, unsafe { V::lend(&held) })
        };
        match self.draft.typed_parts(typed).1.check() {
            Ok(()) => self.push(call),
            Err(error) => {
                drop_quietly(call);
                Err(error)
            }
        }
    }
}
