//! Texts with variables, and the scopes in which variables and rules have their meaning. Made by
//! `manifest.rs`; what a statement's variables come to is in `graph.rs`.

use std::collections::HashMap;

/// Bytes of a manifest: names, values, paths.
pub type Bytes = Box<[u8]>;

/// A part of a text: as it stands, or a variable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Part {
    /// As it stands.
    Text(Vec<u8>),
    /// The value of a variable.
    Variable(Bytes),
}

/// A text with variables, which are looked up where it is used.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Template(Vec<Part>);

impl Template {
    /// Adds text as it stands.
    pub fn text(&mut self, text: &[u8]) {
        match self.0.last_mut() {
            Some(Part::Text(last)) => last.extend_from_slice(text),
            _ => self.0.push(Part::Text(text.to_vec())),
        }
    }

    /// Adds a variable.
    pub fn variable(&mut self, name: &[u8]) {
        self.0.push(Part::Variable(name.into()));
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The parts, in order.
    pub fn parts(&self) -> &[Part] {
        &self.0
    }

    /// The parts, each in brackets and variables with a dollar, as `ninja`'s own tests write them.
    pub fn serialize(&self) -> String {
        let part = |part: &Part| match part {
            Part::Text(text) => format!("[{}]", String::from_utf8_lossy(text)),
            Part::Variable(name) => format!("[${}]", String::from_utf8_lossy(name)),
        };
        self.0.iter().map(part).collect()
    }
}

/// How commands are made: a name, and what its bindings come to for each statement.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Its name.
    pub name: Bytes,
    bindings: Vec<(Bytes, Template)>,
}

/// The bindings that a rule may have.
const RESERVED: [&str; 11] = [
    "command",
    "depfile",
    "dyndep",
    "description",
    "deps",
    "generator",
    "pool",
    "restat",
    "rspfile",
    "rspfile_content",
    "msvc_deps_prefix",
];

impl Rule {
    /// A rule without bindings.
    pub fn new(name: &[u8]) -> Rule {
        Rule { name: name.into(), bindings: Vec::new() }
    }

    /// Whether a rule may have this binding.
    pub fn may_have(name: &[u8]) -> bool {
        RESERVED.iter().any(|reserved| reserved.as_bytes() == name)
    }

    /// Sets a binding. The last one counts.
    pub fn bind(&mut self, name: &[u8], value: Template) {
        match self.bindings.iter_mut().find(|(known, _)| **known == *name) {
            Some((_, known)) => *known = value,
            None => self.bindings.push((name.into(), value)),
        }
    }

    /// The binding, if it has it.
    pub fn binding(&self, name: &[u8]) -> Option<&Template> {
        self.bindings.iter().find(|(known, _)| **known == *name).map(|(_, value)| value)
    }
}

/// A scope by its number.
pub type ScopeId = usize;

/// What one file, or one statement, has bound.
#[derive(Default, Debug)]
struct Scope {
    parent: Option<ScopeId>,
    variables: HashMap<Bytes, Bytes>,
    rules: HashMap<Bytes, usize>,
}

/// All scopes and all rules. Number 0 is the outermost scope, and rule 0 is `phony`.
#[derive(Debug)]
pub struct Scopes {
    scopes: Vec<Scope>,
    rules: Vec<Rule>,
}

/// The number of the rule that has no command.
pub const PHONY: usize = 0;

impl Default for Scopes {
    fn default() -> Scopes {
        let mut outermost = Scope::default();
        outermost.rules.insert((*b"phony").into(), PHONY);
        Scopes { scopes: vec![outermost], rules: vec![Rule::new(b"phony")] }
    }
}

impl Scopes {
    /// A new scope inside another.
    pub fn inside(&mut self, parent: ScopeId) -> ScopeId {
        self.scopes.push(Scope { parent: Some(parent), ..Scope::default() });
        self.scopes.len() - 1
    }

    /// Binds a variable.
    pub fn bind(&mut self, scope: ScopeId, name: &[u8], value: &[u8]) {
        self.scopes[scope].variables.insert(name.into(), value.into());
    }

    /// Binds in one scope what another one binds itself.
    pub fn copy_own(&mut self, from: ScopeId, to: ScopeId) {
        let variables = self.scopes[from].variables.clone();
        self.scopes[to].variables.extend(variables);
    }

    /// The value of a variable, of the innermost scope that binds it; empty if none does.
    pub fn lookup(&self, scope: ScopeId, name: &[u8]) -> &[u8] {
        let mut at = Some(scope);
        while let Some(scope) = at {
            if let Some(value) = self.own(scope, name) {
                return value;
            }
            at = self.scopes[scope].parent;
        }
        b""
    }

    /// The value that this very scope binds.
    pub fn own(&self, scope: ScopeId, name: &[u8]) -> Option<&[u8]> {
        self.scopes[scope].variables.get(name).map(|value| &**value)
    }

    /// The value of a variable outside of this scope.
    pub fn outside(&self, scope: ScopeId, name: &[u8]) -> &[u8] {
        self.scopes[scope].parent.map_or(b"", |parent| self.lookup(parent, name))
    }

    /// What a text comes to in a scope.
    pub fn evaluate(&self, scope: ScopeId, template: &Template) -> Vec<u8> {
        let mut out = Vec::new();
        for part in template.parts() {
            match part {
                Part::Text(text) => out.extend_from_slice(text),
                Part::Variable(name) => out.extend_from_slice(self.lookup(scope, name)),
            }
        }
        out
    }

    /// Adds a rule, unless this very scope has one of that name.
    pub fn add_rule(&mut self, scope: ScopeId, rule: Rule) {
        let name = rule.name.clone();
        self.rules.push(rule);
        self.scopes[scope].rules.insert(name, self.rules.len() - 1);
    }

    /// Whether this very scope has a rule of that name.
    pub fn has_rule(&self, scope: ScopeId, name: &[u8]) -> bool {
        self.scopes[scope].rules.contains_key(name)
    }

    /// The number of the rule of that name, of the innermost scope that has one.
    pub fn find_rule(&self, scope: ScopeId, name: &[u8]) -> Option<usize> {
        let mut at = Some(scope);
        while let Some(scope) = at {
            if let Some(rule) = self.scopes[scope].rules.get(name) {
                return Some(*rule);
            }
            at = self.scopes[scope].parent;
        }
        None
    }

    /// A rule by its number.
    pub fn rule(&self, number: usize) -> &Rule {
        &self.rules[number]
    }
}
