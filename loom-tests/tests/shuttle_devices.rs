//! The whole engine with devices, under random schedules: several pushers, workers of the processor
//! and of devices, watchers that sleep and wake. The devices do their work late, in a random order.

#![cfg(shuttle)]

use loom_tests::schedules;
use seriatim::gpu::{Backend, Class, DriverError, Previous, RawMark, RawStream};
use seriatim::{Completion, Context, Engine, Graph, Kind, Property, RunContext, Variable};
use shuttle::rand::{thread_rng, Rng};
use shuttle::thread;
use std::collections::VecDeque;
use std::ptr::without_provenance_mut;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard};

enum Item {
    Work(Box<dyn FnOnce() + Send>),
    /// Up to which item of which stream.
    Wait(usize, usize),
}

#[derive(Default)]
struct Stream {
    items: VecDeque<Item>,
    /// How many items were ever queued.
    queued: usize,
}

impl Stream {
    fn done(&self) -> usize {
        self.queued - self.items.len()
    }
}

#[derive(Default)]
struct State {
    streams: Vec<Stream>,
    marks: Vec<(usize, usize)>,
    /// The devices do nothing while they are held.
    is_held: bool,
}

/// Devices whose work is done in the calls of the driver. The lock is held across no step that the
/// models see.
#[derive(Default)]
struct Lazy(Mutex<State>);

fn number(raw: *mut std::ffi::c_void) -> usize {
    raw.addr() - 1
}

impl Lazy {
    /// Does up to three items.
    fn call(&self) -> MutexGuard<'_, State> {
        let steps = if self.0.lock().unwrap().is_held { 0 } else { thread_rng().gen_range(0..4) };
        for _ in 0..steps {
            let mut state = self.0.lock().unwrap();
            let State { streams, .. } = &*state;
            let can_go_on = |stream: &usize| match streams[*stream].items.front() {
                None => false,
                Some(Item::Work(_)) => true,
                Some(Item::Wait(other, item)) => streams[*other].done() >= *item,
            };
            let able: Vec<usize> = (0..streams.len()).filter(can_go_on).collect();
            if able.is_empty() {
                break;
            }
            let chosen = able[thread_rng().gen_range(0..able.len())];
            if let Some(Item::Work(work)) = state.streams[chosen].items.pop_front() {
                work();
            }
        }
        self.0.lock().unwrap()
    }

    fn queue(&self, stream: RawStream, item: Item) {
        let mut state = self.0.lock().unwrap();
        let stream = &mut state.streams[number(stream.raw())];
        stream.items.push_back(item);
        stream.queued += 1;
    }
}

// SAFETY: each stream is a queue, and marks are places in queues.
unsafe impl Backend for Lazy {
    fn name(&self) -> &str {
        "lazy"
    }
    fn devices(&self) -> Result<usize, DriverError> {
        Ok(2)
    }
    fn enter(&self, _: usize) -> Result<Previous, DriverError> {
        Ok(Previous::new(std::ptr::null_mut()))
    }
    unsafe fn leave(&self, _: Previous) {}
    fn stream(&self, _: usize, _: Class) -> Result<RawStream, DriverError> {
        let mut state = self.call();
        state.streams.push(Stream::default());
        Ok(RawStream::new(without_provenance_mut(state.streams.len())))
    }
    fn mark(&self, _: usize) -> Result<RawMark, DriverError> {
        let mut state = self.call();
        state.marks.push((0, 0));
        Ok(RawMark::new(without_provenance_mut(state.marks.len())))
    }
    unsafe fn record(&self, mark: RawMark, stream: RawStream) -> Result<(), DriverError> {
        let mut state = self.call();
        let stream = number(stream.raw());
        state.marks[number(mark.raw())] = (stream, state.streams[stream].queued);
        Ok(())
    }
    unsafe fn wait(&self, stream: RawStream, mark: RawMark) -> Result<(), DriverError> {
        let (other, item) = self.call().marks[number(mark.raw())];
        self.queue(stream, Item::Wait(other, item));
        Ok(())
    }
    unsafe fn reached(&self, mark: RawMark) -> Result<bool, DriverError> {
        let state = self.call();
        let (stream, item) = state.marks[number(mark.raw())];
        Ok(state.streams[stream].done() >= item)
    }
    unsafe fn finish(&self, stream: RawStream) -> Result<(), DriverError> {
        loop {
            if self.call().streams[number(stream.raw())].items.is_empty() {
                return Ok(());
            }
            thread::yield_now();
        }
    }
    unsafe fn drop_stream(&self, _: RawStream) {}
    unsafe fn drop_mark(&self, _: RawMark) {}
}

