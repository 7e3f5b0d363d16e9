//! The derive macros of `seriatim-tensor`, which has them with their documentation as
//! `seriatim_tensor::Parameters` and `seriatim_tensor::Choices`.
//!
//! `parameters.rs` and `choices.rs` have one macro each, and `attribute.rs` what is written in
//! `#[parameter(…)]`. What they write names everything by its path from `::seriatim_tensor`.

#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod attribute;
mod choices;
mod parameters;
#[cfg(test)]
mod tests;

use proc_macro::TokenStream;

/// Implements `seriatim_tensor::Parameters` for a structure: it is read from names and texts. See
/// there.
#[proc_macro_derive(Parameters, attributes(parameter))]
pub fn derive_parameters(input: TokenStream) -> TokenStream {
    written(parameters::expand(input.into()))
}

/// Implements `seriatim_tensor::operator::ParameterType` for an enumeration: each of its values has
/// a name. See `seriatim_tensor::Choices`.
#[proc_macro_derive(Choices, attributes(parameter))]
pub fn derive_choices(input: TokenStream) -> TokenStream {
    written(choices::expand(input.into()))
}

fn written(expanded: syn::Result<proc_macro2::TokenStream>) -> TokenStream {
    expanded.unwrap_or_else(|error| error.to_compile_error()).into()
}
