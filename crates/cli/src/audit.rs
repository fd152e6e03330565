//! `durable audit`: who changed what.

use clap::{Args, Subcommand};

use crate::exit::Result;
use crate::input;
use crate::output::{Table, ago, plain};
use crate::session::Session;

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// List changes, newest first. Takes the role admin.
    List(Options),
}

/// Which changes.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Only by whoever has this name: a token's.
    #[arg(long, value_name = "NAME")]
    actor: Option<String>,
    /// Only by this operation, such as `terminate_workflow`.
    #[arg(long, value_name = "OPERATION")]
    action: Option<String>,
    /// Only of this kind of thing.
    #[arg(long, value_name = "KIND", value_parser = ["run", "dead_letter", "dead_letters", "schedule", "worker", "breaker"])]
    kind: Option<String>,
    /// Only of what has this id.
    #[arg(long, value_name = "ID")]
    target: Option<String>,
    /// Only at or after this instant (RFC 3339).
    #[arg(long, value_name = "TIME", value_parser = input::instant)]
    from: Option<String>,
    /// Only before this instant (RFC 3339).
    #[arg(long, value_name = "TIME", value_parser = input::instant)]
    until: Option<String>,
    /// At most so many, 1 to 1000.
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: u16,
    /// Go on where a page ended.
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
}

/// Carries it out.
pub(crate) async fn run(action: &Action, session: &Session) -> Result<()> {
    match action {
        Action::List(options) => list(options, session).await,
    }
}

async fn list(options: &Options, session: &Session) -> Result<()> {
    let texts = [
        ("actor", &options.actor),
        ("action", &options.action),
        ("target_kind", &options.kind),
        ("target_id", &options.target),
        ("from", &options.from),
        ("until", &options.until),
        ("cursor", &options.cursor),
    ];
    let mut query: Vec<(&str, String)> = texts
        .into_iter()
        .filter_map(|(name, text)| Some((name, text.clone()?)))
        .collect();
    query.push(("limit", options.limit.to_string()));
    let answer = session.api.get(&["audit"], &query).await?;
    session.output.page(&answer, "audit", |rows| {
        let mut table = Table::new(["AT", "ACTOR", "ROLE", "ACTION", "KIND", "TARGET", "DETAIL"]);
        for row in rows {
            table.row([
                ago(&row["at"]).into(),
                plain(&row["actor"]).into(),
                plain(&row["role"]).into(),
                plain(&row["action"]).into(),
                plain(&row["target_kind"]).into(),
                plain(&row["target_id"]).into(),
                plain(&row["detail"]).into(),
            ]);
        }
        table
    })
}
