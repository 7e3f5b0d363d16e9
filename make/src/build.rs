//! A build from beginning to end: the manifest is read, made anew if it is out of date, and then
//! the targets are built. Called by `main.rs`.

use crate::build_log::{path_in, BuildLog};
use crate::deps_log::DepsLog;
use crate::error::{Error, ErrorKind};
use crate::graph::{FileId, Graph};
use crate::manifest;
use crate::options::{Options, Tool, Verbosity};
use crate::pass::{Loaded, Planned};
use crate::path::{as_path, canonicalize, show};
use crate::runner::Going;
use crate::status::Status;
use crate::terminal::say;
use crate::tools;
use crate::trace::Trace;
use seriatim::{Engine, Kind};
use std::collections::{HashMap, HashSet};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

/// A manifest that is still out of date after so many tries will always be.
const TRIES: usize = 100;

/// Exit status of a program that was asked to stop.
const INTERRUPTED: i32 = 130;

/// Does what the options ask for. Returns the exit status.
///
/// # Errors
/// What stops a build but a command that fails.
pub fn run(options: Options) -> Result<i32, Error> {
    let trace = options.trace.as_ref().map(std::path::absolute).transpose();
    let trace = trace.map_err(|error| Error::io("writing", b"the trace", &error))?;
    if let Some(folder) = &options.folder {
        if options.tool.is_none() && options.verbosity != Verbosity::Quiet {
            say(&format!("Entering directory `{}'", folder.display()));
        }
        std::env::set_current_dir(folder)
            .map_err(|error| Error::io("chdir to", folder.as_os_str().as_bytes(), &error))?;
    }
    match options.tool {
        Some(Tool::Clean) => return tools::clean(&load(&options)?.graph).map(|()| 0),
        Some(Tool::Targets) => {
            tools::targets(&load(&options)?.graph);
            return Ok(0);
        }
        Some(Tool::CleanDead) => return tools::clean_dead(&load(&options)?).map(|()| 0),
        Some(Tool::Restat) => {
            let outputs: Vec<_> = options.targets.iter().map(|target| target.as_bytes()).collect();
            return tools::restat(load(&options)?, &outputs).map(|()| 0);
        }
        Some(Tool::Recompact) => return tools::recompact(load(&options)?).map(|()| 0),
        None => {}
    }
    Build { options: Arc::new(options), trace_path: trace, begin: Instant::now(), engine: None }.run()
}

/// Reads the manifest and its logs.
fn load(options: &Options) -> Result<Loaded, Error> {
    let mut graph = manifest::read(&options.manifest)?;
    let folder = graph.scopes.lookup(0, b"builddir").to_vec();
    if !folder.is_empty() && !options.dry_run {
        fs::create_dir_all(as_path(&folder)).map_err(|error| Error::io("making", &folder, &error))?;
    }
    let (log_path, deps_path) = (path_in(&folder, ".ninja_log"), path_in(&folder, ".ninja_deps"));
    let (mut log, log_warning) = BuildLog::load(&log_path)?;
    let (mut deps, deps_warning) = DepsLog::load(&deps_path, &mut graph)?;
    for warning in [log_warning, deps_warning].into_iter().flatten() {
        eprintln!("seriatim-make: warning: {warning}");
    }
    if !options.dry_run {
        if log.is_worn() {
            log.rewrite(&log_path, &graph)?;
        }
        if deps.is_worn() {
            deps = deps.rewrite(&deps_path, &mut graph)?;
        }
    }
    Ok(Loaded { graph, build_log: (log, log_path), deps_log: (deps, deps_path) })
}

struct Build {
    options: Arc<Options>,
    trace_path: Option<PathBuf>,
    begin: Instant,
    engine: Option<Engine>,
}

impl Build {
    fn run(mut self) -> Result<i32, Error> {
        let mut is_manifest_well = false;
        for _ in 0..TRIES {
            let loaded = load(&self.options)?;
            if !is_manifest_well {
                match self.make_manifest(loaded)? {
                    Manifest::Failed(code) => return Ok(code),
                    Manifest::New if self.options.dry_run => return Ok(0),
                    Manifest::New => continue,
                    Manifest::Looked => {}
                    Manifest::Well(loaded) => return self.make_targets(*loaded),
                }
                is_manifest_well = true;
                continue;
            }
            return self.make_targets(loaded);
        }
        let said = format!(
            "manifest '{}' still dirty after {TRIES} tries, perhaps system time is not set",
            self.options.manifest
        );
        Err(Error::new(ErrorKind::Manifest, said))
    }

    /// The engine, made when there is something to push. It has no workers: commands run in
    /// parallel, and to decide about an edge takes microseconds. So the thread that ends a command
    /// decides about the edges that this makes ready, before it chooses the next command. A worker
    /// would have to be woken first, and an edge on a longer way would come too late to be chosen.
    fn engine(&mut self) -> Result<Engine, Error> {
        if self.engine.is_none() {
            // What fails has been shown when the runner learnt of it.
            self.engine = Some(Engine::builder().kind(Kind::Naive).on_error(|_| ()).build()?);
        }
        Ok(self.engine.clone().expect("it was just made"))
    }

