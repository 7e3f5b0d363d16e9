//! A device that is slow to say how far it has come: operations wait for room, streams for streams,
//! the processor for the device, and completions for marks. So the lists of the watcher are in use.

use crate::counting::*;
use crate::{body, tell, CHUNK};
use seriatim::gpu::{
    Backend, Class, DeviceData, DeviceMemory, DriverError, Immediate, PinnedData, Previous, RawMark, RawStream,
};
use seriatim::{Completion, Context, Engine, Graph, Kind, Property, RunContext};
use std::ptr::without_provenance_mut;
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::sync::Arc;

const GPU: Context = Context::gpu(0);
const OPERATIONS: usize = 10 * CHUNK;
/// Every so many-th question is answered with yes.
const QUESTIONS: usize = 3;

/// What is queued is done at once, and told late. Its streams and marks are numbers.
struct Late {
    devices: Arc<Immediate>,
    made: AtomicUsize,
    asked: AtomicUsize,
    waits: AtomicUsize,
    refused: AtomicUsize,
}

impl Late {
    fn new() -> Arc<Late> {
        let [made, asked, waits, refused] = [1, 0, 0, 0].map(AtomicUsize::new);
        Arc::new(Late { devices: Immediate::new(1), made, asked, waits, refused })
    }

    fn next(&self) -> *mut std::ffi::c_void {
        without_provenance_mut(self.made.fetch_add(1, Relaxed))
    }
}

// SAFETY: what is queued is done at once, so everything is in order.
unsafe impl Backend for Late {
    fn name(&self) -> &str {
        "late"
    }
    fn devices(&self) -> Result<usize, DriverError> {
        self.devices.devices()
    }
    fn enter(&self, device: usize) -> Result<Previous, DriverError> {
        self.devices.enter(device)
    }
    unsafe fn leave(&self, _: Previous) {}
    fn stream(&self, _: usize, _: Class) -> Result<RawStream, DriverError> {
        Ok(RawStream::new(self.next()))
    }
    fn mark(&self, _: usize) -> Result<RawMark, DriverError> {
        Ok(RawMark::new(self.next()))
    }
    unsafe fn record(&self, _: RawMark, _: RawStream) -> Result<(), DriverError> {
        Ok(())
    }
    unsafe fn wait(&self, _: RawStream, _: RawMark) -> Result<(), DriverError> {
        self.waits.fetch_add(1, Relaxed);
        Ok(())
    }
    unsafe fn reached(&self, _: RawMark) -> Result<bool, DriverError> {
        let is_reached = self.asked.fetch_add(1, Relaxed) % QUESTIONS == QUESTIONS - 1;
        self.refused.fetch_add(usize::from(!is_reached), Relaxed);
        Ok(is_reached)
    }
    unsafe fn finish(&self, _: RawStream) -> Result<(), DriverError> {
        Ok(())
    }
    unsafe fn drop_stream(&self, _: RawStream) {}
    unsafe fn drop_mark(&self, _: RawMark) {}
    fn memory(&self) -> Option<&dyn DeviceMemory> {
        self.devices.memory()
    }
}

/// A chain of a replay: kernels, and the processor between them.
fn graph_of(engine: &Engine) -> Graph {
    let x = engine.new_variable();
    let record = |c: &mut seriatim::Capture| {
        for part in 0..CHUNK {
            let context = if part % 4 == 3 { Context::cpu(0) } else { GPU };
            c.op("part").context(context).write(x).push(|_: &RunContext<'_>| body())?;
        }
        Ok(())
    };
    engine.capture(record).unwrap().0
}

pub fn what_waits_for_a_device_costs_nothing(faults: &mut Vec<String>) {
    let late = Late::new();
    let builder = Engine::builder().kind(Kind::PerDevice).cpu_workers(1).pin(false).gpu_ahead(2);
    let engine = builder.gpus(Arc::clone(&late) as _).build().unwrap();
    let gpu = engine.device(GPU).unwrap();
    let host = PinnedData::from_slice(&gpu, &[1_u64; 64]).unwrap();
    let x = DeviceData::<u64>::zeros(&gpu, 64).unwrap();
    let variables: Vec<_> = (0..16).map(|_| engine.new_variable()).collect();
    let graph = graph_of(&engine);
    let kernel = |first, second: usize| {
        let kernel = engine.op("kernel").context(GPU).writes([variables[first], variables[16 - second]]);
        kernel.push(|_: &RunContext<'_>| body()).unwrap();
    };
    let ends = |number: usize| {
        let start = |run: &RunContext<'_>, completion: Completion| {
            body();
            // SAFETY: the stream is the operation's.
            unsafe { completion.complete_after(run.stream().expect("it is on a device")) };
        };
        engine.op("library").context(GPU).write(variables[number % 16]).push_async(start).unwrap();
    };
    let in_chunks = |each: &dyn Fn(usize)| {
        for chunk in 0..OPERATIONS / CHUNK {
            (0..CHUNK).for_each(|number| each(chunk * CHUNK + number));
            engine.wait_for_all().unwrap();
        }
    };
    let mut check = |what: &str, each: &dyn Fn(usize)| {
        in_chunks(each);
        let before = [&late.waits, &late.refused].map(|count| count.load(Relaxed));
        let costs = least_cost(Costs::no_allocation, || in_chunks(each));
        tell("late device", what, costs, OPERATIONS, costs.no_allocation(), faults);
        let after = [&late.waits, &late.refused].map(|count| count.load(Relaxed));
        assert!(after[1] > before[1], "{what}: the device was never late");
        after[0] - before[0]
    };
    let waits = check("kernels of two variables", &|number| kernel(number % 8, 1 + number % 7));
    assert!(waits > 0, "no stream has waited for another");
    check("the processor behind the device, and before it", &|number| match number % 2 {
        0 => kernel(0, 1),
        _ => engine.op("processor").write(variables[0]).push(|_: &RunContext<'_>| body()).unwrap(),
    });
    check("kernels that wait for room, of different priorities", &|number| {
        let urgent = engine.op("urgent").context(GPU).priority(number as i32 % 3).write(variables[number % 16]);
        urgent.push(|_: &RunContext<'_>| body()).unwrap();
    });
    check("operations that end behind a stream", &ends);
    check("copies there and back", &|number| match number % 2 {
        0 => engine.copy(&host, &x).unwrap(),
        _ => engine.copy(&x, &host).unwrap(),
    });
    check("replays", &|number| {
        if number % CHUNK == 0 {
            graph.replay().unwrap();
        }
    });
    check("copies of the processor's own", &|number| {
        let property = [Property::CopyToGpu, Property::CopyFromGpu][number % 2];
        engine.op("copy").context(GPU).property(property).read(variables[0]).push(|_: &RunContext<'_>| body()).unwrap();
    });
}
