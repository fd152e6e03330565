//! `cargo xtask ratchet`

use std::process::ExitCode;

use anyhow::bail;

use crate::{
    callgrind::{self, Verdict},
    workspace::Workspace,
};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Commit to the number counted now: after a change that is worth what it costs, or that made it cheaper
    #[arg(long)]
    update: bool,
}

pub(crate) fn run(workspace: &Workspace, args: &Args) -> anyhow::Result<ExitCode> {
    if !callgrind::is_installed() {
        bail!("valgrind is not installed: `apt-get install valgrind`");
    }
    let counted = callgrind::count(workspace)?;
    if args.update {
        callgrind::commit(workspace, counted)?;
        println!("a replay takes {counted} instructions; that is the number from now on");
        return Ok(ExitCode::SUCCESS);
    }
    let verdict = callgrind::judge(counted, callgrind::committed(workspace)?);
    println!("{verdict}");
    Ok(match verdict {
        Verdict::Dearer { .. } => ExitCode::FAILURE,
        Verdict::Same { .. } | Verdict::Cheaper { .. } => ExitCode::SUCCESS,
    })
}
