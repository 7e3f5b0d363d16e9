//! What an operation has of the resources that its operator asks for: [`Granted`] goes with the
//! operation, and becomes a [`Resource`] while it runs.
//!
//! `manager.rs` and `dealt.rs` grant resources to calls, on their threads. The call's operation
//! declares what it was granted, and `operator/kernel_call.rs` borrows that in it.

#![forbid(unsafe_code)]

use crate::dtype::Element;
use crate::error::{Error, ErrorKind};
use crate::resource::philox::Philox;
use crate::storage::device::DeviceSpace;
use crate::storage::{Handle, Storage, Tag};
use seriatim::gpu::DeviceHandle;
use seriatim::{Context, Data, Engine, RefMut, RunContext, Variable};

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

/// A resource as an operation carries it.
#[derive(Clone, Debug)]
pub(crate) enum Granted {
    Random(Data<Philox>),
    TempSpace(Data<Space>),
    /// A generator of a device, and the seed that it follows.
    DeviceRandom(Data<DeviceRandom>, Data<Seeds>),
    DeviceSpace(DeviceSpace),
}

/// The blocks of a temporary space of the processor, which grow as operations ask for more.
#[derive(Debug, Default)]
pub(crate) struct Space {
    /// Where the operator runs.
    own: Option<Handle>,
    /// What `get_host_space` gives.
    host: Option<Handle>,
}

/// The last seed of all generators. Those of devices follow it where they draw: so a seed reaches
/// also those that are made later.
#[derive(Debug, Default)]
pub(crate) struct Seeds {
    seed: u64,
    /// How many seeds there were.
    round: u64,
}

impl Seeds {
    pub fn set(&mut self, seed: u64) {
        *self = Seeds { seed, round: self.round + 1 };
    }
}

/// A generator of a device. The processor has its state, and a kernel gets that as values.
#[derive(Debug)]
pub(crate) struct DeviceRandom {
    philox: Philox,
    /// Which seed it follows.
    round: Option<u64>,
}

impl DeviceRandom {
    pub fn new(stream: u64) -> DeviceRandom {
        DeviceRandom { philox: Philox::new(0, stream), round: None }
    }

    /// Begins with a seed of its own, until the next one of all generators.
    pub fn begin(&mut self, seed: u64, seeds: &Seeds) {
        *self = DeviceRandom { philox: Philox::new(seed, self.philox.stream()), round: Some(seeds.round) };
    }

    /// Begins anew if there was a seed since.
    fn follow(&mut self, seeds: &Seeds) {
        if self.round != Some(seeds.round) {
            self.begin(seeds.seed, seeds);
        }
    }
}

impl Granted {
    /// Temporary space with a variable of its own, which the caller deletes if it is the
    /// processor's.
    pub fn own_space(engine: &Engine, device: Option<&DeviceHandle>) -> Result<Granted, Error> {
        Ok(match device {
            None => Granted::TempSpace(Data::new(engine, Space::default())),
            Some(device) => Granted::DeviceSpace(DeviceSpace::new(device)?),
        })
    }

    /// What the operation changes.
    pub fn variable(&self) -> Variable {
        match self {
            Granted::Random(random) => random.variable(),
            Granted::TempSpace(space) => space.variable(),
            Granted::DeviceRandom(random, _) => random.variable(),
            Granted::DeviceSpace(space) => space.variable(),
        }
    }

    /// What it reads beside that.
    pub fn read_variable(&self) -> Option<Variable> {
        match self {
            Granted::DeviceRandom(_, seeds) => Some(seeds.variable()),
            _ => None,
        }
    }

    /// Borrows it, in an operation that has declared both.
    pub fn lend(&self, storage: &Storage) -> Result<Resource<'_>, Error> {
        let lent = match self {
            Granted::Random(random) => Lent::Random(random.write()?),
            Granted::TempSpace(space) => Lent::TempSpace(space.write()?, storage.clone()),
            Granted::DeviceRandom(random, seeds) => {
                let mut random = random.write()?;
                random.follow(&*seeds.read()?);
                Lent::DeviceRandom(random)
            }
            Granted::DeviceSpace(space) => Lent::DeviceSpace { space, storage: storage.clone(), host: None },
        };
        Ok(Resource { variable: self.variable(), lent })
    }
}

