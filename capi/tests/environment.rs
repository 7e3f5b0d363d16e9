//! Engines made from the environment: each test runs itself again in a process with the environment
//! that it is about.

#![cfg(not(miri))]

mod common;

use common::*;
use seriatim_c::*;
use std::ffi::{c_int, c_void};
use std::process::Command;
use std::ptr::null_mut;

const CHILD: &str = "CHILD_OF_SERIATIM_TEST";

/// Whether this is the child; otherwise runs it.
fn is_child(test: &str, variables: &[(&str, &str)]) -> bool {
    if std::env::var_os(CHILD).is_some() {
        return true;
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    for (key, _) in std::env::vars_os() {
        if key.to_string_lossy().starts_with("SERIATIM_") {
            command.env_remove(key);
        }
    }
    let output = command
        .args(["--exact", test])
        .env(CHILD, "1")
        .envs(variables.iter().copied())
        .output()
        .expect("the test runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    false
}

/// Fails unless it runs on a thread of the engine, which lets it use as many threads as the
/// environment says.
unsafe extern "C-unwind" fn is_on_a_worker(_: *mut c_void, run: *const SeriatimRunContext) -> c_int {
    // SAFETY: the run context is this call's.
    let (worker, threads) = unsafe { (seriatim_run_context_worker(run), seriatim_run_context_nested_threads(run)) };
    c_int::from(worker < 0 || threads != 3)
}

#[test]
fn the_environment_is_asked() {
    if !is_child("the_environment_is_asked", &[("SERIATIM_ENGINE", "naive"), ("SERIATIM_NESTED_THREADS", "3")]) {
        return;
    }
    let probe = Probe::default();
    let (mut engine, mut first, mut second) = (null_mut(), null_mut(), null_mut());
    // SAFETY: the engines live, and handles are deleted once.
    unsafe {
        ok(seriatim_engine_from_environment(&mut engine));
        let engine = Engine(engine);
        // The naive engine runs an operation inside its push.
        ok(engine.push(&SeriatimOperation::default(), Some(count_run), &probe));
        probe.expect(1, 1);

        // A builder begins with the environment, and overrides it.
        let mut builder = null_mut();
        ok(seriatim_builder_from_environment(&mut builder));
        let own = SeriatimSetting { key: c"ENGINE".as_ptr(), value: c"pooled".as_ptr() };
        ok(seriatim_builder_set(builder, &own, 1));
        let mut pooled = null_mut();
        ok(seriatim_builder_build(builder, &mut pooled));
        let pooled = Engine(pooled);
        ok(seriatim_push(pooled.0, &SeriatimOperation::default(), Some(is_on_a_worker), null_mut(), None));
        ok(seriatim_wait_for_all_timeout(pooled.0, 60_000_000_000));

        ok(seriatim_engine_global(&mut first));
        ok(seriatim_engine_global(&mut second));
        let (first, second) = (Engine(first), Engine(second));
        let variable = first.variable();
        drop(first);
        ok(second.push(&writing(&variable), Some(count_run), &probe));
        ok(second.wait());
    }
    probe.expect(2, 2);
}

#[test]
fn an_unknown_variable_is_refused() {
    if !is_child("an_unknown_variable_is_refused", &[("SERIATIM_WORKERS", "3")]) {
        return;
    }
    let mut engine = null_mut();
    // SAFETY: the place may be written to.
    unsafe {
        refused(seriatim_engine_from_environment(&mut engine), Status::BadSetting, "SERIATIM_CPU_WORKERS");
        assert!(engine.is_null());
        refused(seriatim_engine_global(&mut engine), Status::BadSetting, "SERIATIM_WORKERS");
        assert!(engine.is_null());
    }
}
