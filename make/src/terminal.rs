//! Where progress and output are printed. On a terminal the progress stays on one line; while a
//! command has the terminal, everything else waits. Used by `status.rs`. As `ninja`'s
//! `line_printer.cc`.

use crate::system;
use std::env;
use std::io::{self, IsTerminal, Write};

/// How a line is fitted to the terminal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fit {
    /// Its middle is left out if it is too long.
    Elide,
    /// It is shown as it is.
    Whole,
}

/// Standard output.
pub struct Terminal {
    /// Whether lines are printed over each other.
    pub is_smart: bool,
    /// Whether colours are passed on.
    pub has_colours: bool,
    is_at_line_start: bool,
    is_held: bool,
    held_line: Option<(Vec<u8>, Fit)>,
    held: Vec<u8>,
}

impl Terminal {
    /// Standard output, as the environment describes it.
    pub fn new(may_be_smart: bool) -> Terminal {
        let term = env::var("TERM").unwrap_or_default();
        let is_terminal = io::stdout().is_terminal() && !term.is_empty() && term != "dumb";
        let is_forced = env::var("CLICOLOR_FORCE").is_ok_and(|force| force != "0");
        Terminal {
            is_smart: is_terminal && may_be_smart,
            has_colours: is_terminal || is_forced,
            is_at_line_start: true,
            is_held: false,
            held_line: None,
            held: Vec::new(),
        }
    }

    /// Prints a line of progress.
    pub fn line(&mut self, text: &[u8], fit: Fit) {
        if self.is_held {
            self.held_line = Some((text.to_vec(), fit));
            return;
        }
        if self.is_smart && fit == Fit::Elide {
            let text = match system::columns() {
                Some(columns) => elide(text, columns),
                None => text.to_vec(),
            };
            print(&[b"\r", &text[..], b"\x1b[K"].concat());
            self.is_at_line_start = false;
        } else {
            let start: &[u8] = if self.is_smart { b"\r" } else { b"" };
            print(&[start, text, b"\n"].concat());
        }
    }

    /// Prints text that begins on a new line.
    pub fn text(&mut self, text: &[u8]) {
        let mut out = Vec::new();
        if let Some((line, _)) = self.held_line.take_if(|_| self.is_held) {
            out.extend_from_slice(&line);
            out.push(b'\n');
        }
        if !self.is_at_line_start {
            out.push(b'\n');
        }
        out.extend_from_slice(text);
        self.is_at_line_start = text.last().is_none_or(|byte| *byte == b'\n');
        if self.is_held {
            self.held.extend_from_slice(&out);
        } else {
            print(&out);
        }
    }

    /// From now on a command has the terminal, or has it no more.
    pub fn hold(&mut self, is_held: bool) {
        if self.is_held == is_held {
            return;
        }
        if is_held {
            self.text(b"");
        }
        self.is_held = is_held;
        if !is_held {
            let held = std::mem::take(&mut self.held);
            self.text(&held);
            if let Some((line, fit)) = self.held_line.take() {
                self.line(&line, fit);
            }
        }
    }
}

/// Prints a line that is not of a command.
pub fn say(text: &str) {
    print(format!("seriatim-make: {text}\n").as_bytes());
}

/// Prints to standard output. A reader that closed the pipe early is no reason to stop a build.
pub fn print(bytes: &[u8]) {
    if !bytes.is_empty() {
        let mut out = io::stdout().lock();
        let _ = out.write_all(bytes).and_then(|()| out.flush());
    }
}

/// Leaves out the middle of a line that is longer than the terminal is wide. Colours are left out
/// of such a line.
fn elide(text: &[u8], columns: usize) -> Vec<u8> {
    let plain = without_colours(text);
    if plain.len() <= columns {
        return text.to_vec();
    }
    if columns <= 3 {
        return b"..."[..columns].to_vec();
    }
    let (left, right) = ((columns - 3) / 2, (columns - 2) / 2);
    [&plain[..left], b"...", &plain[plain.len() - right..]].concat()
}

/// Text without the sequences that change colours.
pub fn without_colours(text: &[u8]) -> Vec<u8> {
    let (mut out, mut rest) = (Vec::with_capacity(text.len()), text);
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        if *byte != 0x1b {
            out.push(*byte);
        } else if let Some(sequence) = after.strip_prefix(b"[") {
            let end = sequence.iter().position(|byte| byte.is_ascii_alphabetic());
            rest = &sequence[end.map_or(sequence.len(), |end| end + 1)..];
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_lose_their_middle() {
        assert_eq!(elide(b"01234567890123456789", 20), b"01234567890123456789");
        assert_eq!(elide(b"01234567890123456789", 19), b"01234567...23456789");
        assert_eq!(elide(b"01234567890123456789", 10), b"012...6789");
        assert_eq!(elide(b"Nothing to elide at short width.", 2), b"..");
    }

    #[test]
    fn colours_can_be_taken_out() {
        assert_eq!(without_colours(b"foo\x1b[1m\x1b[31mbar\x1b[0m"), b"foobar");
        assert_eq!(without_colours(b"foo\x1b"), b"foo");
        assert_eq!(without_colours(b"foo\x1b["), b"foo");
    }
}
