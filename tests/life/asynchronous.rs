//! Asynchronous operations whose closures are short: their push calls the closure by the rules for
//! synchronous ones, whenever the completion is used.

use crate::common::*;
use seriatim::{Builder, Completion, Context, Engine, Kind, Operator, Property, RunContext, Variable};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::sync::{mpsc, Arc, Mutex};
use std::thread::ThreadId;
use std::time::Duration;

const KEY: u64 = 41;
const SHORT: Duration = Duration::from_nanos(20);
const LONG: Duration = Duration::from_millis(2);

fn with_workers(kind: Kind) -> Builder {
    Engine::builder().kind(kind).cpu_workers(1).waiters_help(false)
}

/// Engines on which all that is short runs inside its push.
fn learning(kind: Kind) -> Engine {
    with_workers(kind).inline_below(Duration::from_millis(1)).build().unwrap()
}

/// How an operation is pushed.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Way {
    Once,
    /// With a closure that no block holds.
    Large,
    /// With more variables than run inside their push without a block.
    Wide,
    Operator,
}

/// A place for a completion. A thread that waits for one takes no lock.
#[derive(Default)]
struct Place {
    completion: Mutex<Option<Completion>>,
    is_there: AtomicBool,
}

/// Operations that leave their completions to the test, and how many were called in their push.
struct Left {
    engine: Engine,
    variables: Vec<Variable>,
    short: bool,
    inside: Arc<AtomicUsize>,
    left: Arc<Place>,
    operator: Option<Operator>,
    large: bool,
}

impl Left {
    fn new(engine: Engine, way: Way, short: bool) -> Left {
        let variables = (0..if way == Way::Wide { 20 } else { 1 }).map(|_| engine.new_variable()).collect();
        let large = way == Way::Large;
        let mut this =
            Left { engine, variables, short, inside: Arc::default(), left: Arc::default(), operator: None, large };
        if way == Way::Operator {
            this.operator = Some(this.operation().async_operator(this.closure::<0>()).unwrap());
        }
        this
    }

    fn operation(&self) -> seriatim::OperationBuilder<'_> {
        let operation = self.engine.op("left").writes(self.variables.iter().copied());
        if self.short {
            operation.short()
        } else {
            operation
        }
    }

    fn closure<const BYTES: usize>(&self) -> impl Fn(&RunContext<'_>, Completion) + Send + Sync + use<BYTES> {
        let (inside, left) = (Arc::clone(&self.inside), Arc::clone(&self.left));
        let bytes = [0_u8; BYTES];
        move |run, completion| {
            inside.fetch_add(usize::from(run.worker().is_none()), SeqCst);
            *left.completion.lock().unwrap() = Some(completion);
            left.is_there.store(true, SeqCst);
            std::hint::black_box(&bytes);
        }
    }

    /// Pushes so many operations, each when the one before it has ended; returns how many were
    /// called in their push.
    fn push(&self, count: usize) -> usize {
        self.inside.store(0, SeqCst);
        for _ in 0..count {
            match &self.operator {
                Some(operator) => self.engine.push(operator, Context::cpu(0), 0),
                None if self.large => self.operation().push_async(self.closure::<600>()),
                None => self.operation().push_async(self.closure::<0>()),
            }
            .unwrap();
            while !self.left.is_there.swap(false, SeqCst) {
                std::thread::yield_now();
            }
            self.left.completion.lock().unwrap().take().expect("it is there").complete();
        }
        self.engine.wait_for_all().unwrap();
        self.inside.load(SeqCst)
    }
}

#[test]
fn a_short_asynchronous_closure_is_called_in_its_push() {
    let _watchdog = Watchdog::new(120, "short asynchronous closures");
    for kind in [Kind::PerDevice, Kind::Pooled] {
        for way in [Way::Once, Way::Large, Way::Wide, Way::Operator] {
            for short in [false, true] {
                let left = Left::new(learning(kind), way, short);
                assert_eq!(left.push(4), 0, "{kind}, {way:?}: nothing is known");
                // Until they are known to be short, however often this thread loses its core.
                while left.push(50) < 45 {}
            }
        }
    }
}