    fn going(&self) -> Result<Going, Error> {
        Ok(Going {
            status: Status::new(self.options.verbosity, self.options.jobs, self.begin)?,
            trace: Trace::new(self.begin),
            failures_left: self.options.failures,
            code: 0,
            is_interrupted: false,
            done: HashMap::new(),
            failed: HashSet::new(),
        })
    }

    /// Makes the manifest anew, if an edge makes it and it is out of date.
    fn make_manifest(&mut self, loaded: Loaded) -> Result<Manifest, Error> {
        let mut path = self.options.manifest.clone().into_bytes();
        canonicalize(&mut path);
        let made = loaded.graph.find(&path).filter(|file| loaded.graph.producer(*file).is_some());
        let Some(file) = made else { return Ok(Manifest::Well(Box::new(loaded))) };
        let planned = Planned::new(loaded, &[file], &HashMap::new())?;
        if !planned.has_work() {
            return Ok(Manifest::Looked);
        }
        let (going, is_new) = planned.run(&self.engine()?, &self.options, self.going()?, Some(file))?;
        if let Some(code) = self.failure(&going) {
            return Ok(Manifest::Failed(code));
        }
        Ok(if is_new { Manifest::New } else { Manifest::Looked })
    }

    fn make_targets(&mut self, mut loaded: Loaded) -> Result<i32, Error> {
        let mut going = self.going()?;
        let mut has_worked = false;
        loop {
            let targets = self.targets(&loaded.graph, &loaded.deps_log.0)?;
            let planned = Planned::new(loaded, &targets, &going.done)?;
            let needs_another = planned.needs_another();
            if !planned.has_work() {
                break;
            }
            has_worked = true;
            let before = going.done.len();
            going = planned.run(&self.engine()?, &self.options, going, None)?.0;
            // Edges of which nothing could be known before may be pushed now. If a command has
            // failed that they need, nothing is done any more.
            let can_go_on = going.failures_left > 0 && !going.is_interrupted && going.done.len() > before;
            if !needs_another || !can_go_on || self.options.dry_run {
                break;
            }
            loaded = load(&self.options)?;
        }
        if let Some(path) = &self.trace_path {
            fs::write(path, going.trace.json())
                .map_err(|error| Error::io("writing", path.as_os_str().as_bytes(), &error))?;
        }
        if !has_worked && self.options.verbosity != Verbosity::Quiet {
            say("no work to do.");
        }
        Ok(self.failure(&going).unwrap_or(0))
    }

    /// The exit status of a build that has not gone well.
    fn failure(&self, going: &Going) -> Option<i32> {
        let (said, code) = if going.is_interrupted {
            ("interrupted by user", INTERRUPTED)
        } else if going.failed.is_empty() {
            return None;
        } else if going.failures_left > 0 {
            ("cannot make progress due to previous errors", going.code)
        } else if self.options.failures > 1 {
            ("subcommands failed", going.code)
        } else {
            ("subcommand failed", going.code)
        };
        say(&format!("build stopped: {said}."));
        Some(code)
    }

    /// The files that the command line names; those of the manifest if it names none.
    fn targets(&self, graph: &Graph, deps: &DepsLog) -> Result<Vec<FileId>, Error> {
        if self.options.targets.is_empty() {
            return graph.default_targets();
        }
        self.options.targets.iter().map(|target| find(graph, deps, target.as_bytes())).collect()
    }
}

enum Manifest {
    /// Nothing makes it: go on with what was read.
    Well(Box<Loaded>),
    /// It is as it should be. What was read has been changed by looking.
    Looked,
    /// It is another one now.
    New,
    /// It could not be made.
    Failed(i32),
}

/// A target; `file^` is the first output that is made of the file.
fn find(graph: &Graph, deps: &DepsLog, target: &[u8]) -> Result<FileId, Error> {
    let unknown = |said: String| Error::new(ErrorKind::UnknownTarget, said);
    let mut path = target.to_vec();
    canonicalize(&mut path);
    if path.is_empty() {
        return Err(unknown("empty path".to_owned()));
    }
    if let Some(source) = path.strip_suffix(b"^") {
        let Some(file) = graph.find(source) else {
            return Err(unknown(format!("unknown target '{}'", show(source))));
        };
        let first = graph.files[file].first_user.map(|edge| graph.edges[edge].outputs[0]);
        return match first.or_else(|| deps.first_made_of(file)) {
            Some(made) => Ok(made),
            None => Err(unknown(format!("'{}' has no out edge", show(source)))),
        };
    }
    match graph.find(&path) {
        Some(file) => Ok(file),
        None if path == b"clean" => {
            Err(unknown("unknown target 'clean', did you mean 'seriatim-make -t clean'?".to_owned()))
        }
        None => Err(unknown(format!("unknown target '{}'", show(&path)))),
    }
}
