//! Versions as texts, read when the program is compiled.

use syn::LitStr;

/// Checks that the literal is a semantic version.
pub(crate) fn check(literal: &LitStr) -> syn::Result<()> {
    let text = literal.value();
    if is_semantic(&text) {
        return Ok(());
    }
    Err(syn::Error::new(
        literal.span(),
        format!(
            "`{text}` is not a version: write it as MAJOR.MINOR.PATCH, such as \"1.2.0\" or \"1.2.0-beta.1\""
        ),
    ))
}

/// `MAJOR.MINOR.PATCH[-PRERELEASE][+BUILD]`, as semver.org defines it.
fn is_semantic(text: &str) -> bool {
    let (text, build) = match text.split_once('+') {
        Some((text, build)) => (text, Some(build)),
        None => (text, None),
    };
    let (core, prerelease) = match text.split_once('-') {
        Some((core, prerelease)) => (core, Some(prerelease)),
        None => (text, None),
    };
    core.split('.').count() == 3
        && core.split('.').all(is_number)
        && prerelease.is_none_or(|tags| {
            tags.split('.').all(|tag| {
                is_tag(tag) && (!tag.bytes().all(|b| b.is_ascii_digit()) || is_number(tag))
            })
        })
        && build.is_none_or(|tags| tags.split('.').all(is_tag))
}

/// Digits that fit a `u64`, without a leading zero.
fn is_number(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_digit())
        && (text == "0" || !text.starts_with('0'))
        && text.parse::<u64>().is_ok()
}

fn is_tag(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

#[cfg(test)]
mod tests {
    use super::is_semantic;

    #[test]
    fn semantic_versions_pass() {
        for text in [
            "0.0.0",
            "1.2.0",
            "10.20.30",
            "1.0.0-beta.1",
            "1.0.0-x-y+build.007",
            "1.0.0+a-b",
        ] {
            assert!(is_semantic(text), "{text}");
        }
    }

    #[test]
    fn anything_else_is_refused() {
        for text in [
            "",
            "1",
            "1.2",
            "1.2.3.4",
            "v1.2.3",
            "1.2.x",
            "01.2.3",
            "1.2.3-",
            "1.2.3-a..b",
            "1.2.3-01",
            "1.2.3+",
            "1.2.3-b!",
            "1. 2.3",
            "1.2.+3",
            "99999999999999999999.0.0",
        ] {
            assert!(!is_semantic(text), "{text}");
        }
    }
}
