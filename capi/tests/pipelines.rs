//! Pipelines: what is captured is pushed in each replay, refusals have their codes, and every
//! deleter runs once.

mod common;

use common::*;
use seriatim_c::*;
use std::ptr::null_mut;

#[test]
fn what_is_captured_is_pushed_in_each_replay() {
    for kind in KINDS {
        let engine = Engine::of_kind(kind);
        let probes = [Probe::default(), Probe::default()];
        let variable = engine.variable();
        let operation = writing(&variable);
        let (mut capture, mut pipeline, mut length) = (null_mut(), null_mut(), 0);
        // SAFETY: the handles live until they are deleted, and the probes outlive the engine.
        unsafe {
            ok(seriatim_capture_begin(engine.0, c"two steps".as_ptr(), &mut capture));
            for probe in &probes {
                ok(seriatim_capture_push(capture, &operation, Some(count_run), probe.argument(), Some(count_deletion)));
            }
            ok(seriatim_capture_end_pipeline(capture, &mut pipeline));
            ok(seriatim_pipeline_length(pipeline, &mut length));
            (0..5).for_each(|_| ok(seriatim_pipeline_replay(pipeline)));
            ok(seriatim_wait_for_all(engine.0));
            assert_eq!(length, 2);
            probes.iter().for_each(|probe| probe.expect(5, 0));
            ok(seriatim_pipeline_delete(pipeline));
            ok(seriatim_wait_for_all(engine.0));
            ok(seriatim_pipeline_delete(null_mut()));
        }
        drop(engine);
        probes.iter().for_each(|probe| probe.expect(5, 1));
    }
}

#[test]
fn what_cannot_be_pushed_is_refused() {
    let engine = Engine::of_kind("pooled");
    let (mut capture, mut pipeline) = (null_mut(), null_mut());
    let mut private = SeriatimVariable::default();
    // SAFETY: the handles live until they are deleted.
    unsafe {
        ok(seriatim_capture_begin(engine.0, std::ptr::null(), &mut capture));
        ok(seriatim_capture_private_variable(capture, &mut private));
        refused(
            seriatim_capture_end_pipeline(capture, &mut pipeline),
            Status::PrivateVariable,
            "a pipeline has no private variables",
        );
        assert!(pipeline.is_null());
        refused(seriatim_pipeline_replay(null_mut()), Status::NullPointer, "pipeline");
    }
}
