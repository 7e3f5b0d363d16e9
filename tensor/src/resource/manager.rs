//! What operators ask for beside their arguments: random numbers and temporary space. Each resource
//! has a variable, and an operation that uses it changes that, so users take turns in push order.
//!
//! Used by `ndarray/runtime.rs`, which keeps a [`Manager`], and by `operator/call.rs`, which takes
//! resources for an operation; `operator/kernel_call.rs` borrows them in it.

#![forbid(unsafe_code)]

use crate::dtype::Element;
use crate::error::{Error, ErrorKind};
use crate::resource::philox::Philox;
use crate::storage::{Handle, Storage, Tag};
use seriatim::{Context, Data, Engine, RefMut, Variable};
use smallvec::SmallVec;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::OnceLock;

/// The most generators that a runtime has.
pub(crate) const MOST_GENERATORS: usize = 64;

/// The most temporary spaces that one call gets.
const MOST_SPACES: usize = 8;

/// What an operator asks for.
///
/// ```
/// use seriatim_tensor::resource::ResourceRequest;
/// assert_ne!(ResourceRequest::Random, ResourceRequest::TempSpace);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ResourceRequest {
    /// A generator of random numbers (`kRandom`).
    Random,
    /// Memory that is the operation's while it runs (`kTempSpace`).
    TempSpace,
}

#[derive(Clone, Debug)]
pub(crate) enum Granted {
    Random(Data<Philox>),
    TempSpace(Data<Space>),
}

/// The blocks of a temporary space, which grow as operations ask for more.
#[derive(Debug, Default)]
pub(crate) struct Space {
    /// Where the operator runs.
    own: Option<Handle>,
    /// Of the processor.
    host: Option<Handle>,
}

/// The resources of a runtime: as many generators and temporary spaces as it was made with.
#[derive(Debug)]
pub(crate) struct Manager {
    /// Generator *i* draws from stream *i* of the seed.
    generators: Vec<Data<Philox>>,
    /// Spaces for the first request of a call, for its second, and so on, made when a call needs
    /// them.
    spaces: [OnceLock<Vec<Data<Space>>>; MOST_SPACES],
    /// How many spaces there are for each request.
    count: usize,
    /// How many generators and spaces were granted: they are dealt out in turn.
    dealt_generators: AtomicUsize,
    dealt_spaces: AtomicUsize,
}

impl Manager {
    pub fn new(engine: &Engine, generators: usize, spaces: usize) -> Manager {
        let streams = 0..generators.clamp(1, MOST_GENERATORS) as u64;
        Manager {
            generators: streams.map(|stream| Data::new(engine, Philox::new(0, stream))).collect(),
            spaces: [const { OnceLock::new() }; MOST_SPACES],
            count: spaces.max(1),
            dealt_generators: AtomicUsize::new(0),
            dealt_spaces: AtomicUsize::new(0),
        }
    }

    /// All generators, in the order of their streams.
    pub fn generators(&self) -> &[Data<Philox>] {
        &self.generators
    }

    /// The generator for the next draw.
    pub fn next_generator(&self) -> &Data<Philox> {
        &self.generators[self.dealt_generators.fetch_add(1, Relaxed) % self.generators.len()]
    }

    /// Has the next draw be by the first generator, so numbers follow from the seed and from the
    /// calls after it.
    pub fn deal_from_first(&self) {
        self.dealt_generators.store(0, Relaxed);
    }

    /// What a call asks for. Requests of one kind get different resources.
    pub fn grant(&self, engine: &Engine, requests: &[ResourceRequest]) -> Result<SmallVec<[Granted; 1]>, Error> {
        let draws = requests.iter().filter(|request| **request == ResourceRequest::Random).count();
        if draws > self.generators.len() {
            let message = format!(
                "an operator asks for {draws} generators, and there are {}: make the runtime with more by \
                 RuntimeBuilder::generators, up to {MOST_GENERATORS}",
                self.generators.len()
            );
            return Err(Error::new(ErrorKind::BadParameter, message));
        }
        let mut next = if draws == 0 { 0 } else { self.dealt_generators.fetch_add(draws, Relaxed) };
        let mut spaces = self.spaces.iter();
        let each = requests.iter().map(|request| match request {
            ResourceRequest::Random => {
                let generator = &self.generators[next % self.generators.len()];
                next = next.wrapping_add(1);
                Ok(Granted::Random(generator.clone()))
            }
            ResourceRequest::TempSpace => {
                let Some(alike) = spaces.next() else {
                    let message = format!("an operator asks for more than {MOST_SPACES} temporary spaces: divide one");
                    return Err(Error::new(ErrorKind::BadParameter, message));
                };
                let alike =
                    alike.get_or_init(|| (0..self.count).map(|_| Data::new(engine, Space::default())).collect());
                Ok(Granted::TempSpace(alike[self.dealt_spaces.fetch_add(1, Relaxed) % self.count].clone()))
            }
        });
        each.collect()
    }

