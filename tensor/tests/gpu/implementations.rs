//! An operator of a program's with two implementations, one for the processor and one for GPUs.
//!
//! Its kernel for a GPU is put on the stream by a function that each back end has of its own.

use seriatim::{Context, Device, RunContext};
use seriatim_tensor::autograd;
use seriatim_tensor::operator::{
    assign_shape, implement, unary_map, Given, Op, OpContext, Operator, OperatorProperty, SimpleOp,
};
use seriatim_tensor::{Blob, BlobMut, DType, Error, ErrorKind, NDArray, OpReq, Runtime, Shape};
use std::sync::atomic::{AtomicU8, Ordering::SeqCst};
use std::sync::{Arc, Barrier, Mutex};

pub const GPU: Context = Context::gpu(0);

/// What a kernel does: `to = factor * from`, added to what is there if the request says so.
#[derive(Clone, Copy, Debug)]
pub struct Kernel {
    pub from: usize,
    pub to: usize,
    pub count: usize,
    pub factor: f32,
    pub adds: bool,
}

impl Kernel {
    /// Runs where the addresses are those of memory that may be reached.
    ///
    /// # Safety
    /// At `from` and `to` are as many elements, and nobody else uses them.
    pub unsafe fn run(&self, from: *const f32, to: *mut f32) {
        for at in 0..self.count {
            // SAFETY: as the caller says.
            unsafe {
                let value = self.factor * from.add(at).read();
                to.add(at).write(if self.adds { to.add(at).read() + value } else { value });
            }
        }
    }
}

