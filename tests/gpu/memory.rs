//! Memory: arrays of devices and pinned ones, their borrows, their reuse, limits and losses.

use crate::common::{assert_says, eventually, hold};
use crate::model::{Model, Release};
use crate::over;
use seriatim::gpu::{Backend, Class, DeviceData, DriverError, MemoryKind, PinnedData, Previous, RawMark, RawStream};
use seriatim::{Context, Engine, Error, ErrorKind, Kind, RunContext, WhenFull};
use std::ptr::null_mut;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{mpsc, Arc};
use std::time::Duration;

const GPU: Context = Context::gpu(0);
const LIMIT: Duration = Duration::from_secs(30);

#[test]
fn copies_take_values_there_and_back_on_every_engine() {
    for kind in [Kind::Naive, Kind::Pooled, Kind::PerDevice] {
        let model = Model::new(2, 1, 3);
        let engine = over(&model).kind(kind).build().unwrap();
        let [first, second] = [0, 1].map(|device| engine.device(Context::gpu(device)).unwrap());
        let values: Vec<u32> = (0..1000).collect();
        let x = DeviceData::from_slice(&first, &values).unwrap();
        let [y, z] = [(); 2].map(|()| DeviceData::<u32>::zeros(&second, 1000).unwrap());
        let back = [(); 2].map(|()| PinnedData::<u32>::zeros(&first, 1000).unwrap());
        engine.copy(&x, &y).unwrap();
        engine.copy(&y, &back[0]).unwrap();
        engine.copy(&z, &back[1]).unwrap();
        // After the last use is pushed, nobody needs the arrays.
        drop((x, y, z));
        engine.wait_for_all_timeout(LIMIT).unwrap();
        assert_eq!(*back[0].read().unwrap(), values[..]);
        assert_eq!(*back[1].read().unwrap(), [0; 1000]);
        drop(back);
        drop((first, second));
        engine.wait_for_all_timeout(LIMIT).unwrap();
        assert_eq!(model.world().races, [""; 0]);
        drop(engine);
        assert_eq!(model.allocations.left(), 0, "memory is left on {kind}");
    }
}

#[test]
fn an_array_grows_in_an_operation_and_keeps_what_it_outgrew() {
    for kind in [Kind::Naive, Kind::Pooled, Kind::PerDevice] {
        let model = Model::new(1, 2, 7);
        let engine = over(&model).kind(kind).gpu_memory(1 << 16).build().unwrap();
        let gpu = engine.device(GPU).unwrap();
        // SAFETY: nothing reads it.
        let space = unsafe { DeviceData::<u32>::uninit(&gpu, 10) }.unwrap();
        let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
        for round in 0..20 {
            let (space, seen) = (space.clone(), Arc::clone(&seen));
            let kernel = engine.op("kernel").context(GPU).write(&space);
            kernel
                .push(move |run| {
                    let grow = |length| {
                        // SAFETY: nothing reads it.
                        unsafe { space.grow_on(run, length) }.map(|memory| memory.raw().addr())
                    };
                    // Of 512, 2,048 and 8,192 bytes; and a second call gives the same.
                    let all = [grow(100)?, grow(300)?, grow(100)?, grow(if round < 10 { 300 } else { 2000 })?];
                    let refused = grow(1 << 20).unwrap_err();
                    assert_eq!(refused.kind(), ErrorKind::OutOfMemory);
                    assert_eq!(grow(300)?, all[3]);
                    seen.lock().unwrap().push(all);
                    Ok::<(), Error>(())
                })
                .unwrap();
            // Others come and go meanwhile, and have none of its memory.
            drop(DeviceData::<u32>::zeros(&gpu, 400).unwrap());
        }
        let undeclared = space.clone();
        // SAFETY: nothing reads it.
        let grow = move |run: &RunContext<'_>| unsafe { undeclared.grow_on(run, 1) }.map(drop);
        engine.op("undeclared").context(GPU).push(grow).unwrap();
        let error = engine.wait_for_all_timeout(LIMIT).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UndeclaredAccess);
        assert_eq!(space.len(), 10);
        let seen = std::mem::take(&mut *seen.lock().unwrap());
        let mut first = seen[0];
        assert!(first[0] != first[1] && first[1] == first[2] && first[2] == first[3]);
        first = [first[1]; 4];
        assert!(seen[1..10].iter().all(|later| *later == first), "{seen:?}");
        assert!(seen[10][3] != first[0] && seen[11..].iter().all(|later| *later == [seen[10][3]; 4]), "{seen:?}");
        let before = gpu.memory(MemoryKind::Device);
        assert!(before.in_use >= 512 + 2048 + 8192, "{before:?}");
        drop(space);
        engine.wait_for_all_timeout(LIMIT).unwrap();
        eventually("all is given back", || gpu.memory(MemoryKind::Device).in_use == 0);
        assert_eq!(model.world().races, [""; 0]);
        drop((gpu, engine));
        assert_eq!(model.allocations.left(), 0, "memory is left on {kind}");
    }
}

