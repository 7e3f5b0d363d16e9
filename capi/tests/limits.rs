//! Tokens and deadlines: every way of a push takes them, what is skipped has its code, and every
//! deleter runs once.

mod common;

use common::*;
use seriatim_c::*;
use std::ffi::{c_int, c_void};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicPtr, Ordering::SeqCst};
use std::time::Duration;

const DELETE: SeriatimDeleter = Some(count_deletion);

/// A token that is deleted at the end of the test.
struct Token(*mut SeriatimToken);

impl Token {
    fn new() -> Token {
        let mut token = null_mut();
        // SAFETY: there is a place for it.
        ok(unsafe { seriatim_token_new(&mut token) });
        Token(token)
    }

    fn cancel(&self) {
        // SAFETY: the token lives.
        ok(unsafe { seriatim_token_cancel(self.0) });
    }

    fn is_cancelled(&self) -> u32 {
        // SAFETY: as above.
        unsafe { seriatim_token_is_cancelled(self.0) }
    }

    fn limits(&self) -> SeriatimLimits {
        SeriatimLimits { token: self.0, start_within: 0 }
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        // SAFETY: it is not used again.
        ok(unsafe { seriatim_token_delete(self.0) });
    }
}

/// An operation that holds a variable until its completion is used.
fn hold(engine: &Engine, variable: &SeriatimVariable, probe: &Probe) -> *mut SeriatimCompletion {
    ok(engine.push_async(&writing(variable), Some(keep), probe));
    probe.take_completion()
}

fn complete(completion: *mut SeriatimCompletion) {
    // SAFETY: it was given to a function, and is used once.
    ok(unsafe { seriatim_completion_complete(completion) });
}

#[track_caller]
fn wait_refused(engine: &Engine, variable: SeriatimVariable, status: Status, text: &str) {
    // SAFETY: the engine lives.
    refused(unsafe { seriatim_wait_for_variable(engine.0, variable) }, status, text);
}

/// A push of a counting function on a variable, with limits. What it is given lives, and probes
/// outlive engines.
type Way = fn(&Engine, &SeriatimOperation, &SeriatimLimits, &Probe) -> Status;

const WAYS: [Way; 4] = [
    |engine, operation, limits, probe| {
        // SAFETY: as `Way` says.
        unsafe { seriatim_push_limited(engine.0, operation, limits, Some(count_run), probe.argument(), DELETE) }
    },
    |engine, operation, limits, probe| {
        let argument = probe.argument();
        // SAFETY: as above.
        unsafe { seriatim_push_async_limited(engine.0, operation, limits, Some(complete_at_once), argument, DELETE) }
    },
    |engine, operation, limits, probe| {
        let mut operator = null_mut();
        // SAFETY: as above.
        unsafe {
            ok(seriatim_operator_new(engine.0, operation, Some(count_run), probe.argument(), DELETE, &mut operator));
            let status = seriatim_operator_push_limited(engine.0, operator, ANYWHERE, 0, limits);
            ok(seriatim_operator_delete(operator));
            status
        }
    },
    |engine, operation, limits, probe| {
        let (mut capture, mut graph) = (null_mut(), null_mut());
        // SAFETY: as above.
        unsafe {
            ok(seriatim_capture_begin(engine.0, null(), &mut capture));
            ok(seriatim_capture_push(capture, operation, Some(count_run), probe.argument(), DELETE));
            ok(seriatim_capture_end(capture, &mut graph));
            let status = seriatim_graph_replay_limited(graph, 0, limits);
            ok(seriatim_graph_delete(graph));
            status
        }
    },
];

