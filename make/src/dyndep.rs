//! Dependencies that a file of the build holds (`dyndep`), as Fortran and modules of C++ need them.
//! Called by `scan.rs` once that file is as it should be.

use crate::error::{plain, Error, ErrorKind};
use crate::eval::{Scopes, Template};
use crate::graph::{EdgeId, FileId, Graph};
use crate::lexer::{Lexer, Token};
use crate::path::{as_path, canonicalize, show};
use std::collections::HashMap;

/// What the file says of an edge.
#[derive(Default)]
struct Found {
    inputs: Vec<FileId>,
    outputs: Vec<FileId>,
    restats: bool,
}

/// Reads the file, and adds what it says to the edges that name it.
///
/// # Errors
/// [`ErrorKind::Dependencies`] or [`ErrorKind::Manifest`]: it cannot be read, is wrong, or does not
/// say something of each of those edges and of no other.
pub fn load(graph: &mut Graph, file: FileId) -> Result<(), Error> {
    graph.files[file].has_dyndeps = false;
    let name = graph.show(file);
    let text = std::fs::read(as_path(graph.path(file)))
        .map_err(|error| Error::new(ErrorKind::Dependencies, format!("loading '{name}': {}", plain(&error))))?;
    let mut found = Parser { lexer: Lexer::new(&name, &text), graph: &mut *graph, found: HashMap::new() }.parse()?;
    for edge in 0..graph.edges.len() {
        if graph.edges[edge].dyndep == Some(file) {
            let first = graph.show(graph.edges[edge].outputs[0]);
            let Some(found) = found.remove(&edge) else {
                return Err(wrong(format!("'{first}' not mentioned in its dyndep file '{name}'")));
            };
            add(graph, edge, found)?;
        }
    }
    match found.keys().next() {
        Some(edge) => Err(wrong(format!(
            "dyndep file '{name}' mentions output '{}' whose build statement does not have a dyndep binding for \
             the file",
            graph.show(graph.edges[*edge].outputs[0])
        ))),
        None => Ok(()),
    }
}

fn wrong(said: String) -> Error {
    Error::new(ErrorKind::Dependencies, said)
}

fn add(graph: &mut Graph, edge: EdgeId, found: Found) -> Result<(), Error> {
    if found.restats {
        let scope = graph.scopes.inside(graph.edges[edge].scope);
        // Its own bindings come first, so they have to be in the innermost scope.
        graph.scopes.copy_own(graph.edges[edge].scope, scope);
        graph.scopes.bind(scope, b"restat", b"1");
        graph.edges[edge].scope = scope;
    }
    for output in &found.outputs {
        if graph.files[*output].producer.is_some() {
            return Err(wrong(format!("multiple rules generate {}", graph.show(*output))));
        }
        graph.files[*output].producer = Some(edge);
    }
    graph.edges[edge].implicit_outputs += found.outputs.len();
    graph.edges[edge].outputs.extend(found.outputs);
    graph.edges[edge].add_implicit(found.inputs.into_iter());
    Ok(())
}

struct Parser<'g> {
    lexer: Lexer,
    graph: &'g mut Graph,
    found: HashMap<EdgeId, Found>,
}

impl Parser<'_> {
    fn parse(mut self) -> Result<HashMap<EdgeId, Found>, Error> {
        let mut has_version = false;
        let no_version = "expected 'ninja_dyndep_version = ...'";
        loop {
            match self.lexer.token() {
                Token::Build if has_version => self.edge()?,
                Token::Eof if has_version => return Ok(self.found),
                Token::Build | Token::Eof => return Err(self.lexer.error(no_version)),
                Token::Ident if !has_version => {
                    self.lexer.unread();
                    let (name, version) = self.binding()?;
                    if name != b"ninja_dyndep_version" {
                        return Err(self.lexer.error(no_version));
                    }
                    let version = show(&version);
                    let mut numbers = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
                    if (numbers.next(), numbers.next().unwrap_or(0)) != (Some(1), 0) {
                        let said = format!("unsupported 'ninja_dyndep_version = {version}'");
                        return Err(self.lexer.error(&said));
                    }
                    has_version = true;
                }
                Token::Newline => {}
                Token::Error => return Err(self.lexer.error(self.lexer.describe())),
                other => return Err(self.lexer.error(&format!("unexpected {}", other.name()))),
            }
        }
    }

    fn binding(&mut self) -> Result<(Vec<u8>, Vec<u8>), Error> {
        let Some(name) = self.lexer.ident() else { return Err(self.lexer.error("expected variable name")) };
        self.lexer.expect(Token::Equals)?;
        let value = self.lexer.value()?;
        Ok((name, evaluate(&value)))
    }

    /// The next path, canonical; empty if something else comes.
    fn path(&mut self) -> Result<Vec<u8>, Error> {
        let template = self.lexer.path()?;
        if template.is_empty() {
            return Ok(Vec::new());
        }
        let mut path = evaluate(&template);
        if path.is_empty() {
            return Err(self.lexer.error("empty path"));
        }
        canonicalize(&mut path);
        Ok(path)
    }

    fn paths(&mut self) -> Result<Vec<FileId>, Error> {
        let mut found = Vec::new();
        if self.lexer.peek(Token::Pipe) {
            loop {
                let path = self.path()?;
                if path.is_empty() {
                    break;
                }
                found.push(self.graph.file(&path));
            }
        }
        Ok(found)
    }

    fn edge(&mut self) -> Result<(), Error> {
        let path = self.path()?;
        if path.is_empty() {
            return Err(self.lexer.error("expected path"));
        }
        let Some(edge) = self.graph.find(&path).and_then(|file| self.graph.producer(file)) else {
            return Err(self.lexer.error(&format!("no build statement exists for '{}'", show(&path))));
        };
        if self.found.contains_key(&edge) {
            return Err(self.lexer.error(&format!("multiple statements for '{}'", show(&path))));
        }
        if !self.path()?.is_empty() {
            return Err(self.lexer.error("explicit outputs not supported"));
        }
        let outputs = self.paths()?;
        self.lexer.expect(Token::Colon)?;
        if self.lexer.ident().as_deref() != Some(b"dyndep") {
            return Err(self.lexer.error("expected build command name 'dyndep'"));
        }
        if !self.path()?.is_empty() {
            return Err(self.lexer.error("explicit inputs not supported"));
        }
        let inputs = self.paths()?;
        if self.lexer.peek(Token::Pipe2) {
            return Err(self.lexer.error("order-only inputs not supported"));
        }
        self.lexer.expect(Token::Newline)?;
        let mut restats = false;
        if self.lexer.peek(Token::Indent) {
            let (name, value) = self.binding()?;
            if name != b"restat" {
                return Err(self.lexer.error("binding is not 'restat'"));
            }
            restats = !value.is_empty();
        }
        self.found.insert(edge, Found { inputs, outputs, restats });
        Ok(())
    }
}

/// There are no variables in such a file: each is empty.
fn evaluate(template: &Template) -> Vec<u8> {
    Scopes::default().evaluate(0, template)
}
