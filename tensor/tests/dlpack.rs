//! DLPack: arrays that are lent without a copy, and what others lend; who waits for whom, and when
//! deleters are called.

mod common;

use common::{runtime, runtimes};
use seriatim::{Context, Kind};
use seriatim_tensor::dlpack::{
    DLDataType, DLDevice, DLManagedTensor, DLManagedTensorVersioned, DLPackVersion, DLTensor, Tensor, CPU,
    FLAG_READ_ONLY,
};
use seriatim_tensor::{DType, ErrorKind, NDArray, Runtime};
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::Arc;
use std::time::Duration;

const FLOAT: DLDataType = DLDataType { code: 2, bits: 32, lanes: 1 };

/// What another library would lend. Its deleter counts, and frees it.
struct Producer {
    managed: DLManagedTensorVersioned,
    values: Vec<f32>,
    shape: Vec<i64>,
    strides: Vec<i64>,
    deleted: Arc<AtomicUsize>,
}

unsafe extern "C" fn delete(managed: *mut DLManagedTensorVersioned) {
    // SAFETY: `lend` has put a box there; if the deleter were called twice, the count would show it
    // under a sanitizer.
    let producer = unsafe { Box::from_raw((*managed).manager_ctx.cast::<Producer>()) };
    producer.deleted.fetch_add(1, SeqCst);
}

impl Producer {
    fn new(shape: &[i64], strides: &[i64], deleted: &Arc<AtomicUsize>) -> Box<Producer> {
        let dl_tensor = DLTensor {
            data: std::ptr::null_mut(),
            device: DLDevice { device_type: CPU, device_id: 0 },
            ndim: shape.len() as i32,
            dtype: FLOAT,
            shape: std::ptr::null_mut(),
            strides: std::ptr::null_mut(),
            byte_offset: 0,
        };
        let managed = DLManagedTensorVersioned {
            version: DLPackVersion { major: 1, minor: 3 },
            manager_ctx: std::ptr::null_mut(),
            deleter: Some(delete),
            flags: 0,
            dl_tensor,
        };
        let (shape, strides) = (shape.to_vec(), strides.to_vec());
        let values = (0..12u8).map(f32::from).collect();
        Box::new(Producer { managed, values, shape, strides, deleted: Arc::clone(deleted) })
    }

    /// Gives it away. `first` is the number of the first element.
    fn lend(mut self: Box<Producer>, first: usize) -> Tensor {
        let of = &mut self.managed.dl_tensor;
        of.data = self.values.as_mut_ptr().cast::<c_void>();
        of.byte_offset += 4 * first as u64;
        of.shape = self.shape.as_mut_ptr();
        of.strides = if self.strides.is_empty() { std::ptr::null_mut() } else { self.strides.as_mut_ptr() };
        let raw = Box::into_raw(self);
        // SAFETY: the box was just leaked; its structure is as DLPack has it, or is refused.
        unsafe {
            (*raw).managed.manager_ctx = raw.cast();
            Tensor::from_raw(NonNull::new(&raw mut (*raw).managed).unwrap())
        }
    }
}

#[test]
fn arrays_of_every_type_and_shape_go_round_without_a_copy() {
    let runtime = Runtime::global().unwrap();
    for dtype in DType::ALL.into_iter().step_by(if cfg!(miri) { 4 } else { 1 }) {
        for dims in [&[][..], &[6], &[2, 3], &[1, 2, 3], &[0, 2]] {
            let x = runtime.empty(dims, dtype).unwrap();
            let count = x.size() as f64;
            runtime.arange(0.0, count, 1.0, dtype).unwrap().reshape(dims).unwrap().copy_to(&x).unwrap();
            let lent = x.to_dlpack().unwrap().into_raw();
            // SAFETY: it comes from `into_raw`, and is used once.
            let (data, taken) = unsafe { (lent.as_ref().dl_tensor.data, Tensor::from_raw(lent)) };
            let y = runtime.from_dlpack(taken).unwrap();
            assert_eq!((y.shape(), y.dtype()), (x.shape(), dtype));
            let as_floats = |x: &NDArray| x.astype(DType::F64).unwrap().to_vec::<f64>().unwrap();
            assert_eq!(as_floats(&y), as_floats(&x), "{dtype} {dims:?}");
            let again = y.to_dlpack().unwrap().into_raw();
            // SAFETY: as above.
            let (same, again) = unsafe { (again.as_ref().dl_tensor.data, Tensor::from_raw(again)) };
            assert_eq!(same, data, "the memory is the same");
            drop(again);
        }
    }
    runtime.wait_all().unwrap();
}

