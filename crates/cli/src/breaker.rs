//! `durable breaker`: circuit breakers.

use clap::Subcommand;
use serde_json::json;

use crate::exit::Result;
use crate::output::{Cell, Table, ago, plain};
use crate::session::Session;

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// List breakers.
    List,
    /// Close a breaker, so that its tasks are tried again.
    Reset {
        /// Its key, such as `activity:charge`.
        key: String,
    },
}

/// Carries it out.
pub(crate) async fn run(action: &Action, session: &Session) -> Result<()> {
    match action {
        Action::List => list(session).await,
        Action::Reset { key } => {
            session
                .do_and_say(
                    &["circuit-breakers", key, "reset"],
                    &json!({}),
                    &format!("closed {key}"),
                )
                .await
        }
    }
}

async fn list(session: &Session) -> Result<()> {
    let answer = session.api.get(&["circuit-breakers"], &[]).await?;
    session
        .output
        .page(&answer, "circuit_breakers", |breakers| {
            let mut table = Table::new(["KEY", "STATE", "FAILURES", "OPENED"]);
            for breaker in breakers {
                table.row([
                    plain(&breaker["key"]).into(),
                    Cell::status(plain(&breaker["state"])),
                    plain(&breaker["failure_count"]).into(),
                    ago(&breaker["opened_at"]).into(),
                ]);
            }
            table
        })
}
