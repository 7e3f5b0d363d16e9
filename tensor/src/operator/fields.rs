//! `Field`: what is said of a field of parameters, and how it is read of what a call is given.
//!
//! `parameters.rs` has the structures, whose derive macro writes calls of what is here.

#![forbid(unsafe_code)]

use crate::error::{Error, ErrorKind};
use crate::operator::parameters::{ParameterType, Parameters};

/// What is said of a field.
#[derive(Clone, Debug)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// What its type is, for people.
    pub kind: String,
    /// The default as text; a field without one is required.
    pub default: Option<&'static str>,
    /// The range, as it is written in Rust; `..` has all.
    pub range: &'static str,
    /// What it is for.
    pub about: &'static str,
}

impl Field {
    /// The field in one line, as errors list it.
    pub fn line(&self) -> String {
        let range = if self.range == ".." { String::new() } else { format!(" in {}", self.range) };
        let default = self.default.map_or("required".to_owned(), |default| format!("by default {default}"));
        format!("{} ({}{range}, {default}): {}", self.name, self.kind, self.about)
    }
}

/// The field of a name, which is one of them.
#[doc(hidden)]
pub fn named<'a>(fields: &'a [Field], name: &str) -> &'a Field {
    fields.iter().find(|field| field.name == name).expect("a structure lists each of its fields")
}

/// What is given to a structure whose fields count as those of another one.
#[doc(hidden)]
pub fn given_to<'a, P: Parameters>(given: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let fields = P::fields();
    given.iter().copied().filter(|(name, _)| fields.iter().any(|field| field.name == *name)).collect()
}

/// Reads one field.
#[doc(hidden)]
pub fn read_field<T: ParameterType>(
    field: &Field,
    is_in: impl Fn(&T) -> bool,
    given: &[(&str, &str)],
) -> Result<T, Error> {
    let refuse = |what: String| Err(Error::new(ErrorKind::BadParameter, format!("{what}; it is {}", field.line())));
    let text = given.iter().rev().find(|(name, _)| *name == field.name).map(|(_, text)| *text).or(field.default);
    let Some(text) = text else { return refuse(format!("parameter '{}' is missing", field.name)) };
    match T::parse(text) {
        Some(value) if is_in(&value) => Ok(value),
        Some(_) => refuse(format!("parameter '{}' = '{text}' is out of its range", field.name)),
        None => refuse(format!("parameter '{}' = '{text}' is ill-formed", field.name)),
    }
}

/// Refuses parameters that there are not.
#[doc(hidden)]
pub fn check_names(fields: &[Field], given: &[(&str, &str)]) -> Result<(), Error> {
    let Some((name, _)) = given.iter().find(|(name, _)| fields.iter().all(|field| field.name != *name)) else {
        return Ok(());
    };
    let known: Vec<String> = fields.iter().map(Field::line).collect();
    let message = format!("it has no parameter '{name}'; known are: {}", known.join("; "));
    Err(Error::new(ErrorKind::BadParameter, message))
}