#[test]
fn what_is_undeclared_or_elsewhere_is_called_on_a_worker() {
    let _watchdog = Watchdog::new(60, "asynchronous closures on workers");
    for kind in [Kind::PerDevice, Kind::Pooled] {
        let default = || with_workers(kind);
        assert_eq!(Left::new(default().build().unwrap(), Way::Once, false).push(1_000), 0, "{kind}: undeclared");
        let bounded = default().bound(100).inline_below(Duration::from_millis(1)).build().unwrap();
        assert_eq!(Left::new(bounded, Way::Once, true).push(1_000), 0, "{kind}: with a bound");
    }
    let engine = learning(Kind::PerDevice);
    for (context, property) in [(Context::cpu(1), Property::Normal), (Context::cpu(0), Property::Io)] {
        engine.expect_cost_of(KEY, SHORT);
        let (send, receive) = mpsc::channel();
        let tell = move |run: &RunContext<'_>, completion: Completion| {
            send.send(run.worker()).unwrap();
            completion.complete();
        };
        engine.op("elsewhere").context(context).property(property).cost_key(KEY).push_async(tell).unwrap();
        assert_eq!(receive.recv().unwrap(), Some(0), "{context}, {property:?}");
    }
}

/// Its first call is where later ones are, if the program says that it is short.
fn push_expected(engine: &Engine, x: Variable, closure: impl FnOnce(Completion) + Send + 'static) -> Arc<Called> {
    let called = Arc::new(Called::default());
    let note = Arc::clone(&called);
    engine.expect_cost_of(KEY, SHORT);
    let start = move |_: &RunContext<'_>, completion: Completion| {
        *note.0.lock().unwrap() = Some(std::thread::current().id());
        closure(completion);
    };
    engine.op("expected").write(x).short().cost_key(KEY).push_async(start).unwrap();
    called
}

/// On which thread a closure was called.
#[derive(Default)]
struct Called(Mutex<Option<ThreadId>>);

impl Called {
    fn by(&self) -> Option<ThreadId> {
        *self.0.lock().unwrap()
    }
}

#[test]
fn a_completion_ends_an_operation_that_was_called_in_its_push_then_or_later() {
    let here = std::thread::current().id();
    for kind in [Kind::PerDevice, Kind::Pooled] {
        let engine = with_workers(kind).build().unwrap();
        let [x, y] = [engine.new_variable(), engine.new_variable()];
        let at_once = push_expected(&engine, x, Completion::complete);
        assert_eq!(at_once.by(), Some(here), "{kind}");
        assert_eq!(engine.version(x).unwrap(), 1, "{kind}: it is over when its push returns");
        // Later, and on another thread: what comes behind it waits until then.
        let (send, receive) = mpsc::channel::<Completion>();
        let later = push_expected(&engine, y, move |completion| send.send(completion).unwrap());
        assert_eq!(later.by(), Some(here), "{kind}");
        let ended = Arc::new(AtomicBool::new(false));
        let (set, seen) = (Arc::clone(&ended), Arc::new(AtomicBool::new(false)));
        let note = Arc::clone(&seen);
        engine.op("behind").read(y).push(move |_| note.store(ended.load(SeqCst), SeqCst)).unwrap();
        let other = std::thread::spawn(move || {
            std::thread::sleep(LONG);
            set.store(true, SeqCst);
            receive.recv().unwrap().complete();
        });
        engine.wait_for_all().unwrap();
        assert!(seen.load(SeqCst), "{kind}: what reads the variable came before its end");
        other.join().unwrap();
        assert_eq!(engine.version(y).unwrap(), 1);
    }
}

#[test]
fn a_short_closure_whose_tickets_have_not_come_is_called_in_order_by_a_worker() {
    let here = std::thread::current().id();
    for kind in [Kind::PerDevice, Kind::Pooled] {
        let engine = with_workers(kind).build().unwrap();
        let x = engine.new_variable();
        let before = hold(&engine, &[], &[x]);
        let seen = Arc::new(AtomicUsize::new(0));
        let calls: Vec<Arc<Called>> = (0..10)
            .map(|number| {
                let seen = Arc::clone(&seen);
                push_expected(&engine, x, move |completion| {
                    assert_eq!(seen.fetch_add(1, SeqCst), number);
                    completion.complete();
                })
            })
            .collect();
        assert!(calls.iter().all(|called| called.by().is_none()), "{kind}: called before its turn");
        before.complete();
        engine.wait_for_all().unwrap();
        assert_eq!(seen.load(SeqCst), 10, "{kind}");
        assert!(calls.iter().all(|called| called.by().is_some_and(|thread| thread != here)), "{kind}");
    }
}

