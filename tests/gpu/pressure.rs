//! Memory under pressure: what is kept is freed by the watcher of the device, in calls that wait
//! for the device. Arrays wait for that meanwhile, also pinned ones, and no thread does. The
//! watcher frees what is trimmed as well.

use crate::common::{assert_says, eventually, nothing};
use crate::model::{Model, Release};
use crate::over;
use seriatim::gpu::{DeviceData, DeviceHandle, MemoryKind, PinnedData};
use seriatim::{Context, Engine, Error, ErrorKind, Kind, RunContext, Variable};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{mpsc, Arc};
use std::time::Duration;

const GPU: Context = Context::gpu(0);
const LIMIT: Duration = Duration::from_secs(30);

/// An engine over a model whose calls that free wait for the device.
fn under_pressure(model: &Arc<Model>, limit: usize) -> (Engine, DeviceHandle) {
    model.allocations.frees_wait.store(true, SeqCst);
    let engine = over(model).gpu_memory(limit).build().unwrap();
    let gpu = engine.device(GPU).unwrap();
    (engine, gpu)
}

/// Leaves buffers of these sizes without an owner; the device is done with them.
fn leave(engine: &Engine, gpu: &DeviceHandle, sizes: &[usize]) {
    let arrays: Vec<_> = sizes.iter().map(|size| DeviceData::<u8>::zeros(gpu, *size).unwrap()).collect();
    engine.wait_for_all_timeout(LIMIT).unwrap();
    drop(arrays);
    engine.wait_for_all_timeout(LIMIT).unwrap();
}

/// Leaves buffers of these sizes without an owner, which the device is to use: it is held.
fn leave_owed(engine: &Engine, gpu: &DeviceHandle, model: &Model, sizes: &[usize]) {
    let arrays: Vec<_> = sizes.iter().map(|size| DeviceData::<u8>::zeros(gpu, *size).unwrap()).collect();
    engine.wait_for_all_timeout(LIMIT).unwrap();
    model.hold(0, true);
    arrays.iter().for_each(|array| queue(engine, array.variable()));
}

/// Queues an operation of the device that changes a variable.
fn queue(engine: &Engine, variable: Variable) {
    let before = engine.version(variable).unwrap();
    engine.op("kernel").context(GPU).writes([variable]).push(nothing).unwrap();
    eventually("it is queued", || engine.version(variable).unwrap() == before + 1);
}

/// Waits for what an array has. If that takes too long, the engine is left as it is: a stop would
/// wait as well.
fn wait(engine: &Engine, array: &DeviceData<u8>) -> Result<(), Error> {
    let waited = engine.wait_for_var_timeout(array.variable(), LIMIT);
    if let Some(error) = waited.as_ref().err().filter(|error| error.kind() == ErrorKind::TimedOut) {
        std::mem::forget(engine.clone());
        panic!("{error}");
    }
    waited
}

/// What an array has, which is to be zeros.
fn is_zeros(engine: &Engine, gpu: &DeviceHandle, array: &DeviceData<u8>) -> bool {
    let back = PinnedData::from_slice(gpu, &vec![1u8; array.len()]).unwrap();
    engine.copy(array, &back).unwrap();
    engine.wait_for_var_timeout(back.variable(), LIMIT).unwrap();
    back.read().unwrap().iter().all(|byte| *byte == 0)
}

