//! `durable config show`: what the server would run with, and why.

use clap::{Args, Subcommand};
use durable_server::config::Mode;

use crate::exit::Result;
use crate::output::{Output, Table};
use crate::settings::SettingFlags;

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Show every setting and where its value came from.
    Show(Show),
}

/// For which command.
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// What `durable dev` would run with, instead of `durable server`.
    #[arg(long)]
    dev: bool,
    #[command(flatten)]
    settings: SettingFlags,
}

/// Carries it out.
pub(crate) fn run(action: &Action, output: &Output) -> Result<()> {
    let Action::Show(show) = action;
    let mode = if show.dev { Mode::Dev } else { Mode::Server };
    let rows = show.settings.resolve(mode)?.rows();
    output.list(&rows, || {
        let mut table = Table::new(["SETTING", "VALUE", "FROM"]);
        for row in &rows {
            let value = row.value.clone().unwrap_or_else(|| "-".to_owned());
            table.row([row.key.into(), value.into(), row.origin.clone().into()]);
        }
        table
    })
}