#[test]
fn a_pinned_array_is_borrowed_until_the_device_is_done() {
    let model = Model::new(1, 2, 4);
    let engine = over(&model).build().unwrap();
    let _release = Release(Arc::clone(&model));
    let gpu = engine.device(GPU).unwrap();
    let x = DeviceData::from_slice(&gpu, &[1u8, 2, 3]).unwrap();
    let host = PinnedData::zeros(&gpu, 3).unwrap();
    engine.wait_for_all_timeout(LIMIT).unwrap();
    model.hold(0, true);
    engine.copy(&x, &host).unwrap();
    // The copy is queued, its closure has returned, and the device has not begun.
    eventually("it is queued", || engine.version(host.variable()).unwrap() == 1);
    assert_says(&host.read().unwrap_err(), ErrorKind::BorrowConflict, &["a device has still to copy", "wait before"]);
    assert_says(&host.write().unwrap_err(), ErrorKind::BorrowConflict, &["a device has still to copy"]);
    model.hold(0, false);
    engine.wait_for_var_timeout(host.variable(), LIMIT).unwrap();
    assert_eq!(*host.read().unwrap(), [1, 2, 3]);
    // What the device only reads, the processor may read as well, and not change.
    model.hold(0, true);
    engine.copy(&host, &x).unwrap();
    eventually("it is queued", || engine.version(x.variable()).unwrap() == 2);
    assert_eq!(*host.read().unwrap(), [1, 2, 3]);
    assert_eq!(host.write().unwrap_err().kind(), ErrorKind::BorrowConflict);
    model.hold(0, false);
    engine.wait_until_unused(host.variable()).unwrap();
    host.write().unwrap().fill(0);
}

/// A borrow outside is met by an operation that comes meanwhile: it fails, and queues nothing.
#[test]
fn a_copy_does_not_go_beside_a_borrow() {
    let model = Model::new(1, 2, 4);
    let engine = over(&model).build().unwrap();
    let gpu = engine.device(GPU).unwrap();
    let (x, host) = (DeviceData::<u8>::zeros(&gpu, 3).unwrap(), PinnedData::zeros(&gpu, 3).unwrap());
    let borrowed = host.read().unwrap();
    engine.copy(&x, &host).unwrap();
    let error = engine.wait_for_var_timeout(host.variable(), LIMIT).unwrap_err();
    assert_says(&error, ErrorKind::BorrowConflict, &["operation 'copy' failed", "in use"]);
    assert_eq!(*borrowed, [0; 3]);
    drop(borrowed);
    engine.copy(&x, &host).unwrap();
    engine.wait_for_var_timeout(host.variable(), LIMIT).unwrap();
}

#[test]
fn memory_goes_on_to_its_next_owner_with_what_it_owes() {
    // A device may happen to do things in the right order.
    for seed in 1..=20 {
        let model = Model::new(1, seed, 2);
        let engine = over(&model).build().unwrap();
        let _release = Release(Arc::clone(&model));
        let gpu = engine.device(GPU).unwrap();
        let host = PinnedData::from_slice(&gpu, &[7u64; 64]).unwrap();
        let back = PinnedData::<u64>::zeros(&gpu, 64).unwrap();
        let x = DeviceData::<u64>::zeros(&gpu, 64).unwrap();
        model.hold(0, true);
        engine.copy(&host, &x).unwrap();
        engine.copy(&x, &back).unwrap();
        eventually("all is queued", || engine.version(back.variable()).unwrap() == 1);
        let asked = model.allocations.calls.load(SeqCst);
        drop(x);
        assert_eq!(gpu.memory(MemoryKind::Device).kept, 512);
        // The device has done nothing yet, and its memory has a new owner all the same.
        let y = DeviceData::<u64>::zeros(&gpu, 64).unwrap();
        assert_eq!((gpu.memory(MemoryKind::Device).kept, gpu.memory(MemoryKind::Device).in_use), (0, 512));
        assert_eq!(model.allocations.calls.load(SeqCst), asked, "the driver was asked");
        let last = PinnedData::<u64>::zeros(&gpu, 64).unwrap();
        engine.copy(&y, &last).unwrap();
        model.hold(0, false);
        engine.wait_for_all_timeout(LIMIT).unwrap();
        assert_eq!((back.read().unwrap()[63], last.read().unwrap()[63]), (7, 0));
        assert_eq!(model.world().races, [""; 0]);
    }
}