/// The call returns while the device is held, for which the driver waits when it frees. So does a
/// closure that makes an array, and the workers go on.
#[test]
fn the_watcher_frees_and_nobody_else_waits() {
    for in_operation in [false, true] {
        let model = Model::new(1, 1, 4);
        let (engine, gpu) = under_pressure(&model, 4096);
        let release = Release(Arc::clone(&model));
        leave(&engine, &gpu, &[2048, 2048]);
        let busy = engine.new_variable();
        model.hold(0, true);
        queue(&engine, busy);
        let (told, tells) = mpsc::channel();
        let make = {
            let gpu = gpu.clone();
            move || told.send(DeviceData::<u8>::zeros(&gpu, 4096).unwrap()).unwrap()
        };
        match in_operation {
            true => engine.op("makes an array").push(move |_| make()).unwrap(),
            false => _ = std::thread::spawn(make),
        }
        let array = tells.recv_timeout(LIMIT).expect("the call waits for the device");
        eventually("the watcher frees", || !model.allocations.freed_by.lock().unwrap().is_empty());
        // Processor and device take new work meanwhile, and the array has its place in the order.
        let (x, y) = (engine.new_variable(), engine.new_variable());
        engine.op("processor").writes([x]).push(nothing).unwrap();
        engine.wait_for_var_timeout(x, LIMIT).unwrap();
        queue(&engine, y);
        assert_eq!(engine.version(array.variable()).unwrap(), 0);
        assert_eq!((gpu.memory(MemoryKind::Device).in_use, gpu.memory(MemoryKind::Device).kept), (4096, 4096));
        drop(release);
        wait(&engine, &array).unwrap();
        assert_eq!((engine.version(array.variable()).unwrap(), gpu.memory(MemoryKind::Device).kept), (1, 0));
        assert!(is_zeros(&engine, &gpu, &array));
        assert!(model.allocations.only_watchers_free());
        engine.wait_for_all_timeout(LIMIT).unwrap();
        assert_eq!(model.world().races, [""; 0]);
    }
}

/// There is no limit, and the driver has no more memory until all that is kept is freed.
#[test]
fn the_driver_is_asked_again_when_something_was_freed() {
    let model = Model::new(1, 2, 4);
    let (engine, gpu) = under_pressure(&model, 0);
    let release = Release(Arc::clone(&model));
    leave(&engine, &gpu, &[2048, 1024]);
    leave_owed(&engine, &gpu, &model, &[1024]);
    // A pinned array has a half.
    model.allocations.most.store(8192, SeqCst);
    let array = DeviceData::from_slice(&gpu, &[7u8; 4096]).unwrap();
    assert_eq!(engine.version(array.variable()).unwrap(), 0);
    drop(release);
    wait(&engine, &array).unwrap();
    let back = PinnedData::<u8>::zeros(&gpu, 4096).unwrap();
    engine.copy(&array, &back).unwrap();
    engine.wait_for_var_timeout(back.variable(), LIMIT).unwrap();
    assert_eq!(*back.read().unwrap(), [7; 4096]);
    assert!(model.allocations.only_watchers_free());
    assert_eq!(model.world().races, [""; 0]);
}

/// Arrays wait for what the device still uses, in their order, within the limit, and take kept
/// memory from no array that waits.
#[test]
fn arrays_wait_in_their_order() {
    let model = Model::new(1, 3, 4);
    let (engine, gpu) = under_pressure(&model, 6144);
    let release = Release(Arc::clone(&model));
    leave_owed(&engine, &gpu, &model, &[2048, 2048]);
    let first = DeviceData::<u8>::zeros(&gpu, 4096).unwrap();
    // One such buffer is kept, and goes to nobody.
    let second = DeviceData::<u8>::zeros(&gpu, 2048).unwrap();
    let usage = gpu.memory(MemoryKind::Device);
    assert_eq!((usage.in_use, usage.kept), (6144, 4096));
    let refused = DeviceData::<u8>::zeros(&gpu, 1).unwrap_err();
    assert_says(&refused, ErrorKind::OutOfMemory, &["the limit is 6144", "6144 bytes are in use"]);
    drop(release);
    for array in [&first, &second] {
        wait(&engine, array).unwrap();
        assert!(is_zeros(&engine, &gpu, array));
    }
    assert!(model.allocations.only_watchers_free());
    assert!(model.allocations.peak.load(SeqCst) <= 6144);
    drop((first, second));
    engine.wait_for_all_timeout(LIMIT).unwrap();
    let usage = gpu.memory(MemoryKind::Device);
    assert_eq!((usage.in_use, usage.kept), (0, 6144));
}

