//! What a person sees of a build: how far it is, which commands failed, what they printed. Used by
//! `runner.rs`. The format of the line is `NINJA_STATUS`, as for `ninja`.

use crate::error::{Error, ErrorKind};
use crate::graph::{EdgeId, Graph, CONSOLE};
use crate::mail::Ended;
use crate::options::Verbosity;
use crate::terminal::{without_colours, Fit, Terminal};
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::time::Instant;

/// From so many milliseconds on the times of earlier builds are compared with those of this one.
const ENOUGH: i64 = 15_000;

/// The counts of a build, and where they are shown.
pub struct Status {
    verbosity: Verbosity,
    format: String,
    terminal: Terminal,
    begin: Instant,
    /// Commands that are begun, have ended, run, and are to run in all.
    started: usize,
    finished: usize,
    running: usize,
    total: usize,
    /// What the commands took that have ended, in milliseconds.
    spent: i64,
    /// Commands that have run in an earlier build: all, those that are left; with their times.
    known: (usize, i64),
    known_left: (usize, i64),
    /// When the last commands ended, as many as may run at a time.
    recent: VecDeque<i64>,
    jobs: usize,
}

impl Status {
    /// Nothing has begun.
    ///
    /// # Errors
    /// [`ErrorKind::Usage`] if the format has a placeholder that does not exist.
    pub fn new(verbosity: Verbosity, jobs: usize, begin: Instant) -> Result<Status, Error> {
        let format = std::env::var("NINJA_STATUS").unwrap_or_else(|_| "[%f/%t] ".to_owned());
        let mut rest = format.as_str();
        while let Some(at) = rest.find('%') {
            let name = rest[at + 1..].chars().next();
            if name.is_none_or(|name| !"%strufocpewEWP".contains(name)) {
                let name = name.map_or(String::new(), String::from);
                return Err(Error::new(ErrorKind::Usage, format!("unknown placeholder '%{name}' in $NINJA_STATUS")));
            }
            rest = &rest[at + 2..];
        }
        Ok(Status {
            verbosity,
            format,
            terminal: Terminal::new(verbosity == Verbosity::Normal),
            begin,
            started: 0,
            finished: 0,
            running: 0,
            total: 0,
            spent: 0,
            known: (0, 0),
            known_left: (0, 0),
            recent: VecDeque::new(),
            jobs,
        })
    }

    /// Milliseconds since the program began.
    pub fn now(&self) -> i64 {
        self.begin.elapsed().as_millis() as i64
    }

    /// A command is to run; `took` is what it took the last time.
    pub fn plan(&mut self, took: Option<i64>) {
        self.total += 1;
        if let Some(took) = took {
            self.known = (self.known.0 + 1, self.known.1 + took);
            self.known_left = (self.known_left.0 + 1, self.known_left.1 + took);
        }
    }

    /// A command need not run after all.
    pub fn leave_out(&mut self, took: Option<i64>) {
        self.total -= 1;
        if let Some(took) = took {
            self.known = (self.known.0 - 1, self.known.1 - took);
            self.known_left = (self.known_left.0 - 1, self.known_left.1 - took);
        }
    }

    /// A command begins.
    pub fn begin(&mut self, graph: &Graph, edge: EdgeId) -> Result<(), Error> {
        self.started += 1;
        self.running += 1;
        let is_on_console = graph.edges[edge].pool == CONSOLE;
        if is_on_console || self.terminal.is_smart {
            self.show(graph, edge)?;
        }
        if is_on_console {
            self.terminal.hold(true);
        }
        Ok(())
    }

    /// A command has ended. `start` is when it began, and `took` what it took the last time.
    pub fn end(
        &mut self,
        graph: &Graph,
        edge: EdgeId,
        start: i64,
        took: Option<i64>,
        ended: Ended,
        output: &[u8],
    ) -> Result<(), Error> {
        let now = self.now();
        self.finished += 1;
        self.running -= 1;
        self.spent += now - start;
        self.recent.push_back(now);
        if self.recent.len() > self.jobs {
            self.recent.pop_front();
        }
        if let Some(took) = took {
            self.known_left = (self.known_left.0 - 1, self.known_left.1 - took);
        }
        let is_on_console = graph.edges[edge].pool == CONSOLE;
        if is_on_console {
            self.terminal.hold(false);
        } else {
            self.running += 1; // The line counts it as one that runs.
            self.show(graph, edge)?;
            self.running -= 1;
        }
        if ended != Ended::With(0) {
            let code = match ended {
                Ended::With(code) => code,
                Ended::Interrupted => 130,
            };
            let names: Vec<String> = graph.edges[edge].outputs.iter().map(|output| graph.show(*output) + " ").collect();
            let failed = format!("FAILED: [code={code}] ");
            let failed = if self.terminal.has_colours { format!("\x1b[31m{failed}\x1b[0m") } else { failed };
            self.terminal.text(format!("{failed}{}\n", names.concat()).as_bytes());
            let mut command = graph.command(edge)?;
            command.push(b'\n');
            self.terminal.text(&command);
        }
        if !output.is_empty() {
            if self.terminal.has_colours || !output.contains(&0x1b) {
                self.terminal.text(output);
            } else {
                self.terminal.text(&without_colours(output));
            }
        }
        Ok(())
    }

