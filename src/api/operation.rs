//! `OperationBuilder`: the builder form of a push. `Engine::op` in `src/api/push.rs` makes it, and
//! all its pushes end in `src/engine/push/mod.rs`. The collected request lies in a `Draft`
//! (`src/engine/draft.rs`), which keeps its memory for the thread's next one. It is `Send`: a
//! thread may hand it to another. The pusher is the thread that ends it by a push.
//!
//! Two more ways to end one are in `src/api/pending.rs` (`compute`, for operations with a result)
//! and `src/api/push_future.rs`.
//!
//! `CaptureBuilder` in `src/api/capture_builder.rs` has the same methods for the operations of a
//! graph, but no `cost_key`, `short`, `profiled`, limits and operators; it alone has
//! `device_graph`. A change to a method here is a change to the same method there. `tests/forms.rs`
//! compares this form with the long forms of `src/api/push.rs` and with operators.
//!
//! An *operation* runs once: `push` and `push_async` end the builder by pushing one. An *operator*
//! is not an operation but the pattern of many: a closure and its variables, kept so that they can
//! be pushed any number of times. Each push of an operator is one operation. `operator` and
//! `async_operator` end the builder by making one (`src/api/operator.rs`). After `cost_key` the
//! builder is a `KeyedBuilder`, which has the same four (`src/api/keyed_builder.rs`). After `token`
//! or `deadline` it is a `LimitedBuilder`, which has all but operators; both stand with it
//! (`src/api/limited_builder.rs`). The ends of the builder for typed values are in
//! `src/api/typed/run.rs`.

#![forbid(unsafe_code)]

use crate::api::engine::Engine;
use crate::api::keyed_builder::KeyedBuilder;
use crate::api::operator::Operator;
use crate::device::Context;
use crate::engine::draft::Draft;
use crate::engine::push::push;
use crate::error::Error;
use crate::operation::access::Mode;
use crate::operation::async_closure::AsyncBody;
use crate::operation::block::FLAG_PROFILED;
use crate::operation::closure::{IntoOutcome, SyncBody};
use crate::operation::completion::Completion;
use crate::operation::context::RunContext;
use crate::operation::name::Name;
use crate::operation::property::Property;
use crate::variable::handle::Variable;
use std::fmt;

/// An operation that is being put together. [`Engine::op`] begins it,
/// [`push`](OperationBuilder::push) pushes it, and [`operator`](OperationBuilder::operator) makes a
/// reusable [`Operator`] of it instead.
///
/// ```
/// let engine = seriatim::Engine::new()?;
/// let [x, y] = [engine.new_variable(), engine.new_variable()];
/// engine.op("axpy").reads([x]).writes([y]).priority(2).push(|_| { /* y += a * x */ })?;
/// engine.wait_for_var(y)?;
/// # Ok::<(), seriatim::Error>(())
/// ```
#[must_use = "an operation is not pushed until push() is called"]
pub struct OperationBuilder<'a> {
    pub(super) engine: &'a Engine,
    pub(super) draft: Draft,
}

