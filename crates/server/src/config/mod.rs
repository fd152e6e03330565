//! Configuration: one list of settings, each read from a flag, the environment, a file or its default, in that order of precedence.
//!
//! Architecture invariant: a setting is declared once, in `settings.rs`. The flags, the variables, the keys of the file, `durable config show`
//! and the reference page all come from that list; its doc comments are the manual.

mod error;
mod file;
mod kinds;
mod period;
mod resolve;
mod settings;

pub use error::ConfigError;
pub use kinds::{DatabaseUrl, Deployment, LogFormat, Secret, Tokens};
pub use period::Period;
pub use resolve::{Sources, reference};
pub use settings::{Config, SETTINGS};

use std::fmt;
use std::ops::Deref;
use std::path::PathBuf;

/// Which command is configured; they differ in defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// `durable dev`: everything on, nothing to set up.
    Dev,
    /// `durable server`: nothing happens that was not asked for.
    Server,
}

/// One setting, as it is declared.
#[derive(Debug)]
pub struct Setting {
    /// Its name in a file, and with dashes as a flag.
    pub key: &'static str,
    /// Its variable.
    pub env: &'static str,
    /// What it is for.
    pub help: &'static str,
    /// What holds where nobody says anything; none: it is not set.
    pub default: Option<&'static str>,
    /// The same for `durable dev`, where that differs.
    pub dev: Option<&'static str>,
    /// Stands for the value in usage texts.
    pub placeholder: &'static str,
    /// On or off: the flag needs no value.
    pub switch: bool,
    /// A secret: also read from the file that the variable with `_FILE` names.
    pub by_file: bool,
}

impl Setting {
    /// The flag's name, without its dashes.
    #[must_use]
    pub fn flag(&self) -> String {
        self.key.replace('_', "-")
    }

    fn default_for(&self, mode: Mode) -> Option<&'static str> {
        match mode {
            Mode::Dev => self.dev.or(self.default),
            Mode::Server => self.default,
        }
    }
}

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A flag, with its dashes.
    Flag(String),
    /// A variable of the environment.
    Env(String),
    /// A configuration file.
    File(PathBuf),
    /// Nobody said anything.
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(flag) => write!(f, "flag {flag}"),
            Self::Env(name) => write!(f, "environment {name}"),
            Self::File(path) => write!(f, "file {}", path.display()),
            Self::Default => f.write_str("default"),
        }
    }
}

/// A value that knows where it came from.
#[derive(Debug, Clone)]
pub struct Value<T> {
    value: T,
    /// Where it came from.
    pub origin: Origin,
}

impl<T> Value<T> {
    /// The value itself.
    pub fn get(&self) -> &T {
        &self.value
    }
}

impl<T> Deref for Value<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

/// One line of `durable config show`.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Row {
    /// The setting.
    pub key: &'static str,
    /// Its value, as it may be shown; none where it is not set.
    pub value: Option<String>,
    /// Where it came from.
    pub origin: String,
}
