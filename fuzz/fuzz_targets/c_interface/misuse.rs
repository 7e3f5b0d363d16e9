//! Calls that are wrong in themselves, and calls that only look.

use crate::calls::{expect, ok, Status};
use crate::machine::Machine;
use crate::operations::do_nothing;
use seriatim_c::*;
use std::ffi::{c_char, CStr};
use std::ptr::{null, null_mut};

impl Machine<'_> {
    /// A call with a null pointer, a number or a text that the header says is refused.
    pub fn misuse(&mut self, engine: usize) {
        let choice = self.bytes.next();
        let handle = self.engines[engine].handle();
        if handle.is_null() {
            return;
        }
        let zero = SeriatimVariable::default();
        let (mut variable, mut version, mut text, mut other) = (zero, 0, null_mut(), null_mut());
        // SAFETY: the handle lives; everything that is wrong is refused, as the header says.
        let (status, expected) = unsafe {
            match choice % 32 {
                0 => (seriatim_variable_new(null(), &mut variable), Status::NullPointer),
                1 => (seriatim_variable_new(handle, null_mut()), Status::NullPointer),
                2 => (seriatim_variable_version(handle, zero, null_mut()), Status::NullPointer),
                3 => (seriatim_variable_version(handle, zero, &mut version), Status::ForeignVariable),
                4 => (seriatim_wait_for_variable(handle, zero), Status::ForeignVariable),
                5 => (seriatim_wait_for_variable_timeout(null(), zero, 1), Status::NullPointer),
                6 => (seriatim_wait_for_all_timeout(null(), 1), Status::NullPointer),
                7 => (seriatim_engine_stop(null()), Status::NullPointer),
                8 => (seriatim_engine_start(null()), Status::NullPointer),
                9 => (seriatim_engine_notify_shutdown(null()), Status::NullPointer),
                10 => (seriatim_engine_clone(null(), &mut other), Status::NullPointer),
                11 => (seriatim_engine_clone(handle, null_mut()), Status::NullPointer),
                12 => (seriatim_engine_new(null(), 0, null_mut()), Status::NullPointer),
                13 => (seriatim_engine_new(null(), 2, &mut other), Status::NullPointer),
                14 => (bad_setting(c"KIND", c"naive", &mut other), Status::BadSetting),
                15 => (bad_setting(c"ENGINE", c"sideways", &mut other), Status::BadSetting),
                16 => (bad_setting(c"CPU_WORKERS", c"0", &mut other), Status::BadSetting),
                17 => (bad_setting(c"ENGINE\xff", c"naive", &mut other), Status::InvalidUtf8),
                18 => (bad_setting(c"ENGINE", c"\xff", &mut other), Status::InvalidUtf8),
                19 => (seriatim_operator_push(handle, null(), SeriatimContext::default(), 0), Status::NullPointer),
                20 => (
                    seriatim_operator_new(
                        handle,
                        &SeriatimOperation::default(),
                        Some(do_nothing),
                        null_mut(),
                        None,
                        null_mut(),
                    ),
                    Status::NullPointer,
                ),
                21 => (seriatim_profile_write_trace(handle, null()), Status::NullPointer),
                22 => (seriatim_profile_write_trace(handle, c"\xff".as_ptr()), Status::InvalidUtf8),
                23 => (
                    seriatim_profile_write_trace(handle, c"/there/is/no/such/folder/trace.json".as_ptr()),
                    Status::InputOutput,
                ),
                24 => (seriatim_dump_dot(handle, null_mut()), Status::NullPointer),
                25 => (seriatim_profile_table(null(), &mut text), Status::NullPointer),
                26 => (seriatim_engine_warnings(null(), &mut text), Status::NullPointer),
                27 => (seriatim_completion_complete(null_mut()), Status::NullPointer),
                28 => (seriatim_completion_fail(null_mut(), null()), Status::NullPointer),
                29 => (seriatim_run_context_set_error(null(), null()), Status::NullPointer),
                30 => (seriatim_variable_delete(null(), zero, SeriatimContext::default(), None, null_mut(), None), {
                    Status::NullPointer
                }),
                _ => (seriatim_profile_start(null()), Status::NullPointer),
            }
        };
        expect(status, &[expected]);
        assert!(other.is_null() && text.is_null() && variable == zero, "a refused call has made something");
    }

    /// Calls that change nothing, or nothing that operations could tell.
    pub fn look_around(&mut self, engine: usize) {
        let choice = self.bytes.next();
        let handle = self.engines[engine].handle();
        if handle.is_null() {
            return;
        }
        let mut text = null_mut();
        // SAFETY: the handle lives; null is fine where something is freed or asked.
        unsafe {
            match choice % 8 {
                0 => ok(seriatim_dump_dot(handle, &mut text)),
                1 => ok(seriatim_profile_table(handle, &mut text)),
                2 => ok(seriatim_engine_warnings(handle, &mut text)),
                3 => ok(seriatim_profile_start(handle)),
                4 => ok(seriatim_profile_stop(handle)),
                5 => ok(seriatim_profile_write_trace(handle, c"/dev/null".as_ptr())),
                6 => {
                    ok(seriatim_engine_delete(null_mut()));
                    ok(seriatim_operator_delete(null_mut()));
                    ok(seriatim_completion_drop(null_mut()));
                    ok(seriatim_string_free(null_mut()));
                }
                _ => {
                    let status = i32::from(choice >> 3) - 1;
                    assert!(!CStr::from_ptr(seriatim_status_text(status)).is_empty());
                    assert_eq!(seriatim_run_context_worker(null()), -1);
                    assert_eq!(seriatim_abi_version(), SERIATIM_ABI_VERSION);
                }
            }
            if choice % 8 < 3 {
                free(text);
            }
        }
    }
}

/// Makes an engine with a setting that is not valid.
fn bad_setting(key: &CStr, value: &CStr, engine: &mut *mut SeriatimEngine) -> Status {
    let setting = SeriatimSetting { key: key.as_ptr(), value: value.as_ptr() };
    // SAFETY: the texts end with a zero byte.
    unsafe { seriatim_engine_new(&setting, 1, engine) }
}

/// Frees a text, which must be one.
///
/// # Safety
/// The library has given it.
unsafe fn free(text: *mut c_char) {
    assert!(!text.is_null(), "a text is missing");
    // SAFETY: by the contract.
    unsafe {
        assert!(CStr::from_ptr(text).to_str().is_ok(), "a text is not UTF-8");
        ok(seriatim_string_free(text));
    }
}
