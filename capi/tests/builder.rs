//! Builders: settings from several places, and the hook for errors that nobody has waited for.

mod common;

use common::*;
use seriatim_c::*;
use std::ffi::{c_char, c_void, CStr};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::Mutex;

/// What a hook was told, and how often it was deleted.
#[derive(Default)]
struct Told {
    errors: Mutex<Vec<(Status, String, String)>>,
    deletions: AtomicU32,
}

impl Told {
    fn argument(&self) -> *mut c_void {
        std::ptr::from_ref(self).cast_mut().cast()
    }
}

unsafe extern "C-unwind" fn tell(argument: *mut c_void, status: Status, operation: *const c_char, text: *const c_char) {
    // SAFETY: chosen with a `Told` that outlives the engine; the texts are valid until this
    // returns.
    let (told, operation, text) = unsafe {
        let operation = if operation.is_null() { c"none" } else { CStr::from_ptr(operation) };
        (&*argument.cast::<Told>(), operation, CStr::from_ptr(text))
    };
    let [operation, text] = [operation, text].map(|text| text.to_str().unwrap().to_owned());
    told.errors.lock().unwrap().push((status, operation, text));
}

unsafe extern "C-unwind" fn tell_and_unwind(_: *mut c_void, _: Status, _: *const c_char, _: *const c_char) {
    panic!("on purpose");
}

unsafe extern "C" fn delete_told(argument: *mut c_void) {
    // SAFETY: as for `tell`.
    unsafe { &*argument.cast::<Told>() }.deletions.fetch_add(1, SeqCst);
}

fn builder() -> *mut SeriatimBuilder {
    let mut builder = null_mut();
    // SAFETY: the place may be written to.
    ok(unsafe { seriatim_builder_new(&mut builder) });
    builder
}

fn setting(key: &'static CStr, value: &'static CStr) -> SeriatimSetting {
    SeriatimSetting { key: key.as_ptr(), value: value.as_ptr() }
}

/// The engine of a builder that is used up.
fn build(builder: *mut SeriatimBuilder) -> Engine {
    let mut engine = null_mut();
    // SAFETY: a live handle, not used again.
    ok(unsafe { seriatim_builder_build(builder, &mut engine) });
    Engine(engine)
}

#[test]
fn errors_that_nobody_waited_for_are_told_once_when_the_engine_ends() {
    for kind in [c"naive", c"pooled", c"per-device"] {
        let told = Told::default();
        let builder = builder();
        // SAFETY: the builder lives, and the texts are static.
        unsafe {
            ok(seriatim_builder_set(builder, [setting(c"ENGINE", kind), setting(c"PIN", c"off")].as_ptr(), 2));
            ok(seriatim_builder_on_error(builder, Some(tell), told.argument(), Some(delete_told)));
        }
        let engine = build(builder);
        let (x, y) = (engine.variable(), engine.variable());
        engine.mark(&x);
        // SAFETY: the engine lives.
        refused(unsafe { seriatim_wait_for_variable(engine.0, x) }, Status::OperationFailed, "as it should");
        let named = SeriatimOperation { name: c"nobody waits".as_ptr(), ..writing(&y) };
        // SAFETY: the function does not use its argument.
        ok(unsafe { seriatim_push(engine.0, &named, Some(unwind), null_mut(), None) });
        // SAFETY: the engine lives.
        ok(unsafe { seriatim_engine_stop(engine.0) });
        assert!(told.errors.lock().unwrap().is_empty() && told.deletions.load(SeqCst) == 0);
        drop(engine);
        let errors = told.errors.lock().unwrap();
        let [(Status::OperationPanicked, operation, text)] = &errors[..] else { panic!("{errors:?}") };
        assert!(operation == "nobody waits" && text.contains("on purpose"), "{errors:?}");
        assert_eq!(told.deletions.load(SeqCst), 1);
    }
}

#[test]
fn a_hook_may_unwind_and_be_replaced() {
    let (first, second) = (Told::default(), Told::default());
    let builder = builder();
    // SAFETY: the builder lives.
    unsafe {
        ok(seriatim_builder_on_error(builder, Some(tell), first.argument(), Some(delete_told)));
        let (argument, delete): (_, SeriatimDeleter) = (second.argument(), Some(delete_told));
        ok(seriatim_builder_on_error(builder, Some(tell_and_unwind), argument, delete));
        assert_eq!(first.deletions.load(SeqCst), 1);
    }
    let engine = build(builder);
    engine.mark(&engine.variable());
    drop(engine);
    assert!(first.errors.lock().unwrap().is_empty());
    assert_eq!((first.deletions.load(SeqCst), second.deletions.load(SeqCst)), (1, 1));
}

