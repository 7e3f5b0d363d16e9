//! What is done before a command runs and after it has ended: folders, response files, what it said
//! that it reads, whether it changed its outputs, and the logs. Used by `runner.rs`, on its thread.

use crate::build_log::BuildLogWriter;
use crate::decide::Work;
use crate::depfile::{parse_msvc, Depfile};
use crate::deps_log::DepsLogWriter;
use crate::error::{plain, Error, ErrorKind};
use crate::eval::Bytes;
use crate::graph::{EdgeId, Escape};
use crate::mail::Ended;
use crate::options::Options;
use crate::path::{as_path, canonicalize, show};
use crate::state::stat;
use std::collections::HashMap;
use std::fs;
use std::io;
use std::sync::Arc;

/// The file whose time says when a command began, by the clock of the file system.
const LOCK: &str = ".ninja_lock";

/// What surrounds commands.
pub struct Surroundings {
    work: Arc<Work>,
    options: Arc<Options>,
    build_log: BuildLogWriter,
    deps_log: DepsLogWriter,
    lock: Vec<u8>,
    /// The outputs of commands that have run: whether they changed.
    pub done: HashMap<Bytes, bool>,
}

/// What a command has told.
pub struct Told {
    /// How it ended; as failed if what it told cannot be understood.
    pub ended: Ended,
    /// What it printed for people.
    pub output: Vec<u8>,
    /// What it read; nothing if it does not tell that by `deps`.
    reads: Option<Vec<Vec<u8>>>,
}

impl Surroundings {
    /// Of a pass that begins.
    pub fn new(
        work: Arc<Work>,
        options: Arc<Options>,
        (build_log, deps_log): (BuildLogWriter, DepsLogWriter),
    ) -> Surroundings {
        let lock = crate::build_log::path_in(work.graph.scopes.lookup(0, b"builddir"), LOCK);
        Surroundings { work, options, build_log, deps_log, lock, done: HashMap::new() }
    }

    /// Makes ready for a command. Returns the time of the file system.
    ///
    /// # Errors
    /// If a folder or a file cannot be made.
    pub fn prepare(&mut self, edge: EdgeId) -> Result<i64, Error> {
        let graph = &self.work.graph;
        if graph.flag(edge, b"generator")? {
            // It may call a program that writes the logs anew.
            self.build_log.close();
            self.deps_log.close();
        }
        for output in &graph.edges[edge].outputs {
            make_folder_of(graph.path(*output))?;
        }
        fs::write(as_path(&self.lock), b"").map_err(|error| Error::io("writing", &self.lock, &error))?;
        let began = stat(&self.lock)?;
        let depfile = graph.binding(edge, b"depfile", Escape::None)?;
        if !depfile.is_empty() {
            make_folder_of(&depfile)?;
        }
        let file = graph.binding(edge, b"rspfile", Escape::None)?;
        if !file.is_empty() {
            let content = graph.binding(edge, b"rspfile_content", Escape::Shell)?;
            fs::write(as_path(&file), content).map_err(|error| Error::io("writing", &file, &error))?;
        }
        Ok(began)
    }

    /// Takes what a command says that it reads out of what it has written.
    ///
    /// # Errors
    /// If a file cannot be read or removed.
    pub fn hear(&self, edge: EdgeId, ended: Ended, output: Vec<u8>) -> Result<Told, Error> {
        let graph = &self.work.graph;
        let deps = graph.binding(edge, b"deps", Escape::Shell)?;
        let (mut told, heard) = match &deps[..] {
            b"" => return Ok(Told { ended, output, reads: None }),
            b"msvc" => {
                let (output, reads) = parse_msvc(&output, &graph.binding(edge, b"msvc_deps_prefix", Escape::Shell)?);
                (Told { ended, output, reads: Some(reads) }, Ok(()))
            }
            b"gcc" => match self.read_depfile(edge) {
                Ok(reads) => (Told { ended, output, reads: Some(reads) }, Ok(())),
                Err(error) => (Told { ended, output, reads: None }, Err(error)),
            },
            other => {
                let said = format!("unknown deps type '{}'; gcc and msvc are known", show(other));
                return Err(Error::new(ErrorKind::Unsupported, said));
            }
        };
        // A command that failed has written what it liked.
        if let (Err(error), Ended::With(0)) = (heard, ended) {
            if !told.output.is_empty() {
                told.output.push(b'\n');
            }
            told.output.extend_from_slice(error.to_string().as_bytes());
            told.ended = Ended::With(1);
        }
        Ok(told)
    }

