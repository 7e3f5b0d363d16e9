//! Lanes: threads that run a plan, each a lane. First the protocol alone, with a host that spawns a
//! thread for each lane that it is to hand out; then graphs of an engine, as its users see them.

#![cfg(loom)]

use loom::sync::Mutex;
use loom::thread::JoinHandle;
use loom_tests::{explore, spawn, Guarded};
use seriatim::internals::edges::{predecessors, NodeUse};
use seriatim::internals::guided_loop::GuidedLoop;
use seriatim::internals::lanes::{Beginning, LaneHost, Lanes, Rest, SerialStep};
use seriatim::internals::plan::{plan, Member};
use seriatim::{Engine, Kind, Property};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::Arc;

/// An operation: its lane, what it reads and what it changes.
type Op = (u32, &'static [u32], &'static [u32]);

/// A plan that is run by threads of the model.
struct Graph {
    lanes: Lanes,
    ops: &'static [Op],
    values: Vec<Guarded>,
    runs: Vec<AtomicUsize>,
    overs: AtomicUsize,
    /// Threads that were started and not yet waited for.
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// So many replays follow each other at once.
    replays: AtomicUsize,
    /// No threads are started: lanes that are handed out wait here for the model's only thread.
    one_thread: AtomicBool,
    queue: Mutex<Vec<u32>>,
    /// After how many segments a replay spreads; if never, it is not begun alone.
    spread: Option<usize>,
    /// How many segments the thread that begins a replay runs before a lane has it.
    before: u32,
    /// An operation that ends on a thread of its own.
    detached: Option<u32>,
    /// A lane that calls nothing: a thread that has something for it runs it at once, beside the
    /// lane that it is in.
    at_once: Option<u32>,
}

struct Thread(Arc<Graph>, usize);

impl Graph {
    fn new(ops: &'static [Op], lanes: usize, spread: Option<usize>, detached: Option<u32>) -> Arc<Graph> {
        let uses: Vec<Vec<NodeUse>> = ops
            .iter()
            .map(|(_, reads, writes)| {
                let reads = reads.iter().map(|variable| NodeUse { variable: *variable, writes: false });
                reads.chain(writes.iter().map(|variable| NodeUse { variable: *variable, writes: true })).collect()
            })
            .collect();
        let uses: Vec<&[NodeUse]> = uses.iter().map(Vec::as_slice).collect();
        let members: Vec<Member> = (0..)
            .zip(ops)
            .map(|(number, (lane, ..))| Member { lane: *lane, priority: 0, detached: detached == Some(number) })
            .collect();
        Arc::new(Graph {
            lanes: Lanes::new(plan(&members, &predecessors(&uses, 4), lanes)),
            ops,
            values: (0..4).map(|_| Guarded::new()).collect(),
            runs: ops.iter().map(|_| AtomicUsize::new(0)).collect(),
            overs: AtomicUsize::new(0),
            threads: Mutex::new(Vec::new()),
            replays: AtomicUsize::new(1),
            one_thread: AtomicBool::new(false),
            queue: Mutex::new(Vec::new()),
            spread,
            before: 0,
            detached,
            at_once: None,
        })
    }

    /// The first segments are run by the thread that begins a replay, before a lane has it.
    fn begun_before(ops: &'static [Op], lanes: usize, spread: Option<usize>, before: u32) -> Arc<Graph> {
        let mut graph = Graph::new(ops, lanes, spread, None);
        Arc::get_mut(&mut graph).expect("nobody else knows it").before = before;
        graph
    }

    /// With a lane that is run at once, whose operation `detached` ends elsewhere.
    fn with_lane_at_once(ops: &'static [Op], lanes: usize, lane: u32, detached: u32) -> Arc<Graph> {
        let mut graph = Graph::new(ops, lanes, None, Some(detached));
        Arc::get_mut(&mut graph).expect("nobody else knows it").at_once = Some(lane);
        graph
    }

    fn work(self: &Arc<Self>, lane: u32) {
        // SAFETY: the lane was handed to this thread.
        while unsafe { self.lanes.work(lane, &mut Thread(Arc::clone(self), 0)) } == Rest::Paused {}
    }

    fn start(self: &Arc<Self>, body: impl FnOnce(&Arc<Graph>) + 'static) {
        let own = Arc::clone(self);
        let thread = spawn(move || body(&own));
        self.threads.lock().unwrap().push(thread);
    }

    /// Begins a replay.
    ///
    /// # Safety
    /// The last one is over, and happened before.
    unsafe fn begin(self: &Arc<Self>) {
        for segment in &self.lanes.plan().order[..self.before as usize] {
            Thread(Arc::clone(self), 0).run(*segment);
        }
        // SAFETY: by the contract.
        if unsafe { self.lanes.begin(0) } {
            self.work(0);
        }
    }

