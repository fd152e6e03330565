//! `cargo xtask arch`

use std::process::ExitCode;

use crate::{arch, workspace::Workspace};

pub(crate) fn run(workspace: &Workspace) -> anyhow::Result<ExitCode> {
    let violations = arch::check(workspace)?;
    for violation in &violations {
        println!("{violation}");
    }
    if violations.is_empty() {
        println!("architecture: ok");
        return Ok(ExitCode::SUCCESS);
    }
    println!("architecture: {} violations", violations.len());
    Ok(ExitCode::FAILURE)
}
