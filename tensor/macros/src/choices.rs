//! `#[derive(Choices)]`: an enumeration whose values have names.

use crate::attribute;
use proc_macro2::TokenStream;
use quote::quote;
use syn::ext::IdentExt;
use syn::{Data, DeriveInput, Error, Fields, Ident, Result};

/// The implementation of `ParameterType` for an enumeration.
pub fn expand(input: TokenStream) -> Result<TokenStream> {
    let input: DeriveInput = syn::parse2(input)?;
    attribute::none(&input.attrs, "a choice")?;
    let wrong = |message| Err(Error::new(input.ident.span(), message));
    let Data::Enum(data) = &input.data else {
        return wrong("choices are an enumeration; for a structure there is `Parameters`");
    };
    if data.variants.is_empty() {
        return wrong("there is no choice");
    }
    let (mut choices, mut names) = (Vec::<&Ident>::new(), Vec::<String>::new());
    for variant in &data.variants {
        if !matches!(variant.fields, Fields::Unit) {
            return Err(Error::new(variant.ident.span(), "a choice has a name and no fields"));
        }
        let name = attribute::name(&variant.attrs)?.unwrap_or_else(|| snake(&variant.ident.unraw().to_string()));
        if names.contains(&name) {
            return Err(Error::new(variant.ident.span(), format!("two choices are named {name}")));
        }
        choices.push(&variant.ident);
        names.push(name);
    }
    let (name, (generics, of, bounds)) = (&input.ident, input.generics.split_for_impl());
    let kind = names.join(", ");
    Ok(quote! {
        #[automatically_derived]
        impl #generics ::seriatim_tensor::operator::ParameterType for #name #of #bounds {
            fn kind() -> ::std::string::String {
                #kind.into()
            }

            fn parse(text: &str) -> ::core::option::Option<Self> {
                match text.trim() {
                    #(#names => ::core::option::Option::Some(#name::#choices),)*
                    _ => ::core::option::Option::None,
                }
            }

            fn show(&self) -> ::std::string::String {
                match self {
                    #(#name::#choices => #names.into(),)*
                }
            }
        }
    })
}

/// `FirstLast` as `first_last`.
fn snake(name: &str) -> String {
    let mut snake = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.extend(letter.to_lowercase());
    }
    snake
}
