//! Tokens: made once, kept as hashes.

use std::fmt;

use everruns_durable::core::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::{Choice, ConstantTimeEq};

use super::{Role, Scopes};

/// How tokens made here begin, so that scanners for leaked secrets can find them.
const PREFIX: &str = "durable_";

/// The hash of a token. Tokens are 32 random bytes, so that one round of SHA-256 is enough: there is nothing to guess.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TokenHash([u8; 32]);

impl TokenHash {
    /// Of a token as it is sent.
    #[must_use]
    pub fn of(token: &str) -> Self {
        Self(Sha256::digest(token.as_bytes()).into())
    }

    /// Compares in a time that does not depend on where they differ.
    #[must_use]
    pub fn matches(&self, other: &Self) -> Choice {
        self.0.ct_eq(&other.0)
    }

    /// Reads `sha256:` and 64 hexadecimal digits.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix("sha256:")?.as_bytes();
        if digits.len() != 64 {
            return None;
        }
        let mut hash = [0; 32];
        for (byte, pair) in hash.iter_mut().zip(digits.chunks_exact(2)) {
            let nibble = |digit: u8| char::from(digit).to_digit(16);
            *byte = u8::try_from(nibble(pair[0])? * 16 + nibble(pair[1])?).ok()?;
        }
        Some(Self(hash))
    }
}

impl fmt::Display for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sha256:")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for TokenHash {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TokenHash {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| {
            serde::de::Error::custom("a hash is `sha256:` followed by 64 hexadecimal digits")
        })
    }
}

/// A token as it is kept: never the token itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenRecord {
    /// Its name, unique among all.
    pub name: String,
    /// What it was made for.
    pub role: Role,
    /// The token's hash.
    pub hash: TokenHash,
    /// Queues it is limited to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queues: Option<super::Names>,
    /// Workflow types it is limited to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow_types: Option<super::Names>,
    /// When it was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Timestamp>,
    /// From when on it is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

impl TokenRecord {
    /// A record of a token that never expires and is limited to nothing.
    #[must_use]
    pub fn new(name: impl Into<String>, role: Role, token: &str) -> Self {
        Self {
            name: name.into(),
            role,
            hash: TokenHash::of(token),
            queues: None,
            workflow_types: None,
            created_at: None,
            expires_at: None,
        }
    }

    /// What it is limited to.
    #[must_use]
    pub fn scopes(&self) -> Scopes {
        Scopes {
            queues: self.queues.clone(),
            workflow_types: self.workflow_types.clone(),
        }
    }
}

/// A new token: 32 random bytes. To be shown once and kept nowhere.
///
/// # Errors
/// Where the system has no randomness to give.
pub fn new_token() -> std::io::Result<String> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(std::io::Error::from)?;
    let mut token = PREFIX.to_owned();
    for byte in bytes {
        token.push_str(&format!("{byte:02x}"));
    }
    Ok(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_reads_what_it_writes() {
        let hash = TokenHash::of("secret");
        assert_eq!(TokenHash::parse(&hash.to_string()), Some(hash));
        for bad in [
            "",
            "sha256:",
            "sha256:zz",
            "md5:00",
            &hash.to_string()[..70],
        ] {
            assert_eq!(TokenHash::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn tokens_differ_and_carry_32_bytes() {
        let (one, other) = (new_token().unwrap(), new_token().unwrap());
        assert_ne!(one, other);
        assert_eq!(one.len(), PREFIX.len() + 64);
    }
}
