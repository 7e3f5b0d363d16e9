//! The thread that runs commands. It takes edges whose inputs have been made, starts as many of
//! their commands as `-j`, `-l` and the pools allow, waits for all of them at once, and ends each
//! edge's operation when its command has ended. So commands hold no worker of the engine. Started
//! by `pass.rs`; the thread owns everything here.

use crate::decide::Work;
use crate::error::Error;
use crate::eval::Bytes;
use crate::finish::Surroundings;
use crate::graph::{EdgeId, CONSOLE};
use crate::mail::{Ended, Inbox, Mail, Message};
use crate::options::Options;
use crate::process::{start_on_console, Process};
use crate::queue::Queue;
use crate::status::Status;
use crate::system;
use crate::trace::{self, Trace};
use seriatim::Completion;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// What goes on from pass to pass of a build.
pub struct Going {
    /// The counts.
    pub status: Status,
    /// The trace.
    pub trace: Trace,
    /// How many more commands may fail.
    pub failures_left: usize,
    /// The status of the command that failed last.
    pub code: i32,
    /// Whether a person has asked to stop.
    pub is_interrupted: bool,
    /// The outputs of commands that have run: whether they changed.
    pub done: HashMap<Bytes, bool>,
    /// The first outputs of edges that have failed.
    pub failed: HashSet<Bytes>,
}

/// An edge whose command runs.
struct Running {
    edge: EdgeId,
    completion: Completion,
    /// `None` if the command has the terminal: then a thread waits for it.
    process: Option<Process>,
    start: i64,
    began: i64,
    traced: trace::Running,
}

/// The runner.
pub struct Runner {
    work: Arc<Work>,
    options: Arc<Options>,
    inbox: Inbox,
    mail: Arc<Mail>,
    surroundings: Surroundings,
    going: Going,
    queue: Queue,
    waiting: HashMap<EdgeId, Completion>,
    running: Vec<Running>,
    has_begun: bool,
    has_ended: bool,
    is_cancelled: bool,
    error: Option<Error>,
}

impl Runner {
    /// A runner that has not begun.
    pub fn new(
        work: Arc<Work>,
        options: Arc<Options>,
        (mail, inbox): (Arc<Mail>, Inbox),
        surroundings: Surroundings,
        going: Going,
    ) -> Runner {
        let queue = Queue::new(&work.graph);
        Runner {
            work,
            options,
            inbox,
            mail,
            surroundings,
            going,
            queue,
            waiting: HashMap::new(),
            running: Vec::new(),
            has_begun: false,
            has_ended: false,
            is_cancelled: false,
            error: None,
        }
    }

    /// Runs commands until all edges have ended.
    pub fn run(mut self) -> (Going, Result<(), Error>) {
        system::note_signals(self.mail.bell());
        while !self.has_ended {
            if let Err(error) = self.turn() {
                self.cancel(Some(error));
            }
        }
        if let Err(error) = self.surroundings.end() {
            self.error.get_or_insert(error);
        }
        system::forget_bell();
        self.going.status.close();
        self.going.done.extend(self.surroundings.done);
        (self.going, self.error.map_or(Ok(()), Err))
    }

    /// Waits for something, and does what is to be done then.
    fn turn(&mut self) -> Result<(), Error> {
        let pipes = self.running.iter().filter_map(|running| running.process.as_ref());
        let mut descriptors: Vec<_> = pipes.map(Process::descriptor).collect();
        descriptors.push(self.inbox.descriptor());
        let readable = match system::wait_to_read(&descriptors) {
            Ok(readable) => readable,
            // All are read then, one after the other.
            Err(error) => {
                self.cancel(Some(Error::io("waiting for", b"commands", &error)));
                vec![true; descriptors.len()]
            }
        };
        if let Some(signal) = system::asked_to_stop() {
            self.abort(signal);
        }
        if readable.last() == Some(&true) {
            self.inbox.silence();
        }
        let ready: HashSet<_> = descriptors.iter().zip(&readable).filter(|(_, is)| **is).map(|(of, _)| *of).collect();
        let mut at = 0;
        while at < self.running.len() {
            let has_ended = match &mut self.running[at].process {
                Some(process) if ready.contains(&process.descriptor()) => process.read(),
                _ => false,
            };
            if has_ended {
                let mut running = self.running.swap_remove(at);
                let process = running.process.take().expect("it was read from");
                let (ended, output) =
                    process.finish().map_err(|error| Error::io("waiting for", b"a command", &error))?;
                self.end(running, ended, output)?;
            } else {
                at += 1;
            }
        }
        while let Some(message) = self.inbox.take() {
            self.hear(message)?;
        }
        self.start_some()
    }

