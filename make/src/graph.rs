//! The graph of a manifest: files, edges that make files of files, pools. Made by `manifest.rs`,
//! added to by `scan.rs` and `dyndep.rs`, and read by everything that follows.

use crate::error::{Error, ErrorKind};
use crate::eval::{Bytes, Part, Rule, ScopeId, Scopes, Template, PHONY};
use crate::path::{quote, show};
use std::collections::HashMap;

/// A file by its number.
pub type FileId = usize;
/// An edge by its number, in the order of the manifest.
pub type EdgeId = usize;
/// A pool by its number.
pub type PoolId = usize;

/// The pool without a limit.
pub const DEFAULT_POOL: PoolId = 0;
/// The pool whose one command has the terminal.
pub const CONSOLE: PoolId = 1;

/// A file, or a name that a `phony` edge makes.
#[derive(Debug)]
pub struct File {
    /// The canonical path.
    pub path: Bytes,
    /// The edge that makes it.
    pub producer: Option<EdgeId>,
    /// The first edge that uses it.
    pub first_user: Option<EdgeId>,
    /// Whether the manifest mentions it, and not only what commands have said that they read.
    pub is_declared: bool,
    /// Whether it holds dependencies of other edges, and has not been read yet.
    pub has_dyndeps: bool,
}

/// A command, and what it makes of what.
#[derive(Debug)]
pub struct Edge {
    /// The number of its rule.
    pub rule: usize,
    /// Where its variables are bound.
    pub scope: ScopeId,
    /// Its pool.
    pub pool: PoolId,
    /// Explicit, implicit and order-only inputs, in this order.
    pub inputs: Vec<FileId>,
    /// How many of the inputs are implicit.
    pub implicit: usize,
    /// How many of the inputs are order-only.
    pub order_only: usize,
    /// Explicit and implicit outputs, in this order.
    pub outputs: Vec<FileId>,
    /// How many of the outputs are implicit.
    pub implicit_outputs: usize,
    /// What is built whenever this is, without an order between them.
    pub validations: Vec<FileId>,
    /// The file that holds more of its dependencies.
    pub dyndep: Option<FileId>,
}

impl Edge {
    /// Whether there is nothing to run.
    pub fn is_phony(&self) -> bool {
        self.rule == PHONY
    }

    /// Inputs that make it run when they change.
    pub fn real_inputs(&self) -> &[FileId] {
        &self.inputs[..self.inputs.len() - self.order_only]
    }

    /// Adds implicit inputs behind those that it has.
    pub fn add_implicit(&mut self, files: impl Iterator<Item = FileId>) {
        let end = self.inputs.len() - self.order_only;
        let before = self.inputs.len();
        self.inputs.splice(end..end, files);
        self.implicit += self.inputs.len() - before;
    }
}

/// So many commands at a time; 0 for no limit.
#[derive(Debug)]
pub struct Pool {
    /// Its name.
    pub name: Bytes,
    /// Commands at a time.
    pub depth: usize,
}

/// How the paths in `$in` and `$out` are written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Escape {
    /// For the shell.
    Shell,
    /// As they are.
    None,
}

/// All of a manifest.
#[derive(Debug)]
pub struct Graph {
    /// Variables and rules.
    pub scopes: Scopes,
    /// All files.
    pub files: Vec<File>,
    /// All edges.
    pub edges: Vec<Edge>,
    /// All pools.
    pub pools: Vec<Pool>,
    /// What is built if nothing is asked for.
    pub defaults: Vec<FileId>,
    by_path: HashMap<Bytes, FileId>,
}

impl Default for Graph {
    fn default() -> Graph {
        let pool = |name: &[u8], depth| Pool { name: name.into(), depth };
        Graph {
            scopes: Scopes::default(),
            files: Vec::new(),
            edges: Vec::new(),
            pools: vec![pool(b"", 0), pool(b"console", 1)],
            defaults: Vec::new(),
            by_path: HashMap::new(),
        }
    }
}

impl Graph {
    /// The file of a canonical path, made if there is none.
    pub fn file(&mut self, path: &[u8]) -> FileId {
        if let Some(file) = self.by_path.get(path) {
            return *file;
        }
        let id = self.files.len();
        self.files.push(File {
            path: path.into(),
            producer: None,
            first_user: None,
            is_declared: false,
            has_dyndeps: false,
        });
        self.by_path.insert(path.into(), id);
        id
    }

    /// The file of a canonical path, if there is one.
    pub fn find(&self, path: &[u8]) -> Option<FileId> {
        self.by_path.get(path).copied()
    }

    /// The path of a file.
    pub fn path(&self, file: FileId) -> &[u8] {
        &self.files[file].path
    }

