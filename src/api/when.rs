//! `WhenFree` and `WhenAllEnded`: waits as futures, and the methods of `Engine` that make them.
//!
//! `src/api/control.rs` has the same waits on a thread. What is behind the futures is in
//! `src/engine/future/`. A future belongs to the thread that polls it; its waker is called by a
//! thread that ends an operation.

#![forbid(unsafe_code)]

use crate::api::engine::Engine;
use crate::engine::future::all::AllEnded;
use crate::engine::future::cell::{Awaited, Outcome};
use crate::engine::future::variable::when_free;
use crate::error::Error;
use crate::operation::access::Mode;
use crate::variable::handle::Variable;
use std::fmt;
use std::future::Future;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::pin::Pin;
use std::task::{Context, Poll};

impl Engine {
    /// Waits until the **writes** of `variable` that were pushed before this call are complete, as
    /// [`wait_for_var`](Engine::wait_for_var) does, but as a future. Running reads do not hold it
    /// up; [`unused`](Engine::unused) waits for those as well.
    ///
    /// The wait takes its place in push order with this call, and not when it is polled first. It
    /// is in flight until the writes are complete, whether the future is dropped or not. The future
    /// does not keep the engine.
    ///
    /// Worst case: a few loads if no write is pending; else the push of an operation that reads the
    /// variable. A poll takes a few steps, and waits for nobody. No lock is taken, and in steady
    /// state nothing is allocated.
    ///
    /// # Errors
    /// The future's are those of [`wait_for_var`](Engine::wait_for_var), but a future may be
    /// awaited inside an operation that is one itself
    /// ([`push_future`](crate::OperationBuilder::push_future)). **It must not wait for a variable
    /// that its own operation uses**: that would be for ever.
    ///
    /// ```
    /// # fn block_on<T>(future: impl Future<Output = T>) -> T {
    /// #     struct Unpark(std::thread::Thread);
    /// #     impl std::task::Wake for Unpark {
    /// #         fn wake(self: std::sync::Arc<Self>) { self.0.unpark() }
    /// #     }
    /// #     let waker = std::sync::Arc::new(Unpark(std::thread::current())).into();
    /// #     let mut future = std::pin::pin!(future);
    /// #     loop {
    /// #         match future.as_mut().poll(&mut std::task::Context::from_waker(&waker)) {
    /// #             std::task::Poll::Ready(value) => return value,
    /// #             std::task::Poll::Pending => std::thread::park(),
    /// #         }
    /// #     }
    /// # }
    /// use seriatim::{Data, Engine, Error};
    /// let engine = Engine::new()?;
    /// let x = Data::new(&engine, 1);
    /// let to = x.clone();
    /// engine.op("double").write(&x).push(move |_| to.write().map(|mut x| *x *= 2))?;
    /// block_on(async {
    ///     engine.ready(&x).await?;
    ///     assert_eq!(*x.read()?, 2);
    ///     Ok::<(), Error>(())
    /// })?;
    /// # Ok::<(), Error>(())
    /// ```
    pub fn ready(&self, variable: impl Into<Variable>) -> WhenFree {
        WhenFree::of(when_free(self.core(), variable.into(), Mode::Read))
    }

    /// Waits until **every operation** that uses `variable` and was pushed before this call is
    /// complete, reads included, as [`wait_until_unused`](Engine::wait_until_unused) does, but as a
    /// future. In push order it stands where a change of the variable would stand.
    ///
    /// # Errors
    /// As for [`ready`](Engine::ready).
    ///
    /// ```
    /// let engine = seriatim::Engine::new()?;
    /// let x = engine.new_variable();
    /// let handler = async {
    ///     engine.unused(x).await?;
    ///     println!("what x stands for may be freed");
    ///     Ok::<(), seriatim::Error>(())
    /// };
    /// # drop(handler);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn unused(&self, variable: impl Into<Variable>) -> WhenFree {
        WhenFree::of(when_free(self.core(), variable.into(), Mode::Write))
    }

    /// Waits until nothing is in flight, as [`wait_for_all`](Engine::wait_for_all) does, but as a
    /// future. Pushes that go on meanwhile may hold it up.
    ///
    /// Worst case of a poll: if something is in flight, a look at each thread that has used the
    /// engine, and a fence on all threads of the process (about a microsecond). If nothing is, a
    /// sort of all failures that no wait has taken.
    ///
    /// # Errors
    /// Those of [`wait_for_all`](Engine::wait_for_all). Inside an operation of the engine, a future
    /// that is one included, it is [`WaitInsideOperation`](crate::ErrorKind::WaitInsideOperation).
    ///
    /// ```
    /// let engine = seriatim::Engine::new()?;
    /// let handler = async {
    ///     engine.op("work").push(|_| ())?;
    ///     engine.all_ended().await
    /// };
    /// # drop(handler);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn all_ended(&self) -> WhenAllEnded {
        WhenAllEnded(AllEnded::new(self.core()))
    }
}

/// A wait for a variable as a future, from [`Engine::ready`] or [`Engine::unused`].
///
/// Dropping it takes its waker back: nobody is woken for it any more. Its place in push order
/// stays, and goes with the operations before it. A failure that it has not told is told by the
/// next wait. A future that is polled again after it was ready stays pending.
///
/// ```
/// let engine = seriatim::Engine::new()?;
/// let x = engine.new_variable();
/// let wait: seriatim::WhenFree = engine.ready(x);
/// drop(wait);
/// # Ok::<(), seriatim::Error>(())
/// ```
#[must_use = "futures do nothing unless they are polled"]
pub struct WhenFree(FreeState);

enum FreeState {
    /// Known since the call; `None` once it was told.
    Known(Option<Result<(), Error>>),
    Awaited(Awaited<()>),
}

impl WhenFree {
    fn of(begun: Result<Option<Awaited<()>>, Error>) -> WhenFree {
        WhenFree(match begun {
            Ok(Some(awaited)) => FreeState::Awaited(awaited),
            Ok(None) => FreeState::Known(Some(Ok(()))),
            Err(error) => FreeState::Known(Some(Err(error))),
        })
    }
}

impl Future for WhenFree {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            FreeState::Known(known) => known.take().map_or(Poll::Pending, Poll::Ready),
            FreeState::Awaited(awaited) => awaited.poll(context.waker()).map(|outcome| match outcome? {
                // Another wait may have taken the error meanwhile: then this one returns none.
                Outcome::Failed(failure, Some(stamp)) => failure.take(stamp).map_or(Ok(()), Err),
                other => other.into_result(awaited.core()),
            }),
        }
    }
}

// What is waited for is the engine's, which no panic leaves half done.
impl UnwindSafe for WhenFree {}
impl RefUnwindSafe for WhenFree {}

impl fmt::Debug for WhenFree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WhenFree")
    }
}

/// A wait for everything as a future, from [`Engine::all_ended`]. Dropping it takes its waker back.
///
/// ```
/// let engine = seriatim::Engine::new()?;
/// let wait: seriatim::WhenAllEnded = engine.all_ended();
/// drop(wait);
/// # Ok::<(), seriatim::Error>(())
/// ```
#[must_use = "futures do nothing unless they are polled"]
pub struct WhenAllEnded(AllEnded);

impl Future for WhenAllEnded {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll(context.waker())
    }
}

// As above.
impl UnwindSafe for WhenAllEnded {}
impl RefUnwindSafe for WhenAllEnded {}

impl fmt::Debug for WhenAllEnded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WhenAllEnded")
    }
}