#[test]
fn every_way_starts_within_its_limits_and_not_beyond_them() {
    for kind in KINDS {
        for way in WAYS {
            let (holder, within, cancelled, late) = <(Probe, Probe, Probe, Probe)>::default();
            let engine = Engine::of_kind(kind);
            let (variable, token) = (engine.variable(), Token::new());
            let operation = SeriatimOperation { name: c"limited".as_ptr(), ..writing(&variable) };
            let push = |limits: &SeriatimLimits, probe: &Probe| ok(way(&engine, &operation, limits, probe));
            let long = Duration::from_secs(600).as_nanos() as u64;
            push(&SeriatimLimits::default(), &within);
            ok(engine.wait());
            assert_eq!(within.runs.swap(0, SeqCst), 1);
            push(&SeriatimLimits { start_within: long, ..token.limits() }, &within);
            push(&SeriatimLimits { start_within: u64::MAX, ..token.limits() }, &within);
            ok(engine.wait());
            assert_eq!(within.runs.load(SeqCst), 2, "{kind}");
            // Behind another operation, when the token is cancelled.
            let completion = hold(&engine, &variable, &holder);
            push(&token.limits(), &cancelled);
            token.cancel();
            complete(completion);
            wait_refused(&engine, variable, Status::Cancelled, "operation 'limited' failed: its token was cancelled");
            push(&token.limits(), &cancelled);
            wait_refused(&engine, variable, Status::Cancelled, "limited");
            // And when its time is up.
            let completion = hold(&engine, &variable, &holder);
            push(&SeriatimLimits { token: null(), start_within: 1_000 }, &late);
            std::thread::sleep(Duration::from_millis(1));
            complete(completion);
            wait_refused(&engine, variable, Status::DeadlineExceeded, "after its deadline");
            // Nothing is left of it.
            ok(engine.wait());
            drop(engine);
            within.expect(2, 3);
            cancelled.expect(0, 2);
            late.expect(0, 1);
        }
    }
}

#[test]
fn what_depends_on_a_cancelled_operation_is_skipped_until_a_wait_takes_the_error() {
    for kind in KINDS {
        let (first, behind) = <(Probe, Probe)>::default();
        let engine = Engine::of_kind(kind);
        let (x, y, token) = (engine.variable(), engine.variable(), Token::new());
        token.cancel();
        let load = SeriatimOperation { name: c"load".as_ptr(), ..writing(&x) };
        let uses = SeriatimOperation { writes: &y, write_count: 1, ..reading(&x) };
        // SAFETY: all of it lives, and the probes outlive the engine.
        ok(unsafe {
            let limits = token.limits();
            seriatim_push_limited(engine.0, &load, &limits, Some(count_run), first.argument(), DELETE)
        });
        ok(engine.push(&uses, Some(count_run), &behind));
        wait_refused(&engine, y, Status::Cancelled, "load");
        ok(engine.push(&uses, Some(count_run), &behind));
        ok(engine.wait());
        drop(engine);
        first.expect(0, 1);
        behind.expect(1, 2);
    }
}

/// A function that asks whether to go on, and says so.
#[derive(Default)]
struct Search {
    token: AtomicPtr<SeriatimToken>,
    started: AtomicPtr<c_void>,
}

unsafe extern "C-unwind" fn search(argument: *mut c_void, _: *const SeriatimRunContext) -> c_int {
    // SAFETY: pushed with a `Search` that outlives the engine, as its token does.
    let search = unsafe { &*argument.cast::<Search>() };
    search.started.store(argument, SeqCst);
    // SAFETY: as above.
    while unsafe { seriatim_token_is_cancelled(search.token.load(SeqCst)) } == 0 {
        std::thread::yield_now();
    }
    0
}

#[test]
fn what_has_started_goes_on_and_may_ask() {
    let (token, wanted) = (Token::new(), Search::default());
    wanted.token.store(token.0, SeqCst);
    let engine = Engine::with(&[("ENGINE", "per-device"), ("CPU_WORKERS", "1"), ("WAITERS_HELP", "off")]);
    let variable = engine.variable();
    // SAFETY: the argument outlives the engine.
    ok(unsafe {
        let argument = std::ptr::from_ref(&wanted).cast_mut().cast();
        seriatim_push_limited(engine.0, &writing(&variable), &token.limits(), Some(search), argument, None)
    });
    while wanted.started.load(SeqCst).is_null() {
        std::thread::yield_now();
    }
    assert_eq!(token.is_cancelled(), 0);
    token.cancel();
    token.cancel();
    assert_eq!(token.is_cancelled(), 1);
    ok(engine.wait());
}

