//! `Instances`: a graph that is captured several times, so that as many replays of it are under way
//! at once.
//!
//! Nothing here but the graphs (`src/api/graph.rs`) and which of them is next. The thread that
//! replays has it to itself.

#![forbid(unsafe_code)]

use crate::api::capture::Capture;
use crate::api::engine::Engine;
use crate::api::graph::Graph;
use crate::error::{Error, ErrorKind};

/// Instances of one graph, from [`Engine::capture_instances`]. Each has private state of its own,
/// and is replayed in turn: so replays that share nothing else, or only read it, run at once.
///
/// Replays of one [`Graph`] follow each other, since they share its private variables. Of `n`
/// instances `n` replays may be under way.
///
/// ```
/// use seriatim::{Data, Engine, Error};
/// let engine = Engine::new()?;
/// let model = Data::new(&engine, 2);
/// let inputs: Vec<_> = (0..8).map(|input| Data::new(&engine, input)).collect();
/// // Two requests at a time, each with scratch space of its own; both read the model.
/// let record = |c: &mut seriatim::Capture, index: usize| {
///     let input = inputs[index].clone(); // of this instance
///     let (scratch, of) = (c.private_data(0), model.clone());
///     let (from, to) = (input.clone(), scratch.clone());
///     c.op("scale").reads([of.variable(), input.variable()]).write(&scratch).push(move |_| {
///         *to.write()? = *of.read()? * *from.read()?;
///         Ok::<(), Error>(())
///     })?;
///     let to = input.clone();
///     c.op("store").read(&scratch).write(&input).push(move |_| {
///         *to.write()? = *scratch.read()?;
///         Ok::<(), Error>(())
///     })
/// };
/// let (mut instances, _) = engine.capture_instances(2, record)?;
/// for _ in 0..4 {
///     instances.replay()?;
/// }
/// engine.wait_for_all()?;
/// assert_eq!((*inputs[0].read()?, *inputs[1].read()?), (0, 4));
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug)]
pub struct Instances {
    graphs: Box<[Graph]>,
    next: usize,
}

impl Engine {
    /// Captures a graph `count` times. `record` is called once for each instance, with its number;
    /// what it returns comes back in that order. Variables that it makes
    /// [private](Capture::private_variable), and closures, are that instance's own.
    ///
    /// Takes the time and memory of as many [captures](Engine::capture).
    ///
    /// # Errors
    /// [`BadSetting`](ErrorKind::BadSetting) for no instances; otherwise those of
    /// [`capture`](Engine::capture). No graph is made then.
    ///
    /// ```
    /// let engine = seriatim::Engine::new()?;
    /// let (instances, numbers) = engine.capture_instances(3, |_, number| Ok(number))?;
    /// assert_eq!((instances.len(), numbers), (3, vec![0, 1, 2]));
    /// assert!(engine.capture_instances(0, |_, _| Ok(())).is_err());
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn capture_instances<T>(
        &self,
        count: usize,
        mut record: impl FnMut(&mut Capture, usize) -> Result<T, Error>,
    ) -> Result<(Instances, Vec<T>), Error> {
        if count == 0 {
            return Err(Error::new(ErrorKind::BadSetting, "a graph needs 1 instance or more, not 0"));
        }
        let made = (0..count).map(|number| self.capture(|capture| record(capture, number)));
        let (graphs, values): (Vec<_>, Vec<_>) = made.collect::<Result<Vec<_>, Error>>()?.into_iter().unzip();
        Ok((Instances { graphs: graphs.into(), next: 0 }, values))
    }
}

impl Instances {
    /// Pushes one replay, of the instance whose last one is longest ago. Returns that instance's
    /// number.
    ///
    /// # Errors
    /// Those of [`Graph::replay`]. The same instance is then next again.
    ///
    /// ```
    /// let engine = seriatim::Engine::new()?;
    /// let (mut instances, _) = engine.capture_instances(2, |c, _| c.op("step").push(|_| ()))?;
    /// assert_eq!([instances.replay()?, instances.replay()?, instances.replay()?], [0, 1, 0]);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn replay(&mut self) -> Result<usize, Error> {
        let number = self.next;
        self.graphs[number].replay()?;
        self.next = (number + 1) % self.graphs.len();
        Ok(number)
    }

    /// The number of instances: 1 or more.
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// assert_eq!(engine.capture_instances(2, |_, _| Ok(()))?.0.len(), 2);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn len(&self) -> usize {
        self.graphs.len()
    }

    /// Whether there are no instances: never, as [`capture_instances`](Engine::capture_instances)
    /// makes 1 or more.
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// assert!(!engine.capture_instances(2, |_, _| Ok(()))?.0.is_empty());
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn is_empty(&self) -> bool {
        self.graphs.is_empty()
    }

    /// The graph of one instance, to be replayed by itself, with a priority say.
    ///
    /// ```
    /// # let engine = seriatim::Engine::new()?;
    /// let (instances, _) = engine.capture_instances(2, |c, _| c.op("step").push(|_| ()))?;
    /// instances.graph(1).expect("there are two").replay_with_priority(5)?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn graph(&self, number: usize) -> Option<&Graph> {
        self.graphs.get(number)
    }
}
