//! `seriatim-make`: runs a `build.ninja`, as `ninja` does.
//!
//! ```text
//! cargo run --release -p seriatim-make -- -C build
//! ```
//!
//! The work itself is in the library of this package, `lib.rs`.

use std::process::ExitCode;

/// Chains of files are walked by calls within calls: so deep a chain has room. Memory is taken only
/// as far as it is used.
#[cfg(unix)]
const STACK: usize = 256 << 20;

#[cfg(unix)]
fn main() -> ExitCode {
    match std::thread::Builder::new().stack_size(STACK).spawn(run) {
        // A panic has printed its own message.
        Ok(thread) => ExitCode::from(thread.join().unwrap_or(1)),
        // There is no room for such a stack: most chains are short.
        Err(_) => ExitCode::from(run()),
    }
}

#[cfg(unix)]
fn run() -> u8 {
    use seriatim_make::options::{Asked, Options};
    let arguments = std::env::args_os().skip(1);
    let ended = Options::parse(arguments).and_then(|asked| match asked {
        Asked::Print(text) => {
            seriatim_make::terminal::print(text.as_bytes());
            Ok(0)
        }
        Asked::Run(options) => seriatim_make::build::run(*options),
    });
    match ended {
        Ok(code) => u8::try_from(code).unwrap_or(1),
        Err(error) => {
            eprintln!("seriatim-make: error: {error}");
            1
        }
    }
}

#[cfg(not(unix))]
fn main() -> ExitCode {
    eprintln!("seriatim-make: error: it runs on Unix-like systems only");
    ExitCode::FAILURE
}