/// What was only written is owed as well.
#[test]
fn memory_goes_on_after_a_write() {
    let model = Model::new(1, 3, 2);
    let engine = over(&model).build().unwrap();
    let _release = Release(Arc::clone(&model));
    let gpu = engine.device(GPU).unwrap();
    let host = PinnedData::from_slice(&gpu, &[7u64; 64]).unwrap();
    let x = DeviceData::<u64>::zeros(&gpu, 64).unwrap();
    engine.wait_for_all_timeout(LIMIT).unwrap();
    model.hold(0, true);
    engine.copy(&host, &x).unwrap();
    eventually("it is queued", || engine.version(x.variable()).unwrap() == 2);
    drop(x);
    // Its zeros come on another stream than the copy.
    let y = DeviceData::<u64>::zeros(&gpu, 64).unwrap();
    assert_eq!(gpu.memory(MemoryKind::Device).peak, 512);
    eventually("it is queued", || engine.version(y.variable()).unwrap() == 1);
    model.hold(0, false);
    engine.wait_for_all_timeout(LIMIT).unwrap();
    assert_eq!(model.world().races, [""; 0]);
}

#[test]
fn pinned_memory_goes_on_only_when_the_device_is_done() {
    let model = Model::new(1, 3, 2);
    let engine = over(&model).build().unwrap();
    let _release = Release(Arc::clone(&model));
    let gpu = engine.device(GPU).unwrap();
    let x = DeviceData::<u64>::zeros(&gpu, 64).unwrap();
    engine.wait_for_all_timeout(LIMIT).unwrap();
    model.hold(0, true);
    let host = PinnedData::from_slice(&gpu, &[7u64; 64]).unwrap();
    engine.copy(&host, &x).unwrap();
    eventually("it is queued", || engine.version(x.variable()).unwrap() == 2);
    drop(host);
    let other = PinnedData::from_slice(&gpu, &[8u64; 64]).unwrap();
    assert_eq!((gpu.memory(MemoryKind::Pinned).kept, gpu.memory(MemoryKind::Pinned).in_use), (512, 512));
    model.hold(0, false);
    engine.wait_for_all_timeout(LIMIT).unwrap();
    let asked = model.allocations.calls.load(SeqCst);
    let third = PinnedData::<u64>::zeros(&gpu, 64).unwrap();
    assert_eq!(model.allocations.calls.load(SeqCst), asked, "the driver was asked");
    assert_eq!((other.read().unwrap()[0], third.read().unwrap()[0]), (8, 0));
}

#[test]
fn there_is_a_limit_and_what_is_kept_gives_way() {
    let model = Model::new(1, 4, 4);
    let engine = over(&model).gpu_memory(4096).build().unwrap();
    let gpu = engine.device(GPU).unwrap();
    let x = DeviceData::<u8>::zeros(&gpu, 2048).unwrap();
    let y = DeviceData::<u8>::zeros(&gpu, 1025).unwrap();
    let refused = DeviceData::<u8>::zeros(&gpu, 1).unwrap_err();
    assert_says(&refused, ErrorKind::OutOfMemory, &["1 bytes on gpu(0)", "limit is 4096", "4096 bytes are in use"]);
    engine.wait_for_all_timeout(LIMIT).unwrap();
    drop((x, y));
    let usage = gpu.memory(MemoryKind::Device);
    assert_eq!((usage.in_use, usage.kept, usage.peak), (0, 4096, 4096));
    let large = DeviceData::<u8>::zeros(&gpu, 4096).unwrap();
    engine.wait_for_all_timeout(LIMIT).unwrap();
    assert_eq!(gpu.memory(MemoryKind::Device).kept, 0, "what is kept gives way");
    drop(large);
    assert_eq!(gpu.trim(), 1);
    engine.wait_for_all_timeout(LIMIT).unwrap();
    assert_eq!((gpu.memory(MemoryKind::Device).kept, model.allocations.left()), (0, 0));
    // The driver's own limit, and more than can be addressed.
    model.allocations.most.store(1, SeqCst);
    let refused = PinnedData::<u64>::zeros(&gpu, 1000).unwrap_err();
    assert_says(&refused, ErrorKind::OutOfMemory, &["pinned", "8000 bytes", "the model has no more memory"]);
    for refused in [DeviceData::<u64>::zeros(&gpu, usize::MAX / 8), DeviceData::<u64>::zeros(&gpu, usize::MAX)] {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::OutOfMemory);
    }
}