/// An array that has waited gets kept memory with what it owes.
#[test]
fn an_array_that_has_waited_is_ordered_behind_what_used_its_memory() {
    let model = Model::new(2, 4, 4);
    let (engine, gpu) = under_pressure(&model, 8192);
    // A call that frees would wait for the other device as well.
    model.allocations.frees_wait.store(false, SeqCst);
    let release = Release(Arc::clone(&model));
    let other = engine.device(Context::gpu(1)).unwrap();
    let sources = [(); 2].map(|()| DeviceData::from_slice(&gpu, &[5u8; 2048]).unwrap());
    let copies = [(); 2].map(|()| DeviceData::<u8>::zeros(&other, 2048).unwrap());
    leave_owed(&engine, &gpu, &model, &[2048]);
    model.hold(1, true);
    for (from, to) in sources.into_iter().zip(&copies) {
        engine.copy(&from, to).unwrap();
        eventually("it is queued", || engine.version(to.variable()).unwrap() == 2);
    }
    assert_eq!(gpu.memory(MemoryKind::Device).kept, 6144);
    let first = DeviceData::<u8>::zeros(&gpu, 4096).unwrap();
    let second = DeviceData::<u8>::zeros(&gpu, 2048).unwrap();
    // One is freed for the first. Then the second gets one of those that are copied.
    model.hold(0, false);
    wait(&engine, &first).unwrap();
    eventually("the second has its memory", || gpu.memory(MemoryKind::Device).kept == 2048);
    drop(release);
    engine.wait_for_all_timeout(LIMIT).unwrap();
    assert!(is_zeros(&engine, &gpu, &second));
    for copy in &copies {
        let back = PinnedData::<u8>::zeros(&other, 2048).unwrap();
        engine.copy(copy, &back).unwrap();
        engine.wait_for_var_timeout(back.variable(), LIMIT).unwrap();
        assert_eq!(*back.read().unwrap(), [5; 2048]);
    }
    assert_eq!(model.world().races, [""; 0]);
}

/// Its own watcher has nothing else to look at.
#[test]
fn an_array_waits_for_what_another_device_uses() {
    let model = Model::new(2, 5, 4);
    let (engine, gpu) = under_pressure(&model, 2048);
    let release = Release(Arc::clone(&model));
    let other = engine.device(Context::gpu(1)).unwrap();
    let copy = DeviceData::<u8>::zeros(&other, 2048).unwrap();
    let source = DeviceData::from_slice(&gpu, &[5u8; 2048]).unwrap();
    engine.wait_for_all_timeout(LIMIT).unwrap();
    model.hold(1, true);
    engine.copy(&source, &copy).unwrap();
    eventually("it is queued", || engine.version(copy.variable()).unwrap() == 2);
    drop(source);
    let array = DeviceData::<u8>::zeros(&gpu, 1024).unwrap();
    let waited = engine.wait_for_var_timeout(array.variable(), Duration::from_millis(20));
    assert_eq!(waited.unwrap_err().kind(), ErrorKind::TimedOut);
    drop(release);
    wait(&engine, &array).unwrap();
    assert!(is_zeros(&engine, &gpu, &array));
    assert_eq!(model.world().races, [""; 0]);
}

#[test]
fn memory_that_never_comes_is_a_failure_of_the_first_operation() {
    let model = Model::new(1, 5, 4);
    let (engine, gpu) = under_pressure(&model, 0);
    leave(&engine, &gpu, &[2048]);
    model.allocations.most.store(4096, SeqCst);
    let array = DeviceData::<u8>::zeros(&gpu, 8192).unwrap();
    let error = wait(&engine, &array).unwrap_err();
    let said = ["operation 'zeros' failed", "8192 bytes on gpu(0)", "the model has no more memory"];
    assert_says(&error, ErrorKind::OutOfMemory, &said);
    // Nor has the array any later.
    let used = array.clone();
    let body = move |run: &RunContext<'_>| used.write_on(run).map(|_| ());
    engine.op("kernel").context(GPU).write(&array).push(body).unwrap();
    let error = wait(&engine, &array).unwrap_err();
    assert_says(&error, ErrorKind::OutOfMemory, &["the model has no more memory"]);
    drop(array);
    eventually("nothing is left", || {
        let usage = gpu.memory(MemoryKind::Device);
        (usage.in_use, usage.kept) == (0, 0)
    });
    // With nothing that could be freed the error comes at once.
    let refused = DeviceData::<u8>::zeros(&gpu, 8192).unwrap_err();
    assert_says(&refused, ErrorKind::OutOfMemory, &["the model has no more memory"]);
    let array = DeviceData::<u8>::zeros(&gpu, 2048).unwrap();
    wait(&engine, &array).unwrap();
}

