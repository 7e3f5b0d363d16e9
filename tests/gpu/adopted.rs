//! The rules of streams that are not the engine's, one or two a test. Mutants break them
//! (`mutants/list.txt`).
//!
//! 1. What is put on an adopted stream behind `wait_to_…` comes after the uses of the variable that
//!    were pushed before: writes before a read, and all uses before a write.
//! 2. What is pushed behind `has_…` comes after what was on the stream at the call.
//! 3. `wait_to_…` returns when the stream has been told, and not before.
//! 4. A mark belongs to its call until a stream has been told to wait for it.
//! 5. If no order can be had, or its operation is skipped, the device is lost. A refused push and a
//!    stop lose nothing.
//! 6. A variable that is marked is waited for and ordered all the same.
//! 7. An operation ends behind its stream's mark, and not before, and fails with its device.
//! 8. The watcher asks for as long as an operation is due, also if the device has no other work.
//! 9. A stream that is being captured gets no mark.
//!
//! Rules 6, 7 and 9 have their tests in `foreign.rs`.

use crate::common::{assert_says, eventually, hold};
use crate::foreign::{push_after, Own};
use crate::model::{Model, Release};
use crate::over;
use seriatim::gpu::RawStream;
use seriatim::{Completion, Context, Engine, ErrorKind, IdlePolicy, Kind, Property, RunContext, Variable};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::Arc;
use std::time::Duration;

const GPU: Context = Context::gpu(0);
const LIMIT: Duration = Duration::from_secs(15);
/// Long enough for something that would happen too early.
const MOMENT: Duration = Duration::from_millis(30);

/// The cell of the model that the variable of a test stands for.
const CELL: usize = 0;

fn reads(model: &Model, stream: RawStream) {
    model.work(stream, vec![CELL], Vec::new(), || ());
}

fn writes(model: &Model, stream: RawStream) {
    model.work(stream, Vec::new(), vec![CELL], || ());
}

fn push_write(engine: &Engine, model: &Arc<Model>, x: Variable) {
    let model = Arc::clone(model);
    let body = move |run: &RunContext<'_>| writes(&model, run.stream().expect("it is on a device"));
    engine.op("write").context(GPU).writes([x]).push(body).unwrap();
}

/// Waits for everything. If that does not end, the test fails, and leaves the engine as it is.
#[track_caller]
fn wait(engine: &Engine) {
    if let Err(error) = engine.wait_for_all_timeout(LIMIT) {
        std::mem::forget(engine.clone());
        panic!("{error}");
    }
}

/// Rules 1 and 2. The device stands still while all is queued, so that nothing but marks and waits
/// keeps the order.
#[test]
fn work_on_adopted_streams_comes_between_its_two_calls() {
    let model = Model::new(1, 1, 8);
    let owns = [Own::new(&model, 0), Own::new(&model, 0)];
    let engine = over(&model).build().unwrap();
    let _release = Release(Arc::clone(&model));
    let x = engine.new_variable();
    let [a, b] = owns.each_ref().map(|own| own.adopted(&engine, 0).unwrap());
    model.hold(0, true);
    push_write(&engine, &model, x);
    for stream in [&a, &b] {
        stream.wait_to_read(x).unwrap();
        reads(&model, stream.stream());
        stream.has_read(x).unwrap();
    }
    a.wait_to_write(x).unwrap();
    writes(&model, a.stream());
    a.has_written(x).unwrap();
    b.wait_to_read(x).unwrap();
    reads(&model, b.stream());
    b.has_read(x).unwrap();
    push_write(&engine, &model, x);
    eventually("all is queued", || engine.version(x).unwrap() == 4);
    model.run_in_step();
    wait(&engine);
    assert_eq!(model.world().races, [""; 0]);
}

/// Rule 3.
#[test]
fn a_call_that_waits_returns_when_the_stream_has_been_told() {
    let model = Model::new(1, 1, 8);
    let own = Own::new(&model, 0);
    let engine = over(&model).build().unwrap();
    let (x, returned) = (engine.new_variable(), AtomicUsize::new(0));
    let adopted = own.adopted(&engine, 0).unwrap();
    let before = hold(&engine, &[], &[x]);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            adopted.wait_to_read(x).unwrap();
            returned.store(1, SeqCst);
        });
        std::thread::sleep(MOMENT);
        let is_early = returned.load(SeqCst) == 1;
        before.complete();
        assert!(!is_early, "it has returned, and the write is not over");
    });
}

/// Rule 4. The operation of the first call is held up while a second call needs a mark.
#[test]
fn a_mark_is_lent_until_a_stream_waits_for_it() {
    let model = Model::new(1, 1, 8);
    let owns = [Own::new(&model, 0), Own::new(&model, 0)];
    let engine = over(&model).build().unwrap();
    let _release = Release(Arc::clone(&model));
    let [x, y] = [engine.new_variable(), engine.new_variable()];
    let [a, b] = owns.each_ref().map(|own| own.adopted(&engine, 0).unwrap());
    model.hold(0, true);
    let before = hold(&engine, &[], &[x]);
    reads(&model, a.stream());
    a.has_read(x).unwrap();
    b.has_read(y).unwrap();
    before.complete();
    push_write(&engine, &model, x);
    eventually("all is queued", || engine.version(x).unwrap() == 2);
    model.run_in_step();
    wait(&engine);
    assert_eq!(model.world().races, [""; 0]);
}

