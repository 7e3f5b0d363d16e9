//! `Pending`: the result of an operation, and the methods of `OperationBuilder` that push
//! operations with one.
//!
//! The methods stand here, and not in `src/api/operation.rs`, because they belong to the result;
//! those for operations on values are in `src/api/typed/compute.rs`. The cell behind a result is in
//! `src/engine/future/cell.rs`. The program's side may be on any thread, one at a time. The worker
//! that runs the closure has the other.

#![forbid(unsafe_code)]

use crate::api::operation::OperationBuilder;
use crate::engine::future::cell::{promise, Awaited};
use crate::engine::future::computed::Computed;
use crate::engine::push::push;
use crate::engine::wait::for_outcome::for_outcome;
use crate::error::{Error, ErrorKind};
use crate::operation::context::RunContext;
use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

impl OperationBuilder<'_> {
    /// Pushes an operation that ends when the closure returns, and whose result is what it returns.
    /// A closure that may fail is for [`try_compute`](OperationBuilder::try_compute), and one on
    /// values for [`compute_on`](OperationBuilder::compute_on).
    ///
    /// Costs what a [`push`](OperationBuilder::push) costs, and a cell of the engine's pool for the
    /// result. Closures of up to 504 bytes and results of up to some 400 bytes cost no allocation
    /// in steady state; larger ones cost one each.
    ///
    /// # Errors
    /// See [`Engine::push_sync`](crate::Engine::push_sync). Then there is no result.
    ///
    /// ```
    /// use seriatim::{Data, Engine, Pending};
    /// let engine = Engine::new()?;
    /// let x = Data::new(&engine, vec![1.0, 2.0, 3.0]);
    /// let from = x.clone();
    /// let count: Pending<usize> = engine.op("count").read(&x).compute(move |_| from.read().map_or(0, |x| x.len()))?;
    /// assert_eq!(count.wait()?, 3);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    #[inline]
    pub fn compute<F, T>(self, closure: F) -> Result<Pending<T>, Error>
    where
        F: FnOnce(&RunContext<'_>) -> T + Send + 'static,
        T: Send + 'static,
    {
        self.try_compute(move |run| Ok::<T, Infallible>(closure(run)))
    }

    /// Like [`compute`](OperationBuilder::compute), for a closure that may fail. Its error fails
    /// the operation, as that of a [`push`](OperationBuilder::push) does, and the result is that
    /// error.
    ///
    /// # Errors
    /// See [`Engine::push_sync`](crate::Engine::push_sync).
    ///
    /// ```
    /// use seriatim::{Data, Engine, Error, Pending};
    /// let engine = Engine::new()?;
    /// let x = Data::new(&engine, vec![1.0, 2.0, 3.0]);
    /// let from = x.clone();
    /// let sum: Pending<f64> = engine.op("sum").read(&x).try_compute(move |_| {
    ///     Ok::<f64, Error>(from.read()?.iter().sum())
    /// })?;
    /// assert_eq!(sum.wait()?, 6.0);
    /// # Ok::<(), Error>(())
    /// ```
    #[inline]
    pub fn try_compute<F, T, E>(mut self, closure: F) -> Result<Pending<T>, Error>
    where
        F: FnOnce(&RunContext<'_>) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let core = self.engine.core();
        let (request, claims) = self.draft.parts();
        let (promise, awaited) = promise(core);
        let computed = Computed { closure, promise };
        push(core, request, claims, computed.vtable::<E>(), computed)?;
        Ok(Pending(awaited))
    }
}

/// The result of an operation, from [`compute`](OperationBuilder::compute). It is a future, and
/// [`wait`](Pending::wait) waits on a thread.
///
/// It is ready when the closure has returned or panicked, or the operation is skipped. What the
/// closure has done is seen by who has the result. The operation ends just after that:
/// [`Engine::version`](crate::Engine::version) may count it a moment later, and an operation of a
/// GPU may still be under way on its device.
///
/// # Errors
/// The result is an error if the operation failed, panicked, or was skipped: by its own
/// [limits](crate::StartLimits), or since an operation that it depends on failed. Then it is that
/// one's error. It counts as taken, as by [`wait_for_var`](crate::Engine::wait_for_var): it is
/// cleared on all variables, and not told again. If another wait has told it already, the result is
/// this error all the same. The result of an operation that is skipped after
/// [`notify_shutdown`](crate::Engine::notify_shutdown) is an error of kind
/// [`Stopped`](ErrorKind::Stopped).
///
/// A `Pending` may be dropped at any time. The operation runs all the same. Its error is then told
/// like that of any operation: by the next wait that meets it, or else by
/// [`Builder::on_error`](crate::Builder::on_error).
///
/// The result is handed out once. A future that is polled again stays pending.
///
/// ```
/// use seriatim::{Engine, ErrorKind, Pending};
/// let engine = Engine::new()?;
/// let x = engine.new_variable();
/// let parsed: Pending<u32> = engine.op("parse").write(x).try_compute(|_| "12a".parse::<u32>())?;
/// let error = parsed.wait().unwrap_err();
/// assert_eq!((error.kind(), error.operation()), (ErrorKind::OperationFailed, Some("parse")));
/// engine.wait_for_var(x)?; // the error was taken
/// # Ok::<(), seriatim::Error>(())
/// ```
#[must_use = "push() is for operations whose result nobody needs"]
pub struct Pending<T: Send>(pub(in crate::api) Awaited<T>);