#[test]
fn a_deleted_token_is_still_that_of_what_was_pushed_with_it() {
    for kind in KINDS {
        let (holder, probe) = <(Probe, Probe)>::default();
        let engine = Engine::of_kind(kind);
        let (variable, token) = (engine.variable(), Token::new());
        let completion = hold(&engine, &variable, &holder);
        // SAFETY: all of it lives, and the probes outlive the engine.
        ok(unsafe {
            let limits = token.limits();
            seriatim_push_limited(engine.0, &writing(&variable), &limits, Some(count_run), probe.argument(), DELETE)
        });
        token.cancel();
        drop(token);
        complete(completion);
        wait_refused(&engine, variable, Status::Cancelled, "its token was cancelled");
        drop(engine);
        probe.expect(0, 1);
    }
}

#[test]
fn pipelines_have_limits_for_each_operation() {
    for kind in KINDS {
        let probe = Probe::default();
        let engine = Engine::of_kind(kind);
        let (variable, token) = (engine.variable(), Token::new());
        let (mut capture, mut pipeline) = (null_mut(), null_mut());
        // SAFETY: the handles live until they are deleted, and the probe outlives the engine.
        unsafe {
            ok(seriatim_capture_begin(engine.0, null(), &mut capture));
            for _ in 0..2 {
                let operation = writing(&variable);
                ok(seriatim_capture_push(capture, &operation, Some(count_run), probe.argument(), DELETE));
            }
            ok(seriatim_capture_end_pipeline(capture, &mut pipeline));
            ok(seriatim_pipeline_replay_limited(pipeline, &token.limits()));
            ok(engine.wait());
            token.cancel();
            ok(seriatim_pipeline_replay_limited(pipeline, &token.limits()));
            wait_refused(&engine, variable, Status::Cancelled, "its token was cancelled");
            ok(seriatim_pipeline_delete(pipeline));
        }
        drop(engine);
        probe.expect(2, 2);
    }
}

#[test]
fn null_pointers_are_refused_and_their_deleters_run() {
    let probe = Probe::default();
    let engine = Engine::of_kind("naive");
    let (variable, limits) = (engine.variable(), SeriatimLimits::default());
    let operation = writing(&variable);
    // SAFETY: null pointers are refused, and all else lives.
    unsafe {
        let argument = probe.argument();
        refused(seriatim_token_new(null_mut()), Status::NullPointer, "out");
        refused(seriatim_token_cancel(null()), Status::NullPointer, "token");
        assert_eq!(seriatim_token_is_cancelled(null()), 0);
        assert!(last_error().contains("token"));
        ok(seriatim_token_delete(null_mut()));
        let pushed = [
            seriatim_push_limited(engine.0, &operation, null(), Some(count_run), argument, DELETE),
            seriatim_push_limited(engine.0, null(), &limits, Some(count_run), argument, DELETE),
            seriatim_push_limited(null(), &operation, &limits, Some(count_run), argument, DELETE),
            seriatim_push_limited(engine.0, &operation, &limits, None, argument, DELETE),
            seriatim_push_async_limited(engine.0, &operation, null(), Some(complete_at_once), argument, DELETE),
            seriatim_push_async_limited(engine.0, &operation, &limits, None, argument, DELETE),
            seriatim_operator_push_limited(engine.0, null(), ANYWHERE, 0, &limits),
            seriatim_graph_replay_limited(null(), 0, &limits),
            seriatim_pipeline_replay_limited(null_mut(), &limits),
        ];
        assert_eq!(pushed, [Status::NullPointer; 9]);
    }
    ok(engine.wait());
    probe.expect(0, 6);
}