impl<'a> OperationBuilder<'a> {
    #[inline]
    pub(crate) fn new(engine: &'a Engine, name: Name) -> OperationBuilder<'a> {
        OperationBuilder { engine, draft: Draft::new(name) }
    }

    /// Adds variables that the operation reads. Repeats are harmless; a variable that is also
    /// written counts as written.
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// let inputs = [engine.new_variable(), engine.new_variable()];
    /// engine.op("sum").reads(inputs).push(|_| ())?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    #[inline]
    pub fn reads(mut self, variables: impl IntoIterator<Item = impl Into<Variable>>) -> Self {
        variables.into_iter().for_each(|variable| self.draft.add(variable.into(), Mode::Read));
        self
    }

    /// Adds variables that the operation changes.
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// let outputs = vec![engine.new_variable(); 3];
    /// engine.op("fill").writes(outputs.iter().copied()).push(|_| ())?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    #[inline]
    pub fn writes(mut self, variables: impl IntoIterator<Item = impl Into<Variable>>) -> Self {
        variables.into_iter().for_each(|variable| self.draft.add(variable.into(), Mode::Write));
        self
    }

    /// Adds [commutative variables](Engine::new_commutative_variable) on which the operation
    /// *commutes*: it changes them, in any order with others that commute there.
    ///
    /// Of operations that commute on one variable, one runs at a time. A thread that is to run one
    /// while another runs puts it aside, and does something else. Reads and writes of the variable
    /// keep their place: they wait for all that commute before them, and are waited for.
    /// Operations that commute on several variables, and on others in other operations, do not
    /// deadlock. In a graph they run in the order in which they were recorded.
    ///
    /// A variable that the operation also writes counts as written. The push is refused with
    /// [`CannotCommute`](crate::ErrorKind::CannotCommute) if a variable is not commutative, or if
    /// the operation is one of a device.
    ///
    /// ```
    /// let engine = seriatim::Engine::new()?;
    /// let (x, y) = (engine.new_commutative_variable(), engine.new_commutative_variable());
    /// engine.op("swap").commutes([x, y]).push(|_| ())?;
    /// engine.op("swap back").commutes([y, x]).push(|_| ())?;
    /// engine.wait_for_all()?;
    /// assert_eq!(engine.version(x)?, 2);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    #[inline]
    pub fn commutes(mut self, variables: impl IntoIterator<Item = impl Into<Variable>>) -> Self {
        variables.into_iter().for_each(|variable| self.draft.commute(variable.into()));
        self
    }

    /// Adds one variable that the operation reads.
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// # let x = engine.new_variable();
    /// engine.op("print").read(x).push(|_| ())?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    #[inline]
    pub fn read(self, variable: impl Into<Variable>) -> Self {
        self.reads([variable])
    }

    /// Adds one variable that the operation changes.
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// # let x = engine.new_variable();
    /// engine.op("clear").write(x).push(|_| ())?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    #[inline]
    pub fn write(self, variable: impl Into<Variable>) -> Self {
        self.writes([variable])
    }

    /// Sets the priority, 0 by default. Among ready operations, greater priorities run first, and
    /// equal ones run in push order.
    ///
    /// An operation of positive priority passes it on to the operations that it waits for: to 32 of
    /// them at most, and only to those that no thread has begun with. An operation that is waited
    /// for keeps its own priority in three cases: several threads push to its variables, it is
    /// profiled, or its closure has more than 512 bytes.
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// engine.op("soon").priority(10).push(|_| ())?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    #[inline]
    pub fn priority(mut self, priority: i32) -> Self {
        self.draft.request_mut().priority = priority;
        self
    }

    /// Sets what kind of work the operation is. The default is [`Property::Normal`].
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// engine.op("report").property(seriatim::Property::NoSkip).push(|_| ())?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    #[inline]
    pub fn property(mut self, property: Property) -> Self {
        self.draft.request_mut().property = property;
        self
    }

    /// Declares that the closure takes well under a microsecond, and waits for nothing that the
    /// pushing thread does later. The push then runs it, on any engine, if nothing holds it up and
    /// the closures of its type have lately been so short that it does not pay to ship them. This
    /// is [`Property::Short`].
    ///
    /// The closure of an asynchronous operation is called in the push by the same rules. What
    /// counts is the time until it returns; its [`Completion`] may be used at any time.
    ///
    /// How long closures take is learned as for [`inline_below`](crate::Builder::inline_below). Its
    /// value is the limit, if it is set. A declaration that is wrong about the time costs time
    /// only: such closures are shipped. **A declaration that is wrong about the waiting can hang**:
    /// the push waits for the closure, and the closure for what comes after the push.
    ///
    /// If the variables are busy and the operation is not asynchronous, the push also runs up to 32
    /// ready operations that were declared short, of whatever thread: hold no lock that one of them
    /// takes.
    ///
    /// ```
    /// let engine = seriatim::Engine::new()?;
    /// let x = seriatim::Data::new(&engine, 0);
    /// for _ in 0..1000 {
    ///     let count = x.clone();
    ///     engine.op("count").write(&x).short().push(move |_| count.write().map(|mut x| *x += 1))?;
    /// }
    /// engine.wait_for_all()?;
    /// assert_eq!(*x.read()?, 1000);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    #[inline]
    pub fn short(self) -> Self {
        self.property(Property::Short)
    }

    /// Records this operation as [`Engine::start_profiling`] records all, whether the profiler is
    /// on or not, if the operation has a name. Such an operation is enlisted: it takes some 300 ns
    /// more. In a [`Capture`](crate::Capture) this has no effect.
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// engine.op("unseen").push(|_| ())?;
    /// engine.op("seen").profiled().push(|_| ())?;
    /// engine.wait_for_all()?;
    /// let names: Vec<_> = engine.profile().events().iter().map(|event| event.name).collect();
    /// assert_eq!(names, ["seen"]);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    #[inline]
    pub fn profiled(mut self) -> Self {
        self.draft.request_mut().flags |= FLAG_PROFILED;
        self
    }

    /// Sets where the operation runs. The default is `cpu(0)`, any worker of the processor.
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// engine.op("numa").context(seriatim::Context::cpu(1)).push(|_| ())?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    #[inline]
    pub fn context(mut self, context: Context) -> Self {
        self.draft.request_mut().context = context;
        self
    }

    /// Sets the key by which the engine learns what the operation costs, for
    /// [`Builder::inline_below`](crate::Builder::inline_below): operations of one key are taken to
    /// cost alike. Without a key, operations whose closures have one type are taken to cost alike.
    /// The type says nothing if one type does all kinds of things: a boxed closure, a function
    /// pointer, a closure that calls one of several functions. Any number is a key, such as the
    /// address of the function.
    ///
    /// Call it last, before the operation is pushed or made an operator.
    ///
    /// A key takes 8 of the 512 bytes that a closure may have without an allocation. It costs
    /// nothing else where `inline_below` is not set.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # let engine = seriatim::Engine::builder().inline_below(Duration::from_nanos(300)).build()?;
    /// # let x = engine.new_variable();
    /// let tasks: [fn(); 2] = [|| (), || println!("a longer task")];
    /// for task in tasks {
    ///     engine.op("task").writes([x]).cost_key(task as usize as u64).push(move |_| task())?;
    /// }
    /// engine.wait_for_all()?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    #[inline]
    pub fn cost_key(self, key: u64) -> KeyedBuilder<'a> {
        KeyedBuilder::new(self.engine, self.draft, key)
    }

