//! One pass of a build: finds out what is to be done, and pushes it to the engine. Each file that
//! is made is a variable, and each edge an asynchronous operation that reads the variables of its
//! inputs and changes those of its outputs. So the engine brings the edges into order, and skips
//! what depends on one that failed. Used by `build.rs`.

use crate::build_log::{BuildLog, BuildLogWriter};
use crate::decide::{decide, Decision, Work};
use crate::deps_log::{DepsLog, DepsLogWriter};
use crate::error::{Error, ErrorKind};
use crate::finish::Surroundings;
use crate::graph::{EdgeId, FileId, Graph};
use crate::mail::{mail, Mail, Message};
use crate::options::Options;
use crate::plan::{Plan, Want};
use crate::runner::{took, Going, Runner};
use crate::scan::Scan;
use seriatim::{Engine, Variable};
use std::collections::HashMap;
use std::sync::Arc;
use std::thread;

/// A manifest that has been read, with its logs.
pub struct Loaded {
    /// The graph.
    pub graph: Graph,
    /// The log of commands, and where it is.
    pub build_log: (BuildLog, Vec<u8>),
    /// The log of dependencies, and where it is.
    pub deps_log: (DepsLog, Vec<u8>),
}

/// What is to be done of a manifest.
pub struct Planned {
    work: Work,
    plan: Plan,
    loaded: (Vec<u8>, DepsLog, Vec<u8>),
}

impl Planned {
    /// Finds out what is to be done for these targets. `done` is what earlier passes have done.
    ///
    /// # Errors
    /// If something is missing, wrong or in a circle.
    pub fn new(mut loaded: Loaded, targets: &[FileId], done: &HashMap<Box<[u8]>, bool>) -> Result<Planned, Error> {
        let (log, deps) = (&loaded.build_log.0, &loaded.deps_log.0);
        let mut scan = Scan::new(&mut loaded.graph, log, deps, done);
        let mut all = Vec::new();
        for target in targets {
            all.push(*target);
            all.extend(scan.visit(*target)?);
        }
        let (files, edges) = (scan.files, scan.edges);
        let mut plan = Plan::new(&loaded.graph);
        for target in all {
            plan.add(&loaded.graph, &files, &edges, target, None)?;
        }
        plan.finish(&loaded.graph);
        let wants = std::mem::take(&mut plan.wants);
        let weights = std::mem::take(&mut plan.weights);
        let work = Work { graph: loaded.graph, log: loaded.build_log.0, files, edges, wants, weights };
        Ok(Planned { work, plan, loaded: (loaded.build_log.1, loaded.deps_log.0, loaded.deps_log.1) })
    }

    /// Whether there is a command to run.
    pub fn has_work(&self) -> bool {
        self.work.graph.edges.iter().zip(&self.work.wants).any(|(edge, want)| *want == Want::Run && !edge.is_phony())
    }

    /// Whether another pass has to follow, for edges whose dependencies are not known yet.
    pub fn needs_another(&self) -> bool {
        self.plan.later > 0
    }

    /// Runs it. Returns what goes on, and whether `watched` was made anew or changed.
    ///
    /// # Errors
    /// What stops a build but a command that fails.
    pub fn run(
        self,
        engine: &Engine,
        options: &Arc<Options>,
        mut going: Going,
        watched: Option<FileId>,
    ) -> Result<(Going, bool), Error> {
        let (log_path, deps_log, deps_path) = self.loaded;
        let work = Arc::new(self.work);
        for edge in &self.plan.order {
            let output = work.graph.path(work.graph.edges[*edge].outputs[0]);
            let is_command = work.wants[*edge] == Want::Run && !work.graph.edges[*edge].is_phony();
            if is_command && !going.failed.contains(output) {
                going.status.plan(took(&work, *edge));
            }
        }
        let logs = (BuildLogWriter::new(&log_path, &work.log), DepsLogWriter::new(&deps_path, deps_log, &work.graph));
        let surroundings = Surroundings::new(Arc::clone(&work), Arc::clone(options), logs);
        let (mail, inbox) = mail().map_err(|error| Error::io("making", b"a pipe", &error))?;
        let pair = (Arc::clone(&mail), inbox);
        let runner = Runner::new(Arc::clone(&work), Arc::clone(options), pair, surroundings, going);
        let runner = thread::Builder::new().name("commands".into()).spawn(move || runner.run());
        let runner = runner.map_err(|error| Error::io("starting", b"a thread", &error))?;

        let pushed = push(engine, &work, &self.plan.order, &mail);
        mail.send(match pushed {
            Ok(()) => Message::Begin,
            Err(error) => Message::Cancel(error.into()),
        });
        let waited = engine.wait_for_all();
        mail.send(Message::End);
        let (going, ended) =
            runner.join().map_err(|_| Error::new(ErrorKind::Engine, "the thread that runs commands has panicked"))?;
        ended?;
        // A command that failed has been told already; anything else has not.
        if let (Err(error), true) = (waited, going.failed.is_empty() && !going.is_interrupted) {
            return Err(error.into());
        }
        let is_new = watched.is_some_and(|file| work.files[file].is_dirty());
        Ok((going, is_new))
    }
}

/// Pushes each edge behind those whose outputs it uses.
fn push(engine: &Engine, work: &Arc<Work>, order: &[EdgeId], mail: &Arc<Mail>) -> Result<(), seriatim::Error> {
    let mut variables: Vec<Option<Variable>> = vec![None; work.graph.files.len()];
    for edge in order {
        let edge = *edge;
        let this = &work.graph.edges[edge];
        let mut inputs = this.inputs.clone();
        inputs.sort_unstable();
        inputs.dedup();
        let reads: Vec<Variable> = inputs.iter().filter_map(|input| variables[*input]).collect();
        let writes: Vec<Variable> = this.outputs.iter().map(|_| engine.new_variable()).collect();
        for (output, variable) in this.outputs.iter().zip(&writes) {
            variables[*output] = Some(*variable);
        }
        let (work, mail) = (Arc::clone(work), Arc::clone(mail));
        engine.op("edge").reads(reads).writes(writes).push_async(move |_, completion| match decide(&work, edge) {
            Ok(Decision::Run) => mail.send(Message::Ready(edge, completion)),
            Ok(Decision::Unchanged) => {
                mail.send(Message::Unchanged(edge));
                completion.complete();
            }
            Ok(Decision::Nothing) => completion.complete(),
            Err(error) => {
                mail.send(Message::Cancel(error.clone()));
                completion.fail(error);
            }
        })?;
    }
    Ok(())
}