enum Lent<'a> {
    Random(RefMut<'a, Philox>),
    TempSpace(RefMut<'a, Space>, Storage),
    DeviceRandom(RefMut<'a, DeviceRandom>),
    DeviceSpace {
        space: &'a DeviceSpace,
        storage: Storage,
        /// What `get_host_space` gives.
        host: Option<Handle>,
    },
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
            Lent::Random(_) | Lent::DeviceRandom(_) => ResourceRequest::Random,
            Lent::TempSpace(..) | Lent::DeviceSpace { .. } => ResourceRequest::TempSpace,
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
    /// resource is a generator; [`UnsupportedContext`](ErrorKind::UnsupportedContext) on a GPU,
    /// where it is [`get_device_space`](Resource::get_device_space).
    pub fn get_space<T: Element>(&mut self, elements: usize) -> Result<&mut [T], Error> {
        match &mut self.lent {
            Lent::TempSpace(space, storage) => grown(&mut space.own, storage, elements),
            Lent::DeviceSpace { .. } => {
                let message = "space of a GPU is out of the processor's reach: ask by get_device_space for its \
                               address, or by get_host_space for memory of the processor";
                Err(Error::new(ErrorKind::UnsupportedContext, message))
            }
            _ => Err(no_space()),
        }
    }

    /// The same in memory of the processor, wherever the operator runs. It is other memory than
    /// that of [`get_space`](Resource::get_space). The operator has it until it returns: what it
    /// queues on a GPU does not use it.
    ///
    /// # Errors
    /// [`OutOfMemory`](ErrorKind::OutOfMemory); [`BadParameter`](ErrorKind::BadParameter) if the
    /// resource is a generator.
    pub fn get_host_space<T: Element>(&mut self, elements: usize) -> Result<&mut [T], Error> {
        match &mut self.lent {
            Lent::TempSpace(space, storage) => grown(&mut space.host, storage, elements),
            Lent::DeviceSpace { host, storage, .. } => grown(host, storage, elements),
            _ => Err(no_space()),
        }
    }

    /// The address of space for so many elements in memory of the GPU that the operator runs on,
    /// for what it queues on [`run_ctx.stream()`](RunContext::stream). What is in it is undefined.
    /// `run` is the operator's [`run_ctx`](crate::operator::OpContext::run_ctx).
    ///
    /// A space grows with the largest call, and operations with the same one take turns on the GPU;
    /// the processor does not wait. A second call gives the same memory, unless it asks for more:
    /// then it may be other memory, and what is queued already goes on with the first.
    ///
    /// Worst case: a space that grows asks the driver for memory, and may wait for the device if
    /// kept memory has to be freed.
    ///
    /// # Errors
    /// [`OutOfMemory`](ErrorKind::OutOfMemory); [`BadParameter`](ErrorKind::BadParameter) if the
    /// resource is a generator; [`UnsupportedContext`](ErrorKind::UnsupportedContext) on the
    /// processor.
    pub fn get_device_space<T: Element>(&mut self, run: &RunContext<'_>, elements: usize) -> Result<*mut T, Error> {
        match &mut self.lent {
            Lent::DeviceSpace { space, .. } => Ok(space.address(run, bytes_of::<T>(elements)?)?.cast()),
            Lent::TempSpace(..) => {
                let message = "space of the processor has no address of a device: ask by get_space";
                Err(Error::new(ErrorKind::UnsupportedContext, message))
            }
            _ => Err(no_space()),
        }
    }

    /// The generator. Draws change it, and the next operation goes on behind them.
    ///
    /// An operator of a GPU has one of that GPU. It takes what its kernel is to draw by
    /// [`reserve`](Philox::reserve), and hands the kernel the seed, the stream and the counter: the
    /// same Philox there gives the same numbers as here.
    ///
    /// # Errors
    /// [`BadParameter`](ErrorKind::BadParameter) if the resource is temporary space.
    pub fn get_random(&mut self) -> Result<&mut Philox, Error> {
        match &mut self.lent {
            Lent::Random(random) => Ok(random),
            Lent::DeviceRandom(random) => Ok(&mut random.philox),
            _ => {
                let message = "temporary space was asked for random numbers: ask for ResourceRequest::Random";
                Err(Error::new(ErrorKind::BadParameter, message))
            }
        }
    }
}

#[cold]
fn no_space() -> Error {
    let message = "a random generator was asked for space: ask for ResourceRequest::TempSpace";
    Error::new(ErrorKind::BadParameter, message)
}

fn bytes_of<T>(elements: usize) -> Result<usize, Error> {
    elements.checked_mul(size_of::<T>()).ok_or_else(|| {
        Error::new(ErrorKind::TooLarge, format!("temporary space for {elements} elements is more than memory has"))
    })
}

/// The elements of a block, which is made anew if it has not room for them.
fn grown<'a, T: Element>(
    block: &'a mut Option<Handle>,
    storage: &Storage,
    elements: usize,
) -> Result<&'a mut [T], Error> {
    let bytes = bytes_of::<T>(elements)?;
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