/// An array that cannot be had leaves no variable, and asks for no room under the bound for that.
#[test]
fn memory_is_refused_at_once_also_at_the_bound() {
    let model = Model::new(1, 4, 4);
    let engine = over(&model).gpu_memory(4096).bound(1).when_full(WhenFull::Block).build().unwrap();
    let gpu = engine.device(GPU).unwrap();
    let held = hold(&engine, &[], &[engine.new_variable()]);
    let (told, tells) = mpsc::channel();
    let asks =
        std::thread::spawn(move || told.send(DeviceData::<u8>::zeros(&gpu, 5000).map(|_| ()).unwrap_err().kind()));
    assert_eq!(tells.recv_timeout(LIMIT), Ok(ErrorKind::OutOfMemory), "the call waits for room");
    held.complete();
    asks.join().unwrap().unwrap();
    engine.wait_for_all_timeout(LIMIT).unwrap();
}

#[test]
fn what_does_not_go_together_is_refused() {
    let model = Model::new(2, 5, 4);
    let (engine, other) = (over(&model).build().unwrap(), over(&Model::new(1, 5, 4)).build().unwrap());
    let gpu = engine.device(GPU).unwrap();
    let [x, y] = [3, 4].map(|length| DeviceData::<u8>::zeros(&gpu, length).unwrap());
    let host = PinnedData::<u8>::zeros(&gpu, 3).unwrap();
    let foreign = DeviceData::<u8>::zeros(&other.device(GPU).unwrap(), 3).unwrap();
    assert_says(&engine.copy(&x, &y).unwrap_err(), ErrorKind::BufferMismatch, &["3 elements", "has 4"]);
    assert_says(&engine.copy(&x, &x).unwrap_err(), ErrorKind::BufferMismatch, &["to itself"]);
    let twin = PinnedData::<u8>::zeros(&gpu, 3).unwrap();
    assert_says(&engine.copy(&host, &twin).unwrap_err(), ErrorKind::BufferMismatch, &["both the processor's"]);
    assert_eq!(engine.copy(&x, &foreign).unwrap_err().kind(), ErrorKind::ForeignVariable);
    for (context, kind) in [
        (Context::gpu(0), None),
        (Context::gpu(1), Some(ErrorKind::BufferMismatch)),
        (Context::cpu(0), Some(ErrorKind::BufferMismatch)),
    ] {
        let used = x.clone();
        let body = move |run: &RunContext<'_>| used.read_on(run).map(|_| ());
        engine.op("kernel").context(context).read(&x).write(&host).push(body).unwrap();
        let outcome = engine.wait_for_var_timeout(host.variable(), LIMIT);
        assert_eq!(outcome.err().map(|error| error.kind()), kind, "on {context}");
    }
    let used = x.clone();
    let body = move |run: &RunContext<'_>| used.write_on(run).map(|_| ());
    engine.op("kernel").context(GPU).read(&x).write(&host).push(body).unwrap();
    let error = engine.wait_for_var_timeout(host.variable(), LIMIT).unwrap_err();
    assert_says(&error, ErrorKind::UndeclaredAccess, &["declared to read"]);
    assert_eq!(engine.device(Context::cpu(0)).unwrap_err().kind(), ErrorKind::UnknownDevice);
}

