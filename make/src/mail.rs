//! What the threads of a build tell the one that runs commands. It waits for pipes, so each message
//! also writes a byte to one.

use crate::error::Error;
use crate::graph::EdgeId;
use crate::system;
use seriatim::Completion;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::Arc;

/// How a command ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// With this status; 128 and the number of the signal if one ended it.
    With(i32),
    /// By a signal that asks to stop.
    Interrupted,
}

impl Ended {
    /// From what the system says.
    pub fn of(status: ExitStatus) -> Ended {
        match (status.code(), status.signal()) {
            (Some(code), _) => Ended::With(code),
            (None, Some(signal)) if system::is_interrupt(signal) => Ended::Interrupted,
            (None, signal) => Ended::With(128 + signal.unwrap_or(0)),
        }
    }
}

/// A message.
pub enum Message {
    /// The inputs of an edge have been made, and its command has to run.
    Ready(EdgeId, Completion),
    /// The inputs of an edge turned out to be unchanged.
    Unchanged(EdgeId),
    /// All edges have been pushed: the first commands can be chosen.
    Begin,
    /// Something is wrong, and nothing more is to be started.
    Cancel(Error),
    /// The command on the terminal has ended.
    ConsoleEnded(Ended),
    /// All edges have ended.
    End,
}

/// Where messages are put, by any thread.
pub struct Mail {
    sender: Sender<Message>,
    bell: UnixStream,
}

impl Mail {
    /// Puts a message. If nobody takes it any more it is dropped, and a completion in it fails its
    /// operation.
    pub fn send(&self, message: Message) {
        let _ = self.sender.send(message);
        // If the stream is full there is a byte in it, which is enough.
        let _ = (&self.bell).write(&[0]);
    }

    /// What signals write to.
    pub fn bell(&self) -> &impl AsRawFd {
        &self.bell
    }
}

/// Where messages are taken, by one thread.
pub struct Inbox {
    receiver: Receiver<Message>,
    bell: UnixStream,
}

/// A pair of both.
///
/// # Errors
/// If there are no descriptors left.
pub fn mail() -> io::Result<(Arc<Mail>, Inbox)> {
    let (sender, receiver) = channel();
    let (to, from) = UnixStream::pair()?;
    to.set_nonblocking(true)?;
    from.set_nonblocking(true)?;
    Ok((Arc::new(Mail { sender, bell: to }), Inbox { receiver, bell: from }))
}

impl Inbox {
    /// The next message, if there is one.
    pub fn take(&self) -> Option<Message> {
        self.receiver.try_recv().ok()
    }

    /// What to wait for.
    pub fn descriptor(&self) -> RawFd {
        self.bell.as_raw_fd()
    }

    /// Takes the bytes out, before the messages are taken.
    pub fn silence(&mut self) {
        let mut buffer = [0; 512];
        while self.bell.read(&mut buffer).is_ok_and(|count| count == buffer.len()) {}
    }
}
