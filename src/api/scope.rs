//! `Scope` and `ScopeBuilder`: operations whose closures borrow from the stack, and that are joined
//! before the call returns. `Engine::scope` lends a scope to a closure of the program.
//!
//! Programs call all of it on the thread that opens the scope, which alone has it. How it works
//! inside an operation, and why that ends, is in `src/engine/scope/mod.rs`. `src/api/typed/part.rs`
//! has the parts that a scope lends to its operations.
//!
//! **Lifetimes**, as in `std::thread::scope`: `'env` is the time for which all that is borrowed
//! lives, and outlives the call. `'scope` begins when the scope is opened and ends before the call
//! returns. The program's closure is for every `'scope`, so it can keep nothing of that lifetime;
//! and `Scope` is invariant in both, so none can be taken for a longer one.

use crate::api::engine::Engine;
use crate::api::typed::resources::{refused, Entering, InScope, Resources};
use crate::engine::draft::Draft;
use crate::engine::scope::open::OpenScope;
use crate::error::Error;
use crate::operation::access::Mode;
use crate::operation::closure::IntoOutcome;
use crate::operation::context::RunContext;
use crate::operation::name::Name;
use crate::variable::handle::Variable;
use std::fmt;
use std::marker::PhantomData;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::process::abort;

/// A scope, from [`Engine::scope`], by whose methods its operations are pushed.
///
/// It stays on the thread that has opened it: an operation of the scope opens a scope of its own.
///
/// ```
/// use seriatim::Engine;
/// let engine = Engine::new()?;
/// let (words, mut lengths) = (["one", "three"], [0; 2]);
/// engine.scope(|s: &seriatim::Scope<'_, '_>| {
///     for (word, length) in words.iter().zip(&mut lengths) {
///         s.op("measure").push(move |_| *length = word.len())?;
///     }
///     Ok(())
/// })?;
/// assert_eq!(lengths, [3, 5]);
/// # Ok::<(), seriatim::Error>(())
/// ```
///
/// What an operation borrows must outlive the call of [`Engine::scope`]:
///
/// ```compile_fail,E0373
/// # let engine = seriatim::Engine::new()?;
/// engine.scope(|s| {
///     let inner = 7;
///     s.op("late").push(|_| println!("{inner}"))
/// })?;
/// # Ok::<(), seriatim::Error>(())
/// ```
///
/// and two operations cannot both change it.
///
/// ```compile_fail,E0499
/// # let engine = seriatim::Engine::new()?;
/// let mut sum = 0;
/// engine.scope(|s| {
///     s.op("one").push(|_| sum += 1)?;
///     s.op("two").push(|_| sum += 1)
/// })?;
/// # Ok::<(), seriatim::Error>(())
/// ```
///
/// The scope cannot be kept, nor handed to another thread.
///
/// ```compile_fail
/// # let engine = seriatim::Engine::new()?;
/// let mut kept = None;
/// engine.scope(|s| {
///     kept = Some(s);
///     Ok(())
/// })?;
/// # Ok::<(), seriatim::Error>(())
/// ```
/// ```compile_fail,E0277
/// # let engine = seriatim::Engine::new()?;
/// engine.scope(|s| s.op("sibling").push(move |_| s.op("another").push(|_| ())))?;
/// # Ok::<(), seriatim::Error>(())
/// ```
pub struct Scope<'scope, 'env: 'scope> {
    engine: &'env Engine,
    open: OpenScope<'env>,
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

