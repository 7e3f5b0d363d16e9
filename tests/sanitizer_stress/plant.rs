//! Mistakes that a program could make with the engine, one for each thing that a sanitizer is to
//! see. They show that a clean run of the sanitizers means something.

use crate::devices;
use crate::world::Guarded;
use seriatim::gpu::Immediate;
use seriatim::{Completion, Context, Engine, Kind};
use std::mem::{ManuallyDrop, MaybeUninit};
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::time::{Duration, Instant};

/// Runs one mistake.
pub fn run(mistake: &str) {
    let engine = Engine::builder().kind(Kind::Pooled).cpu_workers(3).build().expect("the settings are valid");
    match mistake {
        "race" => race(&engine),
        "race-with-a-stream" => race_with_a_stream(),
        "leak" => leak(&engine),
        "use-after-free" => use_after_free(&engine),
        "uninitialised" => uninitialised(&engine),
        _ => panic!(
            "SERIATIM_PLANT is '{mistake}': there are race, race-with-a-stream, leak, use-after-free, uninitialised"
        ),
    }
    println!("ran the mistake '{mistake}'");
}

/// Operations declare that they read what they change.
fn race(engine: &Engine) {
    static INSIDE: AtomicUsize = AtomicUsize::new(0);
    let value = Box::into_raw(Box::new(0_u64)).expose_provenance();
    let x = engine.new_variable();
    for _ in 0..100 {
        let body = move |_: &seriatim::RunContext<'_>| {
            // Side by side if that can be had soon. Relaxed, so that nothing is ordered by it.
            INSIDE.fetch_add(1, Relaxed);
            for _ in 0..10_000 {
                if INSIDE.load(Relaxed) > 1 {
                    break;
                }
                std::hint::spin_loop();
            }
            // SAFETY: none, this is the mistake: only a declared write would have the value to
            // itself.
            unsafe { *std::ptr::with_exposed_provenance_mut::<u64>(value) += 1 };
            INSIDE.fetch_sub(1, Relaxed);
        };
        engine.op("changes what it reads").reads([x]).push(body).expect("the engine runs");
    }
    engine.wait_for_all().expect("nothing fails");
    // SAFETY: from the box above; nothing is in flight.
    drop(unsafe { Box::from_raw(std::ptr::with_exposed_provenance_mut::<u64>(value)) });
}

/// Work on an adopted stream changes a value, and the stream has only waited to read it: operations
/// of the device read beside it.
fn race_with_a_stream() {
    let engine = Engine::builder().gpus(Immediate::new(1)).build().expect("the settings are valid");
    let gpu = engine.device(Context::gpu(0)).expect("the device is there");
    let slot = Guarded::new(&engine);
    let stream = devices::adopted(&gpu);
    static READ: AtomicUsize = AtomicUsize::new(0);
    for round in 1..=100 {
        stream.wait_to_read(slot.variable).expect("nothing fails");
        let read = move |_: &seriatim::RunContext<'_>| {
            // SAFETY: the operation declares it.
            assert_ne!(unsafe { slot.read() }, u64::MAX);
            READ.store(round, Relaxed);
        };
        engine.op("reads").context(gpu.context()).reads([slot.variable]).push(read).expect("the engine runs");
        // Behind the reader if that can be had soon. Relaxed, so that nothing is ordered by it.
        let begin = Instant::now();
        while READ.load(Relaxed) < round && begin.elapsed() < Duration::from_millis(100) {
            std::thread::yield_now();
        }
        // SAFETY: none, this is the mistake: only `wait_to_write` would have the value to itself.
        unsafe { slot.change() };
        stream.has_read(slot.variable).expect("nothing fails");
    }
    // A reader that finds half a change fails.
    let _ = engine.wait_for_all();
    engine.stop().expect("we are not inside");
    // SAFETY: the engine is stopped.
    unsafe { slot.free() };
}

/// Operations that forget what they were given to drop.
fn leak(engine: &Engine) {
    let x = engine.new_variable();
    for number in 0..100_u64 {
        let payload = ManuallyDrop::new(Box::new([number; 16]));
        engine.op("forgets").writes([x]).push(move |_| assert_eq!(payload[3], number)).expect("the engine runs");
    }
    engine.wait_for_all().expect("nothing fails");
}

/// An operation uses a value without declaring its variable, and runs after the deletion that frees
/// the value.
fn use_after_free(engine: &Engine) {
    let slot = Guarded::new(engine);
    let gate = engine.new_variable();
    let (send, receive) = std::sync::mpsc::channel::<Completion>();
    let hold = move |_: &seriatim::RunContext<'_>, completion| send.send(completion).expect("the deleter waits for it");
    engine.op("hold").writes([gate]).push_async(hold).expect("the engine runs");
    // SAFETY: none, this is the mistake: the operation does not declare the variable that it reads.
    let late = move |_: &seriatim::RunContext<'_>| println!("{}", unsafe { slot.read() });
    engine.op("late").writes([gate]).push(late).expect("the engine runs");
    let deleter = move |_: &seriatim::RunContext<'_>| {
        // SAFETY: nothing that declares the variable can follow.
        unsafe { slot.free() };
        receive.recv().expect("the first operation sends it").complete();
    };
    engine.delete_variable(deleter, Context::cpu(0), slot.variable).expect("the engine runs");
    let _ = engine.wait_for_all();
}

/// An operation reads what none before it has written.
fn uninitialised(engine: &Engine) {
    let value: Box<MaybeUninit<u64>> = Box::new(MaybeUninit::uninit());
    let x = engine.new_variable();
    let body = move |_: &seriatim::RunContext<'_>| {
        // SAFETY: none, this is the mistake: the operation that would have written it was never
        // pushed. Volatile, so that the compiler leaves the read where it is.
        let found = unsafe { value.as_ptr().read_volatile() };
        println!("{}", if found % 2 == 0 { "even" } else { "odd" });
    };
    engine.op("reads too early").reads([x]).push(body).expect("the engine runs");
    engine.wait_for_all().expect("nothing fails");
}