const CELLS: usize = 3;

/// For each variable the operations that have changed it, in their order.
type Orders = Arc<[Mutex<Vec<usize>>; CELLS]>;

/// Pushes an operation; returns the cells that it changes.
fn push_some(
    engine: &Engine,
    lazy: &Arc<Lazy>,
    variables: &[Variable],
    orders: &Orders,
    operation: usize,
) -> Vec<usize> {
    let mut random = thread_rng();
    let writes: Vec<usize> = (0..CELLS).filter(|_| random.gen_bool(0.4)).collect();
    let reads: Vec<usize> = (0..CELLS).filter(|cell| !writes.contains(cell) && random.gen_bool(0.4)).collect();
    let context = [Context::cpu(0), Context::gpu(0), Context::gpu(0), Context::gpu(1)][random.gen_range(0..4)];
    let property = match context == Context::cpu(0) {
        // A short one runs in its push, if nothing holds it up.
        true => [Property::Normal, Property::Short][random.gen_range(0..2)],
        false => [Property::Normal, Property::GpuPrioritized, Property::CopyToGpu][random.gen_range(0..3)],
    };
    let of = |list: &[usize]| list.iter().map(|cell| variables[*cell]).collect::<Vec<_>>();
    let builder = engine.op("").reads(of(&reads)).writes(of(&writes)).context(context).property(property);
    let (lazy, orders, changed) = (Arc::clone(lazy), Arc::clone(orders), writes.clone());
    let work = move || writes.iter().for_each(|cell| orders[*cell].lock().unwrap().push(operation));
    let body = move |run: &RunContext<'_>| match run.stream() {
        Some(stream) => lazy.queue(stream, Item::Work(Box::new(work))),
        None => work(),
    };
    if context != Context::cpu(0) && random.gen_range(0..5) == 0 {
        // Such an operation has no ticket, and counts twice: until it ends, and on its stream.
        let start = move |run: &RunContext<'_>, completion: Completion| {
            body(run);
            // SAFETY: the stream is the operation's.
            unsafe { completion.complete_after(run.stream().expect("it is on a device")) };
        };
        builder.push_async(start).unwrap();
    } else {
        builder.push(body).unwrap();
    }
    changed
}

/// A graph of operations of both devices and the processor, and for each cell the numbers of those
/// that change it.
fn graph_of(
    engine: &Engine,
    lazy: &Arc<Lazy>,
    variables: &[Variable],
    orders: &Orders,
    pusher: usize,
) -> (Graph, [Vec<usize>; CELLS]) {
    let contexts = [Context::gpu(0), Context::cpu(0), Context::gpu(1), Context::gpu(0)];
    let mut changed: [Vec<usize>; CELLS] = Default::default();
    let record = |c: &mut seriatim::Capture| {
        for (context, number) in contexts.into_iter().zip(pusher * 1000 + 500..) {
            let writes: Vec<usize> = (0..CELLS).filter(|_| thread_rng().gen_bool(0.5)).collect();
            writes.iter().for_each(|cell| changed[*cell].push(number));
            let builder = c.op("").context(context).writes(writes.iter().map(|cell| variables[*cell]));
            let (lazy, orders) = (Arc::clone(lazy), Arc::clone(orders));
            builder.push(move |run: &RunContext<'_>| {
                let (orders, writes) = (Arc::clone(&orders), writes.clone());
                let work = move || writes.iter().for_each(|cell| orders[*cell].lock().unwrap().push(number));
                match run.stream() {
                    Some(stream) => lazy.queue(stream, Item::Work(Box::new(work))),
                    None => work(),
                }
            })?;
        }
        Ok(())
    };
    let (graph, ()) = engine.capture(record).unwrap();
    (graph, changed)
}

