//! What stands in an attribute's parentheses: `key = value` and flags, separated by commas.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use syn::meta::ParseNestedMeta;
use syn::parse::Parser;
use syn::{Ident, LitStr, Path, Token};

use crate::duration::Milliseconds;
use crate::kind::Kind;

/// Settings of either attribute.
#[derive(Default)]
pub(crate) struct Common {
    name: Option<LitStr>,
    library: Option<Path>,
}

/// Whether a setting was one that the reader knows.
pub(crate) enum Reading {
    Taken,
    Unknown,
}

impl Common {
    /// Takes the setting if it is one of either attribute.
    pub(crate) fn take(
        &mut self,
        key: &str,
        setting: &ParseNestedMeta<'_>,
    ) -> syn::Result<Reading> {
        match key {
            "name" => self.name = Some(name(text(key, setting)?)?),
            "crate" => self.library = Some(text(key, setting)?.parse_with(Path::parse_mod_style)?),
            _ => return Ok(Reading::Unknown),
        }
        Ok(Reading::Taken)
    }

    /// The type's name: as given, or the function's.
    pub(crate) fn type_name(&self, function: &Ident) -> String {
        self.name
            .as_ref()
            .map_or_else(|| function.unraw().to_string(), LitStr::value)
    }

    /// Path of the one module of the library that expansions name.
    pub(crate) fn support(&self) -> TokenStream {
        match &self.library {
            Some(library) => quote!(#library::macro_support),
            None => quote!(::everruns_durable::macro_support),
        }
    }
}

/// Reads all settings, each at most once.
pub(crate) fn read(
    arguments: TokenStream,
    kind: Kind,
    known: &[&str],
    mut take: impl FnMut(&str, &ParseNestedMeta<'_>) -> syn::Result<Reading>,
) -> syn::Result<()> {
    let mut seen = Vec::new();
    let each = |setting: ParseNestedMeta<'_>| {
        let key = setting.path.to_token_stream().to_string();
        if seen.contains(&key) {
            return Err(setting.error(format!("`{key}` is given twice: keep one of them")));
        }
        if matches!(take(&key, &setting)?, Reading::Unknown) {
            return Err(setting.error(format!(
                "`{}` has no setting `{key}`; it has {}",
                kind.attribute(),
                listed(known)
            )));
        }
        seen.push(key);
        Ok(())
    };
    syn::meta::parser(each).parse2(arguments)
}

/// The setting's value, a text.
pub(crate) fn text(key: &str, setting: &ParseNestedMeta<'_>) -> syn::Result<LitStr> {
    let value = value(key, setting)?;
    value.parse().map_err(|error| {
        syn::Error::new(
            error.span(),
            format!("`{key}` takes a text in quotes: `{key} = \"…\"`"),
        )
    })
}

/// The setting's value, a duration.
pub(crate) fn duration(key: &str, setting: &ParseNestedMeta<'_>) -> syn::Result<Milliseconds> {
    Milliseconds::read(&text(key, setting)?)
}

/// What follows the setting's `=`.
pub(crate) fn value<'a>(
    key: &str,
    setting: &ParseNestedMeta<'a>,
) -> syn::Result<syn::parse::ParseStream<'a>> {
    setting
        .value()
        .map_err(|_| setting.error(format!("`{key}` takes a value: `{key} = …`")))
}

/// Sees to it that a flag stands alone.
pub(crate) fn flag(key: &str, setting: &ParseNestedMeta<'_>) -> syn::Result<()> {
    if setting.input.peek(Token![=]) {
        return Err(setting.error(format!(
            "`{key}` takes no value: its name alone turns it on"
        )));
    }
    Ok(())
}

fn name(literal: LitStr) -> syn::Result<LitStr> {
    let text = literal.value();
    if text.is_empty() || text.trim() != text {
        return Err(syn::Error::new(
            literal.span(),
            "a type's name is not empty and has no space at its ends: it is what runs are stored under",
        ));
    }
    Ok(literal)
}

fn listed(known: &[&str]) -> String {
    let quoted: Vec<_> = known.iter().map(|key| format!("`{key}`")).collect();
    quoted.join(", ")
}