    /// The path of a file, for a person.
    pub fn show(&self, file: FileId) -> String {
        show(self.path(file))
    }

    /// The edge that makes a file.
    pub fn producer(&self, file: FileId) -> Option<EdgeId> {
        self.files[file].producer
    }

    /// The rule of an edge.
    pub fn rule(&self, edge: EdgeId) -> &Rule {
        self.scopes.rule(self.edges[edge].rule)
    }

    /// The pool of that name.
    pub fn find_pool(&self, name: &[u8]) -> Option<PoolId> {
        self.pools.iter().position(|pool| *pool.name == *name)
    }

    /// What is built if nothing is asked for: what the manifest says, or else what nothing uses.
    pub fn default_targets(&self) -> Result<Vec<FileId>, Error> {
        if !self.defaults.is_empty() {
            return Ok(self.defaults.clone());
        }
        let outputs = self.edges.iter().flat_map(|edge| &edge.outputs).copied();
        let roots: Vec<FileId> = outputs.filter(|file| self.files[*file].first_user.is_none()).collect();
        if roots.is_empty() && !self.edges.is_empty() {
            return Err(Error::new(ErrorKind::Cycle, "could not determine root nodes of build graph"));
        }
        Ok(roots)
    }

    /// What a binding comes to for an edge; empty if nobody binds it.
    ///
    /// # Errors
    /// [`ErrorKind::Manifest`] if variables of its rule refer to each other in a circle.
    pub fn binding(&self, edge: EdgeId, name: &[u8], escape: Escape) -> Result<Vec<u8>, Error> {
        let mut out = Vec::new();
        self.append(edge, name, escape, &mut Vec::new(), &mut out)?;
        Ok(out)
    }

    /// Whether a binding comes to something.
    pub fn flag(&self, edge: EdgeId, name: &[u8]) -> Result<bool, Error> {
        Ok(!self.binding(edge, name, Escape::Shell)?.is_empty())
    }

    /// The command of an edge.
    pub fn command(&self, edge: EdgeId) -> Result<Vec<u8>, Error> {
        self.binding(edge, b"command", Escape::Shell)
    }

    /// The command with what its response file holds: what logs have the hash of.
    pub fn logged_command(&self, edge: EdgeId) -> Result<Vec<u8>, Error> {
        let mut command = self.command(edge)?;
        let content = self.binding(edge, b"rspfile_content", Escape::Shell)?;
        if !content.is_empty() {
            command.extend_from_slice(b";rspfile=");
            command.extend_from_slice(&content);
        }
        Ok(command)
    }

    /// Appends a variable of an edge. First comes what the innermost scope binds, then the rule,
    /// then the scopes outside. `open` are the variables of the rule that are being expanded.
    fn append<'g>(
        &'g self,
        edge: EdgeId,
        name: &'g [u8],
        escape: Escape,
        open: &mut Vec<&'g [u8]>,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let this = &self.edges[edge];
        match name {
            b"in" | b"in_newline" => {
                let explicit = this.inputs.len() - this.implicit - this.order_only;
                let between = if name == b"in" { b' ' } else { b'\n' };
                self.append_paths(&this.inputs[..explicit], between, escape, out);
                return Ok(());
            }
            b"out" => {
                let explicit = this.outputs.len() - this.implicit_outputs;
                self.append_paths(&this.outputs[..explicit], b' ', escape, out);
                return Ok(());
            }
            _ => {}
        }
        if let Some(value) = self.scopes.own(this.scope, name) {
            out.extend_from_slice(value);
            return Ok(());
        }
        let Some(template) = self.scopes.rule(this.rule).binding(name) else {
            out.extend_from_slice(self.scopes.outside(this.scope, name));
            return Ok(());
        };
        if let Some(start) = open.iter().position(|known| *known == name) {
            let names: Vec<String> = open[start..].iter().chain([&name]).map(|name| show(name)).collect();
            let said = format!("cycle in rule variables: {}", names.join(" -> "));
            return Err(Error::new(ErrorKind::Manifest, said));
        }
        open.push(name);
        for part in parts(template) {
            match part {
                Part::Text(text) => out.extend_from_slice(text),
                Part::Variable(name) => self.append(edge, name, escape, open, out)?,
            }
        }
        open.pop();
        Ok(())
    }

    fn append_paths(&self, files: &[FileId], between: u8, escape: Escape, out: &mut Vec<u8>) {
        for (number, file) in files.iter().enumerate() {
            if number > 0 {
                out.push(between);
            }
            match escape {
                Escape::Shell => quote(self.path(*file), out),
                Escape::None => out.extend_from_slice(self.path(*file)),
            }
        }
    }
}

fn parts(template: &Template) -> &[Part] {
    template.parts()
}