/// Two threads push, and replay graphs of their own on the same variables. Nothing of the other
/// comes between two operations of one replay.
#[test]
fn replays_on_devices_are_done_in_push_order() {
    schedules("devices, replays of two pushers", 8, 300, || {
        let lazy = Arc::new(Lazy::default());
        let builder = Engine::builder().kind(Kind::PerDevice).cpu_workers(1).gpus(Arc::clone(&lazy) as _);
        let engine = builder.gpu_workers(2).gpu_ahead(2).build().unwrap();
        let variables: Vec<Variable> = (0..CELLS).map(|_| engine.new_variable()).collect();
        let orders: Orders = Arc::default();
        let pushes = |pusher: usize| {
            let (engine, lazy, variables, orders) = (engine.clone(), lazy.clone(), variables.clone(), orders.clone());
            thread::spawn(move || {
                let (graph, changed) = graph_of(&engine, &lazy, &variables, &orders, pusher);
                let mut wanted: [Vec<usize>; CELLS] = Default::default();
                for number in (0..2).map(|number| pusher * 1000 + number) {
                    let pushed = push_some(&engine, &lazy, &variables, &orders, number);
                    pushed.into_iter().for_each(|cell| wanted[cell].push(number));
                    graph.replay().unwrap();
                    wanted.iter_mut().zip(&changed).for_each(|(wanted, changed)| wanted.extend(changed));
                }
                (wanted, changed)
            })
        };
        let threads: Vec<_> = (0..2).map(pushes).collect();
        let wanted: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        engine.wait_for_all().unwrap();
        let orders: Vec<Vec<usize>> = orders.iter().map(|order| order.lock().unwrap().clone()).collect();
        for (cell, order) in orders.iter().enumerate() {
            for (pusher, (wanted, changed)) in wanted.iter().enumerate() {
                let own: Vec<usize> = order.iter().copied().filter(|number| number / 1000 == pusher).collect();
                assert_eq!(own, wanted[cell], "the changes of cell {cell} by one pusher");
                let whole = order.windows(changed[cell].len().max(1)).filter(|row| **row == changed[cell]).count();
                assert!(changed[cell].is_empty() || whole == 2, "something came into a replay: {order:?}");
            }
        }
        drop(engine);
        orders.concat()
    });
}

fn check(orders: &Orders) -> Vec<usize> {
    let orders: Vec<Vec<usize>> = orders.iter().map(|order| order.lock().unwrap().clone()).collect();
    for (index, one) in orders.iter().enumerate() {
        for other in &orders[..index] {
            let common: Vec<usize> = one.iter().copied().filter(|writer| other.contains(writer)).collect();
            let again: Vec<usize> = other.iter().copied().filter(|writer| one.contains(writer)).collect();
            assert_eq!(common, again, "two variables were changed in different orders");
        }
        for pusher in 0..4 {
            let own: Vec<usize> = one.iter().copied().filter(|writer| writer / 1000 == pusher).collect();
            assert!(own.is_sorted(), "a pusher's operations were done out of order: {own:?}");
        }
    }
    orders.concat()
}

fn run(kind: Kind, pushers: usize, pushes: usize) -> Vec<usize> {
    let lazy = Arc::new(Lazy::default());
    let builder = Engine::builder().kind(kind).cpu_workers(1).gpus(Arc::clone(&lazy) as _);
    let engine = builder.gpu_workers(2).gpu_ahead(2).build().unwrap();
    let variables: Vec<Variable> = (0..CELLS).map(|_| engine.new_variable()).collect();
    let orders: Orders = Arc::default();
    let push = |pusher: usize| {
        let (engine, lazy, variables, orders) = (engine.clone(), lazy.clone(), variables.clone(), orders.clone());
        thread::spawn(move || {
            let mut own: [Vec<usize>; CELLS] = Default::default();
            for number in (0..pushes).map(|number| pusher * 1000 + number) {
                let changed = push_some(&engine, &lazy, &variables, &orders, number);
                changed.into_iter().for_each(|cell| own[cell].push(number));
                if thread_rng().gen_range(0..4) == 0 {
                    let cell = number % CELLS;
                    engine.wait_for_var(variables[cell]).unwrap();
                    let done = orders[cell].lock().unwrap();
                    assert!(own[cell].iter().all(|number| done.contains(number)), "a wait has not waited for a device");
                }
            }
        })
    };
    let threads: Vec<_> = (0..pushers).map(push).collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    engine.wait_for_all().unwrap();
    let seen = check(&orders);
    let left = lazy
        .0
        .lock()
        .unwrap()
        .streams
        .iter()
        .any(|stream| stream.items.iter().any(|item| matches!(item, Item::Work(_))));
    assert!(!left, "a wait for everything has not waited for the devices");
    drop(engine);
    seen
}

#[test]
fn operations_of_devices_are_done_in_push_order() {
    schedules("devices, two pushers, per-device engine", 8, 300, || run(Kind::PerDevice, 2, 6));
}

