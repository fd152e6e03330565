//! Tokens of the environment: `DURABLE_TOKENS`, and S1's `WORKER_GRPC_AUTH_TOKEN`.

use super::{Role, TokenHash, TokenRecord};

/// Reads `NAME:ROLE:TOKEN` entries, separated by commas or white space; TOKEN may also be its hash, `sha256:…`.
///
/// # Errors
/// What is wrong with which entry, without the token.
pub fn parse_tokens(text: &str) -> Result<Vec<TokenRecord>, String> {
    let entries = text.split(|c: char| c == ',' || c.is_whitespace());
    let entries = entries.filter(|entry| !entry.is_empty());
    let mut tokens: Vec<TokenRecord> = Vec::new();
    for (at, entry) in entries.enumerate() {
        let token = parse_entry(entry).map_err(|problem| {
            let number = at + 1;
            format!("entry {number} of the tokens: {problem}; it has to be NAME:ROLE:TOKEN")
        })?;
        if tokens.iter().any(|other| other.name == token.name) {
            return Err(format!("two tokens are called {:?}", token.name));
        }
        tokens.push(token);
    }
    Ok(tokens)
}

/// The record of S1's one worker token.
#[must_use]
pub fn worker_token(token: &str) -> TokenRecord {
    TokenRecord::new("WORKER_GRPC_AUTH_TOKEN", Role::Worker, token)
}

fn parse_entry(entry: &str) -> Result<TokenRecord, String> {
    let mut parts = entry.splitn(3, ':');
    let name = parts.next().filter(|name| !name.is_empty());
    let name = name.ok_or("it has no name")?;
    let role = parts.next().ok_or("it has no role")?;
    let role = Role::parse(role).ok_or_else(|| {
        format!("{role:?} is no role; there are worker, reader, operator and admin")
    })?;
    let token = parts.next().filter(|token| !token.is_empty());
    let token = token.ok_or("it has no token")?;
    let mut record = TokenRecord::new(name, role, token);
    if token.starts_with("sha256:") {
        record.hash = TokenHash::parse(token).ok_or("its hash is not 64 hexadecimal digits")?;
    }
    Ok(record)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_plain_or_hashed() {
        let hashed = TokenHash::of("b");
        let tokens = parse_tokens(&format!("one:reader:a, two:admin:{hashed}")).unwrap();
        assert_eq!(tokens[0].hash, TokenHash::of("a"));
        assert_eq!((tokens[1].role, tokens[1].hash), (Role::Admin, hashed));
        assert_eq!(parse_tokens(" \n").unwrap(), []);
    }

    #[test]
    fn mistakes_are_named_without_the_token() {
        for (text, named) in [
            ("hunter2", "no role"),
            (":admin:hunter2", "no name"),
            ("a:king:hunter2", "king"),
            ("a:admin:", "no token"),
            ("a:admin:x,a:reader:hunter2", "two tokens"),
        ] {
            let problem = parse_tokens(text).expect_err("refused");
            assert!(problem.contains(named), "{problem}");
            assert!(!problem.contains("hunter2"), "{problem}");
        }
    }
}
