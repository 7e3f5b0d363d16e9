//! Statuses, and what is said about them.

pub use seriatim_c::SeriatimStatus as Status;
use std::ffi::CStr;

/// The text of this thread's last failure.
pub fn last_error() -> String {
    // SAFETY: the text is copied before anything can fail.
    unsafe { CStr::from_ptr(seriatim_c::seriatim_last_error()) }.to_str().expect("errors are UTF-8").to_owned()
}

/// Checks that a call succeeded.
#[track_caller]
pub fn ok(status: Status) {
    assert!(status == Status::Ok, "{status:?}: {}", last_error());
}

/// Checks that a call was refused for one of the things that were wrong with it, or succeeded if
/// nothing was. Says whether it succeeded.
#[track_caller]
pub fn expect(status: Status, wrongs: &[Status]) -> bool {
    if wrongs.is_empty() {
        ok(status);
    } else {
        assert!(wrongs.contains(&status), "the call returned {status:?}, not one of {wrongs:?}: {}", last_error());
        assert!(!last_error().is_empty(), "{status:?} comes without a text");
    }
    wrongs.is_empty()
}