#[test]
fn views_go_round_with_their_strides() {
    let runtime = Runtime::global().unwrap();
    let x = runtime.arange(0.0, 24.0, 1.0, DType::I32).unwrap().reshape([4, 6]).unwrap();
    let view = x.transpose().unwrap().slice(0, 1, 6, 2).unwrap().slice(1, 1, 4, 1).unwrap();
    let y = runtime.from_dlpack(view.to_dlpack().unwrap()).unwrap();
    assert_eq!(y.to_vec::<i32>().unwrap(), view.to_vec::<i32>().unwrap());
    let wide = x.at(0).unwrap().broadcast_to([2, 6]).unwrap();
    assert_eq!(wide.to_dlpack_mut().unwrap_err().kind(), ErrorKind::OverlappingView);
    let z = runtime.from_dlpack(wide.to_dlpack().unwrap()).unwrap();
    assert_eq!(z.to_vec::<i32>().unwrap(), [0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5]);
}

#[test]
fn a_writer_waits_until_the_deleter_has_run_and_readers_do_not() {
    for (name, runtime) in runtimes() {
        let x = runtime.full([3], DType::F32, 1.0f32).unwrap();
        let lent = x.to_dlpack().unwrap();
        x.fill(2.0f32).unwrap();
        let written = runtime.engine().wait_for_var_timeout(x.var(), Duration::from_millis(20));
        assert_eq!(written.unwrap_err().kind(), seriatim::ErrorKind::TimedOut, "{name}");
        // On another thread, as a collector of garbage may have it.
        std::thread::scope(|scope| {
            scope.spawn(move || drop(lent));
        });
        assert_eq!(x.to_vec::<f32>().unwrap(), [2.0; 3], "{name}");
        let lent = x.to_dlpack().unwrap();
        assert_eq!(x.add(&x).unwrap().to_vec::<f32>().unwrap(), [4.0; 3], "{name}: a reader does not wait");
        drop(lent);
        runtime.wait_all().unwrap();
    }
}

#[test]
fn what_a_borrower_writes_is_what_readers_see() {
    let runtime = runtime(Kind::PerDevice, 2);
    let x = runtime.empty([2, 2], DType::F32).unwrap();
    assert_eq!(x.to_dlpack().unwrap_err().kind(), ErrorKind::Unwritten);
    let lent = x.to_dlpack_mut().unwrap().into_raw_unversioned().unwrap();
    let sum = x.sum().unwrap();
    let read = runtime.engine().wait_for_var_timeout(sum.var(), Duration::from_millis(20));
    assert_eq!(read.unwrap_err().kind(), seriatim::ErrorKind::TimedOut);
    // SAFETY: the structure has four floats, which are this thread's until the deleter is called.
    unsafe {
        let of: &DLManagedTensor = lent.as_ref();
        let (dims, steps) = (of.dl_tensor.shape, of.dl_tensor.strides);
        assert_eq!([*dims, *dims.add(1), *steps, *steps.add(1)], [2, 2, 2, 1]);
        let values = std::slice::from_raw_parts_mut(of.dl_tensor.data.cast::<f32>(), 4);
        assert_eq!(values, [0.0; 4]);
        values.copy_from_slice(&[1.0, 2.0, 3.0, 4.0]);
        (of.deleter.unwrap())(lent.as_ptr());
    }
    assert_eq!(sum.as_scalar::<f32>().unwrap(), 10.0);
    // The memory goes back to the storage when array and loan are gone.
    let lent = x.to_dlpack().unwrap();
    drop((x, sum));
    let live = || runtime.storage().statistics(Context::cpu(0)).unwrap().live;
    assert!(live() > 0);
    drop(lent);
    runtime.wait_all().unwrap();
    assert_eq!(live(), 0);
}

#[test]
fn a_deleter_is_called_once_and_behind_the_last_use() {
    for (name, runtime) in runtimes() {
        let deleted = Arc::new(AtomicUsize::new(0));
        // Backwards, every other element of each row of four.
        let tensor = Producer::new(&[3, 2], &[-4, 2], &deleted).lend(8);
        let x = runtime.from_dlpack(tensor).unwrap();
        let (open, gate) = std::sync::mpsc::channel::<()>();
        let held = x.var();
        let is_naive = name.starts_with("naive");
        if !is_naive {
            runtime.engine().op("hold").write(held).push(move |_| _ = gate.recv()).unwrap();
        }
        let sums = x.add_scalar(100.0).unwrap();
        x.mul_scalar_assign(2.0).unwrap();
        let doubled = x.copy().unwrap();
        let view = x.at(0).unwrap();
        drop(x);
        assert_eq!(deleted.load(SeqCst), 0, "{name}: a view is left");
        drop(view);
        assert!(is_naive || deleted.load(SeqCst) == 0, "{name}: operations are left");
        drop(open);
        assert_eq!(sums.to_vec::<f32>().unwrap(), [108.0, 110.0, 104.0, 106.0, 100.0, 102.0], "{name}");
        assert_eq!(doubled.to_vec::<f32>().unwrap(), [16.0, 20.0, 8.0, 12.0, 0.0, 4.0], "{name}");
        runtime.wait_all().unwrap();
        assert_eq!(deleted.load(SeqCst), 1, "{name}");
    }
}