#[test]
fn operations_of_devices_are_done_in_push_order_on_the_pooled_engine() {
    schedules("devices, two pushers, pooled engine", 8, 200, || run(Kind::Pooled, 2, 6));
}

#[test]
fn one_thread_alone_is_served_by_watchers_that_sleep() {
    schedules("devices, one pusher", 6, 300, || run(Kind::PerDevice, 1, 5));
}

/// An engine with one worker for the processor and one for a device.
fn small(lazy: &Arc<Lazy>) -> Engine {
    let builder = Engine::builder().kind(Kind::PerDevice).cpu_workers(1).gpus(Arc::clone(lazy) as _);
    builder.gpu_workers(1).build().unwrap()
}

/// Pushes an operation that changes one variable, by work of its device if it has one.
fn push_work(
    (engine, lazy): (&Engine, &Arc<Lazy>),
    (context, property): (Context, Property),
    x: Variable,
    begins: impl FnOnce() + Send + 'static,
    work: impl FnOnce() + Send + 'static,
) {
    let lazy = Arc::clone(lazy);
    let body = move |run: &RunContext<'_>| {
        begins();
        match run.stream() {
            Some(stream) => lazy.queue(stream, Item::Work(Box::new(work))),
            None => work(),
        }
    };
    engine.op("").context(context).property(property).writes([x]).push(body).unwrap();
}

/// A watcher that falls asleep beside a worker that queues something: nothing else wakes it, since
/// a wait for everything parks nothing.
#[test]
fn a_watcher_that_falls_asleep_sees_what_is_queued_meanwhile() {
    schedules("devices, a watcher that falls asleep", 5, 6000, || {
        let lazy = Arc::new(Lazy::default());
        let engine = small(&lazy);
        let x = engine.new_variable();
        let mut yields = Vec::new();
        for _ in 0..2 {
            push_work((&engine, &lazy), (Context::gpu(0), Property::Normal), x, || (), || ());
            let times = thread_rng().gen_range(0..20);
            (0..times).for_each(|_| thread::yield_now());
            yields.push(times);
        }
        engine.wait_for_all().unwrap();
        yields
    });
}

/// One thread uses variables on the processor, within its pushes if that can be, while their last
/// owner uses them on a device, which no operation has used before.
#[test]
fn the_first_operation_of_a_device_is_seen_by_who_comes_behind_it() {
    const VARIABLES: usize = 6;
    schedules("devices, the first use beside pushes", 6, 8000, || {
        let lazy = Arc::new(Lazy::default());
        let engine = small(&lazy);
        let variables: Vec<Variable> = (0..VARIABLES).map(|_| engine.new_variable()).collect();
        variables.iter().for_each(|x| engine.op("").property(Property::Short).writes([*x]).push(|_| ()).unwrap());
        lazy.0.lock().unwrap().is_held = true;
        let [begun, done]: [Arc<[AtomicUsize; VARIABLES]>; 2] = Default::default();
        let seen = Arc::new(AtomicUsize::new(0));
        let (other, of_other, of_both) = (engine.clone(), lazy.clone(), variables.clone());
        let (begun_there, done_there, seen_there) = (begun.clone(), done.clone(), seen.clone());
        let second = thread::spawn(move || {
            for (at, x) in of_both.into_iter().enumerate() {
                let (begun, done, seen) = (begun_there.clone(), done_there.clone(), seen_there.clone());
                let work = move || {
                    let (begun, done) = (begun[at].load(SeqCst), done[at].load(SeqCst));
                    assert!(begun == done, "an operation has run too early: the device is not done");
                    seen.fetch_add(begun, SeqCst);
                };
                push_work((&other, &of_other), (Context::cpu(0), Property::Short), x, || (), work);
            }
        });
        // Once: the other thread is in the middle of a push when this one goes on.
        thread::yield_now();
        for (at, x) in variables.into_iter().enumerate() {
            let (begun, done) = (begun.clone(), done.clone());
            let begins = move || _ = begun[at].fetch_add(1, SeqCst);
            let ends = move || _ = done[at].fetch_add(1, SeqCst);
            push_work((&engine, &lazy), (Context::gpu(0), Property::Normal), x, begins, ends);
        }
        second.join().unwrap();
        lazy.0.lock().unwrap().is_held = false;
        engine.wait_for_all().unwrap();
        vec![seen.load(SeqCst)]
    });
}
