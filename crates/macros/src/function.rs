//! The function an attribute stands on, taken apart and checked.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use quote::ToTokens;
use syn::parse::{ParseStream, Parser};
use syn::{Abi, Attribute, Error, ReturnType, Safety, Signature, Token, Type, Visibility};

use crate::kind::Kind;
use crate::parameters::Parameters;

/// A function that can be made a workflow or an activity.
pub(crate) struct Function {
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) visibility: Visibility,
    pub(crate) signature: Signature,
    pub(crate) parameters: Parameters,
    /// The return type as it is written.
    pub(crate) answer: Type,
    /// The block, unparsed: what is wrong in it is best told by the compiler itself.
    pub(crate) body: TokenStream,
}

/// Everything found wrong so far; all of it is told at once.
#[derive(Default)]
pub(crate) struct Problems(Option<Error>);

impl Problems {
    /// Adds one, at what it is about.
    pub(crate) fn add(&mut self, at: &impl ToTokens, message: impl std::fmt::Display) {
        let error = Error::new_spanned(at, message);
        match &mut self.0 {
            Some(all) => all.combine(error),
            None => self.0 = Some(error),
        }
    }

    fn finish(self) -> syn::Result<()> {
        self.0.map_or(Ok(()), Err)
    }
}

impl Function {
    /// Reads the item.
    ///
    /// # Errors
    /// It is not a function that can be stored and called again by its name.
    pub(crate) fn read(kind: Kind, item: TokenStream) -> syn::Result<Self> {
        let parser = |input: ParseStream<'_>| {
            let attributes = input.call(Attribute::parse_outer)?;
            let visibility = input.parse()?;
            if !at_function(input) {
                return Err(input.error(not_a_function(kind)));
            }
            let signature: Signature = input.parse()?;
            let body: TokenStream = input.parse()?;
            Ok((attributes, visibility, signature, body))
        };
        let (attributes, visibility, signature, body) = parser.parse2(item)?;

        let mut problems = Problems::default();
        check_qualifiers(kind, &signature, &mut problems);
        let parameters = Parameters::read(kind, &signature, &mut problems);
        let answer = answer(kind, &signature, &mut problems);
        check_body(kind, &signature, &body, &mut problems);
        problems.finish()?;
        Ok(Self {
            attributes,
            visibility,
            signature,
            parameters,
            answer,
            body,
        })
    }
}

/// Whether a function begins here, whatever qualifies it.
fn at_function(input: ParseStream<'_>) -> bool {
    let ahead = input.fork();
    while ahead.peek(Token![const]) || ahead.peek(Token![async]) || ahead.peek(Token![unsafe]) {
        let _: Result<TokenTree, _> = ahead.parse();
    }
    let _: Result<Option<Abi>, _> = ahead.parse();
    ahead.peek(Token![fn])
}

fn not_a_function(kind: Kind) -> String {
    let by_hand = match kind {
        Kind::Activity => "an activity with dependencies is a struct: implement `Activity` for it",
        Kind::Workflow => {
            "a workflow that is a state machine is a struct: implement `Workflow` for it"
        }
    };
    format!("`{}` stands on an `async fn`; {by_hand}", kind.attribute())
}

fn check_qualifiers(kind: Kind, signature: &Signature, problems: &mut Problems) {
    let noun = kind.noun();
    if signature.asyncness.is_none() {
        problems.add(
            &signature.fn_token,
            format!("{noun} is an `async fn`: put `async` before `fn`"),
        );
    }
    if let Some(token) = &signature.constness {
        problems.add(token, format!("{noun} is no `const fn`: take `const` away"));
    }
    if let Safety::Safe(_) | Safety::Unsafe(_) = &signature.safety {
        problems.add(
            &signature.safety,
            format!("{noun} is called by the engine, which promises nothing: take `unsafe` away"),
        );
    }
    if let Some(abi) = &signature.abi {
        problems.add(
            abi,
            format!("{noun} is called from Rust only: take `extern` away"),
        );
    }
    if let Some(variadic) = &signature.variadic {
        problems.add(
            variadic,
            format!("{noun} has a fixed number of arguments: take `...` away"),
        );
    }
    let message = format!(
        "{noun} has no generics and no lifetimes: it is found by its name alone; use concrete, owned types"
    );
    if !signature.generics.params.is_empty() {
        problems.add(&signature.generics, message);
    } else if let Some(clause) = &signature.generics.where_clause {
        problems.add(clause, message);
    }
}

fn answer(kind: Kind, signature: &Signature, problems: &mut Problems) -> Type {
    if let ReturnType::Type(_, answer) = &signature.output {
        return Type::clone(answer);
    }
    problems.add(
        &signature.ident,
        format!(
            "{} says what it answers: add `-> {}<()>`, or what stands for `()`",
            kind.noun(),
            kind.result()
        ),
    );
    Type::Verbatim(TokenStream::new())
}

fn check_body(kind: Kind, signature: &Signature, body: &TokenStream, problems: &mut Problems) {
    let is_block = matches!(
        body.clone().into_iter().next(),
        Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace
    );
    if !is_block {
        problems.add(
            &signature.ident,
            format!("{} has a body: write it in braces", kind.noun()),
        );
    }
}
