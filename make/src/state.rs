//! What is known of each file while a build is planned and runs.
//!
//! The thread that plans sets it. Later the operation that decides about an edge, and the thread
//! that ends its command, change what is known of the edge's outputs. Each file is a variable of
//! the engine: who reads this of a file runs after the edge that makes it has ended. So the order
//! comes from the engine, and `Relaxed` is enough everywhere.

use crate::error::Error;
use crate::path::as_path;
use std::fs;
use std::io::ErrorKind::{NotADirectory, NotFound};
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, Ordering::Relaxed};

const UNKNOWN: u8 = 0;
const MISSING: u8 = 1;
const THERE: u8 = 2;

/// What is known of a file.
#[derive(Default, Debug)]
pub struct FileState {
    presence: AtomicU8,
    mtime: AtomicI64,
    is_dirty: AtomicBool,
}

/// When a file was changed last, in nanoseconds; 0 if it is not there.
///
/// # Errors
/// If the system does not say.
pub fn stat(path: &[u8]) -> Result<i64, Error> {
    match fs::metadata(as_path(path)) {
        // Some set all times to 0, which stands for a missing file here.
        Ok(found) if found.mtime() == 0 => Ok(1),
        Ok(found) => Ok(found.mtime() * 1_000_000_000 + found.mtime_nsec()),
        Err(error) if matches!(error.kind(), NotFound | NotADirectory) => Ok(0),
        Err(error) => Err(Error::io("stat", path, &error)),
    }
}

impl FileState {
    /// Looks at the file, unless that has been done.
    ///
    /// # Errors
    /// As [`stat`].
    pub fn look(&self, path: &[u8]) -> Result<(), Error> {
        if !self.is_known() {
            let mtime = stat(path)?;
            self.mtime.store(mtime, Relaxed);
            self.presence.store(if mtime == 0 { MISSING } else { THERE }, Relaxed);
        }
        Ok(())
    }

    /// Whether the file has been looked at.
    pub fn is_known(&self) -> bool {
        self.presence.load(Relaxed) != UNKNOWN
    }

    /// Whether the file was there.
    pub fn exists(&self) -> bool {
        self.presence.load(Relaxed) == THERE
    }

    /// When it was changed last, as far as it was looked at; of a name the newest of what it stands
    /// for.
    pub fn mtime(&self) -> i64 {
        self.mtime.load(Relaxed)
    }

    /// A name that is no file is as new as what it stands for.
    pub fn is_as_new_as(&self, mtime: i64) {
        if !self.exists() {
            self.mtime.store(self.mtime().max(mtime), Relaxed);
        }
    }

    /// Whether it is missing, has to be made anew, or has been.
    pub fn is_dirty(&self) -> bool {
        self.is_dirty.load(Relaxed)
    }

    /// Sets whether it is.
    pub fn set_dirty(&self, is_dirty: bool) {
        self.is_dirty.store(is_dirty, Relaxed);
    }
}
