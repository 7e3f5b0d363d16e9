//! Temporary space and random numbers of GPUs, for an operator of a program's.
//!
//! Its kernels are put on the stream by functions that each back end has of its own.

use crate::implementations::{values, Kernel, Queue, GPU};
use rand_core::RngCore;
use seriatim::{Context, Device, RunContext};
use seriatim_tensor::operator::{assign_shape, Op, OpContext, Operator, OperatorProperty};
use seriatim_tensor::resource::{Philox, ResourceRequest};
use seriatim_tensor::{Blob, BlobMut, DType, Error, ErrorKind, NDArray, OpReq, Runtime, Shape, Step};

/// Writes the numbers of a generator.
#[derive(Debug)]
pub struct Draw {
    pub to: usize,
    pub count: usize,
    pub random: Philox,
}

impl Draw {
    /// Runs where the address is that of memory that may be reached.
    ///
    /// # Safety
    /// At `to` are as many elements, and nobody else uses them.
    pub unsafe fn run(mut self, to: *mut f32) {
        for at in 0..self.count {
            // SAFETY: as the caller says.
            unsafe { to.add(at).write(number(&mut self.random)) };
        }
    }
}

fn number(random: &mut Philox) -> f32 {
    (random.next_u32() >> 16) as f32
}

/// Puts the kernel that draws on the stream of an operation.
pub type QueueDraw = fn(&RunContext<'_>, Draw);

/// Adds numbers to its input, by way of temporary space.
#[derive(Clone)]
struct Noise(Queue, QueueDraw);

impl OperatorProperty for Noise {
    fn infer_shape(
        &self,
        in_shape: &mut [Option<Shape>],
        out_shape: &mut [Option<Shape>],
        _: &mut [Option<Shape>],
    ) -> Result<bool, Error> {
        let Some(shape) = in_shape[0] else { return Ok(false) };
        assign_shape("output", &mut out_shape[0], shape).map(|()| true)
    }

    fn forward_resource(&self) -> Vec<ResourceRequest> {
        vec![ResourceRequest::TempSpace, ResourceRequest::Random, ResourceRequest::TempSpace]
    }

    fn devices(&self) -> &[Device] {
        &[Device::Gpu]
    }

    fn create_operator(&self, _: Context) -> Result<Box<dyn Operator>, Error> {
        Ok(Box::new(self.clone()))
    }
}

impl Operator for Noise {
    fn forward(
        &self,
        ctx: &mut OpContext<'_, '_>,
        in_data: &[Blob<'_>],
        req: &[OpReq],
        out_data: &mut [BlobMut<'_>],
        _: &mut [BlobMut<'_>],
    ) -> Result<(), Error> {
        let (run, count) = (ctx.run_ctx, in_data[0].size());
        assert_eq!(req[0], OpReq::Write);
        let [space, random, other] = ctx.requested else { panic!("three were asked for") };
        assert_eq!(space.get_space::<f32>(1).unwrap_err().kind(), ErrorKind::UnsupportedContext);
        assert_eq!(random.get_device_space::<f32>(run, 1).unwrap_err().kind(), ErrorKind::BadParameter);
        assert_eq!(space.get_host_space::<f64>(count)?.len(), count);
        let small = space.get_device_space::<f32>(run, count)?.expose_provenance();
        assert_ne!(other.get_device_space::<f32>(run, count)?.expose_provenance(), small);
        // SAFETY: the first kernel to it writes each element.
        let to = unsafe { out_data[0].device_address() }?.expose_provenance();
        let from = in_data[0].device_address()?.expose_provenance();
        let copy = |from, to, adds| (self.0)(run, Kernel { from, to, count, factor: 1.0, adds });
        copy(from, small, false);
        // It may be other memory, and the kernels that were queued go on with theirs.
        let large = space.get_device_space::<f32>(run, 2 * count)?.expose_provenance();
        copy(if large == small { from } else { small }, to, false);
        let random = random.get_random()?.reserve(count.div_ceil(4) as u64);
        (self.1)(run, Draw { to: large, count, random });
        copy(large, to, true);
        Ok(())
    }
}

/// The numbers that so many calls on as many elements draw.
fn expected(seed: u64, context: Context, calls: usize, count: usize) -> Vec<Vec<f32>> {
    let mut random = Philox::new(seed, (context.id() as u64 + 1) << 32);
    (0..calls)
        .map(|_| {
            let mut of_call = random.reserve(count.div_ceil(4) as u64);
            (0..count).map(|_| number(&mut of_call)).collect()
        })
        .collect()
}

/// Space grows and is used again, and numbers follow from the seed, pushed and captured.
pub fn space_and_numbers_of_a_gpu(runtime: &Runtime, queue: Queue, draw: QueueDraw) {
    let op = Op::of_property("noise", Box::new(Noise(queue, draw))).unwrap();
    let zeros = |count: usize, context| runtime.zeros_in([count], DType::F32, context).unwrap();
    let drawn = |x: &NDArray| (0..4).map(|_| op.invoke(&[x])).collect::<Result<Vec<_>, _>>().unwrap();
    let all = |arrays: Vec<NDArray>| arrays.iter().map(values).collect::<Vec<_>>();
    let mut last = 0;
    for context in [GPU, Context::gpu(1)] {
        // Without a seed of its own a call follows the last one, also on a device that is new.
        for (seed, count) in [(0, 10), (3, 1000), (3, 10), (4, 3000), (4, 30)] {
            let x = zeros(count, context);
            if seed > 0 {
                (last, _) = (seed, runtime.seed(seed).unwrap());
            }
            assert_eq!(all(drawn(&x)), expected(last, context, 4, count), "{seed} {count}");
        }
    }
    // The seed of one context leaves others alone, until one comes for all.
    let [x, y] = [GPU, Context::gpu(1)].map(|context| zeros(5, context));
    runtime.seed(5).unwrap();
    runtime.seed_in(GPU, 6).unwrap();
    runtime.seed_in(Context::cpu(0), 7).unwrap();
    let both = [drawn(&x), drawn(&y)].map(all);
    assert_eq!(both, [expected(6, GPU, 4, 5), expected(5, Context::gpu(1), 4, 5)]);
    let by = runtime.parameter(8i64).unwrap();
    runtime.seed_by(&by).unwrap();
    // A step goes on with the numbers, and seeds in each run if it is told to.
    let mut step = Step::capture(&[&x], |inputs| op.invoke(&[&op.invoke(&[&inputs[0]])?])).unwrap();
    let sums = |seed, calls: usize| {
        let of_calls = expected(seed, GPU, calls, 5);
        let pairs = of_calls.chunks(2).map(|two| two[0].iter().zip(&two[1]).map(|(a, b)| a + b).collect());
        pairs.collect::<Vec<Vec<f32>>>()
    };
    let runs: Vec<_> = (0..3).map(|_| values(step.run(&[&x]).unwrap())).collect();
    assert_eq!(runs, sums(8, 6));
    let mut seeded = Step::capture(&[&x], |inputs| {
        runtime.seed_by(&by)?;
        runtime.seed_in(Context::gpu(1), 9)?;
        op.invoke(&[&op.invoke(&[&inputs[0]])?])
    })
    .unwrap();
    for seed in [8, 8, 10] {
        by.set(seed).unwrap();
        assert_eq!(values(seeded.run(&[&x]).unwrap()), sums(seed as u64, 2)[0]);
        assert_eq!(all(drawn(&y)), expected(9, Context::gpu(1), 4, 5));
    }
    drop((step, seeded));
    // Nothing is left to grow.
    runtime.wait_all().unwrap();
    let calls = || runtime.statistics(GPU).unwrap().system_calls;
    let before = calls();
    for _ in 0..10 {
        drop(all(drawn(&x)));
    }
    runtime.wait_all().unwrap();
    assert!(calls() <= before + 1, "{} {before}", calls());
    let host = runtime.ones([2], DType::F32).unwrap();
    assert_eq!(op.invoke(&[&host]).unwrap_err().kind(), ErrorKind::UnsupportedContext);
    assert_eq!(runtime.seed_in(Context::gpu(9), 1).unwrap_err().kind(), ErrorKind::UnsupportedContext);
}