    /// Replays the graph for the `time`th time and checks what was run.
    fn replay(self: &Arc<Self>, time: usize) {
        // SAFETY: the last one is over, and all of its threads have ended.
        unsafe { self.begin() };
        loop {
            let lane = self.queue.lock().unwrap().pop();
            if let Some(lane) = lane {
                self.work(lane);
                continue;
            }
            // A thread that starts another one is waited for too, and has noted it by then.
            let Some(thread) = self.threads.lock().unwrap().pop() else { break };
            thread.join().unwrap();
        }
        assert_eq!(self.overs.load(Relaxed), time, "over once");
        assert!(self.runs.iter().all(|runs| runs.load(Relaxed) == time), "every operation once");
        for (variable, value) in (0..).zip(&self.values) {
            let writes = self.ops.iter().filter(|(.., writes)| writes.contains(&variable)).count();
            assert_eq!(value.get(), writes * time);
        }
    }
}

impl LaneHost for Thread {
    fn run(&mut self, segment: u32) -> bool {
        let graph = &self.0;
        let plan = graph.lanes.plan();
        let range = &plan.segments[segment as usize].operations;
        for operation in &plan.operations[range.start as usize..range.end as usize] {
            let (_, reads, writes) = graph.ops[*operation as usize];
            for variable in reads {
                let _ = graph.values[*variable as usize].get();
            }
            writes.iter().for_each(|variable| graph.values[*variable as usize].step());
            graph.runs[*operation as usize].fetch_add(1, Relaxed);
            if graph.detached == Some(*operation) {
                graph.start(move |graph| {
                    // SAFETY: it was run, and ends here.
                    if unsafe { graph.lanes.ended(segment) } {
                        graph.work(graph.lanes.plan().segments[segment as usize].lane);
                    }
                });
                return false;
            }
        }
        true
    }

    fn conclude(&mut self, _: u32) {}

    fn hand_out(&mut self, lane: u32) {
        if self.0.at_once == Some(lane) {
            self.0.work(lane);
        } else if self.0.one_thread.load(Relaxed) {
            self.0.queue.lock().unwrap().push(lane);
        } else {
            self.0.start(move |graph| graph.work(lane));
        }
    }

    fn begins(&mut self) -> Beginning {
        Beginning { from: self.0.before, alone: self.0.spread.is_some() }
    }

    fn alone(&mut self, left: usize) -> SerialStep {
        self.1 += 1;
        match self.0.spread {
            Some(after) if after == self.0.lanes.plan().order.len() - left => SerialStep::Spread,
            _ => SerialStep::GoOn,
        }
    }

    fn is_due(&mut self) -> bool {
        false
    }

    fn may_wait(&mut self, _: bool) -> bool {
        true
    }

    fn over(&mut self) {
        // Everything has happened before, on every lane.
        self.0.values.iter().for_each(|value| value.set(value.get()));
        // The next one may begin at once.
        if self.0.overs.fetch_add(1, Relaxed) + 1 < self.0.replays.load(Relaxed) {
            // SAFETY: this one is over, and happened before.
            unsafe { self.0.begin() };
        }
    }
}

#[test]
fn one_lane_waits_for_another_and_back() {
    const OPS: &[Op] = &[(0, &[], &[0]), (1, &[0], &[1]), (0, &[1], &[0])];
    explore("lanes, there and back", 3, 20, || Graph::new(OPS, 2, None, None).replay(1));
}

#[test]
fn two_lanes_that_cross() {
    // A stencil of two points and two steps.
    const OPS: &[Op] = &[(0, &[], &[0]), (1, &[], &[1]), (0, &[0, 1], &[2]), (1, &[0, 1], &[3])];
    explore("lanes that cross", 3, 50, || Graph::new(OPS, 2, None, None).replay(1));
}

#[test]
fn one_waits_for_two_others() {
    const OPS: &[Op] = &[(1, &[], &[0]), (2, &[], &[1]), (0, &[0, 1], &[2])];
    explore("lanes, one waits for two others", 2, 50, || Graph::new(OPS, 3, None, None).replay(1));
}

#[test]
fn a_replay_follows_another_at_once() {
    // The first lane only begins, and the last one has nothing that waits for a start.
    const OPS: &[Op] = &[(1, &[], &[0]), (2, &[0], &[1])];
    explore("lanes, a replay after another", 2, 50, || {
        let graph = Graph::new(OPS, 3, None, None);
        graph.replays.store(2, Relaxed);
        graph.replay(2);
    });
    const CHAIN: &[Op] = &[(0, &[], &[0]), (1, &[0], &[1]), (0, &[1], &[2])];
    explore("lanes, a replay after another, spread", 2, 20, || {
        let graph = Graph::new(CHAIN, 2, Some(1), None);
        graph.replays.store(2, Relaxed);
        graph.replay(2);
    });
}

