//! Streams that are not the engine's: operations that end when such a stream has come somewhere,
//! and streams that are adopted into the order of variables.

use crate::common::{assert_says, by_length, eventually, nothing, Random};
use crate::model::{Model, Release};
use crate::over;
use crate::programs::{apply, cells, Cells, Operation, Plan, CELLS};
use seriatim::gpu::{AdoptedStream, Backend, Class, DriverError, RawStream};
use seriatim::{
    Completion, Context, Device, Engine, Error, ErrorKind, IdlePolicy, Kind, Property, RunContext, Variable,
};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::sync::{mpsc, Arc};
use std::time::Duration;

const GPU: Context = Context::gpu(0);
const LIMIT: Duration = Duration::from_secs(60);
/// Long enough for something that would happen too early.
const MOMENT: Duration = Duration::from_millis(30);

/// A stream of the program's. It is given back at the end.
pub struct Own {
    model: Arc<Model>,
    pub stream: RawStream,
}

impl Own {
    pub fn new(model: &Arc<Model>, device: usize) -> Own {
        let stream = model.stream(device, Class::Compute).expect("no call fails yet");
        Own { model: Arc::clone(model), stream }
    }

    pub fn model(&self) -> Arc<Model> {
        Arc::clone(&self.model)
    }

    pub fn adopted(&self, engine: &Engine, device: u32) -> Result<AdoptedStream, Error> {
        // SAFETY: it is given back when the engine has ended.
        unsafe { engine.device(Context::gpu(device))?.adopt(self.stream) }
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        // A lost device takes nothing back.
        if !std::thread::panicking() && !self.model.world().lost.contains(&true) {
            // SAFETY: nobody uses it any more.
            unsafe { self.model.drop_stream(self.stream) };
        }
    }
}

/// An asynchronous operation whose work is on a stream of the program's, and which ends with it, by
/// a call on another thread.
pub fn push_after(engine: &Engine, own: &Own, variable: Variable, done: &Arc<AtomicUsize>) -> Result<(), Error> {
    let (model, stream, done) = (Arc::clone(&own.model), own.stream, Arc::clone(done));
    let start = move |_: &RunContext<'_>, completion: Completion| {
        model.work(stream, Vec::new(), Vec::new(), move || _ = done.fetch_add(1, SeqCst));
        // SAFETY: the stream lives until the test has ended.
        std::thread::spawn(move || unsafe { completion.complete_after(stream) });
    };
    engine.op("library").context(GPU).writes([variable]).push_async(start)
}

#[test]
fn an_operation_ends_when_its_stream_has_come_there_and_no_thread_waits() {
    for kind in [Kind::PerDevice, Kind::Pooled] {
        for idle in [IdlePolicy::Park, IdlePolicy::SpinThenPark] {
            let model = Model::new(1, 1, 4);
            let own = Own::new(&model, 0);
            let engine = over(&model).kind(kind).idle(idle).gpu_workers(1).build().unwrap();
            let _release = Release(Arc::clone(&model));
            let (x, y, done) = (engine.new_variable(), engine.new_variable(), Arc::new(AtomicUsize::new(0)));
            for round in 1..=3 {
                model.hold(0, true);
                push_after(&engine, &own, x, &done).unwrap();
                // The one worker of the device, and that of the processor, go on.
                engine.op("else").context(GPU).writes([y]).push(nothing).unwrap();
                eventually("the other is queued", || engine.version(y).unwrap() == round);
                engine.op("on the processor").push(nothing).unwrap();
                let late = engine.wait_for_var_timeout(x, MOMENT).unwrap_err();
                assert_says(&late, ErrorKind::TimedOut, &["'library'"]);
                model.hold(0, false);
                engine.wait_for_var_timeout(x, LIMIT).unwrap();
                assert_eq!(done.load(SeqCst) as u64, round, "{kind}");
                // The watcher sleeps by now, if it does.
                std::thread::sleep(Duration::from_millis(2));
            }
            drop(engine);
            drop(own);
            // The threads that have ended operations may still be on their way out.
            eventually("all is given back", || model.left() == (0, 0));
        }
    }
}

/// Marks are used again: there are as many as were in use at once.
#[test]
fn marks_are_used_again() {
    let model = Model::new(1, 1, 30);
    let own = Own::new(&model, 0);
    let engine = over(&model).build().unwrap();
    let (x, done) = (engine.new_variable(), Arc::new(AtomicUsize::new(0)));
    let adopted = own.adopted(&engine, 0).unwrap();
    push_after(&engine, &own, x, &done).unwrap();
    engine.wait_for_all_timeout(LIMIT).unwrap();
    let (_, before) = model.left();
    for _ in 0..100 {
        push_after(&engine, &own, x, &done).unwrap();
        engine.wait_for_all_timeout(LIMIT).unwrap();
        adopted.wait_to_write(x).unwrap();
        adopted.has_written(x).unwrap();
        engine.wait_for_all_timeout(LIMIT).unwrap();
    }
    assert_eq!(done.load(SeqCst), 101);
    let (_, after) = model.left();
    assert!(after <= before + 2, "{before} marks have become {after}");
}

