//! Operations on typed values, and the same ones on bare variables with addresses in their
//! closures, for `instructions.rs`: what typed access adds to a push.

use seriatim::{Engine, Kind, RunContext, Value, Variable, Write};
use seriatim_perf::workloads::{self, COUNTED_OPERATIONS};

/// How an operation reaches what it uses.
#[derive(Clone, Copy)]
pub enum By {
    /// By bare variables, and addresses that the closure has.
    Address,
    Type,
}

/// How many values an operation uses: it changes the last of them.
#[derive(Clone, Copy)]
pub enum Uses {
    One,
    Two,
    Four,
}

/// An address that goes into a closure.
#[derive(Clone, Copy)]
struct Place(*mut u64);

// SAFETY: operations that follow it have claimed its variable, and it is never freed.
unsafe impl Send for Place {}

impl Place {
    fn get(self) -> *mut u64 {
        self.0
    }
}

/// A naive engine that has run the program once.
pub struct Typed {
    by: By,
    uses: Uses,
    /// As many as the workload of the row's name has.
    operations: usize,
    engine: Engine,
    values: [Value<u64>; 4],
    bare: [(Variable, Place); 4],
}

impl Typed {
    pub fn new(by: By, uses: Uses, workload: &str) -> Typed {
        let operations = workloads::named(workload, COUNTED_OPERATIONS).expect("a known workload").sequence().len();
        let engine = Engine::builder().kind(Kind::Naive).build().expect("an engine");
        let values = [0; 4].map(|number| engine.value(number));
        let bare = [0; 4].map(|number| (engine.new_variable(), Place(Box::leak(Box::new(number)))));
        let ready = Typed { by, uses, operations, engine, values, bare };
        ready.push();
        ready
    }

    #[inline]
    pub fn push(&self) {
        match (self.by, self.uses) {
            (By::Address, Uses::One) => self.push_one_by_address(),
            (By::Address, Uses::Two) => self.push_two_by_address(),
            (By::Address, Uses::Four) => self.push_four_by_address(),
            (By::Type, Uses::One) => self.push_one(),
            (By::Type, Uses::Two) => self.push_two(),
            (By::Type, Uses::Four) => self.push_four(),
        }
    }

    #[inline(never)]
    fn push_one_by_address(&self) {
        let [.., (y, to)] = self.bare;
        for _ in 0..self.operations {
            // SAFETY: the operation has claimed to change it.
            let body = move |_: &RunContext<'_>| unsafe { *to.get() += 1 };
            self.engine.op("step").write(y).push(body).expect("a push");
        }
    }

    #[inline(never)]
    fn push_one(&self) {
        let [.., y] = &self.values;
        for _ in 0..self.operations {
            self.engine.op("step").run(Write(y), |y| *y += 1).expect("a push");
        }
    }

    #[inline(never)]
    fn push_two_by_address(&self) {
        let [.., (x, from), (y, to)] = self.bare;
        for _ in 0..self.operations {
            // SAFETY: the operation has claimed to read the one and to change the other.
            let body = move |_: &RunContext<'_>| unsafe { *to.get() += *from.get() + 1 };
            self.engine.op("step").read(x).write(y).push(body).expect("a push");
        }
    }

    #[inline(never)]
    fn push_two(&self) {
        let [.., x, y] = &self.values;
        for _ in 0..self.operations {
            self.engine.op("step").run((x, Write(y)), |(x, y)| *y += *x + 1).expect("a push");
        }
    }

    #[inline(never)]
    fn push_four_by_address(&self) {
        let [(a, first), (b, second), (x, from), (y, to)] = self.bare;
        for _ in 0..self.operations {
            // SAFETY: as above.
            let body = move |_: &RunContext<'_>| unsafe {
                *to.get() += *first.get() + *second.get() + *from.get() + 1;
            };
            self.engine.op("step").read(a).read(b).read(x).write(y).push(body).expect("a push");
        }
    }

    #[inline(never)]
    fn push_four(&self) {
        let [a, b, x, y] = &self.values;
        for _ in 0..self.operations {
            self.engine.op("step").run((a, b, x, Write(y)), |(a, b, x, y)| *y += *a + *b + *x + 1).expect("a push");
        }
    }

    pub fn check(&self) {
        // SAFETY: the naive engine has run everything.
        let by_address = unsafe { *self.bare[3].1.get() };
        let by_type = *self.values[3].read().expect("no failures");
        assert_eq!(by_address.max(by_type), 2 * self.operations as u64);
    }
}