#[test]
fn what_is_wrong_is_refused_and_changes_nothing() {
    let told = Told::default();
    let builder = builder();
    let mut engine = null_mut();
    // SAFETY: the builder lives until it is built, null pointers are what is tested, and texts are
    // static.
    unsafe {
        ok(seriatim_builder_set(builder, [setting(c"ENGINE", c"naive")].as_ptr(), 1));
        let settings = [setting(c"ENGINE", c"pooled"), setting(c"BOUND", c"many")];
        refused(seriatim_builder_set(builder, settings.as_ptr(), 2), Status::BadSetting, "a whole number");
        refused(seriatim_builder_set(builder, null(), 1), Status::NullPointer, "settings");
        refused(seriatim_builder_set(null_mut(), null(), 0), Status::NullPointer, "builder");
        let (argument, delete): (_, SeriatimDeleter) = (told.argument(), Some(delete_told));
        refused(seriatim_builder_on_error(builder, None, argument, delete), Status::NullPointer, "hook");
        refused(seriatim_builder_on_error(null_mut(), Some(tell), argument, delete), Status::NullPointer, "builder");
        assert_eq!(told.deletions.load(SeqCst), 2);
        refused(seriatim_builder_new(null_mut()), Status::NullPointer, "out");
        refused(seriatim_builder_from_environment(null_mut()), Status::NullPointer, "out");
        refused(seriatim_builder_build(null_mut(), &mut engine), Status::NullPointer, "builder");
        ok(seriatim_builder_delete(null_mut()));

        // It is still what it was: naive, which runs an operation inside its push.
        let probe = Probe::default();
        let engine = build(builder);
        ok(engine.push(&SeriatimOperation::default(), Some(count_run), &probe));
        probe.expect(1, 1);
    }
    let given_up = self::builder();
    // SAFETY: a live handle, not used again.
    unsafe {
        ok(seriatim_builder_on_error(given_up, Some(tell), told.argument(), Some(delete_told)));
        ok(seriatim_builder_delete(given_up));
    }
    assert_eq!(told.deletions.load(SeqCst), 3);
}

#[test]
fn every_setting_can_be_read_and_set_to_what_was_read() {
    let values = [
        ("ENGINE", "pooled"),
        ("CPU_WORKERS", "2"),
        ("PIN", "off"),
        ("CORES", "0,2,3"),
        ("IDLE", "park"),
        ("BOUND", "7"),
        ("WHEN_FULL", "would-block"),
        ("WAITERS_HELP", "off"),
        ("INLINE_BELOW", "300"),
        ("NESTED_THREADS", "5"),
    ];
    let engine = Engine::with(&values);
    let read = |key: &str| {
        let (key, mut text) = (std::ffi::CString::new(key).unwrap(), null_mut());
        // SAFETY: the engine lives, and the text is freed once.
        unsafe {
            ok(seriatim_engine_setting(engine.0, key.as_ptr(), &mut text));
            let value = CStr::from_ptr(text).to_str().unwrap().to_owned();
            ok(seriatim_string_free(text));
            value
        }
    };
    values.iter().for_each(|(key, value)| assert_eq!(read(key), *value));
    let mut text = null_mut();
    // SAFETY: the engine lives.
    let unknown = unsafe { seriatim_engine_setting(engine.0, c"NONSENSE".as_ptr(), &mut text) };
    refused(unknown, Status::BadSetting, "SERIATIM_CPU_WORKERS");
    let known = last_error();
    let keys: Vec<&str> = known.split(['(', ' ', ',', ';']).filter(|word| word.starts_with("SERIATIM_")).collect();
    assert!(keys.len() > 10, "{known}");
    for key in keys {
        Engine::with(&[(key, &read(key))]);
    }
}

#[test]
fn workers_for_gpus_that_are_not_there_are_a_warning() {
    let engine = Engine::with(&[("GPU_WORKERS", "3"), ("PIN", "off")]);
    let mut text = null_mut();
    // SAFETY: the engine lives, and the text is freed once.
    unsafe {
        ok(seriatim_engine_warnings(engine.0, &mut text));
        assert!(CStr::from_ptr(text).to_str().unwrap().contains("3 workers"), "{:?}", CStr::from_ptr(text));
        ok(seriatim_string_free(text));
    }
}

/// The deleter of a hook that is replaced sets something of the same builder.
#[test]
fn the_deleter_of_a_replaced_hook_may_use_the_builder() {
    unsafe extern "C" fn set(builder: *mut c_void) {
        // SAFETY: the argument is the builder, which lives.
        ok(unsafe { seriatim_builder_set(builder.cast(), [setting(c"BOUND", c"7")].as_ptr(), 1) });
    }
    let (builder, second) = (builder(), Told::default());
    // SAFETY: the builder lives.
    unsafe {
        ok(seriatim_builder_on_error(builder, Some(tell), builder.cast(), Some(set)));
        ok(seriatim_builder_on_error(builder, Some(tell), second.argument(), Some(delete_told)));
    }
    let engine = build(builder);
    let mut text = null_mut();
    // SAFETY: the engine lives, and the text is given back.
    unsafe {
        ok(seriatim_engine_setting(engine.0, c"BOUND".as_ptr(), &mut text));
        assert_eq!(CStr::from_ptr(text), c"7");
        seriatim_string_free(text);
    }
    drop(engine);
    assert_eq!(second.deletions.load(SeqCst), 1);
}

#[test]
fn an_operation_without_a_name_has_none_in_the_hook() {
    let (builder, told) = (builder(), Told::default());
    // SAFETY: the builder lives.
    unsafe { ok(seriatim_builder_on_error(builder, Some(tell), told.argument(), Some(delete_told))) };
    let engine = build(builder);
    let x = engine.variable();
    // SAFETY: the function does not use its argument.
    ok(unsafe { seriatim_push(engine.0, &writing(&x), Some(unwind), null_mut(), None) });
    drop(engine);
    let errors = told.errors.lock().unwrap();
    let [(_, operation, _)] = &errors[..] else { panic!("{errors:?}") };
    assert_eq!(operation, "none");
}
