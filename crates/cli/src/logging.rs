//! Log lines, on standard error.

use std::fmt::Display;
use std::io::IsTerminal as _;

use durable_server::config::{Config, LogFormat};
use tracing_subscriber::EnvFilter;

use crate::exit::{Failure, Result};

/// Sends log lines to standard error, as the configuration says.
pub(crate) fn start(config: &Config) -> Result<()> {
    start_with(config.log.get(), &config.log.origin, *config.log_format)
}

/// The same for a filter in the language of `RUST_LOG`, and where it came from.
pub(crate) fn start_with(filter: &str, origin: &dyn Display, format: LogFormat) -> Result<()> {
    let filter = EnvFilter::try_new(filter)
        .map_err(|error| Failure::usage(format!("log (from {origin}): {error}")))?;
    let colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(colour);
    let started = match format {
        LogFormat::Text => lines.try_init(),
        LogFormat::Json => lines.json().try_init(),
    };
    started.map_err(|error| Failure::usage(format!("logging cannot be started: {error}")))
}
