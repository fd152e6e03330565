//! What every command against a server has at hand.

use serde::Serialize;
use uuid::Uuid;

use crate::api::Api;
use crate::exit::{Exit, Failure, Result};
use crate::output::Output;

/// A server to talk to, and somebody to tell.
pub(crate) struct Session {
    pub(crate) api: Api,
    pub(crate) output: Output,
}

impl Session {
    /// The run that a person means: its id, or the newest one of a workflow id.
    pub(crate) async fn run(&self, named: &str) -> Result<String> {
        if Uuid::try_parse(named).is_ok() {
            return Ok(named.to_owned());
        }
        let query = [("workflow_id", named.to_owned()), ("limit", "1".to_owned())];
        let found = self.api.get(&["workflows"], &query).await?;
        let id = found["workflows"][0]["id"].as_str().map(str::to_owned);
        id.ok_or_else(|| {
            Failure::new(
                Exit::NotFound,
                format!("no run has the id or workflow id {named:?}"),
            )
            .hint("`durable workflow list` shows those there are")
        })
    }

    /// Posts, and says in a sentence what was done.
    pub(crate) async fn do_and_say(
        &self,
        path: &[&str],
        body: &(impl Serialize + Sync),
        done: &str,
    ) -> Result<()> {
        let answer = self.api.post(path, body).await?;
        self.output.one(&answer, || done.to_owned())
    }
}
