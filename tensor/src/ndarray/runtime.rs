//! `Runtime`: an engine with the storage and the resources of the arrays on it.
//!
//! Programs make one, or use the global one. Every array has a handle. Any thread may use it.

#![forbid(unsafe_code)]

use crate::error::Error;
use crate::ndarray::capturing;
use crate::ndarray::chunk::Chunk;
use crate::ndarray::ending::Kept;
use crate::ndarray::placing::Devices;
use crate::ndarray::view::View;
use crate::resource::manager::Manager;
use crate::storage::slots::Slots;
use crate::storage::Storage;
use seriatim::{Context, Engine};
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

/// An engine with a storage and resources: what arrays are made of and who orders their operations.
///
/// A handle: clones are the same runtime, and arrays have one each. Arrays of one runtime go
/// together; a call that is given arrays of two is refused with
/// [`ForeignArray`](crate::ErrorKind::ForeignArray). [`Runtime::global`] is on [`Engine::global`].
///
/// ```
/// use seriatim::{Engine, Kind};
/// use seriatim_tensor::{ErrorKind, NDArray, Runtime};
/// let runtime = Runtime::new(&Engine::builder().kind(Kind::Naive).build()?);
/// let x = runtime.from_slice(&[1.0f32, 2.0], [2])?;
/// let other = NDArray::from_slice(&[1.0f32, 2.0], [2])?;
/// assert_eq!(x.add(&other).unwrap_err().kind(), ErrorKind::ForeignArray);
/// # Ok::<(), seriatim_tensor::Error>(())
/// ```
#[derive(Clone)]
pub struct Runtime(Arc<Inner>);

struct Inner {
    /// Before the engine: spaces of devices go back to it.
    resources: Manager,
    engine: Engine,
    storage: Storage,
    chunks: Slots<Chunk>,
    views: Slots<View>,
    /// The chunks of arrays that have ended, with their variables.
    kept: Kept,
    devices: Devices,
    /// Chunks whose deletion the engine has refused.
    lost: AtomicUsize,
}

/// Chooses what a [`Runtime`] is made of.
///
/// ```
/// use seriatim_tensor::{storage::Storage, Runtime};
/// let engine = seriatim::Engine::new()?;
/// let limited = Storage::builder().limit(64 << 20).build();
/// let runtime = Runtime::builder(&engine).storage(limited).temp_spaces(2).build();
/// # let _ = runtime;
/// # Ok::<(), seriatim::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until build() is called"]
pub struct RuntimeBuilder {
    engine: Engine,
    storage: Option<Storage>,
    temp_spaces: usize,
    generators: usize,
}

impl RuntimeBuilder {
    /// The storage of its arrays; one of its own by default. Runtimes may share a storage.
    ///
    /// ```
    /// # use seriatim_tensor::{storage::Storage, Runtime};
    /// let storage = Storage::builder().build();
    /// let runtime = Runtime::builder(&seriatim::Engine::new()?).storage(storage).build();
    /// # let _ = runtime;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn storage(mut self, storage: Storage) -> RuntimeBuilder {
        self.storage = Some(storage);
        self
    }

    /// How many temporary spaces there are, dealt out in turn; 1 by default and at least.
    /// Operations with the same one run one after the other.
    ///
    /// ```
    /// # use seriatim_tensor::Runtime;
    /// let runtime = Runtime::builder(&seriatim::Engine::new()?).temp_spaces(4).build();
    /// # let _ = runtime;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn temp_spaces(mut self, spaces: usize) -> RuntimeBuilder {
        self.temp_spaces = spaces;
        self
    }

    /// How many generators of random numbers there are, dealt out to draws in turn; 1 by default,
    /// at least 1 and at most 64. Operations with the same one run one after the other. Generator
    /// *i* draws from stream *i* of the seed, so numbers also depend on how many there are. A
    /// captured step keeps the generators that its calls were dealt.
    ///
    /// ```
    /// # use seriatim_tensor::Runtime;
    /// let runtime = Runtime::builder(&seriatim::Engine::new()?).generators(4).build();
    /// # let _ = runtime;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn generators(mut self, generators: usize) -> RuntimeBuilder {
        self.generators = generators;
        self
    }

    /// Makes the runtime.
    ///
    /// ```
    /// # use seriatim_tensor::Runtime;
    /// let runtime = Runtime::builder(&seriatim::Engine::new()?).build();
    /// # let _ = runtime;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn build(self) -> Runtime {
        let resources = Manager::new(&self.engine, self.generators, self.temp_spaces);
        let storage = self.storage.unwrap_or_else(|| Storage::builder().build());
        let (chunks, views, kept) = (Slots::new(), Slots::new(), Kept::default());
        let (devices, lost) = (Devices::default(), AtomicUsize::new(0));
        Runtime(Arc::new(Inner { engine: self.engine, storage, chunks, views, kept, resources, devices, lost }))
    }
}

