//! Reads a manifest (`build.ninja`) into a [`Graph`]. Used by `build.rs` and by tests. Statements,
//! their errors and their order are as in `ninja`'s `manifest_parser.cc`.

use crate::error::{plain, Error, ErrorKind};
use crate::eval::{Rule, ScopeId, Template};
use crate::graph::{Edge, FileId, Graph, Pool, DEFAULT_POOL};
use crate::lexer::{Lexer, Token};
use crate::path::{as_path, canonicalize, show};

/// The version of `ninja` whose manifests are understood.
pub const VERSION: (u32, u32) = (1, 13);

/// Reads a manifest and all that it includes.
///
/// # Errors
/// [`ErrorKind::Manifest`] with file, line and column.
pub fn read(path: &str) -> Result<Graph, Error> {
    let mut graph = Graph::default();
    let text = load(path.as_bytes()).map_err(|said| Error::new(ErrorKind::Manifest, said))?;
    Parser { lexer: Lexer::new(path, &text), graph: &mut graph, scope: 0 }.parse()?;
    Ok(graph)
}

/// Reads a manifest from memory. Includes are looked for as files.
///
/// # Errors
/// As [`read`].
pub fn parse(name: &str, text: &[u8]) -> Result<Graph, Error> {
    let mut graph = Graph::default();
    Parser { lexer: Lexer::new(name, text), graph: &mut graph, scope: 0 }.parse()?;
    Ok(graph)
}

fn load(path: &[u8]) -> Result<Vec<u8>, String> {
    std::fs::read(as_path(path)).map_err(|error| format!("loading '{}': {}", show(path), plain(&error)))
}

struct Parser<'g> {
    lexer: Lexer,
    graph: &'g mut Graph,
    scope: ScopeId,
}

