//! Lines on standard error, which the engine writes unasked or if `SERIATIM_INFO` asks for them.
//! Not by `eprintln`, which panics where standard error is closed. And not through the lock of the
//! standard library: in the child of a `fork` a thread that is gone may hold it. Any thread calls
//! this; nothing is kept here. Used by `engine/` and by `asymmetric_fence.rs`.

/// Writes a line. Text that cannot be written is left out.
pub fn tell(text: &str) {
    let line = format!("{text}\n");
    #[cfg(unix)]
    {
        let mut rest = line.as_bytes();
        while !rest.is_empty() {
            // SAFETY: so many bytes can be read there.
            let written = unsafe { libc::write(libc::STDERR_FILENO, rest.as_ptr().cast(), rest.len()) };
            match usize::try_from(written) {
                Ok(written) if written > 0 => rest = &rest[written..],
                _ if std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted => {}
                _ => return,
            }
        }
    }
    #[cfg(not(unix))]
    {
        use std::io::Write;
        let _ = std::io::stderr().write_all(line.as_bytes());
    }
}
