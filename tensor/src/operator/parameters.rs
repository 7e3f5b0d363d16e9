//! Parameters of operators: structures whose fields have a type, a default, a range and a
//! description, and that are read from text.
//!
//! Used by the operators beside this file, and by programs. `tensor/macros/` has the two derive
//! macros, which implement what is here; `lists.rs` has the types of lists.

#![forbid(unsafe_code)]

use crate::error::Error;
use crate::operator::fields::{check_names, Field};
use smallvec::SmallVec;
use std::ops::RangeBounds;

/// Gives an enumeration a name for each of its values, so that fields of [`Parameters`] can have
/// it: implements [`ParameterType`].
///
/// A name is that of the value in small letters (`outer_left` of `OuterLeft`), or what
/// `#[parameter(name = "…")]` says.
///
/// ```
/// use seriatim_tensor::{operator::ParameterType, Choices};
/// #[derive(Choices, PartialEq, Debug)]
/// enum Layout {
///     #[parameter(name = "NCHW")]
///     ChannelsFirst,
///     Unknown,
/// }
/// assert_eq!(Layout::kind(), "NCHW, unknown");
/// assert_eq!(Layout::parse("NCHW"), Some(Layout::ChannelsFirst));
/// assert_eq!(Layout::parse("NHWC"), None);
/// assert_eq!(Layout::Unknown.show(), "unknown");
/// ```
///
/// Values with fields do not compile:
///
/// ```compile_fail
/// #[derive(seriatim_tensor::Choices)]
/// enum Layout {
///     Channels(usize),
/// }
/// ```
pub use seriatim_tensor_macros::Choices;

/// Implements [`Parameters`](trait@Parameters) for a structure with named fields.
///
/// Each field has a type that is a [`ParameterType`], and is public or not. The first paragraph of
/// its documentation is what errors say of it. `#[parameter(…)]` may have:
///
/// | entry | is |
/// |---|---|
/// | `default = …` | what a field is that is not given: a number, `true`, `false`, `None`, or a text. Without it the field is required. |
/// | `range = …` | which values there are, as a Rust range. That of a list holds for each item, that of an `Option` for what is not `None`. |
/// | `flatten` | by itself: the field is a structure of parameters, whose fields count as those of this one. It needs no documentation. |
///
/// ```
/// use seriatim_tensor::{operator::Dims, Choices, Parameters};
///
/// #[derive(Choices, PartialEq, Debug)]
/// enum Kind {
///     Max,
///     Avg,
/// }
///
/// /// Of windows.
/// #[derive(Parameters, Debug)]
/// struct Windows {
///     /// The sides of a window.
///     #[parameter(range = 1..=64)]
///     kernel: Dims,
///     /// What becomes of it.
///     #[parameter(default = "max")]
///     kind: Kind,
///     /// Which norm; None has no power.
///     #[parameter(default = None, range = 1..)]
///     power: Option<usize>,
///     /// What is added.
///     #[parameter(default = 1e-3, range = 0.0..1.0)]
///     epsilon: f64,
/// }
///
/// let windows = Windows::init(&[("kernel", "(3, 5)"), ("kind", "avg")])?;
/// assert_eq!((windows.kernel.0.as_slice(), windows.kind), (&[3, 5][..], Kind::Avg));
/// assert_eq!((windows.power, windows.epsilon), (None, 0.001));
/// for wrong in [("kernel", "(3, 65)"), ("kind", "min"), ("power", "0"), ("epsilon", "1")] {
///     assert!(Windows::init(&[("kernel", "3"), wrong]).is_err());
/// }
/// # Ok::<(), seriatim_tensor::Error>(())
/// ```
///
/// What is wrong in an attribute does not compile, and the error points to it: an entry that there
/// is not, a default that is none of the type or of the range, a range of another type, a field
/// without documentation.
///
/// ```compile_fail
/// #[derive(seriatim_tensor::Parameters)]
/// struct Window {
///     /// The side.
///     #[parameter(defualt = 1)]
///     side: usize,
/// }
/// ```
///
/// ```compile_fail
/// #[derive(seriatim_tensor::Parameters)]
/// struct Window {
///     /// The side.
///     #[parameter(default = 0, range = 1..=64)]
///     side: usize,
/// }
/// ```
///
/// ```compile_fail
/// #[derive(seriatim_tensor::Parameters)]
/// struct Window {
///     /// The side.
///     #[parameter(range = 0.0..1.0)]
///     side: usize,
/// }
/// ```
///
/// ```compile_fail
/// #[derive(seriatim_tensor::Parameters)]
/// struct Window {
///     /// A type that is no `ParameterType`.
///     sides: std::ops::Range<usize>,
/// }
/// ```
pub use seriatim_tensor_macros::Parameters;

