//! What the operations of a stress share: an engine, plain values guarded by variables, and a
//! thread that ends asynchronous operations.

use crate::common::{mix, Random};
use crate::pusher;
use parking_lot::{Condvar, Mutex};
use seriatim::{Completion, Engine, IdlePolicy, Kind, Variable, WhenFull};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::thread;
use std::time::Duration;

/// A value as operations change it: never in one step, so that half a change shows.
struct Value {
    changes: u64,
    seal: u64,
}

/// A value and the variable that guards it. A handle: the value lives until [`Guarded::free`].
#[derive(Clone, Copy)]
pub struct Guarded {
    pub variable: Variable,
    value: *mut Value,
}

// SAFETY: that only those use the value whom the engine lets is what the stress is about; its
// methods say so in their contracts.
unsafe impl Send for Guarded {}
// SAFETY: as above.
unsafe impl Sync for Guarded {}

impl Guarded {
    pub fn new(engine: &Engine) -> Guarded {
        let value = Box::into_raw(Box::new(Value { changes: 0, seal: mix(0) }));
        Guarded { variable: engine.new_variable(), value }
    }

    /// How often the value was changed.
    ///
    /// # Safety
    /// The value is not freed, and nobody changes it meanwhile: the caller has declared to read it,
    /// or everything has ended.
    pub unsafe fn read(self) -> u64 {
        // SAFETY: by the contract.
        let Value { changes, seal } = unsafe { &*self.value };
        assert_eq!(*seal, mix(*changes), "somebody changes what we read");
        *changes
    }

    /// Changes the value.
    ///
    /// # Safety
    /// The value is not freed, and nobody else uses it meanwhile: the caller has declared to change
    /// it.
    pub unsafe fn change(self) {
        // SAFETY: by the contract.
        unsafe {
            let changes = self.read() + 1;
            (*self.value).changes = changes;
            (*self.value).seal = mix(changes);
        }
    }

    /// # Safety
    /// Nobody uses the value any more.
    pub unsafe fn free(self) {
        // SAFETY: made by `new`, and freed once.
        drop(unsafe { Box::from_raw(self.value) });
    }
}

/// An asynchronous operation, and what is still to be changed before it ends.
type Order = (Completion, Vec<Guarded>);

/// Ends asynchronous operations on a thread of its own, which also does their work.
#[derive(Default)]
pub struct Completer {
    orders: Mutex<(VecDeque<Order>, bool)>,
    news: Condvar,
}

impl Completer {
    pub fn give(&self, completion: Completion, writes: Vec<Guarded>) {
        self.orders.lock().0.push_back((completion, writes));
        self.news.notify_one();
    }

    fn close(&self) {
        self.orders.lock().1 = true;
        self.news.notify_one();
    }

    fn work(&self) {
        let mut orders = self.orders.lock();
        loop {
            match orders.0.pop_front() {
                Some((completion, writes)) => {
                    drop(orders);
                    for slot in writes {
                        // SAFETY: the operation has declared to change it, and has not ended yet.
                        unsafe { slot.change() };
                    }
                    completion.complete();
                    orders = self.orders.lock();
                }
                _ => {
                    if orders.1 {
                        return;
                    } else {
                        self.news.wait(&mut orders);
                    }
                }
            }
        }
    }
}

/// Which engine, and what is done to it.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub kind: Kind,
    pub workers: usize,
    idle: IdlePolicy,
    waiters_help: bool,
    bound: usize,
    pub when_full: WhenFull,
    inline: bool,
    /// Whether it is stopped and started all the while.
    pub stops: bool,
    pushers: usize,
}

impl Shape {
    pub fn random(number: usize, random: &mut Random) -> Shape {
        Shape {
            kind: [Kind::Pooled, Kind::PerDevice, Kind::Naive][number % 3],
            workers: random.between(1, 3),
            idle: random.pick(&[IdlePolicy::Spin, IdlePolicy::SpinThenPark, IdlePolicy::Park, IdlePolicy::Park]),
            waiters_help: random.chance(50),
            bound: random.pick(&[0, 0, 5]),
            when_full: random.pick(&[WhenFull::Block, WhenFull::Help, WhenFull::WouldBlock]),
            inline: random.chance(30),
            stops: number % 4 == 3,
            pushers: random.between(1, 3),
        }
    }