impl<T: Send> Pending<T> {
    /// Waits for the result. As in [`wait_for_var`](crate::Engine::wait_for_var), the calling
    /// thread may run operations meanwhile: hold no lock that they take.
    ///
    /// Worst case: as long as the operation takes, and what it waits for; and as long as operations
    /// take that the thread runs meanwhile.
    ///
    /// # Errors
    /// Those of a [`Pending`]. [`WaitInsideOperation`](ErrorKind::WaitInsideOperation), and the
    /// result is lost. In the child of a `fork` that could not stop the engine,
    /// [`Stopped`](ErrorKind::Stopped).
    ///
    /// ```
    /// let engine = seriatim::Engine::new()?;
    /// assert_eq!(engine.op("answer").compute(|_| 42)?.wait()?, 42);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn wait(mut self) -> Result<T, Error> {
        for_outcome(&self.0, None)?;
        self.try_take().unwrap_or_else(|| Err(taken()))
    }

    /// Waits for the result, but no longer than `timeout`, and runs no operations meanwhile. After
    /// [`TimedOut`](ErrorKind::TimedOut) it may be called again.
    ///
    /// # Errors
    /// Those of [`wait`](Pending::wait), without the loss; [`TimedOut`](ErrorKind::TimedOut), also
    /// if the result was taken before.
    ///
    /// ```
    /// use std::time::Duration;
    /// let engine = seriatim::Engine::new()?;
    /// let (open, gate) = std::sync::mpsc::channel::<u8>();
    /// let mut got = engine.op("nap").try_compute(move |_| gate.recv())?;
    /// let error = got.wait_timeout(Duration::from_millis(1)).unwrap_err();
    /// assert_eq!(error.kind(), seriatim::ErrorKind::TimedOut);
    /// open.send(7).unwrap();
    /// assert_eq!(got.wait_timeout(Duration::from_secs(60))?, 7);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn wait_timeout(&mut self, timeout: Duration) -> Result<T, Error> {
        for_outcome(&self.0, Some(timeout))?;
        self.try_take().unwrap_or_else(|| {
            Err(Error::new(ErrorKind::TimedOut, format!("there is no result of the operation after {timeout:?}")))
        })
    }

    /// Takes the result if it is there. Never waits.
    ///
    /// ```
    /// let engine = seriatim::Engine::new()?;
    /// let mut answer = engine.op("answer").compute(|_| 42)?;
    /// engine.wait_for_all()?;
    /// assert!(matches!(answer.try_take(), Some(Ok(42))));
    /// assert!(answer.try_take().is_none());
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn try_take(&mut self) -> Option<Result<T, Error>> {
        let outcome = self.0.take()?;
        Some(outcome.into_result(self.0.core()))
    }

    /// Whether the result is there, or was taken. Never waits.
    ///
    /// ```
    /// let engine = seriatim::Engine::new()?;
    /// let answer = engine.op("answer").compute(|_| 42)?;
    /// engine.wait_for_all()?;
    /// assert!(answer.is_ready());
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn is_ready(&self) -> bool {
        self.0.is_set()
    }
}

impl<T: Send> Future for Pending<T> {
    type Output = Result<T, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll(context.waker()).map(|outcome| outcome?.into_result(self.0.core()))
    }
}

// As for the handle of a thread: the result of what has panicked is an error.
impl<T: Send> UnwindSafe for Pending<T> {}
impl<T: Send> RefUnwindSafe for Pending<T> {}

impl<T: Send> fmt::Debug for Pending<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_ready() { "Pending(ready)" } else { "Pending" })
    }
}

/// The error of a wait for a result that was handed out before.
fn taken() -> Error {
    Error::new(ErrorKind::BorrowConflict, "the result was taken before, and is handed out once")
}
