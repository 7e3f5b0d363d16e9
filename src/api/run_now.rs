//! `run_now`, the end of an [`OperationBuilder`] by which the calling thread runs the operation
//! itself, or nothing happens.
//!
//! Programs call it, and the arrays of `tensor/`, for copies from and to memory of the caller.

#![forbid(unsafe_code)]

use crate::api::operation::OperationBuilder;
use crate::engine::push::run_now;
use crate::operation::closure::{catch_call, IntoOutcome};
use crate::operation::context::RunContext;

impl OperationBuilder<'_> {
    /// Runs the operation in this call, if nothing holds it up, and says whether it has. The
    /// closure may borrow from the caller, and is not shipped to a worker however long it takes.
    ///
    /// If it has run, it has taken its turn among the pushes like any other operation: its failure,
    /// by an error or a panic, marks what it changes. If it has not, the closure was dropped and
    /// nothing has happened. Push the operation then.
    ///
    /// It does not run if a variable is busy, marked by a failure, or cannot be used; if the
    /// operation is not of [`cpu(0)`](crate::Context::cpu), [`profiled`](Self::profiled), or of
    /// another property than [`Normal`](crate::Property::Normal) and
    /// [`Short`](crate::Property::Short); if it has more than 256 variables, or one that commutes; if
    /// the engine is stopped, has a [bound](crate::Builder::bound), or records a profile.
    ///
    /// Worst case: its own work on the variables, and the closure. It waits for nobody.
    ///
    /// ```
    /// let engine = seriatim::Engine::new()?;
    /// let (x, mut copy) = (seriatim::Data::new(&engine, 7), 0);
    /// let ran = engine.op("look").read(&x).run_now(|_| x.read().map(|x| copy = *x));
    /// assert!(ran && copy == 7);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    #[inline]
    pub fn run_now<F, R>(mut self, closure: F) -> bool
    where
        F: FnOnce(&RunContext<'_>) -> R,
        R: IntoOutcome,
    {
        let (request, claims) = self.draft.parts();
        run_now(self.engine.core(), request, &claims, |run| catch_call(run, || closure(run).into_outcome()))
    }
}