    /// What is printed from now on begins on a new line.
    pub fn close(&mut self) {
        self.terminal.hold(false);
        self.terminal.text(b"");
    }

    fn show(&mut self, graph: &Graph, edge: EdgeId) -> Result<(), Error> {
        if self.verbosity == Verbosity::Quiet {
            return Ok(());
        }
        let is_verbose = self.verbosity == Verbosity::Verbose;
        let mut what = graph.binding(edge, b"description", crate::graph::Escape::Shell)?;
        if what.is_empty() || is_verbose {
            what = graph.command(edge)?;
        }
        let mut line = self.progress().into_bytes();
        line.extend_from_slice(&what);
        self.terminal.line(&line, if is_verbose { Fit::Whole } else { Fit::Elide });
        Ok(())
    }

    /// The part of the whole that is done, judged by the times that commands take.
    fn predicted(&self) -> f64 {
        let (total, finished) = (self.total as f64, self.finished as f64);
        let mut uses_known = self.known_left.0 > 0 && self.known_left.1 > 0;
        if uses_known && self.finished > 0 && self.now() >= ENOUGH && finished / total >= 0.05 {
            let (before, now) = (self.known.1 as f64 / self.known.0 as f64, self.spent as f64 / finished);
            uses_known = before.max(now) / before.min(now) < 10.0;
        }
        let (known, known_time) = if uses_known { self.known_left } else { (0, 0) };
        if self.finished + known == 0 {
            return 0.0;
        }
        let average = (self.spent + known_time) as f64 / (self.finished + known) as f64;
        let unknown = self.total.saturating_sub(self.finished + known) as f64;
        let whole = self.spent as f64 + known_time as f64 + average * unknown;
        if whole == 0.0 {
            0.0
        } else {
            self.spent as f64 / whole
        }
    }

    fn progress(&self) -> String {
        let (mut out, mut format) = (String::new(), self.format.chars());
        let (now, predicted) = (self.now(), self.predicted());
        let elapsed = now as f64 / 1e3;
        let left = (predicted > 0.0).then(|| elapsed / predicted - elapsed);
        let has_hours = elapsed >= 3600.0 || left.is_some_and(|left| left >= 3600.0);
        let clock = |seconds: f64| {
            let seconds = seconds as u64;
            let (hours, minutes, rest) = (seconds / 3600, seconds % 3600 / 60, seconds % 60);
            if has_hours {
                format!("{hours}:{minutes:02}:{rest:02}")
            } else {
                format!("{minutes:02}:{rest:02}")
            }
        };
        let rate = |count: usize, time: i64| match time {
            0 => "?".to_owned(),
            time => format!("{:.1}", count as f64 * 1e3 / time as f64),
        };
        while let Some(next) = format.next() {
            if next != '%' {
                out.push(next);
                continue;
            }
            let _ = match format.next() {
                Some('s') => write!(out, "{}", self.started),
                Some('t') => write!(out, "{}", self.total),
                Some('r') => write!(out, "{}", self.running),
                Some('u') => write!(out, "{}", self.total.saturating_sub(self.started)),
                Some('f') => write!(out, "{}", self.finished),
                Some('o') => write!(out, "{}", rate(self.finished, now)),
                Some('c') => {
                    let since = self.recent.back().zip(self.recent.front()).map_or(0, |(last, first)| last - first);
                    write!(out, "{}", rate(self.recent.len(), since))
                }
                Some('p') => write!(out, "{:3}%", (100 * self.finished).checked_div(self.total).unwrap_or(0)),
                Some('e') => write!(out, "{elapsed:.3}"),
                Some('w') => write!(out, "{}", clock(elapsed)),
                Some('E') => write!(out, "{}", left.map_or("?".to_owned(), |left| format!("{left:.3}"))),
                Some('W') => write!(out, "{}", left.map_or("?".to_owned(), clock)),
                Some('P') => write!(out, "{:3}%", (100.0 * predicted) as u32),
                _ => write!(out, "%"),
            };
        }
        out
    }
}
