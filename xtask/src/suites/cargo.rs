//! The suites that are `cargo test`.

use std::io::{self, IsTerminal as _, Write as _};

use super::{Context, Row, libtest::Log};
use crate::process;

/// Unit and integration tests, examples and benches as tests.
pub(super) fn tests(context: &Context<'_>) -> anyhow::Result<Vec<Row>> {
    run(context, "--all-targets")
}

/// Examples in the documentation.
pub(super) fn docs(context: &Context<'_>) -> anyhow::Result<Vec<Row>> {
    run(context, "--doc")
}

fn run(context: &Context<'_>, targets: &str) -> anyhow::Result<Vec<Row>> {
    let mut command = context.workspace.cargo();
    command
        .args(["test", "--workspace", "--no-fail-fast", targets])
        .args(context.cargo_args)
        // Panics on purpose are many, and each would write a screen; a failed check says its line without.
        .env("RUST_BACKTRACE", "0");
    if io::stdout().is_terminal() {
        command.env("CARGO_TERM_COLOR", "always");
    }
    context.servers.export(&mut command);
    let mut log = Log::default();
    let status = process::run_by_line(&mut command, |line| {
        log.read(line);
        Ok(writeln!(io::stdout(), "{line}")?)
    })?;
    Ok(log.rows(status.success()))
}
