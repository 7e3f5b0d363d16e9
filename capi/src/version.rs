//! Versions: of the header that a program was compiled with, and of the library that it runs with.

use std::ffi::{c_char, CStr};

/// The version of this header: the first number, which grows with changes that programs must
/// follow, once it is 1 or more.
pub const SERIATIM_VERSION_MAJOR: u32 = 0;
/// The second number, which grows with additions, and with changes that programs must follow while
/// the first is 0.
pub const SERIATIM_VERSION_MINOR: u32 = 1;
/// The third number, which grows with corrections.
pub const SERIATIM_VERSION_PATCH: u32 = 0;
/// All three in one that can be compared: 1,000,000 × major + 1,000 × minor + patch.
pub const SERIATIM_VERSION_NUMBER: u32 = 1_000;

/// The version of this interface. It grows when a program compiled against an older header would no
/// longer work.
pub const SERIATIM_ABI_VERSION: u32 = 1;

const TEXT: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
    Ok(text) => text,
    Err(_) => c"",
};

/// The version of the library that is loaded, such as "0.1.0". The text lives as long as the
/// program.
#[unsafe(no_mangle)]
pub extern "C" fn seriatim_version() -> *const c_char {
    TEXT.as_ptr()
}

/// The version of the library that is loaded, as `SERIATIM_VERSION_NUMBER` has that of the header.
/// A library may be newer than the header, by its third number and, from 1.0.0 on, by its second.
#[unsafe(no_mangle)]
pub extern "C" fn seriatim_version_number() -> u32 {
    SERIATIM_VERSION_NUMBER
}

/// The version of the interface in the library that is loaded: to be compared with
/// `SERIATIM_ABI_VERSION`, which is that of the header the program was compiled with.
#[unsafe(no_mangle)]
pub extern "C" fn seriatim_abi_version() -> u32 {
    SERIATIM_ABI_VERSION
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_macros_are_the_packages_version() {
        let numbers =
            [env!("CARGO_PKG_VERSION_MAJOR"), env!("CARGO_PKG_VERSION_MINOR"), env!("CARGO_PKG_VERSION_PATCH")];
        let [major, minor, patch] = numbers.map(|number| number.parse::<u32>().unwrap());
        assert_eq!((major, minor, patch), (SERIATIM_VERSION_MAJOR, SERIATIM_VERSION_MINOR, SERIATIM_VERSION_PATCH));
        assert_eq!(seriatim_version_number(), 1_000_000 * major + 1_000 * minor + patch);
        assert_eq!(TEXT.to_str(), Ok(env!("CARGO_PKG_VERSION")));
    }
}
