//! The token file.
//!
//! ```toml
//! [[token]]
//! name = "ci"
//! role = "operator"
//! hash = "sha256:…"
//! workflow_types = ["billing.*"]
//! expires_at = "2027-01-01T00:00:00Z"
//! ```

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::TokenRecord;

/// A token file and what it holds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenFile {
    /// The tokens.
    #[serde(default, rename = "token")]
    pub tokens: Vec<TokenRecord>,
}

/// Why a token file could not be used.
#[derive(Debug, thiserror::Error)]
pub enum TokenFileError {
    /// It could not be read or written.
    #[error("the token file {} cannot be used: {source}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is not what a token file is.
    #[error("the token file {} is wrong: {problem}", path.display())]
    Wrong {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
}

impl TokenFile {
    /// Reads a file.
    ///
    /// # Errors
    /// Where it cannot be read, is no token file, or has a name or a hash twice.
    pub fn read(path: &Path) -> Result<Self, TokenFileError> {
        let text = fs::read_to_string(path).map_err(|source| TokenFileError::Io {
            path: path.to_owned(),
            source,
        })?;
        Self::parse(&text).map_err(|problem| TokenFileError::Wrong {
            path: path.to_owned(),
            problem,
        })
    }

    /// Writes the file whole or not at all, readable by its owner only.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), TokenFileError> {
        let text = toml::to_string_pretty(self).map_err(|error| TokenFileError::Wrong {
            path: path.to_owned(),
            problem: error.to_string(),
        })?;
        let beside = path.with_extension(format!("new-{}", std::process::id()));
        let written = write_private(&beside, &text).and_then(|()| fs::rename(&beside, path));
        written.map_err(|source| TokenFileError::Io {
            path: path.to_owned(),
            source,
        })
    }

    fn parse(text: &str) -> Result<Self, String> {
        let file: Self = toml::from_str(text).map_err(|error| error.to_string())?;
        let mut names = BTreeSet::new();
        for token in &file.tokens {
            if token.name.is_empty() {
                return Err("a token has no name".to_owned());
            }
            if !names.insert(&token.name) {
                return Err(format!("two tokens are called {:?}", token.name));
            }
        }
        Ok(file)
    }
}

fn write_private(path: &Path, text: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::{Names, Role};

    #[test]
    fn file_reads_what_it_writes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens.toml");
        let mut token = TokenRecord::new("ci", Role::Operator, "secret");
        token.workflow_types = Some(Names::new(["billing.*"]));
        token.expires_at = Some("2027-01-01T00:00:00Z".parse().unwrap());
        let file = TokenFile {
            tokens: vec![token, TokenRecord::new("w", Role::Worker, "other")],
        };
        file.write(&path).unwrap();
        assert_eq!(TokenFile::read(&path).unwrap(), file);
        let text = fs::read_to_string(&path).unwrap();
        assert!(!text.contains("secret"), "{text}");
    }

    #[test]
    fn mistakes_are_named() {
        for (text, named) in [
            ("[[token]]\nname = \"a\"", "role"),
            ("tokens = 1", "tokens"),
            ("[[token]]\nname=\"a\"\nrole=\"king\"", "king"),
            (
                "[[token]]\nname=\"a\"\nrole=\"admin\"\nhash=\"plain\"",
                "sha256",
            ),
        ] {
            let problem = TokenFile::parse(text).expect_err("refused");
            assert!(problem.contains(named), "{problem}");
        }
        let one = format!(
            "[[token]]\nname=\"a\"\nrole=\"admin\"\nhash=\"{}\"\n",
            super::super::TokenHash::of("x")
        );
        let problem = TokenFile::parse(&format!("{one}{one}")).expect_err("refused");
        assert!(problem.contains("two tokens"), "{problem}");
    }
}