/// Puts a kernel on the stream of an operation.
pub type Queue = fn(&RunContext<'_>, Kernel);

/// Multiplies by a factor.
#[derive(Clone)]
struct Times {
    factor: f32,
    devices: &'static [Device],
    queue: Queue,
    /// The contexts that it was asked for an implementation for.
    asked: Arc<Mutex<Vec<Context>>>,
}

/// Makes implementations that multiply by their own number, two of them at once.
struct Numbered {
    made: AtomicU8,
    meet: Barrier,
    queue: Queue,
}

impl OperatorProperty for Numbered {
    fn infer_shape(
        &self,
        in_shape: &mut [Option<Shape>],
        out_shape: &mut [Option<Shape>],
        _: &mut [Option<Shape>],
    ) -> Result<bool, Error> {
        let Some(shape) = in_shape[0] else { return Ok(false) };
        assign_shape("output", &mut out_shape[0], shape).map(|()| true)
    }

    fn devices(&self) -> &[Device] {
        &[Device::Gpu]
    }

    fn create_operator(&self, _: Context) -> Result<Box<dyn Operator>, Error> {
        let number = self.made.fetch_add(1, SeqCst);
        self.meet.wait();
        Ok(Box::new(OnDevice(f32::from(number), self.queue)))
    }
}

/// Threads that call an operator first at once have one implementation, which later calls have.
pub fn calls_at_once_have_one_implementation(runtime: &Runtime, queue: Queue) {
    let numbered = Numbered { made: AtomicU8::new(1), meet: Barrier::new(2), queue };
    let op = Op::of_property("numbered", Box::new(numbered)).unwrap();
    let x = runtime.from_slice_in(&[1.0f32], [1], GPU).unwrap();
    let call = || op.invoke(&[&x]).unwrap().as_scalar::<f32>().unwrap();
    let of_threads = std::thread::scope(|scope| [scope.spawn(call), scope.spawn(call)].map(|one| one.join().unwrap()));
    assert_eq!(of_threads, [call(); 2]);
}

struct OnProcessor(f32);

/// Multiplies on a device.
pub struct OnDevice(pub f32, pub Queue);

impl OperatorProperty for Times {
    fn infer_shape(
        &self,
        in_shape: &mut [Option<Shape>],
        out_shape: &mut [Option<Shape>],
        _: &mut [Option<Shape>],
    ) -> Result<bool, Error> {
        let Some(shape) = in_shape[0] else { return Ok(false) };
        assign_shape("output", &mut out_shape[0], shape).map(|()| true)
    }

    fn declare_backward_dependency(&self, out_grad: &[usize], _: &[usize], _: &[usize]) -> Vec<usize> {
        out_grad.to_vec()
    }

    fn forward_inplace_option(&self, _: &[usize], _: &[usize]) -> Vec<(usize, usize)> {
        vec![(0, 0)]
    }

    fn devices(&self) -> &[Device] {
        self.devices
    }

    fn create_operator(&self, context: Context) -> Result<Box<dyn Operator>, Error> {
        self.asked.lock().unwrap().push(context);
        Ok(match context.device() {
            Device::Gpu => Box::new(OnDevice(self.factor, self.queue)),
            _ => Box::new(OnProcessor(self.factor)),
        })
    }
}

impl Operator for OnProcessor {
    fn forward(
        &self,
        ctx: &mut OpContext<'_, '_>,
        in_data: &[Blob<'_>],
        req: &[OpReq],
        out_data: &mut [BlobMut<'_>],
        _: &mut [BlobMut<'_>],
    ) -> Result<(), Error> {
        assert_eq!(ctx.run_ctx.context().device(), Device::Cpu);
        assert_eq!(in_data[0].device_address().unwrap_err().kind(), ErrorKind::UnsupportedContext);
        unary_map(in_data[0], &mut out_data[0], req[0], |x| x * f64::from(self.0))
    }

    fn backward(
        &self,
        _: &mut OpContext<'_, '_>,
        out_grad: Given<'_>,
        _: Given<'_>,
        _: Given<'_>,
        req: &[OpReq],
        in_grad: &mut [BlobMut<'_>],
        _: &mut [BlobMut<'_>],
    ) -> Result<(), Error> {
        unary_map(out_grad.get(0)?, &mut in_grad[0], req[0], |g| g * f64::from(self.0))
    }
}

impl OnDevice {
    pub fn queue(
        &self,
        ctx: &OpContext<'_, '_>,
        from: &Blob<'_>,
        to: &mut BlobMut<'_>,
        req: OpReq,
    ) -> Result<(), Error> {
        assert!(from.as_slice::<f32>().is_none() && to.as_mut_slice::<f32>().is_none());
        if req.is_null() {
            return Ok(());
        }
        // SAFETY: the kernel writes each element.
        let to_address = unsafe { to.device_address() }?;
        let (from, count, factor) = (from.device_address()?, from.size(), self.0);
        let kernel = Kernel {
            from: from.expose_provenance(),
            to: to_address.expose_provenance(),
            count,
            factor,
            adds: req == OpReq::Add,
        };
        (self.1)(ctx.run_ctx, kernel);
        Ok(())
    }
}

impl Operator for OnDevice {
    fn forward(
        &self,
        ctx: &mut OpContext<'_, '_>,
        in_data: &[Blob<'_>],
        req: &[OpReq],
        out_data: &mut [BlobMut<'_>],
        _: &mut [BlobMut<'_>],
    ) -> Result<(), Error> {
        self.queue(ctx, &in_data[0], &mut out_data[0], req[0])
    }

    fn backward(
        &self,
        ctx: &mut OpContext<'_, '_>,
        out_grad: Given<'_>,
        _: Given<'_>,
        _: Given<'_>,
        req: &[OpReq],
        in_grad: &mut [BlobMut<'_>],
        _: &mut [BlobMut<'_>],
    ) -> Result<(), Error> {
        self.queue(ctx, &out_grad.get(0)?, &mut in_grad[0], req[0])
    }
}

pub const BOTH: &[Device] = &[Device::Cpu, Device::CpuPinned, Device::Gpu];

pub fn times(devices: &'static [Device], queue: Queue) -> (Op, Arc<Mutex<Vec<Context>>>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let property = Times { factor: 3.0, devices, queue, asked: Arc::clone(&asked) };
    (Op::of_property("times", Box::new(property)).unwrap(), asked)
}

pub fn values(array: &NDArray) -> Vec<f32> {
    array.to_vec().unwrap()
}

/// Each context has its implementation, and gives the same values.
pub fn each_context_has_its_implementation(runtime: &Runtime, queue: Queue) {
    let (op, asked) = times(BOTH, queue);
    assert_eq!(*asked.lock().unwrap(), [Context::cpu(0)]);
    let of = |values: &[f32], context| runtime.from_slice_in(values, [values.len()], context).unwrap();
    for context in [Context::cpu(0), GPU, Context::gpu(1), GPU, Context::cpu_pinned(0)] {
        let x = of(&[1.0, -2.0, 0.5], context);
        let y = op.invoke(&[&x]).unwrap();
        assert_eq!(y.context().device() == Device::Gpu, context.device() == Device::Gpu);
        let z = op.invoke(&[&y]).unwrap();
        // Into arrays that are there: over what is there, to it, over the operand, and nowhere.
        let (sum, skipped) = (of(&[10.0, 20.0, 30.0], context), of(&[7.0; 3], context));
        for (out, req) in [(&sum, OpReq::Add), (&x, OpReq::Inplace), (&skipped, OpReq::Null)] {
            op.invoke_into(&[&x], &[(out, req)]).unwrap();
        }
        let all = [&y, &z, &sum, &x, &skipped].map(values);
        assert_eq!(
            all,
            [[3.0, -6.0, 1.5], [9.0, -18.0, 4.5], [13.0, 14.0, 31.5], [3.0, -6.0, 1.5], [7.0; 3]].map(Vec::from)
        );
    }
    assert_eq!(*asked.lock().unwrap(), [Context::cpu(0), GPU, Context::gpu(1)]);
    runtime.wait_all().unwrap();
}

/// Registers an operator that has no kernel for a GPU, and an implementation there.
pub fn implement_for_a_gpu(name: &'static str, queue: Queue) -> Op {
    SimpleOp::unary(name, |x, _, out, req| unary_map(x.0, out, req, |x| 5.0 * x)).register().unwrap();
    let before = Op::new(name, &[]).unwrap();
    // Of two the last counts, and of a GPU.
    implement(name, |_, _| Err(Error::new(ErrorKind::Io, "it is asked first"))).unwrap();
    implement(name, move |property, context| match context.device() {
        Device::Gpu => Ok(Some(Box::new(OnDevice(5.0, queue)))),
        _ => property.create_operator(context).map(Some),
    })
    .unwrap();
    assert!(!before.property().devices().contains(&Device::Gpu));
    Op::new(name, &[]).unwrap()
}

/// The operator gives the same values on both.
pub fn both_contexts_have_the_operator(runtime: &Runtime, op: &Op) {
    for context in [Context::cpu(0), GPU, Context::gpu(1)] {
        let x = runtime.from_slice_in(&[1.0f32, 2.0], [2], context).unwrap();
        assert_eq!(values(&op.invoke(&[&x]).unwrap()), [5.0, 10.0]);
    }
}

/// What is new is zero before a sum, and nothing can be read that no kernel has written.
pub fn what_is_new_is_made_or_refused(runtime: &Runtime, queue: Queue) {
    let (op, _) = times(BOTH, queue);
    let x = runtime.from_slice_in(&[1.0f32, 2.0], [2], GPU).unwrap();
    let sum = runtime.empty_in([2], DType::F32, GPU).unwrap();
    op.invoke_into(&[&x], &[(&sum, OpReq::Add)]).unwrap();
    assert_eq!(values(&sum), [3.0, 6.0]);
    let unwritten = runtime.empty_in([2], DType::F32, GPU).unwrap();
    let error = op.invoke(&[&unwritten]).unwrap().wait_to_read().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unwritten);
    assert!(error.to_string().contains("'times' of float32 [2]"), "{error}");
    let empty = runtime.empty_in([0, 3], DType::F32, GPU).unwrap();
    assert_eq!(values(&op.invoke(&[&op.invoke(&[&empty]).unwrap()]).unwrap()), [0.0; 0]);
    let _ = runtime.wait_all();
}

/// A part in order is an operand and a result; other views are refused.
pub fn views_in_order_are_operands(runtime: &Runtime, queue: Queue) {
    let (op, _) = times(BOTH, queue);
    let x = runtime.from_slice_in(&[1.0f32, 2.0, 3.0, 4.0], [2, 2], GPU).unwrap();
    assert_eq!(values(&op.invoke(&[&x.at(1).unwrap()]).unwrap()), [9.0, 12.0]);
    let turned = x.transpose().unwrap();
    let fresh = runtime.zeros_in([2, 2], DType::F32, GPU).unwrap();
    for refused in [op.invoke(&[&turned]).map(drop), op.invoke_into(&[&fresh], &[(&turned, OpReq::Write)])] {
        let error = refused.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnsupportedContext, "{error}");
        assert!(error.to_string().contains("in order"), "{error}");
    }
    // A view of the whole in order is a result too, and a part, also beside an operand.
    let whole = x.reshape([4]).unwrap();
    op.invoke_into(&[&whole], &[(&x.reshape([4]).unwrap(), OpReq::Write)]).unwrap();
    assert_eq!(values(&x), [3.0, 6.0, 9.0, 12.0]);
    op.invoke_into(&[&x.at(0).unwrap()], &[(&x.at(1).unwrap(), OpReq::Write)]).unwrap();
    assert_eq!(values(&x), [3.0, 6.0, 9.0, 18.0]);
    // What nothing has written is zero beside it.
    let new = runtime.empty_in([2, 2], DType::F32, GPU).unwrap();
    op.invoke_into(&[&x.at(0).unwrap()], &[(&new.at(1).unwrap(), OpReq::Write)]).unwrap();
    assert_eq!(values(&new), [0.0, 0.0, 9.0, 18.0]);
    let elsewhere = runtime.zeros_in([4], DType::F32, Context::gpu(1)).unwrap();
    let mixed = op.invoke_into(&[&whole], &[(&elsewhere, OpReq::Write)]).unwrap_err();
    assert_eq!(mixed.kind(), ErrorKind::ContextMismatch, "{mixed}");
    runtime.wait_all().unwrap();
}

/// A gradient goes through implementations of a GPU, and is added there.
pub fn gradients_go_through_a_gpu(runtime: &Runtime, queue: Queue) {
    let (op, _) = times(BOTH, queue);
    let x = runtime.from_slice_in(&[1.0f32, 2.0], [2], GPU).unwrap();
    x.attach_grad(OpReq::Add).unwrap();
    assert_eq!((x.grad().unwrap().context(), values(&x.grad().unwrap())), (GPU, vec![0.0; 2]));
    for round in [1.0f32, 2.0] {
        let y = autograd::record(|| op.invoke(&[&op.invoke(&[&x])?])).unwrap();
        autograd::backward(&[&y]).unwrap();
        assert_eq!(values(&x.grad().unwrap()), [9.0 * round; 2]);
    }
    runtime.wait_all().unwrap();
}

/// A gradient goes back through copies: from the processor to a GPU, and to where it came from.
pub fn gradients_go_back_from_context_to_context(runtime: &Runtime, queue: Queue) {
    let (op, _) = times(BOTH, queue);
    for first in [Context::cpu(0), Context::cpu_pinned(0), GPU, Context::gpu(1)] {
        let x = runtime.from_slice_in(&[1.0f32, 2.0], [2], first).unwrap();
        x.attach_grad(OpReq::Write).unwrap();
        let y = autograd::record(|| {
            let there = op.invoke(&[&x.as_in_context(GPU)?])?;
            let back = there.as_in_context(Context::cpu(0))?.square()?;
            op.invoke(&[&back.as_in_context(Context::gpu(1))?])?.as_in_context(Context::cpu(0))?.sum()
        });
        autograd::backward(&[&y.unwrap()]).unwrap();
        let grad = x.grad().unwrap();
        // Of 3 · (3 x)².
        assert_eq!((grad.context(), values(&grad)), (first, vec![54.0, 108.0]));
        // The same value by two ways is added on the processor.
        if first.device() != Device::Gpu {
            let y = autograd::record(|| {
                let by_gpu = op.invoke(&[&x.as_in_context(GPU)?])?.as_in_context(Context::cpu(0))?;
                by_gpu.add(&x.square()?)
            });
            autograd::backward(&[&y.unwrap()]).unwrap();
            assert_eq!(values(&x.grad().unwrap()), [5.0, 7.0]);
        }
    }
    runtime.wait_all().unwrap();
}

/// An operator for one kind of device has no kernel for the other.
pub fn without_an_implementation_a_call_is_refused(runtime: &Runtime, queue: Queue) {
    let (there, asked) = times(&[Device::Gpu], queue);
    let (here, _) = times(&[Device::Cpu, Device::CpuPinned], queue);
    assert!(asked.lock().unwrap().is_empty());
    let (host, x) = (runtime.ones([2], DType::F32).unwrap(), runtime.zeros_in([2], DType::F32, GPU).unwrap());
    for (op, of, context) in [(&there, &host, "cpu(0)"), (&here, &x, "gpu(0)")] {
        let error = op.invoke(&[of]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnsupportedContext);
        assert!(error.to_string().contains("'times' of float32 [2]"), "{error}");
        assert!(error.to_string().contains(&format!("it has no kernel for {context}")), "{error}");
    }
    assert_eq!(values(&there.invoke(&[&x]).unwrap()), [0.0; 2]);
    assert_eq!(values(&here.invoke(&[&host]).unwrap()), [3.0; 2]);
    assert_eq!(*asked.lock().unwrap(), [GPU]);
}

/// One that walks over elements of a GPU as if they were the processor's fails, and nothing else.
pub fn elements_of_a_gpu_are_out_of_reach(runtime: &Runtime) {
    struct Walks;
    impl OperatorProperty for Walks {
        fn infer_shape(
            &self,
            in_shape: &mut [Option<Shape>],
            out_shape: &mut [Option<Shape>],
            _: &mut [Option<Shape>],
        ) -> Result<bool, Error> {
            out_shape[0] = in_shape[0];
            Ok(in_shape[0].is_some())
        }

        fn devices(&self) -> &[Device] {
            BOTH
        }

        fn create_operator(&self, _: Context) -> Result<Box<dyn Operator>, Error> {
            Ok(Box::new(Walks))
        }
    }
    impl Operator for Walks {
        fn forward(
            &self,
            _: &mut OpContext<'_, '_>,
            in_data: &[Blob<'_>],
            req: &[OpReq],
            out_data: &mut [BlobMut<'_>],
            _: &mut [BlobMut<'_>],
        ) -> Result<(), Error> {
            unary_map(in_data[0], &mut out_data[0], req[0], |x| x)
        }
    }
    let op = Op::of_property("walks", Box::new(Walks)).unwrap();
    let x = runtime.from_slice_in(&[1.0f32, 2.0], [2], GPU).unwrap();
    let error = op.invoke(&[&x]).unwrap().wait_to_read().unwrap_err();
    assert!(error.to_string().contains("device_address()"), "{error}");
    assert_eq!(values(&x), [1.0, 2.0]);
    let _ = runtime.wait_all();
}