#[test]
fn an_asynchronous_closure_that_turns_long_is_shipped() {
    let _watchdog = Watchdog::new(60, "asynchronous closures that turn long");
    for kind in [Kind::PerDevice, Kind::Pooled] {
        let engine = learning(kind);
        let (long, inside) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let x = engine.new_variable();
        let push = |waits: bool| {
            let (long, inside) = (Arc::clone(&long), Arc::clone(&inside));
            let start = move |run: &RunContext<'_>, completion: Completion| {
                inside.fetch_add(usize::from(run.worker().is_none()), SeqCst);
                // The operation is over: only the closure holds the thread.
                completion.complete();
                if long.load(SeqCst) {
                    std::thread::sleep(LONG);
                }
            };
            engine.op("turns").write(x).push_async(start).unwrap();
            if waits {
                engine.wait_for_all().unwrap();
            }
        };
        // Until it is known to be short, however often this thread loses its core.
        while inside.swap(0, SeqCst) < 45 {
            (0..50).for_each(|_| push(true));
        }
        long.store(true, SeqCst);
        (0..60).for_each(|_| push(false));
        engine.wait_for_all().unwrap();
        // Of 24 in a row one is measured, and then the next.
        let inside = inside.load(SeqCst);
        assert!(inside <= 30, "{kind}: {inside} of 60 long closures held up their pushes");
    }
}

#[test]
fn asynchronous_closures_of_one_type_are_told_apart_by_their_keys() {
    let _watchdog = Watchdog::new(60, "keys of asynchronous closures");
    let engine = learning(Kind::PerDevice);
    for as_operators in [false, true] {
        let ran: [Arc<AtomicUsize>; 2] = Default::default();
        let variables = [engine.new_variable(), engine.new_variable()];
        let start = |which: usize| {
            let ran = Arc::clone(&ran[which]);
            move |run: &RunContext<'_>, completion: Completion| {
                ran.fetch_add(usize::from(run.worker().is_none()), SeqCst);
                if which == 1 {
                    std::thread::sleep(LONG);
                }
                completion.complete();
            }
        };
        let operation = |which: usize| {
            let key = usize::from(as_operators) * 2 + which;
            engine.op("turn").write(variables[which]).cost_key(key as u64)
        };
        let operators = [0, 1].map(|which| operation(which).async_operator(start(which)).unwrap());
        let push = |which: usize| {
            match as_operators {
                true => engine.push(&operators[which], Context::cpu(0), 0),
                false => operation(which).push_async(start(which)),
            }
            .unwrap();
            engine.wait_for_all().unwrap();
        };
        let turns = |count: usize| {
            ran.iter().for_each(|ran| ran.store(0, SeqCst));
            (0..count).for_each(|_| [0, 1].into_iter().for_each(push));
            [0, 1].map(|which| ran[which].load(SeqCst))
        };
        // Until the short ones are known, however often this thread loses its core. The long ones
        // are shipped all along.
        loop {
            let [short, long] = turns(50);
            assert_eq!(long, 0, "long closures held up their pushes");
            if short >= 45 {
                break;
            }
        }
    }
}

/// Each pushes the next in its push, but for those that are too deep.
#[test]
fn short_closures_that_push_each_other_do_not_use_up_the_stack() {
    let _watchdog = Watchdog::new(120, "short closures inside each other");
    fn nest(engine: &Engine, left: usize) {
        let own = engine.clone();
        let start = move |_: &RunContext<'_>, completion: Completion| {
            if left > 0 {
                nest(&own, left - 1);
            }
            completion.complete();
        };
        engine.expect_cost_of(KEY, SHORT);
        engine.op("nested").short().cost_key(KEY).push_async(start).unwrap();
    }
    for kind in [Kind::PerDevice, Kind::Pooled] {
        let engine = with_workers(kind).build().unwrap();
        nest(&engine, 50_000);
        engine.wait_for_all().unwrap();
    }
}
