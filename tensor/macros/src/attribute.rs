//! What is written in `#[parameter(…)]`, and in the comments of documentation.
//!
//! Used by `parameters.rs` and `choices.rs`. All that can be seen to be wrong here is an error that
//! points to it: a word that there is not, a default that is none of the type or of the range.

use quote::ToTokens;
use syn::meta::ParseNestedMeta;
use syn::parse::{Parse, ParseStream};
use syn::spanned::Spanned;
use syn::{Attribute, Error, Expr, ExprRange, Ident, Lit, LitStr, Meta, RangeLimits, Result, Token, Type, UnOp};

/// The default of a field: the text that is read where none is given.
pub struct Default {
    pub text: String,
    /// The number, if the default is one.
    number: Option<f64>,
}

impl Parse for Default {
    fn parse(input: ParseStream<'_>) -> Result<Default> {
        let value: Expr = input.parse()?;
        let number = number(&value);
        let text = match &value {
            Expr::Lit(literal) => match &literal.lit {
                Lit::Str(text) => Some(text.value()),
                Lit::Bool(value) => Some(value.value.to_string()),
                literal => digits(literal),
            },
            Expr::Unary(_) if number.is_some() => Some(shown(&value)),
            Expr::Path(path) if path.path.is_ident("None") => Some("None".into()),
            _ => None,
        };
        let wrong = "a default is a number, true, false, None, or a text such as \"(1, 1)\"";
        text.map(|text| Default { text, number }).ok_or_else(|| Error::new(value.span(), wrong))
    }
}

/// A range of values, and how it is written.
pub struct Range {
    pub range: ExprRange,
    pub text: String,
}

impl Parse for Range {
    fn parse(input: ParseStream<'_>) -> Result<Range> {
        let value: Expr = input.parse()?;
        let Expr::Range(range) = value else {
            return Err(Error::new(value.span(), "a range is written such as 1..=64, 0.0..1.0 or 1.."));
        };
        if range.start.is_none() && range.end.is_none() {
            return Err(Error::new(range.span(), "`..` has all values: leave the range out"));
        }
        let side = |side: &Option<Box<Expr>>| side.as_deref().map(shown).unwrap_or_default();
        let dots = if matches!(range.limits, RangeLimits::Closed(_)) { "..=" } else { ".." };
        let text = format!("{}{dots}{}", side(&range.start), side(&range.end));
        Ok(Range { range, text })
    }
}

impl Range {
    /// Whether a number is in it; yes if its ends are not written as numbers.
    fn may_have(&self, value: f64) -> bool {
        let ends = [&self.range.start, &self.range.end].map(|end| end.as_deref().and_then(number));
        let is_below =
            |end| if matches!(self.range.limits, RangeLimits::Closed(_)) { value <= end } else { value < end };
        ends[0].is_none_or(|first| value >= first) && ends[1].is_none_or(is_below)
    }
}

/// What is said of a field.
pub struct OfField {
    pub default: Option<Default>,
    pub range: Option<Range>,
    /// Whether the field is a structure whose fields count as those of this one.
    pub flatten: bool,
}

impl OfField {
    /// Reads `#[parameter(default = …, range = …)]`, or `#[parameter(flatten)]`.
    pub fn read(attributes: &[Attribute], of: &Type) -> Result<OfField> {
        let mut read = OfField { default: None, range: None, flatten: false };
        let mut other = None;
        each(attributes, |meta| {
            if meta.path.is_ident("default") {
                let default: Default = once(&meta, read.default.is_some())?.parse()?;
                fits(&default, of).map_err(|wrong| meta.error(wrong))?;
                read.default = Some(default);
            } else if meta.path.is_ident("range") {
                read.range = Some(once(&meta, read.range.is_some())?.parse()?);
            } else if meta.path.is_ident("flatten") {
                read.flatten = true;
                return Ok(());
            } else {
                return Err(meta.error("there are `default = …`, `range = …` and `flatten`"));
            }
            other = Some(meta.path.span());
            Ok(())
        })?;
        if let (true, Some(other)) = (read.flatten, other) {
            return Err(Error::new(other, "a field with `flatten` has the defaults and ranges of its own fields"));
        }
        if let (Some(Default { text, number: Some(number) }), Some(range)) = (&read.default, &read.range) {
            if !range.may_have(*number) {
                let message = format!("the default {text} is not in the range {}", range.text);
                return Err(Error::new(range.range.span(), message));
            }
        }
        Ok(read)
    }
}