impl Engine {
    /// Calls `body` with a scope, and returns when all operations that were pushed to that have
    /// ended: also if `body` panics, or returns an error. So their closures may borrow from the
    /// stack.
    ///
    /// **Outside of operations** the thread waits as in [`wait_for_var`](Engine::wait_for_var), and
    /// may run other operations meanwhile: hold no lock that they take. Operations of the scope use
    /// any variables and values.
    ///
    /// **Inside an operation** of the engine a scope is nested parallelism. The thread runs the
    /// scope's operations, and workers with nothing to do run them too. While it waits it runs no
    /// operations but these, and those of scopes that they open. They may borrow what the operation
    /// was lent, in parts that the compiler knows to be disjoint, and use [parts](Scope::part), but
    /// no other variables: such an operation could come after the one that waits for it.
    ///
    /// ```
    /// use seriatim::{Engine, Write};
    ///
    /// fn sort(engine: &Engine, numbers: &mut [u32]) -> Result<(), seriatim::Error> {
    ///     if numbers.len() <= 32 {
    ///         numbers.sort_unstable();
    ///         return Ok(());
    ///     }
    ///     let middle = numbers.len() / 2;
    ///     let (low, pivot, high) = numbers.select_nth_unstable(middle);
    ///     engine.scope(|s| {
    ///         s.op("low").push(|_| sort(engine, low))?;
    ///         sort(engine, high)
    ///     })
    /// }
    ///
    /// let engine = Engine::new()?;
    /// let numbers = engine.value((0..1000).rev().collect::<Vec<u32>>());
    /// let inside = engine.clone();
    /// engine.op("sort").run(Write(&numbers), move |numbers| sort(&inside, numbers))?;
    /// assert!(numbers.read()?.is_sorted());
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    ///
    /// Operations of a scope have no order among each other but by what they use. They are no more
    /// than operations: a wait for a variable is refused in them, and those that they push by
    /// [`op`](Engine::op) are not waited for.
    ///
    /// Worst case: as long as `body` and the operations take; outside of operations also as long as
    /// an operation takes that the thread runs meanwhile. To open and join a scope takes some
    /// steps. A child of a scope inside an operation costs a block and three exchanges, and nothing
    /// is allocated in steady state; if a worker sleeps, it costs a call into the system, too. A
    /// child on [parts](Scope::part) costs a push.
    ///
    /// # Errors
    /// What `body` returned. Else the error of the operation that failed, or of the one that was
    /// pushed first of those that did; it counts as taken, so no other wait returns it. If `body`
    /// fails, errors of operations are left to other waits. [`Stopped`](crate::ErrorKind::Stopped)
    /// if operations were not called because of [`notify_shutdown`](Engine::notify_shutdown).
    /// [`EngineFull`](crate::ErrorKind::EngineFull) if the thread has 128 scopes open inside each
    /// other; then `body` is not called. In the child of a `fork` that could not stop the engine,
    /// [`Stopped`](crate::ErrorKind::Stopped).
    ///
    /// # Panics
    /// If `body` does, with what it carried, after the join.
    ///
    /// ```
    /// use seriatim::{Engine, ErrorKind};
    /// let engine = Engine::new()?;
    /// let parse = |_: &seriatim::RunContext<'_>| "12a".parse::<u32>().map(|_| ());
    /// let error = engine.scope(|s| s.op("parse").push(parse)).unwrap_err();
    /// assert_eq!((error.kind(), error.operation()), (ErrorKind::OperationFailed, Some("parse")));
    /// engine.wait_for_all()?; // the error was taken
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn scope<'env, F, T>(&'env self, body: F) -> Result<T, Error>
    where
        F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> Result<T, Error>,
    {
        let open = OpenScope::new(self.core())?;
        let scope = Scope { engine: self, open, scope: PhantomData, env: PhantomData };
        let value = catch_unwind(AssertUnwindSafe(|| body(&scope)));
        // If the join unwound, children would go on that borrow what is gone.
        let joined = catch_unwind(AssertUnwindSafe(|| scope.open.join())).unwrap_or_else(|_| abort());
        let value = value.unwrap_or_else(|payload| resume_unwind(payload))?;
        joined?;
        scope.open.take_error().map_or(Ok(value), Err)
    }
}

impl<'scope, 'env> Scope<'scope, 'env> {
    /// Starts an operation of the scope. Nothing is pushed until its
    /// [`push`](ScopeBuilder::push) or [`run`](ScopeBuilder::run).
    ///
    /// ```
    /// let (engine, mut answer) = (seriatim::Engine::new()?, 0);
    /// engine.scope(|s| s.op("compute").push(|_| answer = 42))?;
    /// assert_eq!(answer, 42);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn op(&'scope self, name: impl Into<Name>) -> ScopeBuilder<'scope, 'env> {
        ScopeBuilder { scope: self, draft: Draft::new(name.into()) }
    }

    pub(super) fn open(&self) -> &OpenScope<'env> {
        &self.open
    }

    /// A new variable that the scope deletes at its end.
    pub(super) fn add_variable(&self) -> Variable {
        let variable = self.engine.new_variable();
        self.open.add_variable(variable);
        variable
    }
}

/// An operation of a scope that is being put together, from [`Scope::op`].
///
/// ```
/// let (engine, mut text) = (seriatim::Engine::new()?, String::new());
/// let x = engine.value(7);
/// engine.scope(|s| {
///     let text = s.part(&mut text);
///     s.op("print").run((&x, seriatim::Write(&text)), |(x, text)| *text = x.to_string())
/// })?;
/// assert_eq!(text, "7");
/// # Ok::<(), seriatim::Error>(())
/// ```
#[must_use = "an operation is not pushed until push() or run() is called"]
pub struct ScopeBuilder<'scope, 'env: 'scope> {
    scope: &'scope Scope<'scope, 'env>,
    pub(super) draft: Draft,
}