impl Runtime {
    /// A runtime on an engine, with a storage of its own without a limit.
    ///
    /// ```
    /// let runtime = seriatim_tensor::Runtime::new(&seriatim::Engine::new()?);
    /// # let _ = runtime;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn new(engine: &Engine) -> Runtime {
        Runtime::builder(engine).build()
    }

    /// Starts a runtime on an engine.
    ///
    /// ```
    /// let runtime = seriatim_tensor::Runtime::builder(&seriatim::Engine::new()?).build();
    /// # let _ = runtime;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn builder(engine: &Engine) -> RuntimeBuilder {
        RuntimeBuilder { engine: engine.clone(), storage: None, temp_spaces: 1, generators: 1 }
    }

    /// The runtime of the process, on [`Engine::global`].
    ///
    /// # Errors
    /// [`Engine`](crate::ErrorKind::Engine) if there is no global engine.
    ///
    /// ```
    /// let x = seriatim_tensor::Runtime::global()?.from_slice(&[1i64], [1])?;
    /// # let _ = x;
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn global() -> Result<&'static Runtime, Error> {
        static GLOBAL: OnceLock<Result<Runtime, Error>> = OnceLock::new();
        let made = GLOBAL.get_or_init(|| Ok(Runtime::new(Engine::global()?)));
        made.as_ref().map_err(Error::clone)
    }

    /// The engine.
    ///
    /// ```
    /// seriatim_tensor::Runtime::global()?.engine().wait_for_all()?;
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn engine(&self) -> &Engine {
        &self.0.engine
    }

    /// The storage.
    ///
    /// ```
    /// let storage = seriatim_tensor::Runtime::global()?.storage();
    /// println!("{:?}", storage.statistics(Default::default())?);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn storage(&self) -> &Storage {
        &self.0.storage
    }

    /// Waits for all operations of the engine.
    ///
    /// # Errors
    /// Of those that no wait has taken, the error of the operation that was pushed first.
    ///
    /// ```
    /// seriatim_tensor::Runtime::global()?.wait_all()?;
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn wait_all(&self) -> Result<(), Error> {
        capturing::refuse("the engine is waited for")?;
        Ok(self.engine().wait_for_all()?)
    }

    /// How many arrays were dropped while the engine refused to delete their variables, because it
    /// was stopped. Their memory stays live as long as the runtime.
    ///
    /// ```
    /// assert_eq!(seriatim_tensor::Runtime::global()?.lost(), 0);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn lost(&self) -> usize {
        self.0.lost.load(Relaxed)
    }

    pub(crate) fn chunks(&self) -> &Slots<Chunk> {
        &self.0.chunks
    }

    #[inline]
    pub(super) fn views(&self) -> &Slots<View> {
        &self.0.views
    }

    pub(super) fn kept(&self) -> &Kept {
        &self.0.kept
    }

    pub(crate) fn resources(&self) -> &Manager {
        &self.0.resources
    }

    pub(super) fn devices(&self) -> &Devices {
        &self.0.devices
    }

    pub(crate) fn lose(&self) {
        self.0.lost.fetch_add(1, Relaxed);
    }

    pub(crate) fn is(&self, other: &Runtime) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        for variable in self.resources.variables().chain(self.kept.take_variables(&self.chunks)) {
            // A refusal means that the engine is stopped, and its variables end with it.
            let _ = self.engine.delete_variable(|_| (), Context::cpu(0), variable);
        }
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Runtime on {:?}", self.engine())
    }
}
