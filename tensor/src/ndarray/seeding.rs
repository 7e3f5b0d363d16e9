//! Seeds of the generators. Programs call it on any thread.
//!
//! A seed is an operation that changes all generators, so it takes its turn among the draws.
//! `operator/seed.rs` has seeds that operations read.

#![forbid(unsafe_code)]

use crate::error::{Error, ErrorKind};
use crate::ndarray::capturing;
use crate::ndarray::runtime::Runtime;
use crate::resource::Philox;
use seriatim::{Context, Data, Device, RunContext, Variable};
use smallvec::SmallVec;

impl Runtime {
    /// Seeds the generators: an operation that takes its turn among the draws. A captured step
    /// seeds them in each run; [`seed_by`](Runtime::seed_by) takes a seed that can be changed.
    ///
    /// # Errors
    /// Those of a push.
    ///
    /// ```
    /// use seriatim_tensor::{Distribution, DType, Runtime};
    /// let runtime = Runtime::global()?;
    /// let of = Distribution::Uniform { low: 0.0, high: 1.0 };
    /// runtime.seed(1)?;
    /// let one = runtime.random([4], DType::F32, of)?;
    /// runtime.seed(1)?;
    /// assert_eq!(one.to_vec::<f32>()?, runtime.random([4], DType::F32, of)?.to_vec::<f32>()?);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn seed(&self, seed: u64) -> Result<(), Error> {
        let generators: SmallVec<[Data<Philox>; 1]> = self.resources().generators().iter().cloned().collect();
        let variables: SmallVec<[Variable; 1]> = generators.iter().map(Data::variable).collect();
        self.resources().deal_from_first();
        let run = move |_: &RunContext<'_>| {
            for (generator, stream) in generators.iter().zip(0..) {
                *generator.write()? = Philox::new(seed, stream);
            }
            Ok::<(), Error>(())
        };
        if capturing::is_active() {
            let none = || std::iter::empty();
            return capturing::record(self, "seed".into(), (none(), none()), (variables.into_iter(), 0), run);
        }
        self.engine().op("seed").writes(variables).push(run)?;
        Ok(())
    }

    /// Seeds the generators of one context (`mx.random.seed(seed, ctx)`). Those of the processor
    /// draw for `cpu` and `cpu_pinned`, whatever the number of the context.
    ///
    /// # Errors
    /// [`UnsupportedContext`](ErrorKind::UnsupportedContext) if the context has no generators;
    /// those of a push.
    ///
    /// ```
    /// use seriatim::Context;
    /// use seriatim_tensor::{ErrorKind, Runtime};
    /// let runtime = Runtime::global()?;
    /// runtime.seed_in(Context::cpu(0), 1)?;
    /// let refused = runtime.seed_in(Context::gpu(0), 1).unwrap_err();
    /// assert_eq!(refused.kind(), ErrorKind::UnsupportedContext);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn seed_in(&self, context: Context, seed: u64) -> Result<(), Error> {
        match context.device() {
            Device::Cpu | Device::CpuPinned => self.seed(seed),
            _ => {
                let message = format!("{context} has no generators of random numbers: seed those of the processor");
                Err(Error::new(ErrorKind::UnsupportedContext, message))
            }
        }
    }
}
