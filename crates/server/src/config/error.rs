//! What can be wrong with a configuration.

use std::path::PathBuf;

use super::Origin;

/// Why a configuration cannot be used. Says which value, where it came from, and what would do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A value that cannot be read.
    #[error("{key} (from {origin}): {problem}")]
    Value {
        /// The setting.
        key: &'static str,
        /// Where the value came from.
        origin: Origin,
        /// What is wrong with it, and what would do.
        problem: String,
    },
    /// A file that cannot be read.
    #[error("{what} {path}: {source}")]
    Unreadable {
        /// What it should hold.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// A configuration file that is no TOML.
    #[error("{path} is not TOML: {source}")]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Where and why.
        source: toml::de::Error,
    },
    /// A key that is no setting.
    #[error("{path} has the key `{key}`, which is no setting; there are: {known}")]
    UnknownKey {
        /// The file.
        path: PathBuf,
        /// The key.
        key: String,
        /// All there are.
        known: String,
    },
    /// Two sources of the same rank.
    #[error("{one} and {other} are both set; unset one of them")]
    Ambiguous {
        /// A variable.
        one: String,
        /// Another.
        other: String,
    },
    /// Values that do not go together.
    #[error("{0}")]
    Together(String),
}
