//! Which files have to be made anew. Used by `pass.rs` before a build; while it runs, `decide.rs`
//! asks [`outputs_are_dirty`] again where inputs turned out to be unchanged. The rules are those of
//! `ninja`'s `graph.cc`, so that both programs rebuild the same edges.

use crate::build_log::BuildLog;
use crate::depfile::Depfile;
use crate::deps_log::DepsLog;
use crate::dyndep;
use crate::error::{plain, Error, ErrorKind};
use crate::eval::Bytes;
use crate::graph::{EdgeId, Escape, FileId, Graph};
use crate::path::{as_path, canonicalize, show};
use crate::state::FileState;
use std::collections::HashMap;
use std::{fs, io};

/// How far the walk over the graph has come with an edge.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum Visit {
    #[default]
    NotYet,
    Open,
    Done,
}

/// What is known of an edge.
#[derive(Clone, Default, Debug)]
pub struct EdgeState {
    visit: Visit,
    /// Whether nothing has to be done before its outputs can be used.
    pub is_ready: bool,
    /// Whether it is not known what its command reads, so that it has to run.
    pub lacks_deps: bool,
}

/// The walk over the graph that finds out what is dirty.
pub struct Scan<'a> {
    /// The graph, to which the dependencies are added that commands have told.
    pub graph: &'a mut Graph,
    /// The log of commands.
    pub log: &'a BuildLog,
    /// The log of dependencies.
    pub deps: &'a DepsLog,
    /// Outputs of edges that have run in an earlier pass of the same build: whether they changed.
    pub done: &'a HashMap<Bytes, bool>,
    /// What is known of the files.
    pub files: Vec<FileState>,
    /// What is known of the edges.
    pub edges: Vec<EdgeState>,
    stack: Vec<FileId>,
}

impl<'a> Scan<'a> {
    /// A walk that has not begun.
    pub fn new(graph: &'a mut Graph, log: &'a BuildLog, deps: &'a DepsLog, done: &'a HashMap<Bytes, bool>) -> Scan<'a> {
        let edges = vec![EdgeState::default(); graph.edges.len()];
        let mut scan = Scan { graph, log, deps, done, files: Vec::new(), edges, stack: Vec::new() };
        scan.grow();
        scan
    }

    /// Files that were added to the graph get a state.
    fn grow(&mut self) {
        self.files.resize_with(self.graph.files.len(), FileState::default);
    }

    /// Finds out whether a file, and all that it needs, is dirty. Returns what has to be validated
    /// along with it, which has been visited as well.
    ///
    /// # Errors
    /// A circle, or a file that cannot be read.
    pub fn visit(&mut self, target: FileId) -> Result<Vec<FileId>, Error> {
        let (mut validations, mut next) = (Vec::new(), 0);
        self.file(target, &mut validations)?;
        while next < validations.len() {
            let file = validations[next];
            next += 1;
            self.file(file, &mut validations)?;
        }
        Ok(validations)
    }

    fn file(&mut self, file: FileId, validations: &mut Vec<FileId>) -> Result<(), Error> {
        let Some(edge) = self.graph.producer(file) else {
            let state = &self.files[file];
            if !state.is_known() {
                state.look(self.graph.path(file))?;
                state.set_dirty(!state.exists());
            }
            return Ok(());
        };
        match self.edges[edge].visit {
            Visit::Done => return Ok(()),
            Visit::Open => return Err(self.circle(file, edge)),
            Visit::NotYet => {}
        }
        self.edges[edge].visit = Visit::Open;
        self.stack.push(file);
        let first = self.graph.edges[edge].outputs[0];
        if self.done.contains_key(self.graph.path(first)) {
            self.has_run(edge)?;
        } else {
            self.edge(edge, validations)?;
        }
        self.edges[edge].visit = Visit::Done;
        self.stack.pop();
        Ok(())
    }

    /// An edge of an earlier pass: its outputs are there, and changed or not.
    fn has_run(&mut self, edge: EdgeId) -> Result<(), Error> {
        self.edges[edge].is_ready = true;
        for output in &self.graph.edges[edge].outputs {
            let (state, path) = (&self.files[*output], self.graph.path(*output));
            state.look(path)?;
            state.set_dirty(self.done.get(path).copied().unwrap_or(true));
        }
        Ok(())
    }

    fn edge(&mut self, edge: EdgeId, validations: &mut Vec<FileId>) -> Result<(), Error> {
        self.load_dyndeps(edge, validations)?;
        for output in &self.graph.edges[edge].outputs {
            self.files[*output].look(self.graph.path(*output))?;
        }
        let (mut is_dirty, mut is_ready) = (false, true);
        if !self.load_deps(edge)? {
            self.edges[edge].lacks_deps = true;
            is_dirty = true;
        }
        self.grow();
        validations.extend(&self.graph.edges[edge].validations);

        let mut newest = None;
        for place in 0..self.graph.edges[edge].inputs.len() {
            let input = self.graph.edges[edge].inputs[place];
            self.file(input, validations)?;
            if self.graph.producer(input).is_some_and(|producer| !self.edges[producer].is_ready) {
                is_ready = false;
            }
            if place < self.graph.edges[edge].real_inputs().len() {
                let state = &self.files[input];
                if state.is_dirty() {
                    is_dirty = true;
                } else {
                    newest = newest.max(Some(state.mtime()));
                }
            }
        }
        is_dirty = is_dirty || outputs_are_dirty(self.graph, self.log, &self.files, edge, newest)?;
        let this = &self.graph.edges[edge];
        if is_dirty {
            this.outputs.iter().for_each(|output| self.files[*output].set_dirty(true));
            // A name that stands for nothing has nothing to wait for.
            is_ready &= this.is_phony() && this.inputs.is_empty();
        }
        self.edges[edge].is_ready = is_ready;
        Ok(())
    }

    /// Reads the file that has more dependencies of the edge, if it is as it should be.
    fn load_dyndeps(&mut self, edge: EdgeId, validations: &mut Vec<FileId>) -> Result<(), Error> {
        let pending = self.graph.edges[edge].dyndep.filter(|file| self.graph.files[*file].has_dyndeps);
        let Some(file) = pending else { return Ok(()) };
        self.file(file, validations)?;
        if self.graph.producer(file).is_none_or(|producer| self.edges[producer].is_ready) {
            dyndep::load(self.graph, file)?;
            self.grow();
        }
        Ok(())
    }

    /// Adds what the command of an edge has said that it reads; whether that is known.
    fn load_deps(&mut self, edge: EdgeId) -> Result<bool, Error> {
        let output = self.graph.edges[edge].outputs[0];
        if self.graph.flag(edge, b"deps")? {
            let Some((mtime, inputs)) = self.deps.of(output) else { return Ok(false) };
            if self.files[output].mtime() > mtime {
                return Ok(false);
            }
            self.graph.edges[edge].add_implicit(inputs);
            return Ok(true);
        }
        let path = self.graph.binding(edge, b"depfile", Escape::None)?;
        if path.is_empty() {
            return Ok(true);
        }
        let text = match fs::read(as_path(&path)) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(wrong(&path, &plain(&error))),
        };
        if text.is_empty() {
            return Ok(false);
        }
        let depfile = Depfile::parse(&text).map_err(|said| wrong(&path, said))?;
        let Some(first) = depfile.outputs.first() else { return Err(wrong(&path, "no outputs declared")) };
        let mut first = first.clone();
        canonicalize(&mut first);
        if first != self.graph.path(output) {
            return Ok(false);
        }
        let outputs = &self.graph.edges[edge].outputs;
        for (place, named) in depfile.outputs.iter().enumerate() {
            let named = if place == 0 { &first } else { named };
            if !outputs.iter().any(|output| self.graph.path(*output) == *named) {
                let said = format!("depfile mentions '{}' as an output, but no such output was declared", show(named));
                return Err(wrong(&path, &said));
            }
        }
        let mut inputs = depfile.inputs;
        inputs.iter_mut().for_each(canonicalize);
        let inputs: Vec<FileId> = inputs.iter().map(|input| self.graph.file(input)).collect();
        self.graph.edges[edge].add_implicit(inputs.into_iter());
        Ok(true)
    }

    /// The circle that a file closes, from that file to that file.
    fn circle(&self, file: FileId, edge: EdgeId) -> Error {
        let start = self.stack.iter().position(|open| self.graph.producer(*open) == Some(edge)).unwrap_or(0);
        let inner = self.stack[start..].iter().skip(1).chain([&file]);
        let names: Vec<String> = [&file].into_iter().chain(inner).map(|file| self.graph.show(*file)).collect();
        let mut said = format!("dependency cycle: {}", names.join(" -> "));
        if self.stack.len() == start + 1 && self.graph.edges[edge].is_phony() {
            said += " (a phony target names itself)";
        }
        Error::new(ErrorKind::Cycle, said)
    }
}