impl<'scope> ScopeBuilder<'scope, '_> {
    /// Adds variables that the operation reads, for a scope outside of operations.
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// let inputs = [engine.new_variable(), engine.new_variable()];
    /// engine.scope(|s| s.op("sum").reads(inputs).push(|_| ()))?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn reads(mut self, variables: impl IntoIterator<Item = impl Into<Variable>>) -> Self {
        variables.into_iter().for_each(|variable| self.draft.add(variable.into(), Mode::Read));
        self
    }

    /// Adds variables that the operation changes, for a scope outside of operations.
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// let x = engine.new_variable();
    /// engine.scope(|s| s.op("fill").writes([x]).push(|_| ()))?;
    /// assert_eq!(engine.version(x)?, 1);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn writes(mut self, variables: impl IntoIterator<Item = impl Into<Variable>>) -> Self {
        variables.into_iter().for_each(|variable| self.draft.add(variable.into(), Mode::Write));
        self
    }

    /// Adds one variable that the operation reads.
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// let x = engine.value(1);
    /// engine.scope(|s| s.op("look").read(&x).push(|_| ()))?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn read(self, variable: impl Into<Variable>) -> Self {
        self.reads([variable])
    }

    /// Adds one variable that the operation changes.
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// let x = engine.new_variable();
    /// engine.scope(|s| s.op("fill").write(x).push(|_| ()))?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn write(self, variable: impl Into<Variable>) -> Self {
        self.writes([variable])
    }

    /// Pushes the operation, which ends when the closure returns. The closure may borrow whatever
    /// lives for as long as the scope does.
    ///
    /// Worst case: that of [`Engine::push_sync`]. Inside an operation, without variables, it takes
    /// some steps; a closure of more than 504 bytes costs an allocation.
    ///
    /// # Errors
    /// Those of [`Engine::push_sync`].
    /// [`WaitInsideOperation`](crate::ErrorKind::WaitInsideOperation) inside an operation, if this
    /// one uses a variable that was not made in the scope.
    /// [`BorrowConflict`](crate::ErrorKind::BorrowConflict) if it uses a variable of which the
    /// thread holds a guard. [`EngineFull`](crate::ErrorKind::EngineFull) for more than two
    /// thousand million operations of one scope. Nothing is pushed then.
    ///
    /// ```
    /// use seriatim::{Engine, ErrorKind};
    /// let engine = Engine::new()?;
    /// let x = engine.new_variable();
    /// let inside = engine.clone();
    /// engine.op("outer").writes([x]).push(move |_| {
    ///     inside.scope(|s| {
    ///         let error = s.op("inner").reads([x]).push(|_| ()).unwrap_err();
    ///         assert_eq!(error.kind(), ErrorKind::WaitInsideOperation);
    ///         Ok(())
    ///     })
    /// })?;
    /// engine.wait_for_all()?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn push<F, R>(mut self, closure: F) -> Result<(), Error>
    where
        F: FnOnce(&RunContext<'_>) -> R + Send + 'scope,
        R: IntoOutcome,
    {
        let typed = self.draft.count();
        let (request, claims) = self.draft.typed_parts(typed);
        // SAFETY: the scope is joined before `'scope` ends.
        unsafe { self.scope.open.push(request, claims, 0, closure) }
    }

    /// Pushes the operation with what it uses, of which the closure is given plain references, as
    /// [`OperationBuilder::run`](crate::OperationBuilder::run) does. [`Resources`] lists what can
    /// be named; here also [parts](crate::ScopePart), and outside of operations values.
    ///
    /// # Errors
    /// Those of [`push`](ScopeBuilder::push), and
    /// [`BorrowConflict`](crate::ErrorKind::BorrowConflict) if a part or a value is named twice,
    /// once to be changed.
    ///
    /// ```
    /// let (engine, mut x) = (seriatim::Engine::new()?, 1);
    /// engine.scope(|s| {
    ///     let x = s.part(&mut x);
    ///     s.op("double").run(seriatim::Write(&x), |x| *x *= 2)?;
    ///     s.op("look").run(&x, |x| assert_eq!(*x, 2))
    /// })?;
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

    /// Like [`run`](ScopeBuilder::run), with the run context.
    ///
    /// # Errors
    /// Those of [`run`](ScopeBuilder::run).
    ///
    /// ```
    /// let (engine, mut name) = (seriatim::Engine::new()?, String::new());
    /// engine.scope(|s| {
    ///     let name = s.part(&mut name);
    ///     s.op("named").run_with(seriatim::Write(&name), |run, name| *name = run.name().to_owned())
    /// })?;
    /// assert_eq!(name, "named");
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn run_with<V, F, R>(mut self, resources: V, closure: F) -> Result<(), Error>
    where
        V: Resources<InScope<'scope>>,
        F: for<'a> FnOnce(&RunContext<'_>, V::Item<'a>) -> R + Send + 'scope,
        R: IntoOutcome,
    {
        let open = &self.scope.open;
        let typed = self.draft.count();
        let mut entry = Entering { draft: &mut self.draft, scope: open.identity(), own: 0 };
        if let Err(error) = resources.check(&entry) {
            return refused(closure, error);
        }
        let held = resources.enter(&mut entry);
        let own = entry.own;
        let call = move |run: &RunContext<'_>| {
            // SAFETY: this is the operation, whose claims are those that were entered.
            closure(run, unsafe { V::lend(&held) })
        };
        let (request, claims) = self.draft.typed_parts(typed);
        // SAFETY: the scope is joined before `'scope` ends.
        unsafe { open.push(request, claims, own, call) }
    }
}

impl fmt::Debug for Scope<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scope of {:?}", self.engine)
    }
}

impl fmt::Debug for ScopeBuilder<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ScopeBuilder('{}')", self.draft.request().name.as_str())
    }
}
