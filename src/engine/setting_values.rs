//! Reads the values of settings that come as text. Each function's error says what is valid. Used
//! by `settings.rs` and `kind.rs`. No state: functions only.

#![forbid(unsafe_code)]

use crate::error::{Error, ErrorKind};
use std::str::FromStr;

pub const MOST_WORKERS: usize = 1024;
pub const MOST_PRIORITY: u32 = 99;

pub fn bad(name: &str, value: &str, valid: &str) -> Error {
    Error::new(ErrorKind::BadSetting, format!("{name} cannot be '{value}': the valid values are {valid}"))
}

pub fn count(key: &str, value: &str) -> Result<usize, Error> {
    value.parse().map_err(|_| bad(key, value, "a whole number"))
}

pub fn workers(key: &str, value: &str) -> Result<usize, Error> {
    up_to(MOST_WORKERS, key, value)
}

pub fn up_to(most: usize, key: &str, value: &str) -> Result<usize, Error> {
    let valid = || bad(key, value, &format!("a whole number, 1 to {most}"));
    value.parse().ok().filter(|count| (1..=most).contains(count)).ok_or_else(valid)
}

pub fn priority(key: &str, value: &str) -> Result<u32, Error> {
    let valid = || bad(key, value, &format!("a whole number, 0 to {MOST_PRIORITY}"));
    value.parse().ok().filter(|priority| *priority <= MOST_PRIORITY).ok_or_else(valid)
}

pub fn named<T: FromStr<Err = Error>>(key: &str, value: &str) -> Result<T, Error> {
    value.parse().map_err(|error: Error| Error::new(error.kind(), format!("{key}: {error}")))
}

pub fn switch(key: &str, value: &str) -> Result<bool, Error> {
    match value {
        "on" | "1" | "true" => Ok(true),
        "off" | "0" | "false" => Ok(false),
        _ => Err(bad(key, value, "on, off")),
    }
}

pub fn cores(key: &str, value: &str) -> Result<Vec<usize>, Error> {
    let wrong = || bad(key, value, "core numbers from 0 to 1023 and ranges, such as 0,2-5");
    let mut cores = Vec::new();
    for part in value.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let first: usize = first.trim().parse().map_err(|_| wrong())?;
        let last: usize = last.trim().parse().map_err(|_| wrong())?;
        if first > last || last >= 1024 {
            return Err(wrong());
        }
        cores.extend(first..=last);
    }
    Ok(cores)
}
