//! Checks of what C hands over, before anything is made of it.

use crate::error::{Failure, Outcome, SeriatimStatus};
use seriatim::Name;
use std::cell::Cell;
use std::ffi::{c_char, CStr};

#[cold]
pub fn null(what: &str) -> Failure {
    Failure::new(SeriatimStatus::NullPointer, format!("{what} is null"))
}

#[cold]
pub fn bad(text: impl Into<String>) -> Failure {
    Failure::new(SeriatimStatus::BadArgument, text)
}

/// What a pointer points to.
///
/// # Safety
/// A pointer that is not null points to a live `T` that nobody changes for as long as the reference
/// is used.
#[inline]
pub unsafe fn borrow<'a, T>(pointer: *const T, what: &str) -> Result<&'a T, Failure> {
    // SAFETY: by the contract.
    unsafe { pointer.as_ref() }.ok_or_else(|| null(what))
}

/// What a pointer points to, to be changed.
///
/// # Safety
/// A pointer that is not null points to a live `T` that nobody else uses for as long as the
/// reference is used.
pub unsafe fn borrow_mut<'a, T>(pointer: *mut T, what: &str) -> Result<&'a mut T, Failure> {
    // SAFETY: by the contract.
    unsafe { pointer.as_mut() }.ok_or_else(|| null(what))
}

#[cold]
fn no_list(count: usize, what: &str) -> Failure {
    bad(format!("{what} cannot be a list of {count}: it does not fit into memory"))
}

/// A list; a null pointer is fine for an empty one.
///
/// # Safety
/// A pointer that is not null points to `count` elements, live and unchanged for as long as the
/// list is used.
#[inline]
pub unsafe fn list<'a, T>(pointer: *const T, count: usize, what: &str) -> Result<&'a [T], Failure> {
    if count == 0 {
        return Ok(&[]);
    }
    if pointer.is_null() {
        return Err(null(what));
    }
    if count > isize::MAX as usize / size_of::<T>() || !pointer.is_aligned() {
        return Err(no_list(count, what));
    }
    // SAFETY: not null, aligned, not too long; the rest is the contract.
    Ok(unsafe { std::slice::from_raw_parts(pointer, count) })
}

/// A text that must be there, and valid UTF-8.
///
/// # Safety
/// A pointer that is not null points to a text that ends with a zero byte, live and unchanged for
/// as long as it is used.
pub unsafe fn text<'a>(pointer: *const c_char, what: &str) -> Result<&'a str, Failure> {
    if pointer.is_null() {
        return Err(null(what));
    }
    // SAFETY: by the contract.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_str().map_err(|error| {
        Failure::new(SeriatimStatus::InvalidUtf8, format!("{what} '{}' is not UTF-8: {error}", text.to_string_lossy()))
    })
}

/// How many names a thread remembers.
const REMEMBERED: usize = 64;

thread_local! {
    /// Names that this thread has used lately, each by the address of its text in C. The text may
    /// have changed since, so it is compared.
    static NAMES: [Cell<Option<(usize, Name)>>; REMEMBERED] = const { [const { Cell::new(None) }; REMEMBERED] };
}

/// A name. Where there is none, it is empty.
///
/// # Safety
/// As for [`text`].
#[inline]
pub unsafe fn optional_name(pointer: *const c_char, what: &str) -> Result<Name, Failure> {
    if pointer.is_null() {
        return Ok(Name::default());
    }
    // SAFETY: by the contract.
    unsafe { name(pointer, what) }
}

/// A name: one that the thread remembers, or else one that is looked up under a lock.
///
/// # Safety
/// As for [`text`].
unsafe fn name(pointer: *const c_char, what: &str) -> Result<Name, Failure> {
    let place = pointer.addr();
    // Texts that follow each other in memory take different places.
    let slot = (place ^ place >> 6) % REMEMBERED;
    // SAFETY: by the contract.
    let bytes = unsafe { CStr::from_ptr(pointer) }.to_bytes();
    let remembered = NAMES.try_with(|names| names[slot].get());
    if let Ok(Some((known, name))) = remembered {
        if known == place && name.as_str().as_bytes() == bytes {
            return Ok(name);
        }
    }
    // SAFETY: by the contract.
    let name = Name::from(unsafe { text(pointer, what) }?.to_owned());
    // A thread at its end remembers nothing.
    let _ = NAMES.try_with(|names| names[slot].set(Some((place, name))));
    Ok(name)
}

/// The text of an error. An error must not get lost because of how its text is written, so bytes
/// that are not UTF-8 are replaced, and a null pointer is no text.
///
/// # Safety
/// As for [`text`].
pub unsafe fn error_text(pointer: *const c_char) -> Option<String> {
    // SAFETY: by the contract.
    (!pointer.is_null()).then(|| unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned())
}

/// Makes a value for C, once it is known that there is a place to put it.
///
/// # Safety
/// A place that is not null may be written to.
pub unsafe fn produce<T>(out: *mut T, make: impl FnOnce() -> Result<T, Failure>) -> Outcome {
    if out.is_null() {
        return Err(null("out"));
    }
    let value = make()?;
    // SAFETY: by the contract.
    unsafe { out.write(value) };
    Ok(())
}

/// Makes a pointer for C; on a failure C finds a null pointer in its place.
///
/// # Safety
/// As for [`produce`].
pub unsafe fn produce_pointer<T>(out: *mut *mut T, make: impl FnOnce() -> Result<*mut T, Failure>) -> Outcome {
    // SAFETY: by the contract.
    unsafe {
        produce(out, || Ok(std::ptr::null_mut()))?;
        produce(out, make)
    }
}

/// Makes a handle for C, as [`produce_pointer`] does.
///
/// # Safety
/// As for [`produce`].
pub unsafe fn produce_handle<T>(out: *mut *mut T, make: impl FnOnce() -> Result<T, Failure>) -> Outcome {
    // SAFETY: by the contract.
    unsafe { produce_pointer(out, || Ok(Box::into_raw(Box::new(make()?)))) }
}

/// Takes a handle back from C that must be there.
///
/// # Safety
/// As for [`reclaim`].
pub unsafe fn taken<T>(handle: *mut T, what: &str) -> Result<Box<T>, Failure> {
    if handle.is_null() {
        return Err(null(what));
    }
    // SAFETY: by the contract.
    Ok(unsafe { Box::from_raw(handle) })
}

/// Takes a handle back from C; a null pointer is nothing to take, as with `free`.
///
/// # Safety
/// A handle that is not null was made by [`produce_handle`], and is not used again.
pub unsafe fn reclaim<T>(handle: *mut T) {
    if !handle.is_null() {
        // SAFETY: by the contract.
        drop(unsafe { Box::from_raw(handle) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_that_of_the_text_now_and_not_of_the_address() {
        let mut text = *b"first\0";
        let mut named = |changed: &[u8; 6]| {
            text = *changed;
            // SAFETY: the text ends with a zero byte, and is not changed meanwhile.
            unsafe { optional_name(text.as_ptr().cast(), "a name") }
        };
        for _ in 0..3 {
            for (bytes, name) in [(b"first\0", "first"), (b"other\0", "other"), (b"fir\0t\0", "fir"), (b"\0irst\0", "")]
            {
                assert_eq!(named(bytes).unwrap().as_str(), name);
            }
            assert!(named(b"\xffrst\0\0").is_err());
        }
        // SAFETY: a null pointer is no text.
        assert_eq!(unsafe { optional_name(std::ptr::null(), "a name") }.unwrap().as_str(), "");
    }
}
