//! A command that runs: a shell, and the pipe that it writes to. Made and read by `runner.rs`.

use crate::mail::{Ended, Mail, Message};
use crate::system;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;

/// A command that runs, with a pipe for what it prints.
pub struct Process {
    child: Child,
    pipe: File,
    output: Vec<u8>,
}

fn shell(command: &[u8]) -> Command {
    let mut shell = Command::new("/bin/sh");
    shell.arg("-c").arg(OsStr::from_bytes(command));
    shell
}

impl Process {
    /// Starts a command, in a group of its own, so that a signal of the terminal does not reach it.
    ///
    /// # Errors
    /// If the system refuses a process or a pipe.
    pub fn start(command: &[u8]) -> io::Result<Process> {
        let (pipe, end) = system::pipe()?;
        let other = end.try_clone()?;
        let mut shell = shell(command);
        shell.stdin(Stdio::null()).stdout(Stdio::from(end)).stderr(Stdio::from(other)).process_group(0);
        let child = shell.spawn()?;
        Ok(Process { child, pipe, output: Vec::new() })
    }

    /// What to wait for.
    pub fn descriptor(&self) -> RawFd {
        self.pipe.as_raw_fd()
    }

    /// Reads what can be read; whether the command has closed the pipe.
    pub fn read(&mut self) -> bool {
        let mut buffer = [0; 16 << 10];
        match self.pipe.read(&mut buffer) {
            Ok(0) => true,
            Ok(count) => {
                self.output.extend_from_slice(&buffer[..count]);
                false
            }
            Err(error) => error.kind() != io::ErrorKind::Interrupted,
        }
    }

    /// Waits for the end; what it printed.
    ///
    /// # Errors
    /// If the system does not say how it ended.
    pub fn finish(mut self) -> io::Result<(Ended, Vec<u8>)> {
        drop(self.pipe);
        Ok((Ended::of(self.child.wait()?), self.output))
    }

    /// Sends a signal to the command and what it has started.
    pub fn signal(&self, signal: i32) {
        system::signal_group(self.child.id(), signal);
    }
}

/// Starts a command that has the terminal. A thread waits for it and sends a message.
///
/// # Errors
/// If the system refuses a process or a thread.
pub fn start_on_console(command: &[u8], mail: Arc<Mail>) -> io::Result<()> {
    let mut child = shell(command).spawn()?;
    thread::Builder::new().name("console".into()).spawn(move || {
        let ended = child.wait().map_or(Ended::With(1), Ended::of);
        mail.send(Message::ConsoleEnded(ended));
    })?;
    Ok(())
}