#[test]
fn a_message_that_ends_a_replay_is_sent_again_by_the_next() {
    // The second operation ends on a thread of its own, and with it the replay. Before that thread
    // has done with the message, the next replay sends the lane its start and then the same
    // segment.
    const OPS: &[Op] = &[(0, &[], &[0]), (1, &[0], &[1]), (1, &[], &[2])];
    explore("lanes, a message is sent again", 2, 100, || {
        let graph = Graph::new(OPS, 2, None, Some(1));
        graph.one_thread.store(true, Relaxed);
        graph.replays.store(2, Relaxed);
        graph.replay(2);
    });
}

#[test]
fn counters_are_set_back_for_the_next_replay() {
    // Two segments of the other lane, because the first is awaited by an operation that does not
    // wait for the second.
    const OPS: &[Op] = &[(1, &[], &[1]), (0, &[1], &[0]), (1, &[], &[2]), (0, &[1, 2, 0], &[3])];
    // Loom has threads for one replay with two of them. So the second is run by one thread, lane
    // after lane.
    explore("lanes, replayed twice", 2, 20, || {
        let graph = Graph::new(OPS, 2, None, None);
        graph.replay(1);
        graph.one_thread.store(true, Relaxed);
        graph.replay(2);
    });
}

/// The first segment of all is another lane's only one that waits for nothing.
#[test]
fn a_lane_that_begins_with_the_first_segment_is_started_by_another() {
    const OPS: &[Op] = &[(1, &[], &[0]), (0, &[0], &[1]), (1, &[1], &[2])];
    explore("lanes, the first segment is another lane's", 2, 2, || Graph::new(OPS, 2, None, None).replay(1));
}

#[test]
fn a_replay_that_is_spread_in_the_middle() {
    const OPS: &[Op] = &[(0, &[], &[0]), (1, &[0], &[1]), (0, &[0], &[2]), (1, &[2, 1], &[3]), (0, &[1], &[0])];
    for after in 1..=4 {
        explore(&format!("lanes, spread after {after}"), 2, 2, move || {
            Graph::new(OPS, 2, Some(after), None).replay(1);
        });
    }
    // A lane begins with two segments, of which one has been run when the replay spreads.
    const TWO: &[Op] = &[(1, &[], &[1]), (0, &[1], &[0]), (1, &[], &[2]), (0, &[1, 2, 0], &[3])];
    explore("lanes, spread between the first segments of a lane", 1, 2, || {
        Graph::new(TWO, 2, Some(1), None).replay(1);
    });
    explore("lanes, spread twice", 2, 2, || {
        let graph = Graph::new(OPS, 2, Some(2), None);
        graph.replay(1);
        graph.one_thread.store(true, Relaxed);
        graph.replay(2);
    });
}

/// The lane goes on alone, or starts the others at once. The second replay is begun while threads
/// of the first are on their way out of their lanes.
#[test]
fn a_replay_whose_beginning_was_run_without_a_lane() {
    const OPS: &[Op] = &[(0, &[], &[0]), (1, &[0], &[1]), (0, &[0], &[2]), (1, &[2, 1], &[3])];
    for (spread, before) in [(None, 1), (None, 3), (Some(3), 2), (Some(4), 1)] {
        explore(&format!("lanes, {before} segments before, then {spread:?}"), 2, 2, move || {
            let graph = Graph::begun_before(OPS, 2, spread, before);
            graph.replays.store(2, Relaxed);
            graph.replay(2);
        });
    }
}

/// A loop that threads share, its values, and how many of its replays are over.
struct Shared(GuidedLoop, [Guarded; 3], AtomicUsize);

impl Shared {
    const REPLAYS: usize = 2;

    /// The first operation is run by the thread that offers the others.
    fn begin(&self) {
        self.1[0].step();
        // SAFETY: the last replay is over, and happened before.
        unsafe { self.0.offer(1) };
    }

    fn take_part(&self) {
        let mut ran = 0;
        while let Some(chunk) = self.0.take() {
            ran += chunk.len();
            for number in chunk {
                self.1[number].step();
                assert_eq!(self.1[number].get(), self.1[0].get(), "in another replay");
            }
        }
        if ran > 0 && self.0.end(ran) {
            let over = self.2.fetch_add(1, Relaxed) + 1;
            assert!(self.1.iter().all(|value| value.get() == over), "each operation once");
            if over < Shared::REPLAYS {
                self.begin();
                self.take_part();
            }
        }
    }
}

