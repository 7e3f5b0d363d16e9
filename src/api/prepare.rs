//! What a program does before its first push: `Engine::prepare`, by way of `src/api/control.rs`,
//! does what that push would have to do otherwise, on the thread that is to push.
//! `Engine::expect_cost` says what the engine would have to learn, on any thread. There is no state
//! here: what it says is kept in `src/engine/inline/opinion.rs`.

#![forbid(unsafe_code)]

use crate::api::engine::Engine;
use crate::api::graph::delete_own_variable;
use crate::engine::core::Core;
use crate::engine::draft::Draft;
use crate::engine::inline::cost_key::CostKey;
use crate::engine::nesting::refuse_inside;
use crate::engine::push::admission::{is_over_soon, refuse_if_stopped};
use crate::engine::push::push;
use crate::engine::request::{Claim, Request};
use crate::engine::wait::for_var;
use crate::error::{Error, ErrorKind};
use crate::operation::access::Mode;
use crate::operation::block::FLAG_BEYOND;
use crate::operation::closure::{unlearned_vtable, IntoOutcome};
use crate::operation::context::RunContext;
use crate::operation::name::Name;
use crate::operation::property::Property;
use crate::sync::thread;
use crate::worker::group::Group;
use std::sync::Arc;
use std::time::Duration;

/// How many magazines of 64 blocks a thread is given, for each class of blocks.
const MAGAZINES: [usize; 4] = [16, 16, 1, 1];
/// How many small operations are pushed, and as many large ones: more than the stock that a thread
/// begins with has blocks.
const PUSHES: usize = 128;
/// The bytes of a closure for which the pushes take a large block.
const LARGE: usize = 256;
/// The time between two looks at whether the threads are up.
const START_NAP: Duration = Duration::from_micros(20);

impl Engine {
    /// Says how long closures of this type take, so that the first of them runs where later ones
    /// do. Otherwise the engine learns it from the first four calls, and ships those.
    ///
    /// It concerns what [`inline_below`](crate::Builder::inline_below) and
    /// [`short`](crate::OperationBuilder::short) are for. Elsewhere nothing is learned, so the call
    /// has no effect. It counts like 32 measurements, or like 8 if it says that the closures are
    /// too long to run inside their push. Later calls are measured as usual, so a wrong word is
    /// corrected. That takes 33 measurements if the calls were said to take less than the limit and
    /// take twice as much or more. It takes 72 if they were said to take more and take half of it
    /// or less. One call in 14 is measured, or each of the thread's next 64 as soon as one is found
    /// on the other side of 150 ns, which is what shipping takes. So it takes some hundred calls,
    /// or else a thousand.
    ///
    /// The type is what counts, and the closure that is shown here is not called. Operators of a
    /// closure of this type are meant too. Two closures in the source are of two types, even if
    /// they read the same: have one function make those that you show and those that you push. For
    /// closures with a [`cost_key`](crate::OperationBuilder::cost_key), which asynchronous ones may
    /// have too, there is [`expect_cost_of`](Engine::expect_cost_of).
    ///
    /// Worst case: a store.
    ///
    /// ```
    /// use seriatim::{Data, Engine, Error, RunContext};
    /// use std::time::Duration;
    ///
    /// fn add(total: Data<u64>, n: u64) -> impl FnOnce(&RunContext<'_>) -> Result<(), Error> {
    ///     move |_| Ok(*total.write()? += n)
    /// }
    ///
    /// let engine = Engine::builder().inline_below(Duration::from_nanos(300)).build()?;
    /// let total = Data::new(&engine, 0);
    /// engine.prepare()?;
    /// engine.expect_cost(&add(total.clone(), 0), Duration::from_nanos(20));
    /// engine.op("first").write(&total).push(add(total.clone(), 5))?; // runs inside the push
    /// assert_eq!(*total.read()?, 5);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn expect_cost<F, R>(&self, closure: &F, takes: Duration)
    where
        F: FnOnce(&RunContext<'_>) -> R + 'static,
        R: IntoOutcome,
    {
        let _ = closure; // its type says it
        self.core().inline_policy.expect(CostKey::of_type::<F>(), takes);
    }

    /// Like [`expect_cost`](Engine::expect_cost), but for operations and operators with this
    /// [`cost_key`](crate::OperationBuilder::cost_key).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # let engine = seriatim::Engine::builder().inline_below(Duration::from_nanos(300)).build()?;
    /// let task: fn() = || ();
    /// engine.expect_cost_of(task as usize as u64, Duration::from_nanos(10));
    /// engine.op("task").cost_key(task as usize as u64).push(move |_| task())?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn expect_cost_of(&self, key: u64, takes: Duration) {
        self.core().inline_policy.expect(CostKey::given(key), takes);
    }
}

