//! `durable set-aside`: work of single runs that the store cannot handle.

use clap::Subcommand;
use serde_json::json;

use crate::exit::Result;
use crate::output::{Table, ago, plain};
use crate::session::Session;

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// List what the server has set aside, with the store's error.
    List,
    /// Try again at once what is set aside of a run, after its cause is gone.
    Retry {
        /// The run's id.
        run: String,
    },
}

/// Carries it out.
pub(crate) async fn run(action: &Action, session: &Session) -> Result<()> {
    match action {
        Action::List => list(session).await,
        Action::Retry { run } => {
            let said = format!("{run} is tried again");
            session
                .do_and_say(&["set-aside", run, "retry"], &json!({}), &said)
                .await
        }
    }
}

async fn list(session: &Session) -> Result<()> {
    let answer = session.api.get(&["set-aside"], &[]).await?;
    session.output.page(&answer, "set_aside", |items| {
        let mut table = Table::new(["RUN", "KIND", "ATTEMPTS", "SINCE", "NEXT TRY", "REASON"]);
        for item in items {
            table.row([
                plain(&item["workflow_id"]).into(),
                plain(&item["kind"]).into(),
                plain(&item["attempts"]).into(),
                ago(&item["since"]).into(),
                plain(&item["next_try"]).into(),
                plain(&item["reason"]).into(),
            ]);
        }
        table
    })
}
