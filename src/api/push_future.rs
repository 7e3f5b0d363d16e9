//! `OperationBuilder::push_future`: a future as an asynchronous operation.
//!
//! The method stands here, and not in `src/api/operation.rs`, for its rules. The thread that pushes
//! calls it. What polls the future is in `src/engine/future/task.rs`.

#![forbid(unsafe_code)]

use crate::api::operation::OperationBuilder;
use crate::engine::future::task::{fits, PollKind, Prepared};
use crate::error::Error;
use crate::operation::closure::IntoOutcome;
use std::future::Future;

impl OperationBuilder<'_> {
    /// Pushes an asynchronous operation that is a future: it ends when the future is ready. No
    /// runtime is needed; the engine's workers poll it.
    ///
    /// It is polled first when the operation's turn has come, where its closure would run. When its
    /// waker is called, on any thread, the task is queued, and a worker polls it again: never the
    /// thread that wakes. **On the naive engine**, which has no workers, the waking thread does:
    /// hold no lock there that the future takes. While the future waits, it holds its variables and
    /// no worker. A future that several wakers wake is polled by one thread at a time.
    ///
    /// The future lies in a block of the engine's pool. One of more than some 440 bytes, or of an
    /// alignment above 16, costs an allocation.
    ///
    /// What it awaits may come from any library that wakes: channels, timers, or sockets of a
    /// runtime that runs elsewhere. It may await a [`Pending`](crate::Pending) and
    /// [`Engine::ready`](crate::Engine::ready) too, but nothing that waits for its own operation.
    /// A wait on its thread is refused, as in any operation.
    ///
    /// An error that it returns fails the operation, and so does a panic of a poll. A borrow of a
    /// [`Data`](crate::Data) cannot live across an `await`: take a new one after it. The first poll
    /// is compared with what the operation has declared. Later ones count as outside, as whatever
    /// an asynchronous operation does later.
    ///
    /// [`Engine::stop`](crate::Engine::stop) and the end of the engine wait for the future, as for
    /// any asynchronous operation; its wakers and its pushes work meanwhile. A future that can
    /// never be woken, as no waker of it is left, is dropped. Its operation then fails with
    /// [`CompletionDropped`](crate::ErrorKind::CompletionDropped). One that keeps a waker which is
    /// never called waits for ever.
    ///
    /// # Errors
    /// See [`Engine::push_sync`](crate::Engine::push_sync). The future is dropped then.
    ///
    /// ```
    /// use seriatim::{Data, Engine, Error};
    /// let engine = Engine::new()?;
    /// let (x, y) = (Data::new(&engine, 20), Data::new(&engine, 0));
    /// let (own, from, to) = (engine.clone(), x.clone(), y.clone());
    /// engine.op("sum").read(&x).write(&y).push_future(async move {
    ///     let base = *from.read()?;
    ///     let more = own.op("more").compute(|_| 22)?.await?; // no worker waits here
    ///     *to.write()? = base + more;
    ///     Ok::<(), Error>(())
    /// })?;
    /// engine.wait_for_var(y.variable())?;
    /// assert_eq!(*y.read()?, 42);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn push_future<F>(self, future: F) -> Result<(), Error>
    where
        F: Future + Send + 'static,
        F::Output: IntoOutcome,
    {
        if const { fits::<F>() } {
            self.push_task(future)
        } else {
            self.push_task(Box::pin(future))
        }
    }

    fn push_task<F>(self, future: F) -> Result<(), Error>
    where
        F: Future + Send + 'static,
        F::Output: IntoOutcome,
    {
        let request = self.draft.request();
        let kind = PollKind { property: request.property, priority: request.priority };
        let task = Prepared::new(self.engine.core(), kind, future);
        self.push_async(move |run, completion| task.begin(run, completion))
    }
}
