//! Why a build cannot go on: what it is, and a text that says where and what to do. Below all other
//! modules.

use std::fmt;

/// What kind of thing went wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The command line is not understood.
    Usage,
    /// A manifest, or a file that it includes, cannot be read or is wrong.
    Manifest,
    /// Files depend on each other in a circle.
    Cycle,
    /// A target that no statement mentions.
    UnknownTarget,
    /// A file that is needed is not there, and nothing makes it.
    MissingInput,
    /// A file of dependencies (`depfile`, `dyndep`) is wrong.
    Dependencies,
    /// A file cannot be read, written or looked at.
    Io,
    /// Something that `ninja` has and this program has not.
    Unsupported,
    /// The engine refused something.
    Engine,
}

/// An error with its kind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error {
    kind: ErrorKind,
    message: String,
}

impl Error {
    /// An error of this kind, with what a person should read.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error { kind, message: message.into() }
    }

    /// What went wrong with a file: `doing 'path': why`.
    pub fn io(doing: &str, path: &[u8], error: &std::io::Error) -> Error {
        Error::new(ErrorKind::Io, format!("{doing} '{}': {}", String::from_utf8_lossy(path), plain(error)))
    }

    /// Which kind it is.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

/// The system's text, without the number that Rust adds.
pub fn plain(error: &std::io::Error) -> String {
    let text = error.to_string();
    match text.rfind(" (os error ") {
        Some(end) if error.raw_os_error().is_some() => text[..end].to_owned(),
        _ => text,
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

impl From<seriatim::Error> for Error {
    fn from(error: seriatim::Error) -> Error {
        Error::new(ErrorKind::Engine, format!("the engine reports: {error}"))
    }
}
