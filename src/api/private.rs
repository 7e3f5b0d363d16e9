//! Private variables of a graph: the methods of `Capture` that make them, for the thread that
//! captures. Only `make_private` can be refused: `src/engine/replay/private.rs` has the state,
//! refuses there, and pushes the deletion of a variable that others have used.
//! `src/engine/resolve.rs` refuses private variables elsewhere, and has the message.

#![forbid(unsafe_code)]

use crate::api::capture::Capture;
use crate::api::data::Data;
use crate::error::Error;
use crate::variable::handle::Variable;

impl Capture {
    /// Makes a variable that only operations of this graph can name, for what lives inside of it:
    /// scratch space, states that go from replay to replay.
    ///
    /// Inside the graph it orders operations as any variable does. A replay does not claim it: the
    /// time of [`Graph::replay`](crate::Graph::replay) does not grow with it. It has no version,
    /// and nothing waits for it. It ends with the graph, or with the capture if no graph is made.
    ///
    /// A failure inside a replay marks it and skips what depends on it, as with any variable. The
    /// mark stays for later replays until a wait takes the failure:
    /// [`wait_for_var`](crate::Engine::wait_for_var) of another variable that the failure has
    /// reached, or [`wait_for_all`](crate::Engine::wait_for_all).
    ///
    /// Time: that of [`Engine::new_variable`](crate::Engine::new_variable).
    ///
    /// # Errors
    /// None here. Outside this capture each call that is given the variable fails with
    /// [`PrivateVariable`](crate::ErrorKind::PrivateVariable), and with
    /// [`VariableDeleted`](crate::ErrorKind::VariableDeleted) once the graph is gone.
    ///
    /// ```
    /// use seriatim::{Engine, ErrorKind};
    /// let engine = Engine::new()?;
    /// let sum = engine.new_variable();
    /// let (graph, half) = engine.capture(|c| {
    ///     let half = c.private_variable();
    ///     c.op("halve").write(half).push(|_| ())?;
    ///     c.op("add").read(half).write(sum).push(|_| ())?;
    ///     Ok(half)
    /// })?;
    /// graph.replay()?;
    /// engine.wait_for_var(sum)?;
    /// assert_eq!(engine.wait_for_var(half).unwrap_err().kind(), ErrorKind::PrivateVariable);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn private_variable(&mut self) -> Variable {
        let variable = self.engine.new_variable();
        let added = self.recording.private.add(self.engine.core(), variable);
        debug_assert!(added.is_ok(), "no other thread knows the variable");
        variable
    }

    /// Makes a variable private to this graph that was made outside, and that operations may have
    /// used. From then on it is as one from [`private_variable`](Capture::private_variable): it is
    /// refused everywhere else, and it does not come back when the graph ends.
    ///
    /// Replays come after all operations that use it and were pushed before. If one of those has
    /// failed and left its mark, the mark counts in the graph until a wait takes the failure.
    ///
    /// Worst case: that of [`delete_variable`](crate::Engine::delete_variable). It waits for
    /// nothing.
    ///
    /// # Errors
    /// [`VariableDeleted`](crate::ErrorKind::VariableDeleted),
    /// [`ForeignVariable`](crate::ErrorKind::ForeignVariable),
    /// [`PrivateVariable`](crate::ErrorKind::PrivateVariable) if it is private already,
    /// [`Stopped`](crate::ErrorKind::Stopped),
    /// [`ThreadRefused`](crate::ErrorKind::ThreadRefused) and
    /// [`PriorityRefused`](crate::ErrorKind::PriorityRefused). The variable is then as it was. A
    /// bound does not hold the call up.
    ///
    /// ```
    /// use seriatim::{Data, Engine, Error};
    /// let engine = Engine::new()?;
    /// let (state, output) = (Data::new(&engine, 0), Data::new(&engine, 0));
    /// let of = state.clone();
    /// engine.op("fill").write(&state).push(move |_| of.write().map(|mut state| *state = 7))?;
    /// let (graph, ()) = engine.capture(|c| {
    ///     c.make_private(&state)?;
    ///     let (from, to) = (state.clone(), output.clone());
    ///     c.op("copy").read(&state).write(&output).push(move |_| {
    ///         *to.write()? = *from.read()?;
    ///         Ok::<(), Error>(())
    ///     })
    /// })?;
    /// graph.replay()?;
    /// engine.wait_for_var(output.variable())?;
    /// assert_eq!(*output.read()?, 7);
    /// assert!(engine.wait_for_var(state.variable()).is_err());
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn make_private(&mut self, variable: impl Into<Variable>) -> Result<(), Error> {
        self.recording.private.give(self.engine.core(), variable.into())
    }

    /// Makes a value whose variable is [private](Capture::private_variable) to the graph.
    ///
    /// Operations of the graph declare and borrow it as any [`Data`]. A borrow outside of
    /// operations is allowed as ever, and is refused while an operation of a replay borrows the
    /// value in another way: wait for an output of the graph first.
    ///
    /// ```
    /// use seriatim::{Data, Engine, Error};
    /// let engine = Engine::new()?;
    /// let total = Data::new(&engine, 0);
    /// let (graph, count) = engine.capture(|c| {
    ///     let count = c.private_data(0);
    ///     let of = count.clone();
    ///     c.op("count").write(&count).push(move |_| {
    ///         *of.write()? += 1;
    ///         Ok::<(), Error>(())
    ///     })?;
    ///     let (from, to) = (count.clone(), total.clone());
    ///     c.op("add").read(&count).write(&total).push(move |_| {
    ///         *to.write()? += *from.read()?;
    ///         Ok::<(), Error>(())
    ///     })?;
    ///     Ok(count)
    /// })?;
    /// (0..3).try_for_each(|_| graph.replay())?;
    /// engine.wait_for_var(total.variable())?;
    /// assert_eq!((*count.read()?, *total.read()?), (3, 6));
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn private_data<T>(&mut self, value: T) -> Data<T> {
        Data::of(self.private_variable(), value)
    }
}
