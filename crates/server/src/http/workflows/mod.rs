//! Runs.

pub(super) mod batch;
pub(super) mod find;
mod followed;
pub(super) mod history;
pub(super) mod operate;
pub(super) mod result;
mod run;
pub(super) mod start;
pub(super) mod stream;
pub(super) mod talk;
pub(super) mod why;

use uuid::Uuid;

pub(crate) use followed::Followed;
pub(in crate::http) use run::{Run, RunSummary, Status};

use super::problem::Problem;
use crate::App;

/// A run as it stands.
pub(in crate::http) async fn show(app: &App, id: Uuid) -> Result<Run, Problem> {
    let run = app.client().get(id).await?;
    let attributes = app.store().get_attributes(id).await?;
    Ok(Run::new(run, attributes))
}