#[test]
fn what_is_read_only_is_not_written() {
    let runtime = runtime(Kind::PerDevice, 1);
    let deleted = Arc::new(AtomicUsize::new(0));
    let mut producer = Producer::new(&[12], &[], &deleted);
    producer.managed.flags = FLAG_READ_ONLY;
    let x = runtime.from_dlpack(producer.lend(0)).unwrap();
    x.fill(1.0f32).unwrap();
    let error = x.wait_to_read().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ReadOnly);
    assert!(error.to_string().contains("'fill' of float32 [12]") && error.to_string().contains("copy"), "{error}");
    assert_eq!(x.to_dlpack_mut().unwrap_err().kind(), ErrorKind::ReadOnly);
    assert_eq!(x.slice(0, 10, 12, 1).unwrap().to_vec::<f32>().unwrap(), [10.0, 11.0]);
    drop(x);
    runtime.wait_all().unwrap();
    assert_eq!(deleted.load(SeqCst), 1);
}

#[test]
fn arrays_that_are_lent_to_be_read_are_read_only() {
    let runtime = runtime(Kind::PerDevice, 1);
    let x = runtime.full([2], DType::F32, 1.0f32).unwrap();
    assert!(x.to_dlpack().unwrap().is_read_only() && !x.to_dlpack_mut().unwrap().is_read_only());
    let y = runtime.from_dlpack(x.to_dlpack().unwrap()).unwrap();
    y.fill(2.0f32).unwrap();
    assert_eq!(y.wait_to_read().unwrap_err().kind(), ErrorKind::ReadOnly);
    drop(y);
    assert_eq!(x.to_vec::<f32>().unwrap(), [1.0; 2]);
}

/// What a case has wrong with it, and the error that it gets.
type Case = (fn(&mut Producer), ErrorKind, &'static str);

#[test]
fn tensors_that_arrays_cannot_have_are_refused_and_deleted() {
    let runtime = Runtime::global().unwrap();
    let cases: [Case; 12] = [
        (|of| of.managed.dl_tensor.device.device_type = 2, ErrorKind::UnsupportedContext, "type 2"),
        (|of| of.managed.dl_tensor.dtype.code = 5, ErrorKind::UnsupportedType, "code 5"),
        (|of| of.managed.dl_tensor.dtype.lanes = 4, ErrorKind::UnsupportedType, "4 lanes"),
        (|of| of.managed.dl_tensor.dtype.bits = 4, ErrorKind::UnsupportedType, "4 bits"),
        (|of| of.managed.version.major = 2, ErrorKind::BadFormat, "version is 2.3"),
        (|of| of.managed.dl_tensor.ndim = -1, ErrorKind::BadFormat, "-1 dimensions"),
        (|of| of.shape[0] = -3, ErrorKind::BadFormat, "-3"),
        (|of| of.shape[0] = i64::MAX, ErrorKind::TooLarge, "more elements"),
        (|of| of.strides = vec![1, 1], ErrorKind::BadFormat, "twice"),
        (|of| of.strides = vec![i64::MAX / 2, 1], ErrorKind::BadFormat, "beyond memory"),
        (|of| of.managed.dl_tensor.byte_offset = 2, ErrorKind::BadFormat, "aligned"),
        (|of| of.managed.dl_tensor.byte_offset = u64::MAX, ErrorKind::BadFormat, "aligned"),
    ];
    for (spoil, kind, text) in cases {
        let deleted = Arc::new(AtomicUsize::new(0));
        let mut producer = Producer::new(&[3, 4], &[4, 1], &deleted);
        spoil(&mut producer);
        let error = runtime.from_dlpack(producer.lend(0)).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(text), "{error}");
        assert_eq!(deleted.load(SeqCst), 1, "{text}");
    }
}

#[test]
fn a_tensor_of_more_axes_than_arrays_have_is_refused() {
    let deleted = Arc::new(AtomicUsize::new(0));
    let error = Runtime::global().unwrap().from_dlpack(Producer::new(&[1; 9], &[1; 9], &deleted).lend(0)).unwrap_err();
    assert_eq!((error.kind(), deleted.load(SeqCst)), (ErrorKind::TooLarge, 1));
}

#[test]
fn a_failed_array_is_not_lent() {
    let runtime = runtime(Kind::PerDevice, 1);
    let x = runtime.empty([2], DType::F32).unwrap();
    let y = x.add_scalar(1.0).unwrap();
    assert_eq!(y.to_dlpack().unwrap_err().kind(), ErrorKind::Unwritten);
    runtime.wait_all().unwrap();
}
