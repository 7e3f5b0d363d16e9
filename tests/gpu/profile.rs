//! Profiles of devices: when operations ran there, and what that costs.

use crate::common::{eventually, Watchdog};
use crate::model::{Model, Release};
use crate::over;
use seriatim::gpu::DriverError;
use seriatim::{Context, DeviceSpan, Engine, Profile, Property, RunContext, Variable};
use std::collections::HashMap;
use std::sync::Arc;

const GPU: Context = Context::gpu(0);
/// The pairs of timed marks of a device (`src/device/timed_marks.rs`).
const PAIRS: usize = 256;

/// Pushes an operation that does so many pieces of work on its stream.
fn push(engine: &Engine, model: &Arc<Model>, property: Property, pieces: usize, x: Variable) {
    let own = Arc::clone(model);
    let work = move |run: &RunContext<'_>| {
        let stream = run.stream().expect("it is on a device");
        (0..pieces).for_each(|_| own.work(stream, Vec::new(), Vec::new(), || ()));
    };
    engine.op("work").context(GPU).property(property).writes([x]).push(work).unwrap();
}

fn spans(profile: &Profile) -> Vec<DeviceSpan> {
    profile.events().iter().filter_map(|event| event.device().copied()).collect()
}

/// Checks that what a stream did it did in order, and not before the operation was called.
fn assert_sound(profile: &Profile) {
    let mut streams: HashMap<_, Vec<(u64, u64)>> = HashMap::new();
    for event in profile.events() {
        if let Some(span) = event.device() {
            assert!(event.start <= span.start && span.start <= span.end, "{event:?}");
            streams.entry(span.stream).or_default().push((span.start, span.end));
        }
    }
    for (stream, mut spans) in streams {
        spans.sort_unstable();
        assert!(spans.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{stream}: {spans:?}");
    }
}

#[test]
fn a_profiled_operation_has_the_time_of_all_its_work() {
    let _watchdog = Watchdog::new(120, "profiled operations");
    for seed in 1..=10 {
        let model = Model::new(1, seed, 4);
        let engine = over(&model).gpu_workers(1).build().unwrap();
        let x = engine.new_variable();
        engine.start_profiling();
        let pieces = |number: u64| 1 + number % 5;
        (0..60).for_each(|number| push(&engine, &model, Property::Normal, pieces(number) as usize, x));
        engine.wait_for_all().unwrap();
        let profile = engine.profile();
        let spans = spans(&profile);
        assert_eq!(spans.len(), 60);
        assert_sound(&profile);
        for (number, span) in (0..).zip(&spans) {
            assert!(span.accuracy.is_some(), "{span:?}");
            // The pieces of work, and the mark behind them.
            assert!(span.end - span.start >= 1000 * (pieces(number) + 1), "{number}: {span:?}");
            assert!(span.stream.to_string().starts_with("gpu(0) compute "), "{span:?}");
        }
        assert!(profile.table().contains("on device"), "{}", profile.table());
    }
}

#[test]
fn only_profiled_operations_have_timed_marks() {
    let _watchdog = Watchdog::new(120, "operations that are not profiled");
    let model = Model::new(1, 1, 4);
    let engine = over(&model).build().unwrap();
    let x = engine.new_variable();
    let run = |count: usize| {
        (0..count).for_each(|_| push(&engine, &model, Property::Normal, 1, x));
        engine.wait_for_all().unwrap();
        model.world().timed_records
    };
    assert_eq!(run(50), 0);
    let began = std::time::Instant::now();
    engine.start_profiling();
    // The references are up to four, and are renewed each second.
    let during = run(50);
    let most = 104 + 4 * began.elapsed().as_secs() as usize;
    assert!((101..=most).contains(&during), "{during}");
    engine.stop_profiling();
    assert_eq!(run(50), during);
    assert_eq!(spans(&engine.profile()).len(), 50);
    assert!(engine.profile().table().contains("gpu(0) copied for 0.0 µs"), "{}", engine.profile().table());
    drop(engine);
    assert_eq!(model.left(), (0, 0));
}

#[test]
fn beyond_the_timed_marks_there_are_the_processors_times() {
    let _watchdog = Watchdog::new(120, "more operations than marks");
    let model = Model::new(1, 1, 4);
    let engine = over(&model).gpu_ahead(1024).build().unwrap();
    let release = Release(Arc::clone(&model));
    let x = engine.new_variable();
    engine.start_profiling();
    model.hold(0, true);
    (0..PAIRS + 44).for_each(|_| push(&engine, &model, Property::Normal, 1, x));
    eventually("all are queued", || engine.version(x).unwrap() == PAIRS as u64 + 44);
    drop(release);
    engine.wait_for_all().unwrap();
    let profile = engine.profile();
    assert_sound(&profile);
    let overlap = profile.overlap(GPU).unwrap();
    assert_eq!((overlap.operations, overlap.host_timed), (PAIRS as u64 + 44, 44));
    assert!(profile.table().contains("44 of 300 operations by the processor's clock"), "{}", profile.table());
    // All have come back.
    (0..PAIRS).for_each(|_| push(&engine, &model, Property::Normal, 1, x));
    engine.wait_for_all().unwrap();
    assert_eq!(engine.profile().overlap(GPU).unwrap().host_timed, 44);
}

#[test]
fn without_a_clock_there_are_the_processors_times() {
    let _watchdog = Watchdog::new(120, "a back end without a clock");
    let model = Model::new(1, 1, 4);
    model.world().has_clock = false;
    let engine = over(&model).build().unwrap();
    let x = engine.new_variable();
    engine.start_profiling();
    for number in 0..50 {
        push(&engine, &model, [Property::Normal, Property::CopyToGpu][number % 2], 1, x);
    }
    engine.wait_for_all().unwrap();
    let profile = engine.profile();
    assert_sound(&profile);
    assert!(spans(&profile).iter().all(|span| span.accuracy.is_none()));
    let overlap = profile.overlap(GPU).unwrap();
    assert_eq!((overlap.operations, overlap.host_timed), (50, 50));
    assert_eq!(model.world().timed_records, 0);
    assert!(profile.table().contains("times by the processor's clock"), "{}", profile.table());
}

/// Those that are replayed one by one, and those that are launched as a whole.
#[test]
fn operations_of_a_graph_have_the_times_of_the_device() {
    let _watchdog = Watchdog::new(120, "profiled replays");
    for has_clock in [true, false] {
        let model = Model::new(1, 1, 4);
        model.world().has_clock = has_clock;
        let engine = over(&model).gpu_workers(1).build().unwrap();
        let x = engine.new_variable();
        let work = |pieces: usize| {
            let own = Arc::clone(&model);
            move |run: &RunContext<'_>| {
                let stream = run.stream().expect("it is on a device");
                (0..pieces).for_each(|_| own.work(stream, Vec::new(), Vec::new(), || ()));
            }
        };
        let record = |c: &mut seriatim::Capture| {
            c.op("usual").context(GPU).writes([x]).push(work(3))?;
            c.op("copy").context(GPU).property(Property::CopyToGpu).writes([x]).push(work(2))?;
            c.op("processor").writes([x]).push(|_| ())?;
            (0..3).try_for_each(|_| c.op("whole").context(GPU).writes([x]).device_graph().push(work(2)))
        };
        let (graph, ()) = engine.capture(record).unwrap();
        let replay = |count: usize| {
            (0..count).for_each(|_| graph.replay().unwrap());
            engine.wait_for_all().unwrap();
            model.world().timed_records
        };
        assert_eq!(replay(3), 0);
        engine.start_profiling();
        let records = replay(10);
        engine.stop_profiling();
        assert_eq!(replay(3), records, "only what is profiled has timed marks");
        let profile = engine.profile();
        assert_sound(&profile);
        let mut names = HashMap::new();
        for event in profile.events() {
            let Some(span) = event.device() else {
                assert!(["processor", ""].contains(&event.name) || event.name.contains("graph"), "{event:?}");
                continue;
            };
            *names.entry(event.name).or_insert(0) += 1;
            assert_eq!(span.accuracy.is_some(), has_clock);
            assert_eq!(span.stream.to_string() == "gpu(0) copy to", event.name == "copy");
            // What is launched as a whole is one step of the model. The mark behind is another.
            let steps = HashMap::from([("usual", 4), ("copy", 3), ("whole and 2 more", 2)])[event.name];
            assert!(!has_clock || span.end - span.start >= 1000 * steps, "{event:?}");
        }
        assert_eq!(names, HashMap::from([("usual", 10), ("copy", 10), ("whole and 2 more", 10)]));
        let overlap = profile.overlap(GPU).unwrap();
        assert_eq!((overlap.operations, overlap.host_timed), (30, if has_clock { 0 } else { 30 }));
        drop((graph, engine));
        eventually("all is given back", || model.left() == (0, 0));
    }
}