#[test]
fn a_lost_device_lets_nobody_wait_for_its_memory() {
    let model = Model::new(1, 6, 4);
    let (engine, gpu) = under_pressure(&model, 4096);
    let _release = Release(Arc::clone(&model));
    leave_owed(&engine, &gpu, &model, &[4096]);
    let array = DeviceData::<u8>::zeros(&gpu, 2048).unwrap();
    assert!(engine.wait_for_var_timeout(array.variable(), Duration::from_millis(20)).is_err());
    model.world().lost[0] = true;
    let error = wait(&engine, &array).unwrap_err();
    assert_says(&error, ErrorKind::DeviceLost, &["gpu(0) is lost"]);
    drop(array);
    let _ = engine.wait_for_all_timeout(LIMIT);
    assert_eq!(gpu.memory(MemoryKind::Device).in_use, 0);
    drop((gpu, engine));
    assert_eq!(model.allocations.left(), 1, "a lost device was called");
}

/// A stop waits for arrays that wait, and one that a stopped engine refuses leaves nothing.
#[test]
fn a_stop_comes_after_what_waits() {
    let model = Model::new(1, 7, 4);
    let (engine, gpu) = under_pressure(&model, 4096);
    let release = Release(Arc::clone(&model));
    leave_owed(&engine, &gpu, &model, &[2048, 2048]);
    let array = DeviceData::<u8>::zeros(&gpu, 4096).unwrap();
    let stops = std::thread::spawn({
        let engine = engine.clone();
        move || engine.stop()
    });
    drop(release);
    stops.join().unwrap().unwrap();
    wait(&engine, &array).unwrap();
    drop(array);
    let refused = DeviceData::<u8>::zeros(&gpu, 2048).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Stopped);
    assert_eq!(gpu.memory(MemoryKind::Device).in_use, 0);
    engine.start().unwrap();
    let array = DeviceData::<u8>::zeros(&gpu, 2048).unwrap();
    wait(&engine, &array).unwrap();
    assert!(is_zeros(&engine, &gpu, &array));
}

/// Calls something on a thread of its own, or in an operation; it is to return while the device is
/// held.
fn called<T: Send + 'static>(engine: &Engine, in_operation: bool, call: impl FnOnce() -> T + Send + 'static) -> T {
    let (told, tells) = mpsc::channel();
    let call = move || told.send(call()).unwrap();
    match in_operation {
        true => engine.op("calls").push(move |_| call()).unwrap(),
        false => _ = std::thread::spawn(call),
    }
    tells.recv_timeout(LIMIT).expect("the call waits for the device")
}