    pub fn engine(self) -> Engine {
        let builder = Engine::builder().kind(self.kind).cpu_workers(self.workers).priority_workers(2).idle(self.idle);
        let builder = builder.waiters_help(self.waiters_help).bound(self.bound).when_full(self.when_full);
        let below = if self.inline { Duration::from_millis(1) } else { Duration::ZERO };
        builder.inline_below(below).build().expect("the settings are valid")
    }
}

pub struct World {
    pub shape: Shape,
    pub engine: Engine,
    pub slots: Vec<Guarded>,
    pub completer: Completer,
    /// Pushers that have not finished.
    pushing: AtomicUsize,
}

/// Values that the operations of a world share.
pub const SLOTS: usize = 14;

impl World {
    /// Runs one world and checks what is left of it. Returns how many operations ran.
    pub fn run(shape: Shape, random: &mut Random) -> u64 {
        let engine = shape.engine();
        let slots = (0..SLOTS).map(|_| Guarded::new(&engine)).collect();
        let pushing = AtomicUsize::new(shape.pushers);
        let world = Box::into_raw(Box::new(World { shape, engine, slots, completer: Completer::default(), pushing }));
        // SAFETY: freed below, after every thread and every operation that uses it.
        let this: &'static World = unsafe { &*world };
        let completer = thread::spawn(|| this.completer.work());
        let pushers: Vec<_> = (0..shape.pushers)
            .map(|_| {
                let random = Random(random.next());
                thread::spawn(move || {
                    let accepted = pusher::work(this, random);
                    this.pushing.fetch_sub(1, Relaxed);
                    accepted
                })
            })
            .collect();
        this.disturb(random);
        let accepted: Vec<_> = pushers.into_iter().map(|pusher| pusher.join().expect("pushers do not panic")).collect();
        this.engine.wait_for_all().unwrap_or_else(|error| panic!("{error}\n{shape:?}"));
        for (index, slot) in this.slots.iter().enumerate() {
            let expected: u64 = accepted.iter().map(|accepted| accepted.changes[index]).sum();
            // SAFETY: nothing is in flight, and nobody pushes.
            let found = unsafe { slot.read() };
            assert_eq!(found, expected, "value {index} in {shape:?}");
            let version = this.engine.version(slot.variable).expect("it is alive");
            assert_eq!(version, found, "{shape:?}");
        }
        // A completed operation's closure may still be on its way out of the completer: `stop`
        // waits for that.
        this.engine.stop().expect("we are not inside");
        this.completer.close();
        completer.join().expect("the completer does not panic");
        this.slots.iter().for_each(|slot| {
            // SAFETY: the engine is stopped.
            unsafe { slot.free() }
        });
        // SAFETY: from the box above; all threads and operations have ended.
        drop(unsafe { Box::from_raw(world) });
        accepted.iter().map(|accepted| accepted.operations).sum()
    }

    /// Looks, waits, measures and stops while others push.
    fn disturb(&self, random: &mut Random) {
        let engine = &self.engine;
        while self.pushing.load(Relaxed) > 0 {
            match random.below(7) {
                0 => assert!(engine.dump_dot().starts_with("digraph")),
                // Waits end meanwhile, and their blocks go back to the pool.
                6 => (0..30).for_each(|_| assert!(engine.stats().running < 1000)),
                1 => drop(engine.wait_for_all_timeout(Duration::from_micros(300))),
                2 => drop(engine.wait_for_var_timeout(random.pick(&self.slots).variable, Duration::from_micros(300))),
                3 => {
                    engine.start_profiling();
                    thread::sleep(Duration::from_micros(200));
                    engine.stop_profiling();
                    drop(engine.profile());
                }
                4 if self.shape.stops => {
                    engine.stop().expect("we are not inside");
                    engine.start().expect("threads are not refused");
                }
                _ => thread::sleep(Duration::from_micros(500)),
            }
        }
    }
}