/// The second replay is begun while the other thread is on its way out of the first.
#[test]
fn threads_that_share_a_loop_run_each_operation_once() {
    explore("lanes, a loop that two threads share", 3, 50, || {
        let values = std::array::from_fn(|_| Guarded::new());
        let shared = Arc::new(Shared(GuidedLoop::new(3, 2), values, AtomicUsize::new(0)));
        let other = Arc::clone(&shared);
        shared.begin();
        let other = spawn(move || other.take_part());
        shared.take_part();
        other.join().unwrap();
        assert_eq!(shared.2.load(Relaxed), Shared::REPLAYS);
    });
}

/// As the lanes of devices are (`Program::hand_out`): from inside another lane, and from the thread
/// on which an operation ends.
#[test]
fn a_lane_that_is_run_at_once() {
    const OPS: &[Op] = &[(0, &[], &[0]), (1, &[0], &[1]), (0, &[1], &[2]), (1, &[2], &[3])];
    explore("lanes, one is run at once", 2, 20, || Graph::with_lane_at_once(OPS, 2, 1, 1).replay(1));
    // All of it is on that lane, and a replay follows at once.
    const ALL: &[Op] = &[(1, &[], &[0]), (1, &[0], &[1])];
    explore("lanes, all is run at once", 2, 20, || {
        let graph = Graph::with_lane_at_once(ALL, 2, 1, 0);
        graph.replays.store(2, Relaxed);
        graph.replay(2);
    });
}

#[test]
fn an_operation_that_ends_on_another_thread() {
    const OPS: &[Op] = &[(0, &[], &[0]), (0, &[0], &[1]), (0, &[], &[2]), (1, &[0], &[3])];
    explore("lanes, one ends elsewhere", 2, 20, || Graph::new(OPS, 2, None, Some(0)).replay(1));
}

/// An engine whose waiter runs nothing, and of which two threads can work.
fn engine(workers: usize, waiters_help: bool) -> Engine {
    Engine::builder().kind(Kind::PerDevice).cpu_workers(workers).waiters_help(waiters_help).build().unwrap()
}

#[test]
fn a_graph_on_a_worker_and_a_waiter() {
    explore("graph, a worker and a waiter", 1, 20, || {
        let engine = engine(1, true);
        let [x, y] = [engine.new_variable(), engine.new_variable()];
        let (a, b) = (Guarded::new(), Guarded::new());
        let (graph, ()) = engine
            .capture(|c| {
                let own = a.clone();
                c.op("a").writes([x]).push(move |_| own.step())?;
                let own = b.clone();
                c.op("b").writes([y]).push(move |_| own.step())?;
                let (from, to) = (a.clone(), b.clone());
                c.op("both").reads([x]).writes([y]).push(move |_| to.set(to.get() + from.get()))
            })
            .unwrap();
        graph.replay().unwrap();
        engine.wait_for_var(y).unwrap();
        assert_eq!(b.get(), 2);
        drop(graph);
        engine.wait_for_all().unwrap();
    });
}

#[test]
fn a_graph_between_pushes_of_a_naive_engine() {
    explore("graph, between pushes of two threads", 2, 20, || {
        let engine = Engine::builder().kind(Kind::Naive).build().unwrap();
        let x = engine.new_variable();
        let value = Guarded::new();
        let (graph, ()) = engine
            .capture(|c| {
                (0..2).try_for_each(|_| {
                    let own = value.clone();
                    c.op("step").writes([x]).push(move |_| own.step())
                })
            })
            .unwrap();
        let (theirs, own) = (engine.clone(), value.clone());
        let pusher = spawn(move || theirs.op("beside").writes([x]).push(move |_| own.step()).unwrap());
        graph.replay().unwrap();
        pusher.join().unwrap();
        engine.wait_for_var(x).unwrap();
        assert_eq!(value.get(), 3);
        assert_eq!(engine.version(x).unwrap(), 3);
    });
}

#[test]
fn a_variable_becomes_private_beside_its_last_use_outside() {
    explore("graph, a variable that becomes private", 1, 20, || {
        let engine = engine(1, false);
        let [x, y] = [engine.new_variable(), engine.new_variable()];
        let value = Guarded::new();
        let own = value.clone();
        engine.op("outside").writes([x]).push(move |_| own.step()).unwrap();
        let (graph, ()) = engine
            .capture(|c| {
                c.make_private(x)?;
                let own = value.clone();
                c.op("inside").writes([x]).push(move |_| own.step())?;
                let own = value.clone();
                c.op("look").reads([x]).writes([y]).push(move |_| assert_eq!(own.get(), 2, "it ran too early"))
            })
            .unwrap();
        graph.replay().unwrap();
        engine.wait_for_var(y).unwrap();
        drop(graph);
        engine.wait_for_all().unwrap();
    });
}