/// A trim returns while the device is held, also in a closure; a wait for everything waits for what
/// it frees, which no new array gets.
#[test]
fn a_trim_waits_for_nothing() {
    for in_operation in [false, true] {
        let model = Model::new(1, 8, 4);
        let (engine, gpu) = under_pressure(&model, 0);
        leave(&engine, &gpu, &[2048, 1024]);
        // Another engine has the device work: of this one nothing is under way but the trim.
        let other = over(&model).build().unwrap();
        let release = Release(Arc::clone(&model));
        let busy = other.new_variable();
        model.hold(0, true);
        queue(&other, busy);
        // A mark follows, by which the device is asked how far it has come.
        eventually("the device has work", || model.is_busy());
        let trims = gpu.clone();
        assert_eq!(called(&engine, in_operation, move || trims.trim()), 2);
        eventually("the watcher frees", || !model.allocations.freed_by.lock().unwrap().is_empty());
        let waited = engine.wait_for_all_timeout(Duration::from_millis(20));
        assert_eq!(waited.unwrap_err().kind(), ErrorKind::TimedOut);
        let calls = model.allocations.calls.load(SeqCst);
        let _new = DeviceData::<u8>::zeros(&gpu, 2048).unwrap();
        assert_eq!(model.allocations.calls.load(SeqCst), calls + 1, "memory that leaves is used again");
        assert_eq!((gpu.memory(MemoryKind::Device).kept, gpu.trim()), (3072, 0));
        drop(release);
        engine.wait_for_all_timeout(LIMIT).unwrap();
        assert_eq!((gpu.memory(MemoryKind::Device).kept, model.allocations.left()), (0, 1));
        assert!(model.allocations.only_watchers_free());
    }
}

/// A pinned array for which memory has to be freed is there at once, and has its values when what
/// has used its memory is freed.
#[test]
fn a_pinned_array_waits_for_its_memory_and_nobody_else_does() {
    for in_operation in [false, true] {
        let model = Model::new(1, 10, 4);
        let (engine, gpu) = under_pressure(&model, 0);
        let release = Release(Arc::clone(&model));
        leave(&engine, &gpu, &[2048, 1024]);
        model.allocations.most.store(3072, SeqCst);
        let (busy, own) = (engine.new_variable(), gpu.clone());
        model.hold(0, true);
        queue(&engine, busy);
        let made = called(&engine, in_operation, move || {
            let values = PinnedData::from_slice(&own, &[7u8; 1024]).unwrap();
            (values, PinnedData::<u8>::zeros(&own, 512).unwrap())
        });
        let (values, zeros) = made;
        for array in [&values, &zeros] {
            let refused = [array.read().map(|_| ()).unwrap_err(), array.write().map(|_| ()).unwrap_err()];
            refused.iter().for_each(|error| assert_says(error, ErrorKind::BorrowConflict, &["is still to come"]));
        }
        eventually("the watcher frees", || !model.allocations.freed_by.lock().unwrap().is_empty());
        // Operations have their place behind it, and what they do not concern goes on.
        let (x, from) = (engine.new_variable(), values.clone());
        let sum = move |_: &RunContext<'_>| {
            assert_eq!(from.read()?.iter().map(|value| u32::from(*value)).sum::<u32>(), 7 * 1024);
            Ok::<(), Error>(())
        };
        engine.op("sum").read(&values).push(sum).unwrap();
        engine.op("processor").writes([x]).push(nothing).unwrap();
        engine.wait_for_var_timeout(x, LIMIT).unwrap();
        assert_eq!(gpu.memory(MemoryKind::Pinned).in_use, 1536);
        drop(release);
        engine.wait_for_all_timeout(LIMIT).unwrap();
        assert_eq!((&*values.read().unwrap(), &*zeros.read().unwrap()), (&[7; 1024][..], &[0; 512][..]));
        values.write().unwrap()[0] = 1;
        assert_eq!((engine.version(values.variable()).unwrap(), values.read().unwrap()[0]), (1, 1));
        assert!(model.allocations.only_watchers_free());
        assert_eq!(model.world().races, [""; 0]);
    }
}

/// Kept pinned memory goes to no array that comes later than one that waits.
#[test]
fn pinned_arrays_wait_in_their_order() {
    let model = Model::new(1, 11, 4);
    let (engine, gpu) = under_pressure(&model, 0);
    let release = Release(Arc::clone(&model));
    leave(&engine, &gpu, &[4096]);
    drop(PinnedData::<u8>::zeros(&gpu, 512).unwrap());
    engine.wait_for_all_timeout(LIMIT).unwrap();
    model.allocations.most.store(5120, SeqCst);
    let busy = engine.new_variable();
    model.hold(0, true);
    queue(&engine, busy);
    let first = PinnedData::from_slice(&gpu, &[1u8; 4096]).unwrap();
    let second = PinnedData::from_slice(&gpu, &[2u8; 512]).unwrap();
    assert_says(&second.read().map(|_| ()).unwrap_err(), ErrorKind::BorrowConflict, &["is still to come"]);
    drop(release);
    engine.wait_for_all_timeout(LIMIT).unwrap();
    assert_eq!((first.read().unwrap()[4095], second.read().unwrap()[511]), (1, 2));
    assert!(model.allocations.only_watchers_free());
}