    /// Pushes the operation, which ends when the closure returns. Closures of up to 512 bytes (and
    /// an alignment of 16) cost no allocation.
    ///
    /// Worst case: the same as for [`Engine::push_sync`].
    ///
    /// # Errors
    /// See [`Engine::push_sync`].
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// engine.op("greet").push(|run| println!("{} on {}", run.name(), run.context()))?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    #[inline]
    pub fn push<F, R>(mut self, closure: F) -> Result<(), Error>
    where
        F: FnOnce(&RunContext<'_>) -> R + Send + 'static,
        R: IntoOutcome,
    {
        let (request, claims) = self.draft.parts();
        push(self.engine.core(), request, claims, SyncBody::<F, R>::VTABLE, closure)
    }

    /// Pushes an asynchronous operation, which ends when its [`Completion`] says so, on any thread.
    /// A worker calls the closure, or the push itself if the closure is [`short`](Self::short).
    ///
    /// # Errors
    /// See [`Engine::push_sync`].
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// engine.op("timer").push_async(|_, completion| {
    ///     std::thread::spawn(move || completion.complete());
    /// })?;
    /// engine.wait_for_all()?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    #[inline]
    pub fn push_async<G>(mut self, closure: G) -> Result<(), Error>
    where
        G: FnOnce(&RunContext<'_>, Completion) + Send + 'static,
    {
        let (request, claims) = self.draft.parts();
        push(self.engine.core(), request, claims, AsyncBody::<G>::VTABLE, closure)
    }

    /// Makes a reusable [`Operator`] instead of pushing the operation. Each push of the operator by
    /// [`Engine::push`] is one operation, with its own context and priority.
    ///
    /// # Errors
    /// See [`Engine::new_operator`].
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// # let x = engine.new_variable();
    /// let step = engine.op("step").writes([x]).operator(|_| ())?;
    /// engine.push(&step, seriatim::Context::default(), 0)?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn operator<H, R>(mut self, closure: H) -> Result<Operator, Error>
    where
        H: Fn(&RunContext<'_>) -> R + Send + Sync + 'static,
        R: IntoOutcome,
    {
        let request = *self.draft.request();
        Operator::new_sync(self.engine.core(), request, self.draft.ordered(), None, closure)
    }

    /// Makes a reusable asynchronous [`Operator`]. Like [`operator`](OperationBuilder::operator),
    /// but the operations end when their [`Completion`] says so.
    ///
    /// # Errors
    /// See [`Engine::new_operator`].
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// let tick = engine.op("tick").async_operator(|_, completion| completion.complete())?;
    /// engine.push(&tick, seriatim::Context::default(), 0)?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn async_operator<K>(mut self, closure: K) -> Result<Operator, Error>
    where
        K: Fn(&RunContext<'_>, Completion) + Send + Sync + 'static,
    {
        let request = *self.draft.request();
        Operator::new_async(self.engine.core(), request, self.draft.ordered(), None, closure)
    }
}

impl fmt::Debug for OperationBuilder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OperationBuilder('{}')", self.draft.request().name.as_str())
    }
}