    /// The variables, to be deleted with the runtime.
    pub fn variables(&self) -> impl Iterator<Item = Variable> + '_ {
        let spaces = self.spaces.iter().filter_map(OnceLock::get).flatten();
        spaces.map(Data::variable).chain(self.generators.iter().map(Data::variable))
    }
}

impl Granted {
    /// Temporary space with a variable of its own, which the caller deletes.
    pub fn own_space(engine: &Engine) -> Granted {
        Granted::TempSpace(Data::new(engine, Space::default()))
    }

    pub fn variable(&self) -> Variable {
        match self {
            Granted::Random(random) => random.variable(),
            Granted::TempSpace(space) => space.variable(),
        }
    }

    /// Borrows it, in an operation that has declared that it changes the variable.
    pub fn lend(&self, storage: &Storage) -> Result<Resource<'_>, Error> {
        let lent = match self {
            Granted::Random(random) => Lent::Random(random.write()?),
            Granted::TempSpace(space) => Lent::TempSpace(space.write()?, storage.clone()),
        };
        Ok(Resource { variable: self.variable(), lent })
    }
}

enum Lent<'a> {
    Random(RefMut<'a, Philox>),
    TempSpace(RefMut<'a, Space>, Storage),
}

/// A resource that an operation has while it runs, from the context of the operator.
pub struct Resource<'a> {
    variable: Variable,
    lent: Lent<'a>,
}

impl Resource<'_> {
    /// What it is.
    pub fn request(&self) -> ResourceRequest {
        match self.lent {
            Lent::Random(_) => ResourceRequest::Random,
            Lent::TempSpace(..) => ResourceRequest::TempSpace,
        }
    }

    /// The variable that operations change which have the resource.
    pub fn variable(&self) -> Variable {
        self.variable
    }

    /// Space for so many elements. What is in it is undefined, but zeros for `bool`. A second call
    /// gives the same memory.
    ///
    /// # Errors
    /// [`OutOfMemory`](ErrorKind::OutOfMemory); [`BadParameter`](ErrorKind::BadParameter) if the
    /// resource is a generator.
    pub fn get_space<T: Element>(&mut self, elements: usize) -> Result<&mut [T], Error> {
        let (space, storage) = self.space()?;
        grown(&mut space.own, storage, elements)
    }

    /// The same in memory of the processor, wherever the operator runs. It is other memory than
    /// that of [`get_space`](Resource::get_space).
    ///
    /// # Errors
    /// Those of [`get_space`](Resource::get_space).
    pub fn get_host_space<T: Element>(&mut self, elements: usize) -> Result<&mut [T], Error> {
        let (space, storage) = self.space()?;
        grown(&mut space.host, storage, elements)
    }

    fn space(&mut self) -> Result<(&mut Space, &Storage), Error> {
        match &mut self.lent {
            Lent::TempSpace(space, storage) => Ok((space, storage)),
            Lent::Random(_) => {
                let message = "a random generator was asked for space: ask for ResourceRequest::TempSpace";
                Err(Error::new(ErrorKind::BadParameter, message))
            }
        }
    }

    /// The generator. Draws change it, and the next operation goes on behind them.
    ///
    /// # Errors
    /// [`BadParameter`](ErrorKind::BadParameter) if the resource is temporary space.
    pub fn get_random(&mut self) -> Result<&mut Philox, Error> {
        match &mut self.lent {
            Lent::Random(random) => Ok(random),
            Lent::TempSpace(..) => {
                let message = "temporary space was asked for random numbers: ask for ResourceRequest::Random";
                Err(Error::new(ErrorKind::BadParameter, message))
            }
        }
    }
}

/// The elements of a block, which is made anew if it has not room for them.
fn grown<'a, T: Element>(
    block: &'a mut Option<Handle>,
    storage: &Storage,
    elements: usize,
) -> Result<&'a mut [T], Error> {
    let bytes = elements.checked_mul(size_of::<T>()).ok_or_else(|| {
        Error::new(ErrorKind::TooLarge, format!("temporary space for {elements} elements is more than memory has"))
    })?;
    if block.as_ref().is_none_or(|block| block.size() < bytes) {
        // Given back first: the new block may be the same.
        *block = None;
        *block = Some(storage.alloc_as(Tag::NONE, bytes, Context::cpu(0))?);
    }
    Ok(block.as_mut().expect("it was made above").elements_mut::<T>(elements))
}

impl std::fmt::Debug for Resource<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Resource({:?}, {:?})", self.request(), self.variable)
    }
}