/// Brings up all threads of the engine, and gives the calling thread what it needs to push.
pub fn prepare(engine: &Engine) -> Result<(), Error> {
    let core = engine.core();
    refuse_inside(core, "prepare")?;
    for property in [Property::Normal, Property::CpuPrioritized, Property::CopyToGpu] {
        let Some(group) = core.dispatch.group(property) else { continue };
        if !group.is_started() {
            start_workers(core, group)?;
        }
        while group.is_started() && !group.is_ready() {
            thread::park_timeout(START_NAP);
        }
    }
    for (class, magazines) in MAGAZINES.into_iter().enumerate() {
        core.local().fill(class as u8, magazines);
    }
    // Makes the thread's memory in which a builder puts an operation together
    // (`src/engine/draft.rs`).
    drop(Draft::new(Name::default()));
    // Also on an engine without workers, so that no variable is made that stays.
    refuse_if_stopped(core, core.local(), &Request::named(Name::default()))?;
    let variable = engine.new_variable();
    let claim = [Claim { variable, mode: Mode::Write }];
    core.local().pusher().prepare(variable.index);
    for _ in 0..PUSHES {
        // A bound must not hold these up: with `FLAG_BEYOND` they are pushed even at the bound.
        // Without a bound they have no flag, so they take the way of all pushes.
        let flags = if core.settings.bound > 0 { FLAG_BEYOND } else { 0 };
        let request = Request { flags, ..Request::named(Name::default()) };
        // Nothing is learned of their length: keys with the same hash share what is learned.
        let nothing = |_: &RunContext<'_>| ();
        push(core, &request, &claim[..], unlearned_vtable(&nothing), nothing)?;
        // For the ring of large blocks.
        let bytes = [0_u8; LARGE];
        let large = move |_: &RunContext<'_>| _ = std::hint::black_box(&bytes);
        push(core, &request, &claim[..], unlearned_vtable(&large), large)?;
    }
    for_var::for_variable(core, variable, Mode::Read, None)?;
    let _ = delete_own_variable(core, variable, |_| ());
    core.memory.blocks.slabs.memory.check()
}

/// Brings up a group's workers, unless the engine is stopped. As in a push the engine is asked
/// before the pin and under it, and a fork is waited for (`engine/push/`).
#[cold]
fn start_workers(core: &Arc<Core>, group: &Arc<Group>) -> Result<(), Error> {
    let (local, request) = (core.local(), Request::named(Name::default()));
    loop {
        let started = refuse_if_stopped(core, local, &request).and_then(|_| {
            let _pin = local.pin();
            refuse_if_stopped(core, local, &request)?;
            core.start_group(group)
        });
        match started {
            Err(error) if error.kind() == ErrorKind::Stopped && is_over_soon(core) => thread::yield_now(),
            started => return started,
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use crate::engine::inline::cost_key::CostKey;
    use crate::{Engine, Kind};
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::sync::Arc;
    use std::time::Duration;

    /// Keys of all hashes: none of them is known by what `prepare` has pushed.
    #[test]
    fn prepare_teaches_nothing_of_the_programs_closures() {
        let mut keys: Vec<u64> = Vec::new();
        for key in 0..100_000 {
            if keys.iter().all(|other| CostKey::given(*other) != CostKey::given(key)) {
                keys.push(key);
            }
        }
        assert_eq!(keys.len(), 512);
        let engine = Engine::builder().kind(Kind::PerDevice).cpu_workers(1).pin(false).waiters_help(false);
        let engine = engine.inline_below(Duration::from_millis(1)).build().unwrap();
        engine.prepare().unwrap();
        let variable = engine.new_variable();
        let inside = Arc::new(AtomicUsize::new(0));
        for key in keys {
            let inside = Arc::clone(&inside);
            let first =
                move |run: &crate::RunContext<'_>| _ = inside.fetch_add(usize::from(run.worker().is_none()), SeqCst);
            engine.op("first").write(variable).cost_key(key).push(first).unwrap();
            engine.wait_for_var(variable).unwrap();
        }
        assert_eq!(inside.load(SeqCst), 0, "first calls run inside their pushes");
    }
}
