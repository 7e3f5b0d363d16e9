//! What operators ask for beside their arguments: random numbers and temporary space. Each resource
//! has a variable, and an operation that uses it changes that, so users take turns in push order.
//!
//! Used by `ndarray/runtime.rs`, which keeps a [`Manager`], and by `operator/call.rs`, which takes
//! resources for an operation and borrows them in it.

#![forbid(unsafe_code)]

use crate::dtype::Element;
use crate::error::{Error, ErrorKind};
use crate::resource::philox::Philox;
use crate::storage::{Handle, Storage};
use seriatim::{Context, Data, Engine, RefMut, Variable};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

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
    TempSpace(Data<Option<Handle>>),
}

/// The resources of a runtime: one generator, and as many temporary spaces as it was made with.
#[derive(Debug)]
pub(crate) struct Manager {
    random: Data<Philox>,
    spaces: Vec<Data<Option<Handle>>>,
    /// How many spaces were granted: they are dealt out in turn.
    granted: AtomicUsize,
}

impl Manager {
    pub fn new(engine: &Engine, spaces: usize) -> Manager {
        Manager {
            random: Data::new(engine, Philox::new(0, 0)),
            spaces: (0..spaces.max(1)).map(|_| Data::new(engine, None)).collect(),
            granted: AtomicUsize::new(0),
        }
    }

    pub fn random(&self) -> &Data<Philox> {
        &self.random
    }

    pub fn grant(&self, request: ResourceRequest) -> Granted {
        match request {
            ResourceRequest::Random => Granted::Random(self.random.clone()),
            ResourceRequest::TempSpace => {
                let number = self.granted.fetch_add(1, Relaxed) % self.spaces.len();
                Granted::TempSpace(self.spaces[number].clone())
            }
        }
    }

    /// The variables, to be deleted with the runtime.
    pub fn variables(&self) -> impl Iterator<Item = Variable> + '_ {
        self.spaces.iter().map(Data::variable).chain([self.random.variable()])
    }
}

impl Granted {
    /// Temporary space with a variable of its own, which the caller deletes.
    pub fn own_space(engine: &Engine) -> Granted {
        Granted::TempSpace(Data::new(engine, None))
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
    TempSpace(RefMut<'a, Option<Handle>>, Storage),
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
        let Lent::TempSpace(space, storage) = &mut self.lent else {
            let message = "a random generator was asked for space: ask for ResourceRequest::TempSpace";
            return Err(Error::new(ErrorKind::BadParameter, message));
        };
        let bytes = elements.checked_mul(size_of::<T>()).ok_or_else(|| {
            Error::new(ErrorKind::TooLarge, format!("temporary space for {elements} elements is more than memory has"))
        })?;
        if space.as_ref().is_none_or(|space| space.size() < bytes) {
            **space = None;
            **space = Some(storage.alloc(bytes, Context::cpu(0))?);
        }
        let space = space.as_mut().expect("it was made above");
        Ok(space.elements_mut::<T>(elements))
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

impl std::fmt::Debug for Resource<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Resource({:?}, {:?})", self.request(), self.variable)
    }
}
