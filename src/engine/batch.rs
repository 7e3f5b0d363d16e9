//! Batches: many small operations merged into few.

#![forbid(unsafe_code)]

use super::claims::Claims;
use super::push::{push, resolve, Request};
use super::variable::Variable;
use super::Engine;
use crate::error::Error;
use crate::operation::closure::{mixed_vtable, IntoOutcome};
use crate::operation::context::RunContext;
use crate::operation::members::Members;
use crate::operation::name::Name;
use crate::variable::access::Mode;

/// A batch being collected, from [`Engine::batch`].
///
/// Operations pushed through it are merged, in their order, into one operation for up to
/// [`bulk_size`](crate::Builder::bulk_size) of them: it uses the variables of all, steps the version of each variable that
/// they change once, and costs one enlistment. If a member fails, those after it are skipped, and all variables that
/// the merged operation changes are marked.
///
/// ```
/// let engine = seriatim::Engine::builder().bulk_size(4).build()?;
/// let x = engine.new_variable();
/// engine.batch(|b| {
///     (0..10).try_for_each(|_| b.op("step").writes([x]).push(|_| ()))
/// })??;
/// engine.wait_for_var(x)?;
/// assert_eq!(engine.version(x)?, 3); // 4 + 4 + 2
/// # Ok::<(), seriatim::Error>(())
/// ```
pub struct Batch<'a> {
    engine: &'a Engine,
    claims: Claims,
    members: Option<Members>,
    priority: i32,
    /// The first error of a merged push.
    outcome: Result<(), Error>,
}

impl<'a> Batch<'a> {
    pub(crate) fn new(engine: &'a Engine) -> Batch<'a> {
        Batch { engine, claims: Claims::new(), members: None, priority: 0, outcome: Ok(()) }
    }

    /// Starts a member of the batch. As [`Engine::op`], for synchronous operations on `cpu(0)`.
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// # let x = engine.new_variable();
    /// engine.batch(|b| b.op("one").writes([x]).push(|_| ()))??;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn op(&mut self, name: impl Into<Name>) -> MemberBuilder<'_, 'a> {
        MemberBuilder { name: name.into(), claims: Claims::new(), priority: 0, batch: self }
    }

    /// Pushes what has been collected.
    fn flush(&mut self, name: Name) {
        let Some(members) = self.members.take() else { return };
        let mut claims = std::mem::replace(&mut self.claims, Claims::new());
        let run_all = move |run: &RunContext<'_>| members.run(run);
        let request = Request { priority: self.priority, ..Request::named(name) };
        let pushed = push(self.engine.core(), request, claims.ordered(), mixed_vtable(&run_all), run_all);
        if self.outcome.is_ok() {
            self.outcome = pushed;
        }
    }

    pub(crate) fn finish(mut self) -> Result<(), Error> {
        self.flush(Name::from("batch"));
        std::mem::replace(&mut self.outcome, Ok(()))
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        // Only after a panic is anything left: what was accepted is not dropped silently.
        self.flush(Name::from("batch"));
    }
}

/// A member of a batch being put together.
///
/// ```
/// # let engine = seriatim::Engine::new()?;
/// # let x = engine.new_variable();
/// engine.batch(|b| b.op("one").writes([x]).priority(1).push(|_| ()))??;
/// # Ok::<(), seriatim::Error>(())
/// ```
#[must_use = "an operation is not pushed until push() is called"]
pub struct MemberBuilder<'b, 'a> {
    batch: &'b mut Batch<'a>,
    name: Name,
    claims: Claims,
    priority: i32,
}

impl MemberBuilder<'_, '_> {
    /// Adds variables that the operation reads.
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// # let x = engine.new_variable();
    /// engine.batch(|b| b.op("look").reads([x]).push(|_| ()))??;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn reads(mut self, variables: impl IntoIterator<Item = impl Into<Variable>>) -> Self {
        variables.into_iter().for_each(|variable| self.claims.add(variable.into(), Mode::Read));
        self
    }

    /// Adds variables that the operation changes.
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// # let x = engine.new_variable();
    /// engine.batch(|b| b.op("change").writes([x]).push(|_| ()))??;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn writes(mut self, variables: impl IntoIterator<Item = impl Into<Variable>>) -> Self {
        variables.into_iter().for_each(|variable| self.claims.add(variable.into(), Mode::Write));
        self
    }

    /// Operations of different priorities are not merged.
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// engine.batch(|b| b.op("soon").priority(3).push(|_| ()))??;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn priority(mut self, priority: i32) -> Self {
        self.priority = priority;
        self
    }

    /// Adds the operation to the batch.
    ///
    /// # Errors
    /// As [`Engine::push_sync`], for its variables; the operation is then not part of the batch.
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// engine.batch(|b| b.op("one").push(|_| ()))??;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn push<F, R>(mut self, closure: F) -> Result<(), Error>
    where
        F: FnOnce(&RunContext<'_>) -> R + Send + 'static,
        R: IntoOutcome,
    {
        let batch = self.batch;
        let claims = self.claims.ordered();
        for claim in claims {
            resolve(batch.engine.core(), claim.variable)?;
        }
        if batch.priority != self.priority {
            batch.flush(self.name);
            batch.priority = self.priority;
        }
        batch.claims.add_all(claims);
        let members = batch.members.get_or_insert_with(|| Members::new(&batch.engine.core().shelf));
        members.add(closure);
        if members.len() >= batch.engine.settings().bulk_size {
            batch.flush(self.name);
        }
        Ok(())
    }
}
