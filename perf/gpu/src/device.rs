//! The devices that the code of this package runs over.

use crate::mix::{Mix, OnProcessor};
use crate::tiles::{Processor, TileOps};
use seriatim::gpu::{Backend, Immediate};
use seriatim::{Builder, Engine};
use std::sync::Arc;

/// Which device a program asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Which {
    /// The processor, on which everything is done when a closure returns.
    Processor,
    /// The first device of CUDA's driver, and for one measurement the second.
    Cuda,
    /// The stand-in for CUDA's driver in `tests/cuda-standin/`.
    Standin,
}

impl Which {
    /// The one of that name.
    ///
    /// # Errors
    /// Which names there are.
    pub fn named(name: &str) -> Result<Which, String> {
        match name {
            "processor" => Ok(Which::Processor),
            "cuda" => Ok(Which::Cuda),
            "standin" => Ok(Which::Standin),
            _ => Err(format!("there is no device {name:?}, but: processor, cuda, standin")),
        }
    }
}

/// A device, and what can be queued on its streams.
#[derive(Clone)]
pub struct Device {
    pub which: Which,
    pub backend: Arc<dyn Backend>,
    pub mix: Arc<dyn Mix>,
    /// Why there are none, if there are none.
    pub tiles: Result<Arc<dyn TileOps>, String>,
    /// Bare calls, where there is a driver.
    #[cfg(feature = "cuda")]
    pub driver: Option<Arc<crate::driver::Driver>>,
}

impl Device {
    /// Makes a device ready. The calling thread has it current from then on.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub fn open(which: Which) -> Result<Device, String> {
        match which {
            Which::Processor => Ok(Device {
                which,
                backend: Immediate::new(1),
                mix: Arc::new(OnProcessor),
                tiles: Ok(Arc::new(Processor)),
                #[cfg(feature = "cuda")]
                driver: None,
            }),
            #[cfg(feature = "cuda")]
            Which::Cuda | Which::Standin => open_driver(which),
            #[cfg(not(feature = "cuda"))]
            Which::Cuda | Which::Standin => {
                Err("this program was built without CUDA: build it with --features cuda".to_owned())
            }
        }
    }

    /// Has the stand-in do nothing, or go on, where a GPU would still be busy. For the thread that
    /// has opened it.
    #[cfg(feature = "cuda")]
    pub fn rests(&self, rests: bool) {
        match (self.which, rests) {
            (Which::Standin, true) => crate::standin::rest(),
            (Which::Standin, false) => crate::standin::late(),
            _ => {}
        }
    }

    /// A builder of engines with this device.
    pub fn engine(&self) -> Builder {
        Engine::builder().gpus(Arc::clone(&self.backend))
    }
}

#[cfg(feature = "cuda")]
fn open_driver(which: Which) -> Result<Device, String> {
    use crate::tiles::{Queued, Vendor};
    if which == Which::Standin {
        crate::standin::begin()?;
    }
    let cuda = seriatim::gpu::Cuda::open().map_err(|error| error.to_string())?;
    let driver = Arc::new(crate::driver::Driver::load(&*cuda)?);
    if which == Which::Standin {
        crate::standin::late();
    }
    let tiles: Result<Arc<dyn TileOps>, String> = match which {
        Which::Standin => Ok(Arc::new(Queued)),
        _ => Vendor::load().map(|vendor| Arc::new(vendor) as Arc<dyn TileOps>),
    };
    Ok(Device { which, backend: cuda, mix: Arc::clone(&driver) as Arc<dyn Mix>, tiles, driver: Some(driver) })
}