#[test]
fn an_operation_that_ends_after_a_stream_fails_with_its_device() {
    for kind in [Kind::PerDevice, Kind::Pooled, Kind::Naive] {
        let model = Model::new(1, 1, 4);
        let own = Own::new(&model, 0);
        let engine = over(&model).kind(kind).build().unwrap();
        let _release = Release(Arc::clone(&model));
        let (x, y, done) = (engine.new_variable(), engine.new_variable(), Arc::new(AtomicUsize::new(0)));
        model.hold(0, kind != Kind::Naive);
        let (send, receive) = mpsc::channel();
        let late = move |_: &RunContext<'_>, completion: Completion| send.send(completion).unwrap();
        engine.op("late").context(GPU).writes([y]).push_async(late).unwrap();
        let late: Completion = receive.recv_timeout(LIMIT).unwrap();
        if kind != Kind::Naive {
            push_after(&engine, &own, x, &done).unwrap();
            assert_eq!(engine.wait_for_var_timeout(x, MOMENT).unwrap_err().kind(), ErrorKind::TimedOut);
        }
        model.world().lost[0] = true;
        if kind != Kind::Naive {
            let error = engine.wait_for_var_timeout(x, LIMIT).unwrap_err();
            assert_says(&error, ErrorKind::DeviceLost, &["'library'", "gpu(0) is lost", "the model has lost it"]);
        }
        // SAFETY: the stream is alive.
        unsafe { late.complete_after(own.stream) };
        let error = engine.wait_for_var_timeout(y, LIMIT).unwrap_err();
        assert_says(&error, ErrorKind::DeviceLost, &["'late'", "the model has lost it"]);
        assert_eq!(done.load(SeqCst), 0, "{kind}");
        let _ = engine.wait_for_all_timeout(LIMIT);
        let refused = own.adopted(&engine, 0).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::DeviceLost);
        engine.stop().unwrap();
    }
}

/// Each call of the driver is refused once, while operations end after a stream of the program's
/// and adopted streams come and go: nothing hangs, and the device goes on or is lost.
#[test]
fn a_fault_at_each_call_with_another_stream_ends_everything() {
    for lost in [false, true] {
        for kind in [Kind::PerDevice, Kind::Naive] {
            for call in 0..40 {
                let model = Model::new(1, call, 4);
                let own = Own::new(&model, 0);
                let engine = over(&model).kind(kind).build().unwrap();
                let _release = Release(Arc::clone(&model));
                let (x, done) = (engine.new_variable(), Arc::new(AtomicUsize::new(0)));
                engine.op("first").context(GPU).push(nothing).unwrap();
                engine.wait_for_all_timeout(LIMIT).unwrap();
                let fault = if lost { DriverError::lost("it fell off") } else { DriverError::refused("not now") };
                model.world().refuses = Some((call as usize, fault));
                let fine = |error: Error| {
                    let kinds = [ErrorKind::DeviceLost, ErrorKind::DeviceUnavailable, ErrorKind::StreamRefused];
                    assert!(kinds.contains(&error.kind()), "{kind}, call {call}: {error}");
                };
                for _ in 0..3 {
                    let used = || {
                        push_after(&engine, &own, x, &done)?;
                        let adopted = own.adopted(&engine, 0)?;
                        adopted.wait_to_write(x)?;
                        adopted.has_written(x)
                    };
                    used().err().into_iter().for_each(fine);
                    engine.wait_for_all_timeout(LIMIT).err().into_iter().for_each(fine);
                }
                let after = Arc::new(AtomicBool::new(false));
                let set = Arc::clone(&after);
                let _ = engine.wait_for_all_timeout(LIMIT);
                engine.op("after").writes([x]).push(move |_| set.store(true, SeqCst)).unwrap();
                engine.wait_for_all_timeout(LIMIT).unwrap_or_else(|error| panic!("{kind}, call {call}: {error}"));
                assert!(after.load(SeqCst), "{kind}, call {call}: the processor does not go on");
                drop(engine);
                std::mem::forget(own); // There may be work on the stream of a lost device.
            }
        }
    }
}

