//! What settings are taken from, and what is said where they are not followed.

use crate::common::*;
use seriatim::{Builder, Engine, ErrorKind, IdlePolicy, Kind};

#[test]
fn a_builder_begins_with_the_environment_and_is_overridden_by_its_calls() {
    let mut process = child("the builder follows the environment");
    process.env("SERIATIM_ENGINE", "pooled").env("SERIATIM_CPU_WORKERS", "3").env("SERIATIM_IDLE", "park");
    run_child_well(&mut process);
}

#[test]
fn a_bad_value_is_an_error_that_names_variable_and_value() {
    for (variable, value, valid) in [
        ("SERIATIM_ENGINE", "sideways", "naive, pooled, per-device"),
        ("SERIATIM_CPU_WORKERS", "0", "1 to 1024"),
        ("SERIATIM_IDLE", "doze", "spin, spin-then-park, park"),
        ("SERIATIM_WORKERS", "7", "SERIATIM_CPU_WORKERS"),
    ] {
        let said = run_child_well(child("the builder says what is wrong").env(variable, value));
        for part in ["BadSetting", variable, valid] {
            assert!(said.contains(part), "{said}");
        }
        assert!(said.contains(value) || variable == "SERIATIM_WORKERS", "{said}");
    }
}

/// A name that is not text is of no setting.
#[test]
fn a_variable_of_the_engine_s_whose_name_is_not_text_is_refused() {
    use std::os::unix::ffi::OsStrExt;
    let variable = std::ffi::OsStr::from_bytes(b"SERIATIM_BOUND\xff");
    let said = run_child_well(child("the builder says what is wrong").env(variable, "7"));
    assert!(said.contains("BadSetting") && said.contains("SERIATIM_BOUND"), "{said}");
}

#[test]
fn gpu_workers_that_a_build_cannot_have_are_a_warning_and_the_default_is_none() {
    let build = |builder: Builder| builder.pin(false).build().unwrap().warnings();
    assert_eq!(build(Engine::builder()), [""; 0]);
    for warnings in [build(Engine::builder().gpu_workers(2)), build(Engine::builder().set("GPU_WORKERS", "3").unwrap())]
    {
        // A build for CUDA knows of GPUs when one is used, and not before.
        assert_eq!(warnings.len(), usize::from(!cfg!(feature = "cuda")), "{warnings:?}");
        assert!(warnings.iter().all(|warning| warning.contains("without GPUs")), "{warnings:?}");
    }
}

/// A library leaves the affinity of its callers alone unless it is asked to change it.
#[test]
fn callers_are_not_moved_unless_that_is_asked_for() {
    let moves = |builder: Builder| builder.build().unwrap().settings().move_callers;
    assert!(!moves(Engine::builder()));
    assert!(!moves(Engine::builder().waiters_help(true).inline_below(std::time::Duration::from_micros(1))));
    assert!(moves(Engine::builder().move_callers(true)));
}

pub fn carry_out(task: &str) -> bool {
    match task {
        "the builder follows the environment" => {
            let engine = Builder::from_env().unwrap().cpu_workers(2).build().unwrap();
            let settings = engine.settings();
            assert_eq!((settings.kind, settings.cpu_workers, settings.idle), (Kind::Pooled, 2, IdlePolicy::Park));
            assert_eq!(Engine::from_env().unwrap().settings().cpu_workers, 3);
            assert_eq!(Engine::new().unwrap().settings().kind, Kind::PerDevice, "only what asks for it");
        }
        "the builder says what is wrong" => {
            let error = Builder::from_env().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::BadSetting);
            println!("{error:?}");
        }
        _ => return false,
    }
    true
}