/// Rule 5.
#[test]
fn an_order_that_cannot_be_had_loses_the_device() {
    let model = Model::new(1, 1, 8);
    let own = Own::new(&model, 0);
    let engine = over(&model).build().unwrap();
    let (x, adopted) = (engine.new_variable(), own.adopted(&engine, 0).unwrap());
    model.world().refused = Some("wait");
    adopted.has_read(x).unwrap();
    let error = engine.wait_for_all_timeout(LIMIT).unwrap_err();
    assert_says(&error, ErrorKind::DeviceLost, &["a stream could not be told to wait", "no wait today"]);
}

/// Rule 5, for an operation that ends after a stream.
#[test]
fn a_stream_that_cannot_be_marked_loses_the_device() {
    let model = Model::new(1, 1, 8);
    let own = Own::new(&model, 0);
    let engine = over(&model).build().unwrap();
    let (x, stream) = (engine.new_variable(), own.stream);
    model.world().refused = Some("record");
    // SAFETY: the stream lives until the test has ended.
    let start = move |_: &RunContext<'_>, completion: Completion| unsafe { completion.complete_after(stream) };
    engine.op("library").context(GPU).property(Property::Async).writes([x]).push_async(start).unwrap();
    let error = engine.wait_for_var_timeout(x, LIMIT).unwrap_err();
    assert_says(&error, ErrorKind::DeviceLost, &["a stream could not be marked", "no record today"]);
}

/// Rule 5.
#[test]
fn a_push_that_is_refused_and_a_stop_lose_no_device() {
    let model = Model::new(1, 1, 8);
    let own = Own::new(&model, 0);
    let engine = over(&model).build().unwrap();
    let adopted = own.adopted(&engine, 0).unwrap();
    let [x, gone] = [engine.new_variable(), engine.new_variable()];
    engine.delete_variable(|_| (), Context::cpu(0), gone).unwrap();
    let refused = adopted.has_read(gone).unwrap_err();
    assert!(refused.kind() != ErrorKind::DeviceLost, "{refused}");
    adopted.has_read(x).unwrap();
    engine.wait_for_all_timeout(LIMIT).unwrap();
    let before = hold(&engine, &[], &[x]);
    adopted.has_read(x).unwrap();
    engine.notify_shutdown();
    before.complete();
    let _ = engine.wait_for_all_timeout(LIMIT);
    assert_says(&adopted.wait_to_write(x).unwrap_err(), ErrorKind::Stopped, &["not told", "of the shutdown"]);
    engine.device(GPU).unwrap();
}

/// Rules 7 and 8. The watcher sleeps when the operation becomes due, and has nothing else to see.
#[test]
fn the_watcher_asks_for_as_long_as_something_is_due() {
    let model = Model::new(1, 1, 8);
    let own = Own::new(&model, 0);
    let engine = over(&model).idle(IdlePolicy::Park).build().unwrap();
    let _release = Release(Arc::clone(&model));
    let (x, done) = (engine.new_variable(), Arc::new(AtomicUsize::new(0)));
    for round in 1..=3 {
        model.hold(0, true);
        push_alone(&engine, &own, x, &done);
        std::thread::sleep(MOMENT);
        model.hold(0, false);
        let waited = engine.wait_for_var_timeout(x, LIMIT);
        if waited.is_err() {
            std::mem::forget(engine);
            panic!("round {round}: {waited:?}");
        }
        assert_eq!(done.load(SeqCst), round);
        // So that the watcher sleeps.
        std::thread::sleep(MOMENT);
    }
}

/// As [`push_after`], for an operation that needs no worker of the device.
fn push_alone(engine: &Engine, own: &Own, x: Variable, done: &Arc<AtomicUsize>) {
    let (stream, done) = (own.stream, Arc::clone(done));
    let model = own.model();
    let start = move |_: &RunContext<'_>, completion: Completion| {
        model.work(stream, Vec::new(), Vec::new(), move || _ = done.fetch_add(1, SeqCst));
        // SAFETY: the stream lives until the test has ended.
        unsafe { completion.complete_after(stream) };
    };
    engine.op("library").context(GPU).property(Property::Async).writes([x]).push_async(start).unwrap();
}

/// Rule 7, on the naive engine, which has no watcher. The device goes on only if it is waited for.
#[test]
fn on_the_naive_engine_an_operation_ends_behind_its_stream() {
    let model = Model::new(1, 1, 0);
    let own = Own::new(&model, 0);
    let engine = over(&model).kind(Kind::Naive).build().unwrap();
    let (x, done) = (engine.new_variable(), Arc::new(AtomicUsize::new(0)));
    push_after(&engine, &own, x, &done).unwrap();
    engine.wait_for_var_timeout(x, LIMIT).unwrap();
    assert_eq!(done.load(SeqCst), 1);
}
