//! The resources of a runtime: random numbers and temporary space. Each resource has a variable,
//! and an operation that uses it changes that, so users take turns in push order.
//!
//! Used by `ndarray/runtime.rs`, which keeps a [`Manager`], and by `ndarray/capturing.rs`, which
//! takes resources for calls. `granted.rs` has what operators ask for and get.

#![forbid(unsafe_code)]

use crate::error::Error;
use crate::resource::dealt::{Dealt, MOST_GENERATORS};
pub(crate) use crate::resource::granted::Granted;
use crate::resource::granted::{DeviceRandom, ResourceRequest, Seeds, Space};
use crate::resource::philox::Philox;
use crate::storage::by_context::ByContext;
use crate::storage::device::DeviceSpace;
use seriatim::gpu::DeviceHandle;
use seriatim::{Context, Data, Engine, Variable};
use smallvec::SmallVec;

/// The resources of a runtime: as many generators and temporary spaces as it was made with, for the
/// processor and for each device.
#[derive(Debug)]
pub(crate) struct Manager {
    /// Generator *i* draws from stream *i* of the seed.
    processor: Dealt<Data<Philox>, Data<Space>>,
    /// Made when a call first asks for one of a device.
    devices: ByContext<OfDevice>,
    /// The last seed, for the generators of devices.
    seeds: Data<Seeds>,
}

type OfDevice = Dealt<Data<DeviceRandom>, DeviceSpace>;

/// The stream of a generator of a device: none of another device, nor of the processor.
fn stream(context: Context, generator: usize) -> u64 {
    (context.id() as u64 + 1) << 32 | generator as u64
}

impl Manager {
    pub fn new(engine: &Engine, generators: usize, spaces: usize) -> Manager {
        let streams = 0..generators.clamp(1, MOST_GENERATORS) as u64;
        let generators = streams.map(|stream| Data::new(engine, Philox::new(0, stream))).collect();
        let seeds = Data::new(engine, Seeds::default());
        Manager { processor: Dealt::new(generators, spaces.max(1)), devices: ByContext::new(), seeds }
    }

    /// All generators of the processor, in the order of their streams.
    pub fn generators(&self) -> &[Data<Philox>] {
        self.processor.generators()
    }

    /// Those of a device, of which the first one draws next.
    pub fn device_generators(&self, engine: &Engine, context: Context) -> Result<&[Data<DeviceRandom>], Error> {
        let of_device = self.of_device(engine, context)?;
        of_device.deal_from_first();
        Ok(of_device.generators())
    }

    /// The seed that generators of devices follow.
    pub fn seeds(&self) -> &Data<Seeds> {
        &self.seeds
    }

    /// The generator for the next draw on the processor.
    pub fn next_generator(&self) -> &Data<Philox> {
        self.processor.next_generator()
    }

    /// Has the next draw be by the first generator: on the processor, and if `all` on each device.
    pub fn deal_from_first(&self, all: bool) {
        self.processor.deal_from_first();
        self.devices.iter().filter(|_| all).for_each(Dealt::deal_from_first);
    }

    fn of_device(&self, engine: &Engine, context: Context) -> Result<&OfDevice, Error> {
        self.devices.get_or_make(context, || {
            let streams = (0..self.generators().len()).map(|generator| stream(context, generator));
            let generators = streams.map(|stream| Data::new(engine, DeviceRandom::new(stream))).collect();
            Ok(Dealt::new(generators, self.processor.count()))
        })
    }

    /// What a call asks for, of a device if its arrays lie there.
    pub fn grant(
        &self,
        engine: &Engine,
        device: Option<&DeviceHandle>,
        requests: &[ResourceRequest],
    ) -> Result<SmallVec<[Granted; 1]>, Error> {
        let Some(device) = device else {
            let make = || Ok(Data::new(engine, Space::default()));
            let random = |random: &Data<Philox>| Granted::Random(random.clone());
            let space = |space: &Data<Space>| Granted::TempSpace(space.clone());
            return self.processor.grant(requests, make, (random, space));
        };
        let random = |random: &Data<DeviceRandom>| Granted::DeviceRandom(random.clone(), self.seeds.clone());
        let space = |space: &DeviceSpace| Granted::DeviceSpace(space.clone());
        let of_device = self.of_device(engine, device.context())?;
        of_device.grant(requests, || DeviceSpace::new(device), (random, space))
    }

    /// The variables to be deleted with the runtime. Spaces of devices end with their last handle.
    pub fn variables(&self) -> impl Iterator<Item = Variable> + '_ {
        let generators = self.generators().iter().map(Data::variable);
        let of_devices = self.devices.iter().flat_map(Dealt::generators).map(Data::variable);
        let spaces = self.processor.spaces().map(Data::variable);
        generators.chain(of_devices).chain(spaces).chain([self.seeds.variable()])
    }
}