/// The overlap of random programs on all streams, against a count piece by piece.
#[test]
fn overlap_is_that_of_the_spans() {
    let _watchdog = Watchdog::new(120, "overlap");
    for seed in 1..=10 {
        let model = Model::new(2, seed, 4);
        let engine = over(&model).build().unwrap();
        let variables: Vec<Variable> = (0..6).map(|_| engine.new_variable()).collect();
        engine.start_profiling();
        for number in 0..120 {
            let properties = [Property::Normal, Property::CopyToGpu, Property::CopyFromGpu, Property::GpuPrioritized];
            push(&engine, &model, properties[number % 4], 1 + number % 3, variables[number * 5 % 6]);
        }
        engine.wait_for_all().unwrap();
        let profile = engine.profile();
        assert_sound(&profile);
        let spans = spans(&profile);
        let is_copy = |span: &DeviceSpan| span.stream.to_string().contains("copy");
        let mut edges: Vec<u64> = spans.iter().flat_map(|span| [span.start, span.end]).collect();
        edges.sort_unstable();
        let (mut copying, mut both) = (0, 0);
        for piece in edges.windows(2) {
            let is_busy = |copies: bool| {
                let covers = |span: &&DeviceSpan| span.start <= piece[0] && piece[1] <= span.end;
                spans.iter().filter(covers).any(|span| is_copy(span) == copies)
            };
            copying += if is_busy(true) { piece[1] - piece[0] } else { 0 };
            both += if is_busy(true) && is_busy(false) { piece[1] - piece[0] } else { 0 };
        }
        let overlap = profile.overlap(GPU).unwrap();
        assert_eq!((overlap.operations, overlap.copying, overlap.both), (120, copying, both));
        assert!(profile.overlap(Context::gpu(1)).is_none() && profile.overlap(Context::cpu(0)).is_none());
    }
}

