//! `#[derive(Parameters)]`: a structure of parameters that is read from names and texts.

use crate::attribute::{self, OfField};
use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Error, Field, Fields, Ident, Result};

/// What a field adds to the implementation.
struct Written {
    /// The name and the value in the structure that is read.
    init: TokenStream,
    /// The name and the text, as they are written.
    param: TokenStream,
    /// What there is to be said of it.
    field: TokenStream,
}

/// The implementation of `Parameters` for a structure.
pub fn expand(input: TokenStream) -> Result<TokenStream> {
    let input: DeriveInput = syn::parse2(input)?;
    attribute::none(&input.attrs, "a field")?;
    let fields = match &input.data {
        Data::Struct(data) => match &data.fields {
            Fields::Named(fields) => Some(&fields.named),
            _ => None,
        },
        _ => None,
    };
    let Some(fields) = fields else {
        let message = "parameters are a structure with named fields; for an enumeration there is `Choices`";
        return Err(Error::new(input.ident.span(), message));
    };
    let mut written = Vec::new();
    let mut wrong: Option<Error> = None;
    for (at, field) in fields.iter().enumerate() {
        match field.ident.as_ref().map(|name| write(at, field, name)) {
            Some(Ok(field)) => written.push(field),
            // All errors are told at once.
            Some(Err(error)) => match &mut wrong {
                Some(wrong) => wrong.combine(error),
                None => wrong = Some(error),
            },
            None => {}
        }
    }
    if let Some(wrong) = wrong {
        return Err(wrong);
    }
    let inits = written.iter().map(|field| &field.init);
    let params = written.iter().map(|field| &field.param);
    let fields = written.iter().map(|field| &field.field);
    let (name, (generics, of, bounds)) = (&input.ident, input.generics.split_for_impl());
    Ok(quote! {
        #[automatically_derived]
        impl #generics ::seriatim_tensor::operator::Parameters for #name #of #bounds {
            fn init(
                given: &[(&str, &str)],
            ) -> ::core::result::Result<Self, ::seriatim_tensor::Error> {
                let fields = <Self as ::seriatim_tensor::operator::Parameters>::fields();
                ::seriatim_tensor::operator::check_names(&fields, given)?;
                ::core::result::Result::Ok(#name { #(#inits,)* })
            }

            fn params(&self) -> ::std::vec::Vec<(&'static str, ::std::string::String)> {
                ::std::vec![#(#params),*]
            }

            fn fields() -> ::std::vec::Vec<::seriatim_tensor::operator::Field> {
                ::std::vec![#(#fields),*]
            }
        }
    })
}

fn write(at: usize, field: &Field, name: &Ident) -> Result<Written> {
    let (of, text) = (&field.ty, name.unraw().to_string());
    let about = attribute::about(&field.attrs, name)?;
    let OfField { default, range } = OfField::read(&field.attrs, of)?;
    let default = match default.map(|default| default.text) {
        Some(default) => quote!(::core::option::Option::Some(#default)),
        None => quote!(::core::option::Option::None),
    };
    let (is_in, range) = match range {
        None => (quote!(|_: &#of| true), "..".to_owned()),
        Some(range) => {
            let limits = range.range;
            let is_in = quote_spanned! {limits.span()=>
                |value: &#of| ::seriatim_tensor::operator::Within::is_within(value, &(#limits))
            };
            (is_in, range.text)
        }
    };
    // An error for a type that is no parameter's points to the type.
    let parameter = quote_spanned!(of.span()=> <#of as ::seriatim_tensor::operator::ParameterType>);
    Ok(Written {
        init: quote!(#name: ::seriatim_tensor::operator::read_field::<#of>(&fields[#at], #is_in, given)?),
        param: quote!((#text, #parameter::show(&self.#name))),
        field: quote! {
            ::seriatim_tensor::operator::Field {
                name: #text,
                kind: #parameter::kind(),
                default: #default,
                range: #range,
                about: #about,
            }
        },
    })
}
