//! One command per file.

pub(crate) mod arch;
pub(crate) mod audit;
pub(crate) mod deny;
pub(crate) mod differential;
pub(crate) mod pg;
pub(crate) mod proto;
pub(crate) mod prove;
pub(crate) mod ratchet;
pub(crate) mod sim;
pub(crate) mod suite;
pub(crate) mod test;
pub(crate) mod upgrade;

use std::{os::unix::process::ExitStatusExt as _, process::ExitCode, process::ExitStatus};

/// Our exit code for a child's end: its own code, or the shell's convention for a signal.
fn forward(status: ExitStatus) -> ExitCode {
    let code = status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal))
        .and_then(|code| u8::try_from(code).ok());
    code.map_or(ExitCode::FAILURE, ExitCode::from)
}
