//! The numbers of an engine, and names of variables.

mod common;

use common::*;
use seriatim_c::*;
use std::mem::{offset_of, size_of};
use std::ptr::null;

fn stats(engine: &Engine) -> SeriatimStats {
    let mut stats = SeriatimStats { size: size_of::<SeriatimStats>() as u64, ..SeriatimStats::default() };
    // SAFETY: the handle lives, and the place is as large as it says.
    ok(unsafe { seriatim_stats(engine.0, &mut stats) });
    assert_eq!(stats.size, size_of::<SeriatimStats>() as u64);
    stats
}

#[test]
fn what_is_in_flight_and_what_workers_do_is_told() {
    for kind in KINDS {
        let engine = Engine::of_kind(kind);
        let (variable, held, behind) = (engine.variable(), Probe::default(), Probe::default());
        ok(engine.push_async(&writing(&variable), Some(keep), &held));
        let completion = held.take_completion();
        ok(engine.push(&writing(&variable), Some(count_run), &behind));
        let now = stats(&engine);
        assert_eq!((now.in_flight, now.ready), (2, 0), "{now:?}");
        // SAFETY: the operation has kept it, and it is used once.
        ok(unsafe { seriatim_completion_complete(completion) });
        ok(engine.wait());
        let over = stats(&engine);
        assert_eq!((over.in_flight, over.running, over.pushed), (0, 0, over.completed), "{over:?}");
        assert!(over.completed >= 2 && over.time > now.time && over.block_bytes >= 128 * over.blocks, "{over:?}");
        assert!(over.wake_ups <= over.parks && over.threads >= 1 && over.variables >= 1, "{over:?}");

        let mut sum = 0;
        for worker in 0..over.workers as usize {
            let size = size_of::<SeriatimWorkerStats>() as u64;
            let mut own = SeriatimWorkerStats { size, ..SeriatimWorkerStats::default() };
            // SAFETY: the handle lives, and the place is as large as it says.
            ok(unsafe { seriatim_worker_stats(engine.0, worker, &mut own) });
            assert!(own.busy + own.idle >= over.time / 2 && own.wake_ups <= own.parks, "{own:?}");
            sum += own.parks;
        }
        assert!(sum >= over.parks && (over.workers == 0) == (kind == "naive"), "{over:?}");
        let mut none = SeriatimWorkerStats { size: size_of::<SeriatimWorkerStats>() as u64, ..Default::default() };
        // SAFETY: as above.
        let status = unsafe { seriatim_worker_stats(engine.0, over.workers as usize, &mut none) };
        refused(status, Status::BadArgument, "there is no worker");
    }
}

/// A program may be older than the library, or newer.
#[test]
fn a_struct_of_another_size_is_written_as_far_as_both_know_it() {
    let engine = Engine::of_kind("pooled");
    ok(engine.push(&SeriatimOperation::default(), Some(count_run), &Probe::default()));
    ok(engine.wait());
    let mut older =
        SeriatimStats { size: offset_of!(SeriatimStats, in_flight) as u64, in_flight: 7, ..Default::default() };
    // SAFETY: the handle lives, and there are as many bytes.
    ok(unsafe { seriatim_stats(engine.0, &mut older) });
    assert_eq!((older.size, older.in_flight), (offset_of!(SeriatimStats, in_flight) as u64, 7), "{older:?}");
    assert!(older.completed >= 1 && older.completed == older.pushed, "{older:?}");

    #[repr(C)]
    struct Newer {
        known: SeriatimStats,
        more: u64,
    }
    let mut newer = Newer { known: SeriatimStats::default(), more: 7 };
    newer.known.size = size_of::<Newer>() as u64;
    // SAFETY: as above; the struct begins with the known one.
    ok(unsafe { seriatim_stats(engine.0, std::ptr::from_mut(&mut newer).cast()) });
    assert_eq!((newer.known.size, newer.more), (size_of::<SeriatimStats>() as u64, 7));
    assert!(newer.known.variables == stats(&engine).variables && newer.known.completed >= 1);

    for size in [0, 7] {
        let mut none = SeriatimStats { size, ..Default::default() };
        // SAFETY: the size is looked at first.
        refused(unsafe { seriatim_stats(engine.0, &mut none) }, Status::BadArgument, "no room for itself");
        let mut none = SeriatimWorkerStats { size, ..Default::default() };
        // SAFETY: as above.
        refused(unsafe { seriatim_worker_stats(engine.0, 0, &mut none) }, Status::BadArgument, "no room for itself");
    }
}

#[test]
fn a_variable_that_is_named_has_the_name_in_errors() {
    let (engine, other) = (Engine::of_kind("per-device"), Engine::of_kind("naive"));
    let variable = engine.variable();
    // SAFETY: the handles live, and the texts end with a zero byte.
    unsafe {
        refused(seriatim_variable_set_name(engine.0, variable, null()), Status::NullPointer, "name is null");
        let bytes = c"\xff".as_ptr();
        refused(seriatim_variable_set_name(engine.0, variable, bytes), Status::InvalidUtf8, "name");
        ok(seriatim_variable_set_name(engine.0, variable, c"weights".as_ptr()));
        refused(seriatim_wait_for_variable(other.0, variable), Status::ForeignVariable, "'weights'");
        let status = seriatim_variable_set_name(other.0, variable, c"theirs".as_ptr());
        refused(status, Status::ForeignVariable, "'weights'");
    }
}
