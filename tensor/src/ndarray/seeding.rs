//! Seeds of the generators. Programs call it on any thread.
//!
//! A seed is an operation that changes all generators of the processor, so it takes its turn among
//! the draws. Those of devices read it where they draw next.

use crate::error::{Error, ErrorKind};
use crate::ndarray::capturing::{self, Use};
use crate::ndarray::frame::Frame;
use crate::ndarray::parameter::Parameter;
use crate::ndarray::runtime::Runtime;
use crate::resource::Philox;
use seriatim::{Context, Data, Device, Property, RunContext, Variable};
use smallvec::SmallVec;

impl Runtime {
    /// Seeds all generators, those of the processor and of GPUs: an operation that takes its turn
    /// among the draws. A captured step seeds them in each run; [`seed_by`](Runtime::seed_by) takes
    /// a seed that can be changed.
    ///
    /// It waits for draws of GPUs that were pushed before; the call does not.
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
        self.push_seed(None, true, move || Ok(seed))
    }

    /// The same by a parameter, whose value is read in the operation's turn. A captured step reads
    /// it in each run.
    ///
    /// # Errors
    /// [`ForeignArray`](ErrorKind::ForeignArray) if the parameter is of another runtime; those of a
    /// push.
    ///
    /// ```
    /// use seriatim_tensor::{Distribution, DType, Runtime};
    /// let runtime = Runtime::global()?;
    /// let of = Distribution::Uniform { low: 0.0, high: 1.0 };
    /// let seed = runtime.parameter(1i64)?;
    /// runtime.seed_by(&seed)?;
    /// let one = runtime.random([4], DType::F32, of)?;
    /// runtime.seed(1)?;
    /// assert_eq!(one.to_vec::<f32>()?, runtime.random([4], DType::F32, of)?.to_vec::<f32>()?);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn seed_by(&self, seed: &Parameter<i64>) -> Result<(), Error> {
        if !seed.array().runtime().is(self) {
            let message = "the seed is a parameter of another runtime: make one by this runtime's parameter()";
            return Err(Error::new(ErrorKind::ForeignArray, message));
        }
        let (frame, argument) = Frame::of(seed.array())?;
        self.push_seed(Some(frame.used(argument, false)), true, move || {
            let mut seed = 0i64;
            // SAFETY: the operation declares to read the variable, in `push_seed`.
            let blob = unsafe { frame.read(argument) }?;
            blob.same_reader::<i64>().fill(std::slice::from_mut(&mut seed));
            Ok(seed as u64)
        })
    }

    /// Pushes an operation that seeds the generators of the processor, and if `all` those of
    /// devices.
    fn push_seed(
        &self,
        reads: Option<Use>,
        all: bool,
        seed: impl Fn() -> Result<u64, Error> + Send + 'static,
    ) -> Result<(), Error> {
        let generators: SmallVec<[Data<Philox>; 1]> = self.resources().generators().iter().cloned().collect();
        let seeds = all.then(|| self.resources().seeds().clone());
        let variables = generators.iter().map(Data::variable).chain(seeds.iter().map(Data::variable));
        let variables: SmallVec<[Variable; 2]> = variables.collect();
        self.resources().deal_from_first(all);
        let run = move |_: &RunContext<'_>| {
            let seed = seed()?;
            for (generator, stream) in generators.iter().zip(0..) {
                *generator.write()? = Philox::new(seed, stream);
            }
            if let Some(seeds) = &seeds {
                seeds.write()?.set(seed);
            }
            Ok::<(), Error>(())
        };
        if capturing::is_active() {
            let uses = (reads.into_iter(), std::iter::empty());
            return capturing::record(self, "seed".into(), uses, (variables.into_iter(), 0), run);
        }
        let reads = reads.map(|used| used.variable);
        self.engine().op("seed").reads(reads).writes(variables).push(run)?;
        Ok(())
    }

    /// Seeds the generators of one context (`mx.random.seed(seed, ctx)`), until the next seed of
    /// all. Those of the processor draw for `cpu` and `cpu_pinned`, whatever the number of the
    /// context. Each GPU has its own, of streams that no other context has.
    ///
    /// # Errors
    /// [`UnsupportedContext`](ErrorKind::UnsupportedContext) if there is no such device; those of a
    /// push.
    ///
    /// ```
    /// use seriatim::{gpu::Immediate, Context, Engine};
    /// use seriatim_tensor::{ErrorKind, Runtime};
    /// let runtime = Runtime::new(&Engine::builder().gpus(Immediate::new(1)).build()?);
    /// runtime.seed_in(Context::cpu(0), 1)?;
    /// runtime.seed_in(Context::gpu(0), 1)?;
    /// let refused = runtime.seed_in(Context::gpu(1), 1).unwrap_err();
    /// assert_eq!(refused.kind(), ErrorKind::UnsupportedContext);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn seed_in(&self, context: Context, seed: u64) -> Result<(), Error> {
        if context.device() != Device::Gpu {
            return self.push_seed(None, false, move || Ok(seed));
        }
        self.device(context)?;
        let generators = self.resources().device_generators(self.engine(), context)?;
        let (generators, seeds) = (SmallVec::<[_; 1]>::from(generators), self.resources().seeds().clone());
        let variables: SmallVec<[Variable; 2]> = generators.iter().map(Data::variable).collect();
        let reads = seeds.variable();
        let run = move |_: &RunContext<'_>| {
            let seeds = seeds.read()?;
            generators.iter().try_for_each(|generator| {
                generator.write()?.begin(seed, &seeds);
                Ok::<(), Error>(())
            })
        };
        if capturing::is_active() {
            let (place, none) = ((context, Property::Normal), || std::iter::empty());
            return capturing::record_on(self, ("seed".into(), place), (none(), none()), (Some(reads), variables), run);
        }
        self.engine().op("seed").context(context).reads([reads]).writes(variables).push(run)?;
        Ok(())
    }
}