    fn hear(&mut self, message: Message) -> Result<(), Error> {
        match message {
            Message::Ready(edge, completion) => {
                if self.is_cancelled || self.has_failed_before(edge) {
                    completion.fail("it is not to be started");
                } else {
                    self.waiting.insert(edge, completion);
                    self.queue.add(&self.work.graph, &self.work.weights, edge);
                }
            }
            Message::Unchanged(edge) => self.going.status.leave_out(self.took(edge)),
            Message::Begin => self.has_begun = true,
            Message::Cancel(error) => self.cancel(Some(error)),
            Message::ConsoleEnded(ended) => {
                if let Some(at) = self.running.iter().position(|running| running.process.is_none()) {
                    let running = self.running.swap_remove(at);
                    self.end(running, ended, Vec::new())?;
                }
            }
            Message::End => self.has_ended = true,
        }
        Ok(())
    }

    fn first_output(&self, edge: EdgeId) -> &[u8] {
        let graph = &self.work.graph;
        graph.path(graph.edges[edge].outputs[0])
    }

    fn has_failed_before(&self, edge: EdgeId) -> bool {
        self.going.failed.contains(self.first_output(edge))
    }

    /// How long the command took the last time.
    fn took(&self, edge: EdgeId) -> Option<i64> {
        took(&self.work, edge)
    }

    fn start_some(&mut self) -> Result<(), Error> {
        while self.has_begun && !self.is_cancelled && self.running.len() < self.capacity() {
            let Some(edge) = self.queue.next(&self.work.graph) else { return Ok(()) };
            let completion = self.waiting.remove(&edge).expect("it was put there with the edge");
            self.start(edge, completion)?;
        }
        Ok(())
    }

    /// How many commands may run now. One always may.
    fn capacity(&self) -> usize {
        match self.options.load {
            None => self.options.jobs,
            Some(limit) => {
                let room = (limit - system::load_average()).max(0.0) as usize;
                self.options.jobs.min(self.running.len() + room).max(1)
            }
        }
    }

    fn start(&mut self, edge: EdgeId, completion: Completion) -> Result<(), Error> {
        let work = Arc::clone(&self.work);
        let start = self.going.status.now();
        self.going.status.begin(&work.graph, edge)?;
        let traced = self.going.trace.start();
        if self.options.dry_run {
            let running = Running { edge, completion, process: None, start, began: 0, traced };
            return self.end(running, Ended::With(0), Vec::new());
        }
        let began = self.surroundings.prepare(edge)?;
        let command = work.graph.command(edge)?;
        let refused = |error: std::io::Error| Error::io("starting", &command, &error);
        let process = if work.graph.edges[edge].pool == CONSOLE {
            start_on_console(&command, Arc::clone(&self.mail)).map_err(refused)?;
            None
        } else {
            Some(Process::start(&command).map_err(refused)?)
        };
        self.running.push(Running { edge, completion, process, start, began, traced });
        Ok(())
    }

    /// A command has ended.
    fn end(&mut self, running: Running, ended: Ended, output: Vec<u8>) -> Result<(), Error> {
        let Running { edge, completion, start, began, traced, .. } = running;
        let work = Arc::clone(&self.work);
        self.queue.end(&work.graph, edge);
        self.going.trace.end(traced, String::from_utf8_lossy(self.first_output(edge)).into_owned());
        if self.is_cancelled && self.going.is_interrupted {
            self.surroundings.discard(edge);
            completion.fail("interrupted");
            return Ok(());
        }
        let told = self.surroundings.hear(edge, ended, output)?;
        self.going.status.end(&work.graph, edge, start, self.took(edge), told.ended, &told.output)?;
        match told.ended {
            Ended::With(0) if self.options.dry_run => self.surroundings.rehearse(edge),
            Ended::With(0) => {
                let times = (start, self.going.status.now());
                self.surroundings.succeed(edge, times, began, &told)?;
            }
            Ended::With(code) => {
                completion.fail("the command failed");
                self.going.code = code;
                self.going.failed.insert(self.first_output(edge).into());
                self.going.failures_left = self.going.failures_left.saturating_sub(1);
                if self.going.failures_left == 0 {
                    self.cancel(None);
                }
                return Ok(());
            }
            Ended::Interrupted => {
                completion.fail("interrupted");
                self.abort(2);
                return Ok(());
            }
        }
        completion.complete();
        Ok(())
    }

    /// Nothing more is started. What runs goes on.
    fn cancel(&mut self, error: Option<Error>) {
        self.is_cancelled = true;
        if let Some(error) = error {
            self.error.get_or_insert(error);
        }
        self.waiting.drain().for_each(|(_, completion)| completion.fail("it is not to be started"));
    }

    /// A person has asked to stop: commands are told, and what they have left half done is removed
    /// when they have ended.
    fn abort(&mut self, signal: i32) {
        if !self.going.is_interrupted {
            self.going.is_interrupted = true;
            self.running.iter().filter_map(|running| running.process.as_ref()).for_each(|of| of.signal(signal));
            self.cancel(None);
        }
    }
}

/// How long the command of an edge took the last time, by the log.
pub fn took(work: &Work, edge: EdgeId) -> Option<i64> {
    let outputs = &work.graph.edges[edge].outputs;
    let entry = outputs.iter().find_map(|output| work.log.entries.get(work.graph.path(*output)))?;
    Some(entry.end - entry.start)
}