/// Whatever call is refused, each operation that was called has a span, and every mark comes back.
#[test]
fn a_refused_call_costs_a_profile_no_more_than_an_accuracy() {
    let _watchdog = Watchdog::new(120, "calls that are refused while there is a profile");
    let mut of_processor = 0;
    for nth in 0..60 {
        let model = Model::new(1, nth as u64, 4);
        let engine = over(&model).gpu_workers(1).build().unwrap();
        let x = engine.new_variable();
        push(&engine, &model, Property::Normal, 1, x);
        engine.wait_for_all().unwrap();
        engine.start_profiling();
        model.world().refuses = Some((nth, DriverError::refused("the model refuses this call")));
        (0..8).for_each(|_| push(&engine, &model, Property::Normal, 1, x));
        let _ = engine.wait_for_all();
        let profile = engine.profile();
        assert_eq!(profile.events().len(), 8);
        assert_sound(&profile);
        of_processor += profile.overlap(GPU).map_or(0, |overlap| overlap.host_timed);
        drop(engine);
        assert_eq!(model.left(), (0, 0), "call {nth}");
    }
    assert!(of_processor > 0, "no call of a profile was refused");
}

#[test]
fn a_device_that_is_lost_has_no_times_for_what_it_has_not_done() {
    let _watchdog = Watchdog::new(120, "a profile of a lost device");
    let model = Model::new(1, 1, 4);
    let _release = Release(Arc::clone(&model));
    let engine = over(&model).build().unwrap();
    let x = engine.new_variable();
    engine.start_profiling();
    push(&engine, &model, Property::Normal, 1, x);
    engine.wait_for_all().unwrap();
    model.hold(0, true);
    (0..5).for_each(|_| push(&engine, &model, Property::Normal, 1, x));
    eventually("all are queued", || engine.version(x).unwrap() == 6);
    model.world().lost[0] = true;
    engine.wait_for_all().unwrap_err();
    let profile = engine.profile();
    assert_eq!((profile.events().len(), spans(&profile).len()), (6, 1));
}
