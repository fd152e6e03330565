//! A function's parameters: the context, and what is stored as the input.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::spanned::Spanned;
use syn::{FnArg, GenericArgument, Ident, Pat, PatType, PathArguments, Signature, Type};

use crate::function::Problems;
use crate::kind::Kind;

/// serde stores tuples up to this length.
const INPUT_VALUES_MAX: usize = 16;

/// The parameters, in order.
pub(crate) struct Parameters {
    /// The first, if it is the context.
    context: Option<Parameter>,
    /// The rest: together, the input.
    values: Vec<Parameter>,
}

/// One parameter, under a name by which it can be passed on.
struct Parameter {
    name: Ident,
    ty: Type,
}

impl Parameters {
    /// Reads them; what is wrong is added to `problems`.
    pub(crate) fn read(kind: Kind, signature: &Signature, problems: &mut Problems) -> Self {
        if let Some(receiver) = signature.receiver() {
            problems.add(receiver, no_self(kind));
        }
        let mut context = None;
        let mut values = Vec::new();
        for (position, argument) in typed(signature).enumerate() {
            let parameter = Parameter {
                name: name_of(position, argument, &signature.ident),
                ty: Type::clone(&argument.ty),
            };
            if is_named(&parameter.ty, kind.context()) {
                check_context(kind, position, &parameter.ty, problems);
                context = Some(parameter);
            } else {
                check_value(kind, &parameter.ty, problems);
                values.push(parameter);
            }
        }
        if kind == Kind::Workflow && context.is_none() && !takes_other_context(kind, &values) {
            problems.add(
                &signature.ident,
                "a workflow takes its context first: add `ctx: WorkflowContext`",
            );
        }
        if values.len() > INPUT_VALUES_MAX {
            problems.add(
                &signature.ident,
                format!("an input holds at most {INPUT_VALUES_MAX} values: put them into a struct"),
            );
        }
        Self { context, values }
    }

    /// `name: Type` of each.
    pub(crate) fn declared(&self) -> TokenStream {
        let each = self.each().map(|Parameter { name, ty }| quote!(#name: #ty));
        quote!(#(#each),*)
    }

    /// The name of each.
    pub(crate) fn names(&self) -> TokenStream {
        let each = self.each().map(|parameter| &parameter.name);
        quote!(#(#each),*)
    }

    /// Type of the input: one value as it is, several as a tuple.
    pub(crate) fn input(&self) -> TokenStream {
        let types = self.values.iter().map(|value| &value.ty);
        match self.values.len() {
            1 => quote!(#(#types)*),
            _ => quote!((#(#types),*)),
        }
    }

    /// What the function is called with, given the expressions of its context and its input.
    pub(crate) fn passed(&self, context: &TokenStream, input: &Ident) -> TokenStream {
        let context = self.context.iter().map(|_| context.clone());
        let values = (0..self.values.len()).map(|position| {
            let position = syn::Index::from(position);
            match self.values.len() {
                1 => quote!(#input),
                _ => quote!(#input.#position),
            }
        });
        let each = context.chain(values);
        quote!(#(#each),*)
    }

    fn each(&self) -> impl Iterator<Item = &Parameter> {
        self.context.iter().chain(&self.values)
    }
}

/// All but `self`.
fn typed(signature: &Signature) -> impl Iterator<Item = &PatType> {
    signature
        .inputs
        .iter()
        .filter_map(|argument| match argument {
            FnArg::Typed(argument) => Some(argument),
            FnArg::Receiver(_) => None,
        })
}

/// Whether the wrong context is there, which is a problem of its own.
fn takes_other_context(kind: Kind, values: &[Parameter]) -> bool {
    values
        .iter()
        .any(|value| is_named(&value.ty, kind.other().context()))
}

/// The pattern's own name where it has one. The function's name will not do: there it would mean the unit struct.
fn name_of(position: usize, argument: &PatType, function: &Ident) -> Ident {
    match &*argument.pat {
        Pat::Ident(pattern) if pattern.subpat.is_none() && pattern.ident != *function => {
            pattern.ident.clone()
        }
        _ => format_ident!("argument_{position}", span = argument.pat.span()),
    }
}

fn check_context(kind: Kind, position: usize, ty: &Type, problems: &mut Problems) {
    let context = kind.context();
    if position > 0 {
        problems.add(
            ty,
            format!("the context comes first: make `{context}` the first argument"),
        );
    } else if !matches!(ty, Type::Path(_)) {
        problems.add(
            ty,
            format!("the context comes by value: write `ctx: {context}`; a clone of it is cheap"),
        );
    }
}

fn check_value(kind: Kind, ty: &Type, problems: &mut Problems) {
    let noun = kind.noun();
    if is_named(ty, kind.other().context()) {
        problems.add(
            ty,
            format!(
                "{noun} takes `{}`, not `{}`",
                kind.context(),
                kind.other().context()
            ),
        );
    } else if let Type::ImplTrait(_) = ty {
        problems.add(
            ty,
            format!("{noun} has no generic arguments: name a concrete type, since the value is stored and read back"),
        );
    } else if let Some(borrow) = borrow_in(ty) {
        problems.add(
            &borrow,
            "an argument is owned, since it is stored and read back: write `String` for `&str`, `Vec<T>` for `&[T]`, `T` \
             for `&T`",
        );
    }
}

fn no_self(kind: Kind) -> &'static str {
    match kind {
        Kind::Activity => {
            "an activity has no `self`: take what it needs as arguments, or implement `Activity` for a struct that holds it"
        }
        Kind::Workflow => "a workflow has no `self`: take what it needs as arguments",
    }
}

/// Whether the type's last path segment is this, behind a reference or not.
fn is_named(ty: &Type, name: &str) -> bool {
    match ty {
        Type::Path(path) => path
            .path
            .segments
            .last()
            .is_some_and(|segment| segment.ident == name),
        Type::Reference(reference) => is_named(&reference.elem, name),
        Type::Paren(inner) => is_named(&inner.elem, name),
        Type::Group(inner) => is_named(&inner.elem, name),
        _ => false,
    }
}

/// The part of the type that borrows, if one does.
fn borrow_in(ty: &Type) -> Option<TokenStream> {
    match ty {
        Type::Reference(_) => Some(quote!(#ty)),
        Type::Array(array) => borrow_in(&array.elem),
        Type::Slice(slice) => borrow_in(&slice.elem),
        Type::Paren(inner) => borrow_in(&inner.elem),
        Type::Group(inner) => borrow_in(&inner.elem),
        Type::Tuple(tuple) => tuple.elems.iter().find_map(borrow_in),
        Type::Path(path) => {
            path.path
                .segments
                .iter()
                .find_map(|segment| match &segment.arguments {
                    PathArguments::AngleBracketed(arguments) => {
                        arguments.args.iter().find_map(borrow_in_argument)
                    }
                    _ => None,
                })
        }
        _ => None,
    }
}

fn borrow_in_argument(argument: &GenericArgument) -> Option<TokenStream> {
    match argument {
        GenericArgument::Type(ty) => borrow_in(ty),
        // `Cow<'static, str>` owns what it was read into.
        GenericArgument::Lifetime(lifetime) if lifetime.ident != "static" => {
            Some(quote!(#lifetime))
        }
        _ => None,
    }
}
