//! `#[workflow]`.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::meta::ParseNestedMeta;
use syn::{Ident, LitStr};

use crate::duration::Milliseconds;
use crate::expansion::{self, Expansion};
use crate::function::Function;
use crate::kind::Kind;
use crate::settings::{self, Common, Reading, duration, text};
use crate::version;

const KNOWN: &[&str] = &[
    "name",
    "version",
    "execution_timeout",
    "run_timeout",
    "crate",
];

/// Expands the attribute; what is wrong becomes compile errors.
pub(crate) fn expand(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let mut settings = Settings::default();
    let read = settings::read(arguments, Kind::Workflow, KNOWN, |key, setting| {
        settings.take(key, setting)
    });
    expansion::assemble(Kind::Workflow, item, read, |function| {
        settings.implement(function)
    })
}

#[derive(Default)]
struct Settings {
    common: Common,
    version: Option<LitStr>,
    execution_timeout: Option<Milliseconds>,
    run_timeout: Option<Milliseconds>,
}

impl Settings {
    fn take(&mut self, key: &str, setting: &ParseNestedMeta<'_>) -> syn::Result<Reading> {
        match key {
            "version" => {
                let literal = text(key, setting)?;
                version::check(&literal)?;
                self.version = Some(literal);
            }
            "execution_timeout" => self.execution_timeout = Some(duration(key, setting)?),
            "run_timeout" => self.run_timeout = Some(duration(key, setting)?),
            _ => return self.common.take(key, setting),
        }
        Ok(Reading::Taken)
    }

    fn implement(&self, function: &Function) -> TokenStream {
        let support = self.common.support();
        let Expansion {
            unit,
            carried,
            output,
        } = Expansion::of(function, &support);
        let name = &function.signature.ident;
        let type_name = self.common.type_name(name);
        let input = function.parameters.input();
        let version = self
            .version
            .as_ref()
            .map(|version| quote!(const VERSION: &'static str = #version;));
        let defaults = self.defaults(&support);
        // Underscored: a unit struct of the user's, named `input`, could not be shadowed by a parameter.
        let given = Ident::new("__input", Span::mixed_site());
        let passed = function.parameters.passed(&quote!(__ctx), &given);
        quote! {
            #unit

            #carried
            impl #support::WorkflowDefinition for #name {
                const TYPE: &'static str = #type_name;
                #version
                type Input = #input;
                type Output = #output;
                #defaults
                fn program(__birth: #support::Birth) -> ::std::boxed::Box<dyn #support::Program> {
                    #support::function_program::<Self, _, _>(
                        __birth,
                        |__ctx: #support::WorkflowContext, #given: Self::Input| Self::call(#passed),
                    )
                }
            }
        }
    }

    /// `fn defaults()`, if a setting asks for it.
    fn defaults(&self, support: &TokenStream) -> Option<TokenStream> {
        let fields: Vec<_> = [
            ("execution_timeout", self.execution_timeout),
            ("run_timeout", self.run_timeout),
        ]
        .into_iter()
        .filter_map(|(field, length)| {
            let field = Ident::new(field, Span::call_site());
            let length = length?.expression();
            Some(quote!(#field: ::core::option::Option::Some(#length)))
        })
        .collect();
        if fields.is_empty() {
            return None;
        }
        Some(quote! {
            #[allow(clippy::needless_update)]
            fn defaults() -> #support::RunDefaults {
                #support::RunDefaults {
                    #(#fields,)*
                    ..::core::default::Default::default()
                }
            }
        })
    }
}