    fn read_depfile(&self, edge: EdgeId) -> Result<Vec<Vec<u8>>, Error> {
        let path = self.work.graph.binding(edge, b"depfile", Escape::None)?;
        let wrong = |said: &str| Error::new(ErrorKind::Dependencies, said);
        if path.is_empty() {
            return Err(wrong("edge with deps=gcc but no depfile makes no sense"));
        }
        let text = match fs::read(as_path(&path)) {
            Ok(text) if !text.is_empty() => text,
            Ok(_) => return Ok(Vec::new()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(wrong(&plain(&error))),
        };
        let mut reads = Depfile::parse(&text).map_err(wrong)?.inputs;
        reads.iter_mut().for_each(canonicalize);
        if !self.options.keeps_depfiles {
            remove(&path)?;
        }
        Ok(reads)
    }

    /// After a command that went well: looks at its outputs, and writes the logs.
    ///
    /// # Errors
    /// If a file cannot be looked at, or a log not be written.
    pub fn succeed(&mut self, edge: EdgeId, times: (i64, i64), began: i64, told: &Told) -> Result<(), Error> {
        let work = Arc::clone(&self.work);
        let graph = &work.graph;
        let (restats, generates) = (graph.flag(edge, b"restat")?, graph.flag(edge, b"generator")?);
        let outputs = &graph.edges[edge].outputs;
        let (mut mtime, mut is_unchanged) = (began, false);
        for output in outputs.iter().filter(|_| began == 0 || restats || generates) {
            let (state, new) = (&work.files[*output], stat(graph.path(*output))?);
            mtime = mtime.max(new);
            if restats && state.mtime() == new {
                state.set_dirty(false);
                is_unchanged = true;
            }
        }
        for output in outputs {
            self.done.insert(graph.path(*output).into(), work.files[*output].is_dirty());
        }
        let file = graph.binding(edge, b"rspfile", Escape::None)?;
        if !file.is_empty() && !self.options.keeps_response_files {
            remove(&file)?;
        }
        self.build_log.record(graph, edge, times, if is_unchanged { began } else { mtime })?;
        for output in outputs {
            if let Some(reads) = &told.reads {
                let path = graph.path(*output);
                self.deps_log.record(path, stat(path)?, reads)?;
            }
        }
        Ok(())
    }

    /// Records a command that was not run, since this is a rehearsal.
    pub fn rehearse(&mut self, edge: EdgeId) {
        for output in &self.work.graph.edges[edge].outputs {
            self.done.insert(self.work.graph.path(*output).into(), true);
        }
    }

    /// Removes what a command that was cut off has left half done.
    pub fn discard(&self, edge: EdgeId) {
        let graph = &self.work.graph;
        let depfile = graph.binding(edge, b"depfile", Escape::None).unwrap_or_default();
        for output in &graph.edges[edge].outputs {
            let path = graph.path(*output);
            // A header may have been the reason: then the depfile is newer, and the output is not.
            let is_changed = stat(path).is_ok_and(|new| new != self.work.files[*output].mtime());
            if is_changed || !depfile.is_empty() {
                let _ = remove(path);
            }
        }
        if !depfile.is_empty() {
            let _ = remove(&depfile);
        }
    }

    /// Ends the pass: closes the logs.
    ///
    /// # Errors
    /// If a log cannot be written.
    pub fn end(&mut self) -> Result<(), Error> {
        if self.options.dry_run {
            return Ok(());
        }
        remove(&self.lock)?;
        self.build_log.finish()?;
        self.deps_log.finish()
    }
}

/// Removes a file, if it is there.
///
/// # Errors
/// If it is there and cannot be removed.
pub fn remove(path: &[u8]) -> Result<bool, Error> {
    match fs::remove_file(as_path(path)) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(_) if as_path(path).is_dir() => {
            fs::remove_dir(as_path(path)).map_err(|error| Error::io("removing", path, &error))?;
            Ok(true)
        }
        Err(error) => Err(Error::io("removing", path, &error)),
    }
}

fn make_folder_of(path: &[u8]) -> Result<(), Error> {
    match as_path(path).parent() {
        Some(folder) if !folder.as_os_str().is_empty() && !folder.is_dir() => {
            fs::create_dir_all(folder).map_err(|error| Error::io("making the folder of", path, &error))
        }
        _ => Ok(()),
    }
}
