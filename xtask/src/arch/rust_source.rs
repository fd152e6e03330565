//! Just enough of Rust's lexical structure to tell code, comments and string literals apart.

/// A string literal and the line it starts on (from 1).
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Literal {
    pub(super) line: usize,
    pub(super) text: String,
}

/// The source up to its test module, which by convention stands last.
pub(super) fn without_tests(source: &str) -> &str {
    source
        .split_once("\n#[cfg(test)]\nmod ")
        .map_or(source, |(code, _tests)| code)
}

/// Every string literal, as written (escapes are not resolved).
pub(super) fn literals(source: &str) -> Vec<Literal> {
    let mut line = 1;
    let mut found = Vec::new();
    for piece in pieces(source) {
        if let Piece::Literal(text) = piece {
            found.push(Literal {
                line,
                text: text.to_owned(),
            });
        }
        line += piece.text().matches('\n').count();
    }
    found
}

/// The code alone; what is left out leaves its line breaks, so that line numbers stay.
pub(super) fn without_comments_and_literals(source: &str) -> String {
    pieces(source)
        .iter()
        .map(|piece| match piece {
            Piece::Code(text) => (*text).to_owned(),
            other => format!(" {}", "\n".repeat(other.text().matches('\n').count())),
        })
        .collect()
}

/// The identifiers of a piece of code, in order.
pub(super) fn identifiers(code: &str) -> impl Iterator<Item = &str> {
    code.split(|c: char| !(c.is_alphanumeric() || c == '_'))
        .filter(|word| !word.is_empty())
}

enum Piece<'a> {
    Code(&'a str),
    Comment(&'a str),
    /// Without its quotes.
    Literal(&'a str),
}

impl<'a> Piece<'a> {
    fn text(&self) -> &'a str {
        match self {
            Self::Code(text) | Self::Comment(text) | Self::Literal(text) => text,
        }
    }
}

/// Cuts a source into its pieces, in order.
fn pieces(source: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut code_from = 0;
    let mut at = 0;
    while at < source.len() {
        let rest = &source[at..];
        let Some((piece, length)) = special(rest, source[..at].chars().next_back()) else {
            at += rest.chars().next().map_or(1, char::len_utf8);
            continue;
        };
        pieces.push(Piece::Code(&source[code_from..at]));
        pieces.push(piece);
        at += length;
        code_from = at;
    }
    pieces.push(Piece::Code(&source[code_from.min(source.len())..]));
    pieces
}

/// The comment or literal that starts here, and how long it is with its delimiters.
fn special(rest: &str, before: Option<char>) -> Option<(Piece<'_>, usize)> {
    if rest.starts_with("//") {
        let end = rest.find('\n').unwrap_or(rest.len());
        return Some((Piece::Comment(&rest[..end]), end));
    }
    if rest.starts_with("/*") {
        let end = block_comment(rest);
        return Some((Piece::Comment(&rest[..end]), end));
    }
    if let Some(inside) = rest.strip_prefix('"') {
        let end = quoted(inside, '"');
        return Some((Piece::Literal(&inside[..end]), (end + 2).min(rest.len())));
    }
    let in_word = before.is_some_and(|c| (c.is_alphanumeric() && c != 'b' && c != 'c') || c == '_');
    if rest.starts_with('r') && !in_word {
        return raw_string(rest);
    }
    if rest.starts_with('\'') {
        // A character like '"' must not open a string; a lifetime has no closing quote.
        let length = character(rest)?;
        return Some((Piece::Comment(&rest[..length]), length));
    }
    None
}

/// Where a block comment ends; they nest.
fn block_comment(rest: &str) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < rest.len() {
        if rest[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += rest[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    rest.len()
}

/// The index of the closing quote, or the end; escapes are skipped.
fn quoted(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return at,
            _ => {}
        }
    }
    rest.len()
}

fn raw_string(rest: &str) -> Option<(Piece<'_>, usize)> {
    let hashes = rest[1..].len() - rest[1..].trim_start_matches('#').len();
    let open = 1 + hashes + 1;
    if !rest[1 + hashes..].starts_with('"') {
        return None;
    }
    let close = format!("\"{}", "#".repeat(hashes));
    let end = rest[open..].find(&close).map_or(rest.len(), |at| open + at);
    let length = (end + close.len()).min(rest.len());
    Some((Piece::Literal(&rest[open..end]), length))
}

fn character(rest: &str) -> Option<usize> {
    let mut chars = rest.char_indices().skip(1);
    let (_, first) = chars.next()?;
    if first == '\\' {
        return Some((quoted(&rest[1..], '\'') + 2).min(rest.len()));
    }
    let (at, second) = chars.next()?;
    (second == '\'').then_some(at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(source: &str) -> Vec<String> {
        literals(source)
            .into_iter()
            .map(|literal| literal.text)
            .collect()
    }

    #[test]
    fn strings_of_every_kind_are_found() {
        let source = r###"f("a \" b", b"bytes", r"raw \", r#"with "quotes""#, br"x");"###;
        assert_eq!(
            texts(source),
            [r#"a \" b"#, "bytes", r"raw \", r#"with "quotes""#, "x"]
        );
    }

    #[test]
    fn comments_characters_and_lifetimes_are_not_strings() {
        let source = "// \"no\"\n/* \"no\" /* nested \"no\" */ */ fn f<'a>(x: &'a str) { g('\"', '\\'', \"yes\") }";
        assert_eq!(texts(source), ["yes"]);
    }

    #[test]
    fn lines_are_counted_through_strings_of_many_lines() {
        let found = literals("\nf(\"one\ntwo\");\nf(\"three\");");
        assert_eq!(found.iter().map(|l| l.line).collect::<Vec<_>>(), [2, 4]);
    }

    #[test]
    fn code_keeps_its_lines() {
        let code = without_comments_and_literals("a // b\nc \"d\ne\" f");
        assert_eq!(code.lines().count(), 3);
        assert_eq!(identifiers(&code).collect::<Vec<_>>(), ["a", "c", "f"]);
    }

    #[test]
    fn unfinished_sources_do_not_panic() {
        for source in [
            "\"", "r#\"", "/*", "'", "'\\", "r", "\"\\", "é\"é", "'é'", "\"é",
        ] {
            let _ = literals(source);
        }
    }

    #[test]
    fn the_test_module_is_cut_off() {
        assert_eq!(without_tests("a\n#[cfg(test)]\nmod tests { b }"), "a");
        assert_eq!(
            without_tests("a #[cfg(test)] fn b() {}"),
            "a #[cfg(test)] fn b() {}"
        );
    }
}