fn wrong(path: &[u8], said: &str) -> Error {
    Error::new(ErrorKind::Dependencies, format!("{}: {said}", show(path)))
}

/// Whether outputs of an edge, of which no input is dirty, have to be made anew. `newest` is the
/// time of the newest input. A name that stands for files is as new as these.
///
/// # Errors
/// If its variables refer to each other in a circle.
pub fn outputs_are_dirty(
    graph: &Graph,
    log: &BuildLog,
    files: &[FileState],
    edge: EdgeId,
    newest: Option<i64>,
) -> Result<bool, Error> {
    let this = &graph.edges[edge];
    if this.is_phony() {
        let is_dirty = this.inputs.is_empty() && this.outputs.iter().any(|output| !files[*output].exists());
        if let Some(newest) = newest.filter(|_| !is_dirty) {
            this.outputs.iter().for_each(|output| files[*output].is_as_new_as(newest));
        }
        return Ok(is_dirty);
    }
    if this.outputs.iter().any(|output| !files[*output].exists()) {
        return Ok(true);
    }
    let (restats, generates) = (graph.flag(edge, b"restat")?, graph.flag(edge, b"generator")?);
    let mut hash = None;
    for output in &this.outputs {
        let entry = log.entries.get(graph.path(*output));
        // What restats may have an output that is older than its inputs: the log says when it was
        // found to be right.
        let is_excused = restats && entry.is_some();
        if !is_excused && newest.is_some_and(|newest| files[*output].mtime() < newest) {
            return Ok(true);
        }
        let Some(entry) = entry else {
            if generates {
                continue;
            }
            return Ok(true);
        };
        if !generates {
            let hash = match hash {
                Some(hash) => hash,
                None => *hash.insert(log.hash(&graph.logged_command(edge)?)),
            };
            if hash != entry.hash {
                return Ok(true);
            }
        }
        if newest.is_some_and(|newest| entry.mtime < newest) {
            return Ok(true);
        }
    }
    Ok(false)
}
