//! The floors: what bare calls of the driver take, in the same run.

use super::micros;
use crate::lab::Lab;
use crate::measure::Contestant;
use crate::record::{Question, Table};
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::time::Instant;

/// One of the calls of a loop, by its number.
type Call<'a> = dyn Fn(usize) -> Result<(), String> + 'a;

/// A loop of launches; the same with an event record each, with a wait across streams each, with a
/// query each; and a graph of the driver.
pub fn calls(lab: &Lab, table: &mut Table) -> Result<(), String> {
    let (count, driver) = (lab.count(2000), &lab.driver);
    let (streams, events, word) = (lab.streams(2)?, lab.events(2)?, lab.bare_word()?);
    let each = |name: &'static str, call: &Call<'_>| -> Result<f64, String> {
        let began = Instant::now();
        for at in 0..count {
            call(at).map_err(|why| format!("{name}: {why}"))?;
        }
        // What was queued on one stream waits for the other, if the calls say so.
        driver.synchronize(streams[0])?;
        driver.synchronize(streams[1])?;
        let took = micros(began, count);
        lab.settle_bare([&word])?;
        Ok(took)
    };
    let launch = |at: usize| lab.launch(streams[0], &word, &[], at as u64, 0);
    let with_record = |at: usize| {
        launch(at)?;
        driver.record(events[0], streams[0])
    };
    let with_wait = |at: usize| {
        let (own, other) = (at % 2, (at + 1) % 2);
        lab.launch(streams[own], &word, &[], at as u64, 0)?;
        driver.record(events[own], streams[own])?;
        driver.wait(streams[other], events[own])
    };
    let with_query = |at: usize| {
        launch(at)?;
        driver.reached(events[0]).map(|_| ())
    };
    let rows: [(&'static str, &Call<'_>); 4] = [
        ("floor: a loop of launches on one stream", &launch),
        ("floor: with an event record each", &with_record),
        ("floor: on two streams in turn, with a record and a wait each", &with_wait),
        ("floor: with a query of an event each", &with_query),
    ];
    for (text, call) in rows {
        let run: Contestant<'_> = Box::new(move || each(text, call));
        table.measure(lab, Question::new(text, "µs a launch"), run, None)?;
    }
    Ok(())
}

unsafe extern "C" fn set(flag: *mut c_void) {
    // SAFETY: it is the flag of `call_back`, which waits for it.
    unsafe { (*flag.cast::<AtomicBool>()).store(true, Release) };
}

/// From the call that queues a function of the host until it was called.
pub fn call_back(lab: &Lab, table: &mut Table) -> Result<(), String> {
    let (count, stream) = (lab.count(200), lab.streams(1)?[0]);
    let run: Contestant<'_> = Box::new(move || {
        let began = Instant::now();
        for _ in 0..count {
            let flag = AtomicBool::new(false);
            // SAFETY: the flag outlives the call, which is waited for, also after an error.
            unsafe { lab.driver.call_back(stream, set, (&raw const flag).cast_mut().cast()) }?;
            while !flag.load(Acquire) {
                if lab.has_no_time() {
                    // The stand-in runs what is queued from inside its calls.
                    lab.driver.is_idle(stream)?;
                }
                std::hint::spin_loop();
            }
        }
        lab.driver.synchronize(stream)?;
        Ok(micros(began, count))
    });
    table.measure(lab, Question::new("floor: a host function's way back", "µs"), run, None)
}

/// Copies of 64 MiB each way, alone and both at once.
pub fn copies(lab: &Lab, table: &mut Table) -> Result<(), String> {
    let bytes = if lab.quick { 1 << 12 } else { 64 << 20 };
    let driver = &lab.driver;
    let (streams, there, back) = (lab.streams(2)?, driver.allocate(bytes)?, driver.allocate(bytes)?);
    let (from, to) = (driver.allocate_pinned(bytes)?.cast::<u8>(), driver.allocate_pinned(bytes)?.cast::<u8>());
    let (host_from, host_to) = (from.expose_provenance(), to.expose_provenance());
    let round = std::cell::Cell::new(0u8);
    // SAFETY: the memory is of that size, and of this function alone, which waits for the streams
    // before it looks at it.
    unsafe { driver.zero(streams[0], back, bytes) }?;
    driver.synchronize(streams[0])?;
    let run = |into: bool, out: bool| -> Result<f64, String> {
        round.set(round.get().wrapping_add(1));
        let (from, to) = (
            std::ptr::with_exposed_provenance_mut::<u8>(host_from),
            std::ptr::with_exposed_provenance_mut::<u8>(host_to),
        );
        // SAFETY: as above.
        unsafe {
            from.write_bytes(round.get(), bytes);
            to.write_bytes(0xEE, bytes);
        }
        let began = Instant::now();
        if into {
            // SAFETY: as above.
            unsafe { driver.copy_in(streams[0], from.cast(), there, bytes) }?;
        }
        if out {
            // SAFETY: as above.
            unsafe { driver.copy_out(streams[1], back, to.cast(), bytes) }?;
        }
        driver.synchronize(streams[0])?;
        driver.synchronize(streams[1])?;
        let took = began.elapsed().as_secs_f64();
        if into {
            // What has gone there comes back.
            // SAFETY: as above.
            unsafe { driver.copy_out(streams[0], there, to.cast(), bytes) }?;
            driver.synchronize(streams[0])?;
        }
        let expected = if into { round.get() } else { 0 };
        // SAFETY: as above.
        let found = unsafe { std::slice::from_raw_parts(to, bytes) };
        if found.iter().step_by(509).chain(found.last()).any(|byte| *byte != expected) {
            return Err("a copy has brought something else".to_owned());
        }
        Ok(bytes as f64 * (usize::from(into) + usize::from(out)) as f64 / took / 1e9)
    };
    let run = &run;
    for (text, into, out) in [
        ("floor: a copy to the device", true, false),
        ("floor: a copy from the device", false, true),
        ("floor: both at once", true, true),
    ] {
        table.measure(lab, Question::new(text, "GB/s"), Box::new(move || run(into, out)), None)?;
    }
    // SAFETY: as above; nobody uses them any more.
    unsafe { driver.free(there) }?;
    // SAFETY: as above.
    unsafe { driver.free(back) }
}
