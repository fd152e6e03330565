//! What both attributes make: the type of the function's name, and the function behind it.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::Attribute;
use syn::spanned::Spanned;

use crate::function::Function;
use crate::kind::Kind;

/// Makes the whole of what takes the item's place; what is wrong becomes compile errors.
///
/// A setting that is wrong leaves the rest in place, so that callers are not told that the type is missing too.
pub(crate) fn assemble(
    kind: Kind,
    item: TokenStream,
    settings: syn::Result<()>,
    implement: impl FnOnce(&Function) -> TokenStream,
) -> TokenStream {
    let flaw = settings.err().map(|error| error.to_compile_error());
    let made = match Function::read(kind, item) {
        Ok(function) => implement(&function),
        Err(error) => error.to_compile_error(),
    };
    quote!(#flaw #made)
}

/// The pieces of an expansion that both attributes share.
pub(crate) struct Expansion {
    /// The type and its `call`.
    pub(crate) unit: TokenStream,
    /// Attributes that the trait's implementation carries.
    pub(crate) carried: TokenStream,
    /// Type of the answer, without the error beside it.
    pub(crate) output: TokenStream,
}

impl Expansion {
    /// Makes the pieces.
    pub(crate) fn of(function: &Function, support: &TokenStream) -> Self {
        let carried = carried(&function.attributes);
        let answer = &function.answer;
        // Spanned at the return type, so that an answer that cannot be stored is told there.
        let output = quote_spanned!(answer.span() => <#answer as #support::ResultType>::Ok);
        Self {
            unit: unit(function, &carried),
            carried,
            output,
        }
    }
}

/// The function is kept as written, inside `call`.
///
/// The type has braces: a unit struct would also be a value of that name, and `let charge = ctx.activity::<charge>(x)` a pattern
/// that can fail instead of a variable.
fn unit(function: &Function, carried: &TokenStream) -> TokenStream {
    let Function {
        attributes,
        visibility,
        signature,
        parameters,
        answer,
        body,
    } = function;
    let name = &signature.ident;
    let (of_struct, of_function): (Vec<_>, Vec<_>) = attributes
        .iter()
        .filter(|attribute| !is_condition(attribute))
        .partition(|attribute| is_of_struct(attribute));
    let declared = parameters.declared();
    let names = parameters.names();
    let call_doc = format!("Calls the function `{name}` itself: no history, no retries, no queue.");
    quote! {
        #(#of_struct)*
        #carried
        #[allow(non_camel_case_types)]
        #[derive(::core::fmt::Debug, ::core::clone::Clone, ::core::marker::Copy)]
        #visibility struct #name {}

        #carried
        impl #name {
            #[doc = #call_doc]
            #[allow(unreachable_pub, clippy::too_many_arguments)]
            #visibility fn call(#declared) -> impl ::core::future::Future<Output = #answer> {
                #(#of_function)*
                #signature #body
                #name(#names)
            }
        }
    }
}

/// The conditions under which the function exists hold for all that is made of it.
fn carried(attributes: &[Attribute]) -> TokenStream {
    let conditions = attributes
        .iter()
        .filter(|attribute| is_condition(attribute));
    quote! {
        #(#conditions)*
        #[allow(deprecated)]
    }
}

fn is_condition(attribute: &Attribute) -> bool {
    attribute.path().is_ident("cfg")
}

fn is_of_struct(attribute: &Attribute) -> bool {
    attribute.path().is_ident("doc") || attribute.path().is_ident("deprecated")
}
