//! `#[activity]`.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::meta::ParseNestedMeta;
use syn::{Expr, Ident, Lit, LitStr};

use crate::duration::Milliseconds;
use crate::expansion::{self, Expansion};
use crate::function::Function;
use crate::kind::Kind;
use crate::settings::{self, Common, Reading, duration, flag, text};

const KNOWN: &[&str] = &[
    "name",
    "start_to_close",
    "schedule_to_start",
    "schedule_to_close",
    "heartbeat",
    "attempts",
    "retry",
    "priority",
    "exhausted",
    "transactional",
    "crate",
];

/// Expands the attribute; what is wrong becomes compile errors.
pub(crate) fn expand(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let mut settings = Settings::default();
    let read = settings::read(arguments, Kind::Activity, KNOWN, |key, setting| {
        settings.take(key, setting)
    });
    expansion::assemble(Kind::Activity, item, read, |function| {
        settings.implement(function)
    })
}

#[derive(Default)]
struct Settings {
    common: Common,
    start_to_close: Option<Milliseconds>,
    schedule_to_start: Option<Milliseconds>,
    schedule_to_close: Option<Milliseconds>,
    heartbeat: Option<Milliseconds>,
    attempts: Option<Expr>,
    retry: Option<Expr>,
    priority: Option<Expr>,
    exhausted: Option<Exhausted>,
    transactional: bool,
}

enum Exhausted {
    Fail,
    Park,
}

impl Settings {
    fn take(&mut self, key: &str, setting: &ParseNestedMeta<'_>) -> syn::Result<Reading> {
        match key {
            "start_to_close" => self.start_to_close = Some(duration(key, setting)?),
            "schedule_to_start" => self.schedule_to_start = Some(duration(key, setting)?),
            "schedule_to_close" => self.schedule_to_close = Some(duration(key, setting)?),
            "heartbeat" => self.heartbeat = Some(duration(key, setting)?),
            "attempts" => self.attempts = Some(attempts(settings::value(key, setting)?.parse()?)?),
            "retry" => self.retry = Some(settings::value(key, setting)?.parse()?),
            "priority" => self.priority = Some(settings::value(key, setting)?.parse()?),
            "exhausted" => self.exhausted = Some(exhausted(&text(key, setting)?)?),
            "transactional" => {
                flag(key, setting)?;
                self.transactional = true;
            }
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
        let transactional = self.transactional.then(|| {
            quote!(
                const TRANSACTIONAL: bool = true;
            )
        });
        let options = self.options(&support);
        // Underscored: a unit struct of the user's, named `input`, could not be shadowed by a parameter.
        let given = Ident::new("__input", Span::mixed_site());
        let passed = function
            .parameters
            .passed(&quote!(::core::clone::Clone::clone(__ctx)), &given);
        let visibility = &function.visibility;
        let value_doc = format!("The activity `{name}`, to be registered: `.activity({name})`.");
        quote! {
            #unit

            #[doc = #value_doc]
            #carried
            #[allow(unreachable_pub, dead_code, clippy::must_use_candidate)]
            #visibility fn #name() -> #name {
                #name {}
            }

            #carried
            #[#support::async_trait]
            impl #support::Activity for #name {
                const TYPE: &'static str = #type_name;
                #transactional
                type Input = #input;
                type Output = #output;
                #options
                async fn execute(
                    &self,
                    __ctx: &#support::ActivityContext,
                    #given: Self::Input,
                ) -> ::core::result::Result<Self::Output, #support::ActivityError> {
                    Self::call(#passed).await
                }
            }
        }
    }

    /// `fn options()`, if a setting asks for it.
    fn options(&self, support: &TokenStream) -> Option<TokenStream> {
        let fields = self.option_fields(support);
        if fields.is_empty() {
            return None;
        }
        Some(quote! {
            fn options() -> #support::ActivityOptions {
                #support::ActivityOptions {
                    #(#fields,)*
                    ..::core::default::Default::default()
                }
            }
        })
    }

    fn option_fields(&self, support: &TokenStream) -> Vec<TokenStream> {
        let some = |length: Milliseconds| {
            let length = length.expression();
            quote!(::core::option::Option::Some(#length))
        };
        let exhausted = self.exhausted.as_ref().map(|exhausted| match exhausted {
            Exhausted::Fail => quote!(#support::ExhaustedPolicy::Fail),
            Exhausted::Park => quote!(#support::ExhaustedPolicy::Park),
        });
        [
            ("retry_policy", self.retry_policy(support)),
            (
                "start_to_close_timeout",
                self.start_to_close.map(Milliseconds::expression),
            ),
            (
                "schedule_to_start_timeout",
                self.schedule_to_start.map(Milliseconds::expression),
            ),
            (
                "schedule_to_close_timeout",
                self.schedule_to_close.map(some),
            ),
            ("heartbeat_timeout", self.heartbeat.map(some)),
            (
                "priority",
                self.priority.as_ref().map(|priority| quote!(#priority)),
            ),
            ("on_exhausted", exhausted),
        ]
        .into_iter()
        .filter_map(|(field, value)| {
            let field = Ident::new(field, Span::call_site());
            value.map(|value| quote!(#field: #value))
        })
        .collect()
    }

    fn retry_policy(&self, support: &TokenStream) -> Option<TokenStream> {
        match (&self.retry, &self.attempts) {
            (None, None) => None,
            (Some(policy), None) => Some(quote!(#policy)),
            (policy, Some(attempts)) => {
                let policy = policy.as_ref().map_or_else(
                    || quote!(<#support::RetryPolicy as ::core::default::Default>::default()),
                    |policy| quote!(#policy),
                );
                Some(quote!(#support::RetryPolicy { max_attempts: #attempts, ..#policy }))
            }
        }
    }
}

/// Any expression but the one number that says nothing.
fn attempts(expression: Expr) -> syn::Result<Expr> {
    if let Expr::Lit(literal) = &expression
        && let Lit::Int(number) = &literal.lit
        && number.base10_digits() == "0"
    {
        return Err(syn::Error::new(
            number.span(),
            "`attempts` counts the first one too: it is at least 1",
        ));
    }
    Ok(expression)
}

fn exhausted(literal: &LitStr) -> syn::Result<Exhausted> {
    match literal.value().as_str() {
        "fail" => Ok(Exhausted::Fail),
        "park" => Ok(Exhausted::Park),
        other => Err(syn::Error::new(
            literal.span(),
            format!(
                "`{other}` is not known: write \"fail\" (the workflow sees the failure) or \"park\" (it waits for the dead \
                 letter to be decided)"
            ),
        )),
    }
}