/// A structure of parameters, which is read from names and texts.
///
/// The derive macro [`Parameters`](derive@Parameters) implements it.
///
/// ```
/// use seriatim_tensor::Parameters;
/// /// Of a window.
/// #[derive(Parameters)]
/// struct Window {
///     /// The side of the window.
///     #[parameter(range = 1..=64)]
///     kernel: usize,
///     /// Zeros on each side.
///     #[parameter(default = 0)]
///     pad: usize,
/// }
/// let window = Window::init(&[("kernel", "3")])?;
/// assert_eq!((window.kernel, window.pad), (3, 0));
/// # Ok::<(), seriatim_tensor::Error>(())
/// ```
pub trait Parameters: Sized {
    /// Reads the parameters. Of a name that is given twice, the last text counts.
    ///
    /// # Errors
    /// [`BadParameter`](crate::ErrorKind::BadParameter), which lists the range, the default and the
    /// purpose.
    ///
    /// ```
    /// # use seriatim_tensor::Parameters;
    /// # #[derive(Parameters, Debug)]
    /// # struct Window {
    /// #     /// The side of the window.
    /// #     #[parameter(range = 1..=64)]
    /// #     kernel: usize,
    /// # }
    /// let error = Window::init(&[("kernel", "65")]).unwrap_err();
    /// assert!(error.to_string().contains(
    ///     "parameter 'kernel' = '65' is out of its range; \
    ///      it is kernel (a whole number from 0 in 1..=64, required): The side of the window"
    /// ));
    /// ```
    fn init(given: &[(&str, &str)]) -> Result<Self, Error>;

    /// The parameters as text, by name, as [`init`](Parameters::init) reads them.
    ///
    /// ```
    /// # use seriatim_tensor::Parameters;
    /// # #[derive(Parameters, Debug)]
    /// # struct Window {
    /// #     /// The side of the window.
    /// #     kernel: usize,
    /// # }
    /// assert_eq!(Window { kernel: 3 }.params(), [("kernel", "3".to_owned())]);
    /// ```
    fn params(&self) -> Vec<(&'static str, String)>;

    /// What there is to be said of each.
    ///
    /// ```
    /// # use seriatim_tensor::Parameters;
    /// # #[derive(Parameters, Debug)]
    /// # struct Window {
    /// #     /// Zeros on each side.
    /// #     #[parameter(default = 0)]
    /// #     pad: usize,
    /// # }
    /// let fields = Window::fields();
    /// assert_eq!((fields[0].name, fields[0].default), ("pad", Some("0")));
    /// assert_eq!(fields[0].about, "Zeros on each side");
    /// ```
    fn fields() -> Vec<Field>;
}

/// Of an operator that has none.
///
/// ```
/// use seriatim_tensor::Parameters;
/// assert!(<() as Parameters>::init(&[]).is_ok() && <() as Parameters>::init(&[("axis", "0")]).is_err());
/// ```
impl Parameters for () {
    fn init(given: &[(&str, &str)]) -> Result<(), Error> {
        check_names(&[], given)
    }

    fn params(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    fn fields() -> Vec<Field> {
        Vec::new()
    }
}

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
    u32, "a whole number from 0";
    u64, "a whole number from 0";
    isize, "a whole number";
    i32, "a whole number";
    i64, "a whole number";
    f32, "a number";
    f64, "a number";
    String, "a text";
}

impl<T: ParameterType> ParameterType for Option<T> {
    fn kind() -> String {
        format!("{} or None", T::kind())
    }

    fn parse(text: &str) -> Option<Option<T>> {
        match text.trim() {
            "None" => Some(None),
            text => T::parse(text).map(Some),
        }
    }

    fn show(&self) -> String {
        self.as_ref().map_or("None".into(), T::show)
    }
}

/// Values whose parts can be in a range of `P`: a number is its own part, and a list has items.
#[doc(hidden)]
#[diagnostic::on_unimplemented(message = "no range of `{P}` can be asked of a parameter of type `{Self}`")]
pub trait Within<P> {
    fn is_within(&self, range: &impl RangeBounds<P>) -> bool;
}

impl<T: PartialOrd> Within<T> for T {
    fn is_within(&self, range: &impl RangeBounds<T>) -> bool {
        range.contains(self)
    }
}

impl<T: PartialOrd> Within<T> for Option<T> {
    fn is_within(&self, range: &impl RangeBounds<T>) -> bool {
        self.as_ref().is_none_or(|value| range.contains(value))
    }
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
#[derive(Clone, PartialEq, Debug, Default)]
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
