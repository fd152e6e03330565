//! `durable workflow list`, and the filter that batches share with it.

use clap::Args;
use serde_json::Value;

use crate::exit::Result;
use crate::input;
use crate::output::{Cell, Table, ago, plain};
use crate::session::Session;

/// Which runs. All conditions must hold.
#[derive(Debug, Clone, Args)]
pub(crate) struct Filter {
    /// Only in this status. May be given again.
    #[arg(long, value_name = "STATUS", value_delimiter = ',', value_parser = ["pending", "running", "completed", "failed", "cancelled"])]
    pub(crate) status: Vec<String>,
    /// Only of this type.
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) workflow_type: Option<String>,
    /// Only with this workflow id.
    #[arg(long, value_name = "ID")]
    pub(crate) workflow_id: Option<String>,
    /// Only with this attribute, NAME=VALUE. May be given again.
    #[arg(short, long = "attribute", value_name = "NAME=VALUE", value_parser = input::attribute)]
    pub(crate) attributes: Vec<(String, Value)>,
    /// Only started at or after this instant (RFC 3339).
    #[arg(long, value_name = "INSTANT", value_parser = input::instant)]
    pub(crate) created_from: Option<String>,
    /// Only started before this instant (RFC 3339).
    #[arg(long, value_name = "INSTANT", value_parser = input::instant)]
    pub(crate) created_until: Option<String>,
}

/// Which runs, and how many.
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    filter: Filter,
    /// At most so many, 1 to 1000.
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: u16,
    /// Go on where a page ended.
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
}

impl Filter {
    /// As parameters of a URL.
    fn query(&self) -> Vec<(&'static str, String)> {
        let mut query: Vec<(&'static str, String)> = Vec::new();
        if !self.status.is_empty() {
            query.push(("status", self.status.join(",")));
        }
        let texts = [
            ("workflow_type", &self.workflow_type),
            ("workflow_id", &self.workflow_id),
            ("created_from", &self.created_from),
            ("created_until", &self.created_until),
        ];
        query.extend(
            texts
                .into_iter()
                .filter_map(|(name, text)| Some((name, text.clone()?))),
        );
        if !self.attributes.is_empty() {
            query.push((
                "attributes",
                Value::Object(self.attributes.iter().cloned().collect()).to_string(),
            ));
        }
        query
    }
}

/// Lists them.
pub(crate) async fn run(options: &Options, session: &Session) -> Result<()> {
    let mut query = options.filter.query();
    query.push(("limit", options.limit.to_string()));
    query.extend(options.cursor.clone().map(|cursor| ("cursor", cursor)));
    let answer = session.api.get(&["workflows"], &query).await?;
    session.output.page(&answer, "workflows", |runs| {
        let mut table = Table::new(["ID", "STATUS", "TYPE", "WORKFLOW ID", "STARTED"]);
        for run in runs {
            table.row([
                plain(&run["id"]).into(),
                Cell::status(plain(&run["status"])),
                plain(&run["workflow_type"]).into(),
                plain(&run["workflow_id"]).into(),
                ago(&run["created_at"]).into(),
            ]);
        }
        table
    })
}
