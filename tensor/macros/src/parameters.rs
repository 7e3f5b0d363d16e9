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
    /// Adds the name and the text, as they are written, to `params`.
    param: TokenStream,
    /// Adds what there is to be said of it to `fields`.
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
    for field in fields {
        match field.ident.as_ref().map(|name| write(field, name)) {
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

            #[allow(unused_mut)] // Of a structure without fields.
            fn params(&self) -> ::std::vec::Vec<(&'static str, ::std::string::String)> {
                let mut params = ::std::vec::Vec::new();
                #(#params)*
                params
            }

            #[allow(unused_mut)]
            fn fields() -> ::std::vec::Vec<::seriatim_tensor::operator::Field> {
                let mut fields = ::std::vec::Vec::new();
                #(#fields)*
                fields
            }
        }
    })
}

/// A field that is a structure of parameters, whose fields count as those of this one.
fn write_flat(field: &Field, name: &Ident) -> Written {
    let of = &field.ty;
    let parameters = quote_spanned!(of.span()=> <#of as ::seriatim_tensor::operator::Parameters>);
    Written {
        init: quote!(#name: #parameters::init(&::seriatim_tensor::operator::given_to::<#of>(given))?),
        param: quote!(params.extend(#parameters::params(&self.#name));),
        field: quote!(fields.extend(#parameters::fields());),
    }
}

fn write(field: &Field, name: &Ident) -> Result<Written> {
    let (of, text) = (&field.ty, name.unraw().to_string());
    let OfField { default, range, flatten } = OfField::read(&field.attrs, of)?;
    if flatten {
        return Ok(write_flat(field, name));
    }
    let about = attribute::about(&field.attrs, name)?;
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
        init: quote! {
            #name: ::seriatim_tensor::operator::read_field::<#of>(
                ::seriatim_tensor::operator::named(&fields, #text), #is_in, given,
            )?
        },
        param: quote!(params.push((#text, #parameter::show(&self.#name)));),
        field: quote! {
            fields.push(::seriatim_tensor::operator::Field {
                name: #text,
                kind: #parameter::kind(),
                default: #default,
                range: #range,
                about: #about,
            });
        },
    })
}