/// Nobody knows what a lost device has written, and its memory is not touched again.
#[test]
fn a_lost_device_keeps_its_memory_and_the_rest_is_told() {
    let model = Model::new(1, 6, 4);
    let engine = over(&model).build().unwrap();
    let _release = Release(Arc::clone(&model));
    let gpu = engine.device(GPU).unwrap();
    let x = DeviceData::from_slice(&gpu, &[1u8, 2, 3]).unwrap();
    let (host, source) = (PinnedData::<u8>::zeros(&gpu, 3).unwrap(), PinnedData::<u8>::zeros(&gpu, 3).unwrap());
    engine.wait_for_all_timeout(LIMIT).unwrap();
    model.hold(0, true);
    engine.copy(&x, &host).unwrap();
    engine.copy(&source, &x).unwrap();
    eventually("both are queued", || engine.version(x.variable()).unwrap() == 2);
    model.world().lost[0] = true;
    let error = engine.wait_for_var_timeout(host.variable(), LIMIT).unwrap_err();
    assert_says(&error, ErrorKind::DeviceLost, &["'copy'"]);
    assert_says(&host.read().unwrap_err(), ErrorKind::DeviceLost, &["gpu(0) is lost"]);
    source.write().unwrap().fill(1);
    // Once an operation of the processor has written it, it is as good as new.
    let filled = host.clone();
    engine.op("fill").write(&host).push(move |_| filled.write().map(|mut values| values.fill(4))).unwrap();
    engine.wait_for_var_timeout(host.variable(), LIMIT).unwrap();
    assert_eq!(*host.read().unwrap(), [4; 3]);
    assert_eq!(DeviceData::<u8>::zeros(&gpu, 3).unwrap_err().kind(), ErrorKind::DeviceLost);
    let calls = model.allocations.calls.load(SeqCst);
    drop((x, host, source));
    drop((gpu, engine));
    assert_eq!(model.allocations.calls.load(SeqCst), calls, "a lost device was called");
}

/// Arrays outlive their engine.
#[test]
fn memory_is_freed_by_the_last_array() {
    let model = Model::new(1, 7, 4);
    let engine = over(&model).build().unwrap();
    let gpu = engine.device(GPU).unwrap();
    let x = DeviceData::<u8>::zeros(&gpu, 3).unwrap();
    let host = PinnedData::from_slice(&gpu, &[5u8; 3]).unwrap();
    drop((gpu, engine));
    assert_eq!(*host.read().unwrap(), [5; 3]);
    drop(x);
    assert_eq!(model.allocations.left(), 2);
    drop(host);
    assert_eq!((model.allocations.left(), model.left()), (0, (0, 0)));
}

/// Streams and marks, and no memory.
struct Bare;

// SAFETY: there is nothing to be ordered.
unsafe impl Backend for Bare {
    fn name(&self) -> &str {
        "bare"
    }
    fn devices(&self) -> Result<usize, DriverError> {
        Ok(1)
    }
    fn enter(&self, _: usize) -> Result<Previous, DriverError> {
        Ok(Previous::new(null_mut()))
    }
    unsafe fn leave(&self, _: Previous) {}
    fn stream(&self, _: usize, _: Class) -> Result<RawStream, DriverError> {
        Ok(RawStream::new(null_mut()))
    }
    fn mark(&self, _: usize) -> Result<RawMark, DriverError> {
        Ok(RawMark::new(null_mut()))
    }
    unsafe fn record(&self, _: RawMark, _: RawStream) -> Result<(), DriverError> {
        Ok(())
    }
    unsafe fn wait(&self, _: RawStream, _: RawMark) -> Result<(), DriverError> {
        Ok(())
    }
    unsafe fn reached(&self, _: RawMark) -> Result<bool, DriverError> {
        Ok(true)
    }
    unsafe fn finish(&self, _: RawStream) -> Result<(), DriverError> {
        Ok(())
    }
    unsafe fn drop_stream(&self, _: RawStream) {}
    unsafe fn drop_mark(&self, _: RawMark) {}
}

#[test]
fn a_back_end_without_memory_says_so() {
    let engine = Engine::builder().gpus(Arc::new(Bare)).build().unwrap();
    let gpu = engine.device(GPU).unwrap();
    let refused: Result<DeviceData<u8>, Error> = DeviceData::zeros(&gpu, 1);
    assert_says(&refused.unwrap_err(), ErrorKind::DeviceUnavailable, &["bare has no memory for gpu(0)"]);
    assert_eq!(PinnedData::<u8>::zeros(&gpu, 1).unwrap_err().kind(), ErrorKind::DeviceUnavailable);
}