#[test]
fn a_variable_becomes_private_while_its_last_use_ends_elsewhere() {
    explore("graph, a variable whose last use ends elsewhere", 2, 20, || {
        let engine = Engine::builder().kind(Kind::Naive).build().unwrap();
        let x = engine.new_variable();
        let value = Guarded::new();
        let (send, receive) = std::sync::mpsc::channel();
        engine.op("outside").writes([x]).push_async(move |_, of| send.send(of).unwrap()).unwrap();
        let (completion, own) = (receive.recv().unwrap(), value.clone());
        let other = spawn(move || {
            own.step();
            completion.complete();
        });
        let (graph, ()) = engine
            .capture(|c| {
                c.make_private(x)?;
                let own = value.clone();
                c.op("inside").writes([x]).push(move |_| own.step())
            })
            .unwrap();
        graph.replay().unwrap();
        other.join().unwrap();
        engine.wait_for_all().unwrap();
        assert_eq!(value.get(), 2);
    });
}

#[test]
fn a_failure_in_a_graph_skips_what_depends_on_it_and_reaches_the_wait() {
    explore("graph, a failure inside", 1, 20, || {
        let engine = engine(1, true);
        let [x, y, z] = [engine.new_variable(), engine.new_variable(), engine.new_variable()];
        let (after, beside) = (Guarded::new(), Guarded::new());
        let (graph, ()) = engine
            .capture(|c| {
                c.op("fails").writes([x]).push(|_| Err("no luck"))?;
                let own = after.clone();
                c.op("after").reads([x]).writes([y]).push(move |_| own.step())?;
                let own = beside.clone();
                c.op("beside").writes([z]).push(move |_| own.step())
            })
            .unwrap();
        graph.replay().unwrap();
        assert_eq!(engine.wait_for_var(y).unwrap_err().operation(), Some("fails"));
        engine.wait_for_var(z).unwrap();
        assert_eq!((after.get(), beside.get()), (0, 1));
    });
}

#[test]
fn a_parameter_is_replaced_beside_a_replay() {
    explore("graph, a parameter is replaced", 2, 10, || {
        let engine = Engine::builder().kind(Kind::Naive).build().unwrap();
        let x = engine.new_variable();
        let value = Guarded::new();
        let (graph, parameter) = engine
            .capture(|c| {
                let parameter = c.parameter(Guarded::new());
                let (own, inside) = (value.clone(), parameter.clone());
                c.op("look").writes([x]).push(move |run| {
                    own.set(own.get() + inside.get(run)?.get());
                    Ok::<(), seriatim::Error>(())
                })?;
                Ok(parameter)
            })
            .unwrap();
        let setter = spawn(move || {
            let one = Guarded::new();
            one.step();
            parameter.set(one).unwrap();
        });
        graph.replay().unwrap();
        setter.join().unwrap();
        graph.replay().unwrap();
        engine.wait_for_all().unwrap();
        assert!((1..=2).contains(&value.get()));
    });
}

#[test]
fn an_asynchronous_operation_of_a_graph_is_completed_elsewhere() {
    explore("graph, completed elsewhere", 1, 10, || {
        let engine = Engine::builder().kind(Kind::Naive).build().unwrap();
        let x = engine.new_variable();
        let value = Guarded::new();
        let threads = Arc::new(Mutex::new(Vec::new()));
        let (graph, ()) = engine
            .capture(|c| {
                let (own, threads) = (value.clone(), Arc::clone(&threads));
                let mut calls = Guarded::new();
                c.op("start").writes([x]).property(Property::Async).push_async(move |_, completion| {
                    let own = own.clone();
                    let thread = spawn(move || {
                        own.step();
                        completion.complete();
                    });
                    threads.lock().unwrap().push(thread);
                    // After the completion was given away: no other thread may be in here.
                    let calls: &mut Guarded = &mut calls;
                    calls.step();
                })?;
                let own = value.clone();
                c.op("then").writes([x]).push(move |_| own.step())
            })
            .unwrap();
        for _ in 0..2 {
            graph.replay().unwrap();
        }
        engine.wait_for_var(x).unwrap();
        assert_eq!(value.get(), 4);
        loop {
            let Some(thread) = threads.lock().unwrap().pop() else { break };
            thread.join().unwrap();
        }
    });
}