#[test]
fn a_stream_that_is_being_captured_is_refused() {
    let model = Model::new(1, 1, 4);
    let own = Own::new(&model, 0);
    let engine = over(&model).build().unwrap();
    let (x, done) = (engine.new_variable(), Arc::new(AtomicUsize::new(0)));
    let adopted = own.adopted(&engine, 0).unwrap();
    model.world().captured = true;
    let check = |error: Error| {
        assert_says(&error, ErrorKind::StreamRefused, &["gpu(0)", "the stream is being captured"]);
    };
    check(own.adopted(&engine, 0).unwrap_err());
    check(adopted.wait_to_read(x).unwrap_err());
    check(adopted.wait_to_write(x).unwrap_err());
    check(adopted.has_read(x).unwrap_err());
    check(adopted.has_written(x).unwrap_err());
    engine.wait_for_all_timeout(LIMIT).unwrap();
    push_after(&engine, &own, x, &done).unwrap();
    check(engine.wait_for_var_timeout(x, LIMIT).unwrap_err());
    model.world().captured = false;
    adopted.wait_to_write(x).unwrap();
    adopted.has_written(x).unwrap();
    engine.wait_for_all_timeout(LIMIT).unwrap();
}

#[test]
fn streams_are_of_devices_only() {
    let engine = Engine::builder().cpu_workers(1).build().unwrap();
    let x = engine.new_variable();
    let nowhere = RawStream::new(std::ptr::null_mut());
    // SAFETY: an operation of the processor uses no stream.
    let start = move |_: &RunContext<'_>, completion: Completion| unsafe { completion.complete_after(nowhere) };
    engine.op("on the processor").writes([x]).push_async(start).unwrap();
    let error = engine.wait_for_var_timeout(x, LIMIT).unwrap_err();
    assert_says(&error, ErrorKind::NoStream, &["'on the processor'", "cpu(0) has no streams"]);
    // SAFETY: as above.
    let start = move |_: &RunContext<'_>, completion: Completion| unsafe { completion.complete_after(nowhere) };
    let recorded = engine.capture(|capture| capture.op("in a graph").writes([x]).push_async(start));
    let (graph, ()) = recorded.unwrap();
    graph.replay().unwrap();
    let error = engine.wait_for_var_timeout(x, LIMIT).unwrap_err();
    assert_says(&error, ErrorKind::NoStream, &["cpu(0) has no streams"]);
}

/// The calls look at marks and operations as pushes do.
#[test]
fn an_adopted_stream_waits_only_until_it_is_told() {
    let model = Model::new(1, 1, 8);
    let own = Own::new(&model, 0);
    let engine = over(&model).build().unwrap();
    let _release = Release(Arc::clone(&model));
    let adopted = own.adopted(&engine, 0).unwrap();
    let (x, done) = (engine.new_variable(), Arc::new(AtomicUsize::new(0)));
    model.hold(0, true);
    let (kernel, count) = (Arc::clone(&model), Arc::clone(&done));
    let before = move |run: &RunContext<'_>| {
        kernel.work(run.stream().unwrap(), Vec::new(), vec![0], move || _ = count.fetch_add(1, SeqCst));
    };
    engine.op("before").context(GPU).writes([x]).push(before).unwrap();
    // The device does nothing, and the calls return all the same.
    adopted.wait_to_write(x).unwrap();
    let seen = Arc::clone(&done);
    model.work(own.stream, Vec::new(), vec![0], move || assert_eq!(seen.fetch_add(1, SeqCst), 1));
    adopted.has_written(x).unwrap();
    let seen = Arc::clone(&done);
    engine.op("behind").reads([x]).push(move |_| assert_eq!(seen.load(SeqCst), 2)).unwrap();
    model.hold(0, false);
    engine.wait_for_all_timeout(LIMIT).unwrap();
    assert!(model.world().races.is_empty());
    // The error of a marked variable is told, and left where it is.
    engine.op("fails").writes([x]).push(|_| Err::<(), _>("no")).unwrap();
    let told = adopted.wait_to_read(x).unwrap_err();
    assert_says(&told, ErrorKind::OperationFailed, &["'fails'"]);
    adopted.has_read(x).unwrap();
    assert_eq!(engine.wait_for_var_timeout(x, LIMIT).unwrap_err().kind(), ErrorKind::OperationFailed);
    let inside = adopted.clone();
    let wait = move |_: &RunContext<'_>| inside.wait_to_read(x);
    engine.op("inside").push(wait).unwrap();
    let refused = engine.wait_for_all_timeout(LIMIT).unwrap_err();
    assert_says(&refused, ErrorKind::WaitInsideOperation, &["'inside'"]);
}