impl Parser<'_> {
    fn parse(&mut self) -> Result<(), Error> {
        loop {
            match self.lexer.token() {
                Token::Pool => self.pool()?,
                Token::Build => self.edge()?,
                Token::Rule => self.rule()?,
                Token::Default => self.default()?,
                Token::Ident => {
                    self.lexer.unread();
                    let (name, value) = self.binding()?;
                    let value = self.graph.scopes.evaluate(self.scope, &value);
                    if name == b"ninja_required_version" {
                        self.check_version(&value)?;
                    }
                    self.graph.scopes.bind(self.scope, &name, &value);
                }
                Token::Include => self.include(false)?,
                Token::Subninja => self.include(true)?,
                Token::Error => return Err(self.lexer.error(self.lexer.describe())),
                Token::Eof => return Ok(()),
                Token::Newline => {}
                other => return Err(self.lexer.error(&format!("unexpected {}", other.name()))),
            }
        }
    }

    fn check_version(&self, wanted: &[u8]) -> Result<(), Error> {
        let text = show(wanted);
        let mut numbers = text.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
        let (major, minor) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        if (major, minor) > VERSION {
            let said = format!(
                "the manifest asks for ninja {text}, and this program understands what {}.{} has",
                VERSION.0, VERSION.1
            );
            return Err(Error::new(ErrorKind::Unsupported, said));
        }
        Ok(())
    }

    fn binding(&mut self) -> Result<(Vec<u8>, Template), Error> {
        let Some(name) = self.lexer.ident() else { return Err(self.lexer.error("expected variable name")) };
        self.lexer.expect(Token::Equals)?;
        Ok((name, self.lexer.value()?))
    }

    fn pool(&mut self) -> Result<(), Error> {
        let Some(name) = self.lexer.ident() else { return Err(self.lexer.error("expected pool name")) };
        self.lexer.expect(Token::Newline)?;
        if self.graph.find_pool(&name).is_some() {
            return Err(self.lexer.error(&format!("duplicate pool '{}'", show(&name))));
        }
        let mut depth = None;
        while self.lexer.peek(Token::Indent) {
            let (key, value) = self.binding()?;
            if key != b"depth" {
                return Err(self.lexer.error(&format!("unexpected variable '{}'", show(&key))));
            }
            let value = show(&self.graph.scopes.evaluate(self.scope, &value));
            match value.trim().parse::<usize>() {
                Ok(number) => depth = Some(number),
                Err(_) => return Err(self.lexer.error("invalid pool depth")),
            }
        }
        let Some(depth) = depth else { return Err(self.lexer.error("expected 'depth =' line")) };
        self.graph.pools.push(Pool { name: name.into(), depth });
        Ok(())
    }

    fn rule(&mut self) -> Result<(), Error> {
        let Some(name) = self.lexer.ident() else { return Err(self.lexer.error("expected rule name")) };
        self.lexer.expect(Token::Newline)?;
        if self.graph.scopes.has_rule(self.scope, &name) {
            return Err(self.lexer.error(&format!("duplicate rule '{}'", show(&name))));
        }
        let mut rule = Rule::new(&name);
        while self.lexer.peek(Token::Indent) {
            let (key, value) = self.binding()?;
            if !Rule::may_have(&key) {
                return Err(self.lexer.error(&format!("unexpected variable '{}'", show(&key))));
            }
            rule.bind(&key, value);
        }
        let has = |name: &[u8]| rule.binding(name).is_some_and(|value| !value.is_empty());
        if has(b"rspfile") != has(b"rspfile_content") {
            return Err(self.lexer.error("rspfile and rspfile_content need to be both specified"));
        }
        if !has(b"command") {
            return Err(self.lexer.error("expected 'command =' line"));
        }
        self.graph.scopes.add_rule(self.scope, rule);
        Ok(())
    }

    fn default(&mut self) -> Result<(), Error> {
        let mut template = self.lexer.path()?;
        if template.is_empty() {
            return Err(self.lexer.error("expected target name"));
        }
        while !template.is_empty() {
            let path = self.path_in(self.scope, &template)?;
            match self.graph.find(&path) {
                Some(file) => self.graph.defaults.push(file),
                None => return Err(self.lexer.error(&format!("unknown target '{}'", show(&path)))),
            }
            template = self.lexer.path()?;
        }
        self.lexer.expect(Token::Newline)
    }

    fn path_in(&self, scope: ScopeId, template: &Template) -> Result<Vec<u8>, Error> {
        let mut path = self.graph.scopes.evaluate(scope, template);
        if path.is_empty() {
            return Err(self.lexer.error("empty path"));
        }
        canonicalize(&mut path);
        Ok(path)
    }

    fn paths(&mut self, into: &mut Vec<Template>) -> Result<usize, Error> {
        let before = into.len();
        loop {
            let path = self.lexer.path()?;
            if path.is_empty() {
                return Ok(into.len() - before);
            }
            into.push(path);
        }
    }

    /// Paths behind a separator; none if it is not there.
    fn paths_behind(&mut self, separator: Token, into: &mut Vec<Template>) -> Result<usize, Error> {
        if self.lexer.peek(separator) {
            self.paths(into)
        } else {
            Ok(0)
        }
    }

    fn edge(&mut self) -> Result<(), Error> {
        let (mut outputs, mut inputs, mut validations) = (Vec::new(), Vec::new(), Vec::new());
        self.paths(&mut outputs)?;
        let implicit_outputs = self.paths_behind(Token::Pipe, &mut outputs)?;
        if outputs.is_empty() {
            return Err(self.lexer.error("expected path"));
        }
        self.lexer.expect(Token::Colon)?;
        let Some(name) = self.lexer.ident() else {
            return Err(self.lexer.error("expected build command name"));
        };
        let Some(rule) = self.graph.scopes.find_rule(self.scope, &name) else {
            return Err(self.lexer.error(&format!("unknown build rule '{}'", show(&name))));
        };
        self.paths(&mut inputs)?;
        let implicit = self.paths_behind(Token::Pipe, &mut inputs)?;
        let order_only = self.paths_behind(Token::Pipe2, &mut inputs)?;
        self.paths_behind(Token::PipeAt, &mut validations)?;
        self.lexer.expect(Token::Newline)?;

        let mut scope = self.scope;
        while self.lexer.peek(Token::Indent) {
            if scope == self.scope {
                scope = self.graph.scopes.inside(self.scope);
            }
            let (key, value) = self.binding()?;
            let value = self.graph.scopes.evaluate(self.scope, &value);
            self.graph.scopes.bind(scope, &key, &value);
        }

        let id = self.graph.edges.len();
        self.graph.edges.push(Edge {
            rule,
            scope,
            pool: DEFAULT_POOL,
            inputs: Vec::new(),
            implicit,
            order_only,
            outputs: Vec::new(),
            implicit_outputs,
            validations: Vec::new(),
            dyndep: None,
        });
        self.set_pool(id)?;
        for output in &outputs {
            let file = self.declared(scope, output)?;
            if let Some(other) = self.graph.files[file].producer {
                let path = self.graph.show(file);
                return Err(self.lexer.error(&if other == id {
                    format!("{path} is defined as an output multiple times")
                } else {
                    format!("multiple rules generate {path}")
                }));
            }
            self.graph.files[file].producer = Some(id);
            self.graph.edges[id].outputs.push(file);
        }
        for input in &inputs {
            let file = self.declared(scope, input)?;
            self.graph.files[file].first_user.get_or_insert(id);
            self.graph.edges[id].inputs.push(file);
        }
        for validation in &validations {
            let file = self.declared(scope, validation)?;
            self.graph.edges[id].validations.push(file);
        }
        self.drop_self_reference(id);
        self.set_dyndep(id)
    }

    fn declared(&mut self, scope: ScopeId, template: &Template) -> Result<FileId, Error> {
        let path = self.path_in(scope, template)?;
        let file = self.graph.file(&path);
        self.graph.files[file].is_declared = true;
        Ok(file)
    }

    fn set_pool(&mut self, id: usize) -> Result<(), Error> {
        let name = self.graph.binding(id, b"pool", crate::graph::Escape::Shell)?;
        if !name.is_empty() {
            let Some(pool) = self.graph.find_pool(&name) else {
                return Err(self.lexer.error(&format!("unknown pool name '{}'", show(&name))));
            };
            self.graph.edges[id].pool = pool;
        }
        Ok(())
    }

    /// Old versions of CMake wrote names that stand for themselves. The circle is left out.
    fn drop_self_reference(&mut self, id: usize) {
        let edge = &mut self.graph.edges[id];
        let simple = edge.is_phony() && edge.outputs.len() == 1 && edge.implicit_outputs == 0 && edge.implicit == 0;
        let output = edge.outputs[0];
        if simple && edge.inputs.contains(&output) {
            let end = edge.inputs.len() - edge.order_only;
            edge.order_only -= edge.inputs[end..].iter().filter(|file| **file == output).count();
            edge.inputs.retain(|file| *file != output);
            eprintln!(
                "seriatim-make: warning: phony target '{}' names itself as an input; ignored",
                self.graph.show(output)
            );
        }
    }

    fn set_dyndep(&mut self, id: usize) -> Result<(), Error> {
        let mut path = self.graph.binding(id, b"dyndep", crate::graph::Escape::None)?;
        if path.is_empty() {
            return Ok(());
        }
        canonicalize(&mut path);
        let file = self.graph.file(&path);
        self.graph.files[file].has_dyndeps = true;
        if !self.graph.edges[id].inputs.contains(&file) {
            return Err(self.lexer.error(&format!("dyndep '{}' is not an input", show(&path))));
        }
        self.graph.edges[id].dyndep = Some(file);
        Ok(())
    }

    fn include(&mut self, own_scope: bool) -> Result<(), Error> {
        let template = self.lexer.path()?;
        let path = self.graph.scopes.evaluate(self.scope, &template);
        let text = load(&path).map_err(|said| self.lexer.error(&said))?;
        let scope = if own_scope { self.graph.scopes.inside(self.scope) } else { self.scope };
        Parser { lexer: Lexer::new(&show(&path), &text), graph: &mut *self.graph, scope }.parse()?;
        self.lexer.expect(Token::Newline)
    }
}
