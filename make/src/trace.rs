//! The commands of a build as a trace that browsers and Perfetto show: which ran beside which, and
//! for how long. Filled by `runner.rs`, and written at the end of a build.

use std::fmt::Write as _;
use std::time::Instant;

/// A command that has run.
struct Span {
    name: String,
    slot: usize,
    start: u128,
    end: u128,
}

/// The commands that have run, each in the first row that was free when it began.
pub struct Trace {
    begin: Instant,
    spans: Vec<Span>,
    /// Whether a row is taken.
    slots: Vec<bool>,
}

/// A command that runs.
#[derive(Clone, Copy, Debug)]
pub struct Running {
    slot: usize,
    start: u128,
}

impl Trace {
    /// An empty one.
    pub fn new(begin: Instant) -> Trace {
        Trace { begin, spans: Vec::new(), slots: Vec::new() }
    }

    /// A command begins.
    pub fn start(&mut self) -> Running {
        let slot = self.slots.iter().position(|taken| !taken).unwrap_or_else(|| {
            self.slots.push(false);
            self.slots.len() - 1
        });
        self.slots[slot] = true;
        Running { slot, start: self.begin.elapsed().as_micros() }
    }

    /// A command ends.
    pub fn end(&mut self, running: Running, name: String) {
        self.slots[running.slot] = false;
        let end = self.begin.elapsed().as_micros();
        self.spans.push(Span { name, slot: running.slot, start: running.start, end });
    }

    /// The trace, in the form that Chrome has given such files.
    pub fn json(&self) -> String {
        let mut out = String::from("[");
        for (number, span) in self.spans.iter().enumerate() {
            let between = if number > 0 { "," } else { "" };
            let (name, slot, start) = (escaped(&span.name), span.slot, span.start);
            let length = span.end - span.start;
            let _ = write!(
                out,
                "{between}\n{{\"name\":\"{name}\",\"cat\":\"command\",\"ph\":\"X\",\"pid\":0,\"tid\":{slot},\
                 \"ts\":{start},\"dur\":{length}}}"
            );
        }
        out + "\n]\n"
    }
}

fn escaped(text: &str) -> String {
    let mut out = String::new();
    for letter in text.chars() {
        match letter {
            '"' | '\\' => out.extend(['\\', letter]),
            letter if letter < ' ' => {
                let _ = write!(out, "\\u{:04x}", letter as u32);
            }
            letter => out.push(letter),
        }
    }
    out
}
