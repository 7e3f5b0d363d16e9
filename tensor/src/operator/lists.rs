//! Parameters that are lists: of sizes, and of places that may be left out.
//!
//! Used by operators beside this file whose parameters are a number an axis. Also here: the names
//! of the arguments of operators that take any number of arrays.

#![forbid(unsafe_code)]

use crate::operator::parameters::{ParameterType, Within};
use crate::shape::{Shape, MAX_RANK};
use smallvec::SmallVec;
use std::ops::RangeBounds;
use std::sync::{PoisonError, RwLock};

/// Reads `(1, 2)`, `[1, 2]`, `1, 2` or `1`; `()` has no items.
fn list<T>(text: &str, item: impl Fn(&str) -> Option<T>) -> Option<SmallVec<[T; 4]>> {
    let text = text.trim();
    let inside = |open, close| text.strip_prefix(open).and_then(|text| text.strip_suffix(close));
    let items = inside('(', ')').or(inside('[', ']')).unwrap_or(text).trim();
    if items.is_empty() {
        return (items.len() < text.len()).then(SmallVec::new);
    }
    let items = items.strip_suffix(',').unwrap_or(items);
    items.split(',').map(|text| item(text.trim())).collect()
}

fn shown<T>(items: &[T], show: impl Fn(&T) -> String) -> String {
    format!("({})", items.iter().map(|item| format!("{},", show(item))).collect::<String>())
}

/// A list of sizes, one an axis.
///
/// ```
/// use seriatim_tensor::operator::{Dims, ParameterType};
/// let kernel = Dims::parse("(3, 5)").unwrap();
/// assert_eq!((kernel.0.as_slice(), kernel.show().as_str()), (&[3, 5][..], "(3,5,)"));
/// assert_eq!(Dims::parse("()"), Some(Dims::default()));
/// assert!(Dims::parse("(3, -5)").is_none());
/// ```
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Dims(pub SmallVec<[usize; 4]>);

impl ParameterType for Dims {
    fn kind() -> String {
        "a list of sizes like (2, 2), or () for none".into()
    }

    fn parse(text: &str) -> Option<Dims> {
        list(text, |size| size.parse().ok()).map(Dims)
    }

    fn show(&self) -> String {
        shown(&self.0, usize::to_string)
    }
}

/// A list of places, one an axis. Each may be `None`, and is counted from the end if negative.
///
/// ```
/// use seriatim_tensor::operator::{ParameterType, Places};
/// let begin = Places::parse("(1, None, -2)").unwrap();
/// assert_eq!(begin.0.as_slice(), [Some(1), None, Some(-2)]);
/// assert_eq!(Places::parse(&begin.show()), Some(begin));
/// ```
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Places(pub SmallVec<[Option<isize>; 4]>);

impl ParameterType for Places {
    fn kind() -> String {
        "a list of whole numbers or None like (0, None)".into()
    }

    fn parse(text: &str) -> Option<Places> {
        list(text, Option::<isize>::parse).map(Places)
    }

    fn show(&self) -> String {
        shown(&self.0, Option::<isize>::show)
    }
}

/// A list of so many items, such as `(0.1, 0.9)`.
///
/// ```
/// use seriatim_tensor::operator::ParameterType;
/// assert_eq!(<[f64; 2]>::parse("(0.1, 0.9)"), Some([0.1, 0.9]));
/// assert_eq!(<[f64; 2]>::parse("0.1"), None);
/// assert_eq!([1usize, 2].show(), "(1,2,)");
/// ```
impl<T: ParameterType, const N: usize> ParameterType for [T; N] {
    fn kind() -> String {
        format!("a list of {N} items, each {}", T::kind())
    }

    fn parse(text: &str) -> Option<[T; N]> {
        list(text, T::parse).and_then(|items| items.into_vec().try_into().ok())
    }

    fn show(&self) -> String {
        shown(self, T::show)
    }
}

/// The sizes of an array, such as `(2, 3)`.
///
/// ```
/// use seriatim_tensor::{operator::ParameterType, Shape};
/// assert_eq!(Shape::parse("(2, 3)"), Shape::new(&[2, 3]).ok());
/// assert_eq!(Shape::parse("(2, -3)"), None);
/// ```
impl ParameterType for Shape {
    fn kind() -> String {
        format!("a list of at most {MAX_RANK} sizes like (2, 3)")
    }

    fn parse(text: &str) -> Option<Shape> {
        Dims::parse(text).and_then(|sizes| Shape::new(&sizes.0).ok())
    }

    fn show(&self) -> String {
        shown(self.dims(), usize::to_string)
    }
}

impl Within<usize> for Dims {
    fn is_within(&self, range: &impl RangeBounds<usize>) -> bool {
        self.0.iter().all(|size| range.contains(size))
    }
}

impl<T: PartialOrd, const N: usize> Within<T> for [T; N] {
    fn is_within(&self, range: &impl RangeBounds<T>) -> bool {
        self.iter().all(|item| range.contains(item))
    }
}

/// The names `arg0`, `arg1`, …, or `output0`, `output1`, …. Each is made once and kept for the
/// life of the process, so there are never more of them than the longest list has.
pub(super) fn numbered(prefix: &'static str, count: usize) -> Vec<&'static str> {
    static NAMES: RwLock<Vec<(&str, Vec<&str>)>> = RwLock::new(Vec::new());
    let kept = |names: &[(&str, Vec<&'static str>)]| {
        let of_prefix = names.iter().find(|(known, _)| *known == prefix);
        of_prefix.and_then(|(_, names)| names.get(..count).map(<[_]>::to_vec))
    };
    if let Some(names) = kept(&NAMES.read().unwrap_or_else(PoisonError::into_inner)) {
        return names;
    }
    let mut names = NAMES.write().unwrap_or_else(PoisonError::into_inner);
    let at = names.iter().position(|(known, _)| *known == prefix).unwrap_or_else(|| {
        names.push((prefix, Vec::new()));
        names.len() - 1
    });
    for number in names[at].1.len()..count {
        names[at].1.push(Box::leak(format!("{prefix}{number}").into_boxed_str()));
    }
    names[at].1[..count].to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_as_they_are_written() {
        let dims = |text| Dims::parse(text).map(|dims| dims.0.to_vec());
        assert_eq!(dims("(3, 5)"), Some(vec![3, 5]));
        assert_eq!(dims("[3,]"), Some(vec![3]));
        assert_eq!(dims("7"), Some(vec![7]));
        assert_eq!(dims(" ( ) "), Some(vec![]));
        for wrong in ["", "(3", "3)", "(3,,5)", "(,)", "(a)", "(-1)", "None"] {
            assert_eq!(dims(wrong), None, "{wrong}");
        }
        assert_eq!(Option::<isize>::parse("None"), Some(None));
        assert_eq!(Option::<isize>::parse("-3"), Some(Some(-3)));
    }

    #[test]
    fn numbered_names_are_the_same_each_time() {
        let first = numbered("arg", 3);
        assert_eq!(first, ["arg0", "arg1", "arg2"]);
        assert_eq!(numbered("output", 1), ["output0"]);
        let more = numbered("arg", 12);
        assert_eq!(more[11], "arg11");
        assert!(std::ptr::eq(first[2], more[2]));
    }
}
