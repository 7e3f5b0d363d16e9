//! Parameters of operators: structures whose fields have a type, a default, a range and a
//! description, and that are read from text.
//!
//! Used by the operators beside this file, by [`parameters!`], and by programs. The macro is one of
//! `macro_rules`, so no second crate is compiled for it.

#![forbid(unsafe_code)]

use crate::error::{Error, ErrorKind};
use smallvec::SmallVec;
use std::fmt::Debug;
use std::ops::RangeBounds;

/// A type that fields of parameters can have.
pub trait ParameterType: Sized {
    /// What it is, for people: 'a whole number from 0', or a list of choices.
    fn kind() -> String;

    /// Reads it; `None` if the text is no such value.
    fn parse(text: &str) -> Option<Self>;

    /// Writes it, so that it can be read again.
    fn show(&self) -> String;
}

macro_rules! by_from_str {
    ($($type:ty, $kind:literal;)*) => {$(
        impl ParameterType for $type {
            fn kind() -> String {
                $kind.into()
            }

            fn parse(text: &str) -> Option<$type> {
                text.trim().parse().ok()
            }

            fn show(&self) -> String {
                self.to_string()
            }
        }
    )*};
}

by_from_str! {
    usize, "a whole number from 0";
    isize, "a whole number";
    f64, "a number";
}

impl ParameterType for bool {
    fn kind() -> String {
        "true or false".into()
    }

    fn parse(text: &str) -> Option<bool> {
        match text.trim() {
            "true" | "True" | "1" => Some(true),
            "false" | "False" | "0" => Some(false),
            _ => None,
        }
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

impl ParameterType for crate::DType {
    fn kind() -> String {
        crate::DType::ALL.map(crate::DType::name).join(", ")
    }

    fn parse(text: &str) -> Option<crate::DType> {
        text.trim().parse().ok()
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

/// A list of axes, or `None` for all of them.
#[derive(Clone, PartialEq, PartialOrd, Debug, Default)]
pub struct Axes(pub Option<SmallVec<[isize; 4]>>);

impl ParameterType for Axes {
    fn kind() -> String {
        "None, an axis, or a list like (0, 1)".into()
    }

    fn parse(text: &str) -> Option<Axes> {
        let text = text.trim();
        if text == "None" {
            return Some(Axes(None));
        }
        let list = text.trim_start_matches(['(', '[']).trim_end_matches([')', ']']).trim().trim_end_matches(',');
        if list.is_empty() {
            return Some(Axes(None));
        }
        let axes = list.split(',').map(|axis| axis.trim().parse().ok());
        axes.collect::<Option<SmallVec<[isize; 4]>>>().map(|axes| Axes(Some(axes)))
    }

    fn show(&self) -> String {
        match &self.0 {
            None => "None".into(),
            Some(axes) => format!("({})", axes.iter().map(|axis| format!("{axis},")).collect::<String>()),
        }
    }
}

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

/// Reads one field.
#[doc(hidden)]
pub fn read_field<T: ParameterType + PartialOrd + Debug>(
    field: &Field,
    range: impl RangeBounds<T>,
    given: &[(&str, &str)],
) -> Result<T, Error> {
    let refuse = |what: String| Err(Error::new(ErrorKind::BadParameter, format!("{what}; it is {}", field.line())));
    let text = given.iter().rev().find(|(name, _)| *name == field.name).map(|(_, text)| *text).or(field.default);
    let Some(text) = text else { return refuse(format!("parameter '{}' is missing", field.name)) };
    match T::parse(text) {
        Some(value) if range.contains(&value) => Ok(value),
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

/// Declares a structure of parameters: for each field its type, `required` or `default "text"`, a
/// range (`..` has all), and what it is for.
///
/// The structure gets `init`, which reads it from names and texts; `params`, which writes it; and
/// `fields`, which describes it.
///
/// ```
/// seriatim_tensor::parameters! {
///     /// Of a convolution.
///     pub struct Window {
///         kernel: usize, required, 1..=64, "The side of the window";
///         pad: usize, default "0", .., "Zeros on each side";
///     }
/// }
/// let window = Window::init(&[("kernel", "3")])?;
/// assert_eq!((window.kernel, window.pad), (3, 0));
/// assert_eq!(window.params()[0], ("kernel", "3".to_owned()));
/// let error = Window::init(&[("kernel", "65")]).unwrap_err();
/// assert!(error.to_string().contains("1..=64"));
/// # Ok::<(), seriatim_tensor::Error>(())
/// ```
#[macro_export]
macro_rules! parameters {
    (@default required) => { None };
    (@default default $text:literal) => { Some($text) };
    ($(#[$about_all:meta])* $visible:vis struct $name:ident {
        $($field:ident: $type:ty, $word:ident $($default:literal)?, $range:expr, $about:literal;)*
    }) => {
        $(#[$about_all])*
        #[derive(Clone, Debug)]
        $visible struct $name {
            $(
                #[doc = $about]
                pub $field: $type,
            )*
        }

        impl $name {
            /// Reads the parameters.
            ///
            /// # Errors
            /// `BadParameter`, which lists the range, the default and the purpose.
            $visible fn init(given: &[(&str, &str)]) -> Result<$name, $crate::Error> {
                let fields = $name::fields();
                $crate::operator::check_names(&fields, given)?;
                let mut number = 0usize..;
                Ok($name {
                    $($field: $crate::operator::read_field::<$type>(
                        &fields[number.next().unwrap_or_default()],
                        $range,
                        given,
                    )?,)*
                })
            }

            /// Writes the parameters as text.
            #[allow(dead_code, reason = "not every structure is written")]
            $visible fn params(&self) -> Vec<(&'static str, String)> {
                vec![$((stringify!($field), $crate::operator::ParameterType::show(&self.$field))),*]
            }

            /// What there is to be said of each.
            $visible fn fields() -> Vec<$crate::operator::Field> {
                vec![$($crate::operator::Field {
                    name: stringify!($field),
                    kind: <$type as $crate::operator::ParameterType>::kind(),
                    default: $crate::parameters!(@default $word $($default)?),
                    range: stringify!($range),
                    about: $about,
                }),*]
            }
        }
    };
}

/// Declares a type whose values have names.
macro_rules! choices {
    ($(#[$about:meta])* $name:ident { $($choice:ident = $text:literal),* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, PartialEq, PartialOrd, Debug)]
        pub(crate) enum $name {
            $($choice),*
        }

        impl $crate::operator::ParameterType for $name {
            fn kind() -> String {
                [$($text),*].join(", ")
            }

            fn parse(text: &str) -> Option<$name> {
                match text.trim() {
                    $($text => Some($name::$choice),)*
                    _ => None,
                }
            }

            fn show(&self) -> String {
                match self {
                    $($name::$choice => $text.into(),)*
                }
            }
        }
    };
}
pub(crate) use choices;