#[test]
fn pinned_memory_that_never_comes_is_a_failure_of_what_fills_it() {
    let model = Model::new(1, 12, 4);
    let (engine, gpu) = under_pressure(&model, 0);
    leave(&engine, &gpu, &[2048]);
    model.allocations.most.store(4096, SeqCst);
    let array = PinnedData::<u8>::zeros(&gpu, 8192).unwrap();
    let error = engine.wait_for_var_timeout(array.variable(), LIMIT).unwrap_err();
    let said = ["operation 'fill' failed", "no pinned memory", "8192 bytes on gpu(0)", "the model has no more memory"];
    assert_says(&error, ErrorKind::OutOfMemory, &said);
    let later = [array.read().map(|_| ()).unwrap_err(), array.write().map(|_| ()).unwrap_err()];
    later.iter().for_each(|error| assert_says(error, ErrorKind::OutOfMemory, &["the model has no more memory"]));
    drop(array);
    eventually("nothing is left", || gpu.memory(MemoryKind::Pinned).in_use == 0);
    // With nothing that could be freed the error comes at once.
    let refused = PinnedData::<u8>::zeros(&gpu, 8192).unwrap_err();
    assert_says(&refused, ErrorKind::OutOfMemory, &["the model has no more memory"]);
}

#[test]
fn a_lost_device_lets_no_pinned_array_wait() {
    let model = Model::new(1, 13, 4);
    let (engine, gpu) = under_pressure(&model, 0);
    let _release = Release(Arc::clone(&model));
    leave_owed(&engine, &gpu, &model, &[4096]);
    model.allocations.most.store(4096, SeqCst);
    let array = PinnedData::<u8>::zeros(&gpu, 2048).unwrap();
    assert!(engine.wait_for_var_timeout(array.variable(), Duration::from_millis(20)).is_err());
    model.world().lost[0] = true;
    let error = engine.wait_for_var_timeout(array.variable(), LIMIT).unwrap_err();
    assert_says(&error, ErrorKind::DeviceLost, &["gpu(0) is lost"]);
    assert_says(&array.read().map(|_| ()).unwrap_err(), ErrorKind::DeviceLost, &["gpu(0) is lost"]);
}

/// Where there is no watcher the calls free: on an engine that has stopped, and on the naive one.
#[test]
fn without_a_watcher_the_caller_frees() {
    let model = Model::new(1, 8, 4);
    let (engine, gpu) = under_pressure(&model, 0);
    leave(&engine, &gpu, &[2048]);
    engine.stop().unwrap();
    assert_eq!((gpu.trim(), gpu.memory(MemoryKind::Device).kept), (1, 0));
    assert!(!model.allocations.only_watchers_free());

    let model = Model::new(1, 9, 4);
    let engine = over(&model).kind(Kind::Naive).gpu_memory(2048).build().unwrap();
    let gpu = engine.device(GPU).unwrap();
    leave(&engine, &gpu, &[2048]);
    let array = DeviceData::<u8>::zeros(&gpu, 1024).unwrap();
    assert!(is_zeros(&engine, &gpu, &array));
    assert_eq!(gpu.memory(MemoryKind::Device).kept, 0);
    // A pinned array is there when the call returns.
    model.allocations.most.store(2048, SeqCst);
    drop(array);
    let pinned = PinnedData::from_slice(&gpu, &[3u8; 1024]).unwrap();
    assert_eq!(*pinned.read().unwrap(), [3; 1024]);
}