/// Puts the work of an operation on an adopted stream, between the calls that order it.
fn on_adopted(
    drawn: Operation,
    model: &Arc<Model>,
    adopted: &AdoptedStream,
    variables: &[Variable],
    cells: &Cells,
) -> Result<(), Error> {
    let Operation { id, reads, writes, .. } = drawn;
    reads.iter().try_for_each(|cell| adopted.wait_to_read(variables[*cell]))?;
    writes.iter().try_for_each(|cell| adopted.wait_to_write(variables[*cell]))?;
    if reads.is_empty() && writes.is_empty() {
        return Ok(()); // No variable: no wait of the engine would be for it.
    }
    let (read, written, cells) = (reads.clone(), writes.clone(), Arc::clone(cells));
    let effect = move || apply(id, &cells, &read, &written);
    model.work(adopted.stream(), reads.clone(), writes.clone(), effect);
    reads.iter().try_for_each(|cell| adopted.has_read(variables[*cell]))?;
    writes.iter().try_for_each(|cell| adopted.has_written(variables[*cell]))
}

/// Puts the work of an operation on its own stream, or on one of the program's, and ends it there.
fn push_until(
    drawn: Operation,
    own: Option<RawStream>,
    engine: &Engine,
    model: &Arc<Model>,
    variables: &[Variable],
    cells: &Cells,
) {
    let Operation { id, reads, writes, context, .. } = drawn;
    let of = |list: &[usize]| list.iter().map(|cell| variables[*cell]).collect::<Vec<_>>();
    let builder = engine.op("until").reads(of(&reads)).writes(of(&writes)).context(context);
    // A stream of the program's does not come after the operation's: all before it has to be done.
    let builder = if own.is_some() { builder.property(Property::Async) } else { builder };
    let (model, cells) = (Arc::clone(model), Arc::clone(cells));
    let start = move |run: &RunContext<'_>, completion: Completion| {
        let stream = own.or(run.stream()).expect("there is one");
        let (read, written) = (reads.clone(), writes.clone());
        model.work(stream, reads, writes, move || apply(id, &cells, &read, &written));
        // SAFETY: the stream is of the device, and given back when the engine has ended.
        unsafe { completion.complete_after(stream) };
    };
    builder.push_async(start).unwrap();
}

#[test]
fn random_programs_with_other_streams_do_what_a_sequential_run_does() {
    for seed in 1..=by_length(60, 1000) {
        let mut random = Random(seed);
        let plan = Plan::drawn(&mut random);
        let model = Model::new(plan.devices, seed, plan.steps);
        let owns: Vec<Own> = (0..2 * plan.devices).map(|number| Own::new(&model, number % plan.devices)).collect();
        let engine = plan.engine(&model);
        let adopt = |(number, own): (usize, &Own)| own.adopted(&engine, (number % plan.devices) as u32).unwrap();
        let adopted: Vec<AdoptedStream> = owns.iter().enumerate().map(adopt).collect();
        let (cells, expected) = (cells(), cells());
        let variables: Vec<Variable> = (0..CELLS).map(|_| engine.new_variable()).collect();
        for id in 0..100 {
            let drawn = Operation::drawn(id, &mut random, plan.devices);
            apply(id, &expected, &drawn.reads, &drawn.writes);
            let on_device = drawn.context.device() == Device::Gpu;
            let own = owns[drawn.context.id() as usize].stream;
            match random.below(8) {
                0 | 1 => {
                    let stream = &adopted[random.below(adopted.len())];
                    on_adopted(drawn, &model, stream, &variables, &cells)
                        .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
                }
                2 if on_device => push_until(drawn, None, &engine, &model, &variables, &cells),
                3 if on_device => push_until(drawn, Some(own), &engine, &model, &variables, &cells),
                _ => drawn.push(&engine, &model, &variables, &cells),
            }
        }
        engine.wait_for_all_timeout(LIMIT).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        for cell in 0..CELLS {
            assert_eq!(cells[cell].load(Relaxed), expected[cell].load(Relaxed), "seed {seed}: cell {cell}");
        }
        assert!(model.world().races.is_empty(), "seed {seed}: {:?}", model.world().races);
        drop(adopted);
        drop(engine);
        drop(owns);
        assert_eq!(model.left(), (0, 0), "seed {seed}: streams and marks are left");
    }
}

/// A device that the workers cannot enter: what they are to order is skipped, and not forgotten.
#[test]
fn a_read_that_is_not_ordered_loses_the_device() {
    let model = Model::new(1, 1, 8);
    let own = Own::new(&model, 0);
    let engine = over(&model).gpu_workers(1).build().unwrap();
    let _release = Release(Arc::clone(&model));
    let adopted = own.adopted(&engine, 0).unwrap();
    let x = engine.new_variable();
    model.world().is_closed = true;
    adopted.has_read(x).unwrap();
    eventually("the device is lost", || engine.device(GPU).is_err());
    model.world().is_closed = false;
    let write = engine.op("write").context(GPU).writes([x]).push(|_| panic!("it is called beside the read"));
    assert_eq!(write.unwrap_err().kind(), ErrorKind::DeviceLost);
    let _ = engine.wait_for_all_timeout(LIMIT);
}