/// Reads `#[parameter(name = "…")]`.
pub fn name(attributes: &[Attribute]) -> Result<Option<String>> {
    let mut name: Option<LitStr> = None;
    each(attributes, |meta| {
        if !meta.path.is_ident("name") {
            return Err(meta.error("there is `name = …`"));
        }
        name = Some(once(&meta, name.is_some())?.parse()?);
        Ok(())
    })?;
    Ok(name.map(|name| name.value()))
}

/// Refuses what only fields and choices have.
pub fn none(attributes: &[Attribute], what: &str) -> Result<()> {
    let attribute = attributes.iter().find(|attribute| attribute.path().is_ident("parameter"));
    attribute
        .map_or(Ok(()), |attribute| Err(Error::new(attribute.span(), format!("`#[parameter(…)]` belongs to {what}"))))
}

/// The first paragraph of the documentation in one line, without the period at its end.
pub fn about(attributes: &[Attribute], name: &Ident) -> Result<String> {
    let lines = attributes.iter().filter(|attribute| attribute.path().is_ident("doc"));
    let lines = lines.filter_map(|attribute| match &attribute.meta {
        Meta::NameValue(meta) => match &meta.value {
            Expr::Lit(literal) => match &literal.lit {
                Lit::Str(text) => Some(text.value()),
                _ => None,
            },
            // A macro of text, which only the compiler reads.
            _ => None,
        },
        _ => None,
    });
    let text = lines.map(|line| format!("{}\n", line.trim())).collect::<String>();
    let text = text.trim_start().split("\n\n").next().unwrap_or_default().trim().replace('\n', " ");
    if text.is_empty() {
        let message = format!("`{name}` has no documentation (`/// …`), and that is what errors and lists say of it");
        return Err(Error::new(name.span(), message));
    }
    Ok(text.strip_suffix('.').map(str::to_owned).unwrap_or(text))
}

/// Calls `read` with each entry of each `#[parameter(…)]`.
fn each(attributes: &[Attribute], mut read: impl FnMut(ParseNestedMeta<'_>) -> Result<()>) -> Result<()> {
    let attributes = attributes.iter().filter(|attribute| attribute.path().is_ident("parameter"));
    attributes.into_iter().try_for_each(|attribute| attribute.parse_nested_meta(&mut read))
}

/// What stands behind `=`, unless there has been such an entry before.
fn once<'a>(meta: &ParseNestedMeta<'a>, was_there: bool) -> Result<ParseStream<'a>> {
    if was_there {
        return Err(meta.error("it is given twice"));
    }
    meta.input.parse::<Token![=]>()?;
    Ok(meta.input)
}

/// Whether a default is one of a type that is known here.
fn fits(default: &Default, of: &Type) -> std::result::Result<(), String> {
    let text = &default.text;
    let is_read = match of.to_token_stream().to_string().as_str() {
        "usize" => text.parse::<usize>().is_ok(),
        "isize" => text.parse::<isize>().is_ok(),
        "f64" => text.parse::<f64>().is_ok(),
        "bool" => text.parse::<bool>().is_ok(),
        _ => true,
    };
    is_read.then_some(()).ok_or_else(|| format!("the default {text} is no {}", of.to_token_stream()))
}

/// The number that an expression is.
fn number(expression: &Expr) -> Option<f64> {
    match expression {
        Expr::Lit(literal) => digits(&literal.lit).and_then(|digits| digits.parse().ok()),
        Expr::Unary(negative) if matches!(negative.op, UnOp::Neg(_)) => number(&negative.expr).map(|number| -number),
        Expr::Group(group) => number(&group.expr),
        _ => None,
    }
}

fn digits(literal: &Lit) -> Option<String> {
    match literal {
        Lit::Int(number) => Some(number.base10_digits().into()),
        Lit::Float(number) => Some(number.base10_digits().into()),
        _ => None,
    }
}

/// An expression as people write it, as far as numbers go.
fn shown(expression: &Expr) -> String {
    match expression {
        Expr::Unary(negative) if matches!(negative.op, UnOp::Neg(_)) => format!("-{}", shown(&negative.expr)),
        Expr::Lit(literal) => digits(&literal.lit).unwrap_or_else(|| literal.to_token_stream().to_string()),
        other => other.to_token_stream().to_string(),
    }
}
