//! How a command ends: an exit code that scripts can rely on, a sentence, and what to do.

use std::fmt;
use std::process::ExitCode;

use durable_server::config::ConfigError;
use durable_server::serve::ServeError;
use everruns_durable::persistence::StoreError;

/// The exit codes, beside 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Something failed.
    Failure = 1,
    /// The command or its configuration is wrong.
    Usage = 2,
    /// What was named does not exist.
    NotFound = 3,
    /// It is in a state in which that cannot be done, or exists already.
    Conflict = 4,
    /// The token is missing, unknown, or not allowed to.
    Auth = 5,
    /// The server or the database cannot be reached.
    Unreachable = 6,
    /// The workflow ended without a result.
    WorkflowFailed = 7,
}

/// Why a command failed.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    text: String,
    hint: Option<String>,
}

/// The result of a command.
pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

impl Failure {
    pub(crate) fn new(exit: Exit, text: impl fmt::Display) -> Self {
        Self {
            exit,
            text: text.to_string(),
            hint: None,
        }
    }

    pub(crate) fn usage(text: impl fmt::Display) -> Self {
        Self::new(Exit::Usage, text)
    }

    /// The same with what to do.
    pub(crate) fn hint(mut self, hint: impl fmt::Display) -> Self {
        self.hint = Some(hint.to_string());
        self
    }

    pub(crate) const fn exit(&self) -> Exit {
        self.exit
    }

    pub(crate) fn code(&self) -> ExitCode {
        ExitCode::from(self.exit as u8)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", self.text)?;
        match &self.hint {
            Some(hint) => write!(f, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

/// An error with its causes, each said once.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let said = error.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        cause = error.source();
    }
    text
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self::usage(error).hint("`durable config show` tells where each value comes from")
    }
}

impl From<ServeError> for Failure {
    fn from(error: ServeError) -> Self {
        let exit = match &error {
            ServeError::Entry(_) | ServeError::Tls(_) => Exit::Usage,
            ServeError::Engine(engine) => return Self::new(of_engine(engine), chain(&error)),
            _ => Exit::Failure,
        };
        Self::new(exit, chain(&error))
    }
}

impl From<everruns_durable::Error> for Failure {
    fn from(error: everruns_durable::Error) -> Self {
        Self::new(of_engine(&error), chain(&error))
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        everruns_durable::Error::from(error).into()
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::new(Exit::Failure, chain(&error))
    }
}

fn of_engine(error: &everruns_durable::Error) -> Exit {
    if error.is_not_found() {
        Exit::NotFound
    } else if error.is_conflict() {
        Exit::Conflict
    } else if error.is_denied() {
        Exit::Auth
    } else if error.is_unreachable() {
        Exit::Unreachable
    } else if error.is_invalid() {
        Exit::Usage
    } else {
        Exit::Failure
    }
}
