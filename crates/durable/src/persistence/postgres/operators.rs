//! Operators' reads: lists, counts and the like, on connections of their own.
//!
//! Each read is one transaction with a statement timeout. A read whose caller goes away is
//! cancelled on the server, and its connection is closed: nothing is known of the state it is in.
//! Until the server has been told, the read keeps its place in the pool, so that callers who come
//! and go quickly cannot start more reads than the pool has places.

use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::Object;
use tokio::time::timeout;
use tokio_postgres::error::SqlState;
use tokio_postgres::{CancelToken, Error, Row};

use super::Postgres;
use super::bind::Call;
use super::reads::filter::Query;
use super::sqlstate::{Verdict, store_error, verdict};
use super::tls::Connector;
use super::wire::{Line, Wire};
use crate::persistence::sql::tx::Concern;
use crate::persistence::{StoreError, StoreResult};

/// Settings of a list. Each filter has its index, so that a scan of a table, or a bitmap of all
/// that matches before the first row is read, is never the better plan.
pub const LIST_SETTINGS: [&str; 4] = [
    "enable_seqscan=off",
    "enable_bitmapscan=off",
    "jit=off",
    "max_parallel_workers_per_gather=0",
];

/// Settings of a read that may have to look at a whole table; its time is bounded.
pub(super) const SCAN_SETTINGS: [&str; 2] = ["jit=off", "max_parallel_workers_per_gather=0"];

/// Longest that telling the server to cancel a read may take.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);

/// Times that a read is sent again after its connection was found dead.
const RETRIES_MAX: u32 = 3;

impl Postgres {
    /// Sends a list on an operators' connection.
    pub(super) async fn list(&self, query: &Query<'_>) -> StoreResult<Vec<Row>> {
        let asked = Asked::Query(query);
        let answers = self.operators_read(&LIST_SETTINGS, &asked).await?;
        Ok(answers.into_iter().flatten().collect())
    }

    /// Sends a query that may scan on an operators' connection.
    pub(super) async fn scan(&self, query: &Query<'_>) -> StoreResult<Vec<Row>> {
        let asked = Asked::Query(query);
        let answers = self.operators_read(&SCAN_SETTINGS, &asked).await?;
        Ok(answers.into_iter().flatten().collect())
    }

    /// Reads one statement on an operators' connection.
    pub(super) async fn look_up(&self, call: Call<'_>) -> StoreResult<Vec<Row>> {
        let mut answers = self.look_up_all(&[call]).await?;
        Ok(answers.pop().unwrap_or_default())
    }

    /// Reads statements at one instant on an operators' connection.
    pub(super) async fn look_up_all(&self, calls: &[Call<'_>]) -> StoreResult<Vec<Vec<Row>>> {
        self.operators_read(&LIST_SETTINGS, &Asked::Calls(calls))
            .await
    }

    async fn operators_read(
        &self,
        settings: &[&str],
        asked: &Asked<'_, '_>,
    ) -> StoreResult<Vec<Vec<Row>>> {
        let limit = self.pools.operator_timeout();
        let mut begin = format!(
            "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL statement_timeout = {}",
            limit.as_millis()
        );
        for setting in settings {
            begin.push_str("; SET LOCAL ");
            begin.push_str(setting);
        }
        let mut retries = 0;
        loop {
            let client = self.pools.get(Concern::Operators).await?;
            let mut reading = Reading::new(client, self);
            let error = match reading.send(asked, &begin).await {
                Ok(rows) => {
                    reading.finished = true;
                    return Ok(rows);
                }
                Err(error) => error,
            };
            if error.code() == Some(&SqlState::QUERY_CANCELED) {
                // The server has answered, and COMMIT of a failed transaction rolls it back.
                reading.finished = true;
                let limit_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
                return Err(StoreError::TooBroad { limit_ms });
            }
            if verdict(&error) == Verdict::Final || retries == RETRIES_MAX {
                return Err(store_error(error));
            }
            retries += 1;
            drop(reading);
            super::pause(retries).await;
        }
    }
}

/// What is sent.
enum Asked<'a, 'q> {
    Query(&'a Query<'q>),
    Calls(&'a [Call<'q>]),
}

impl Asked<'_, '_> {
    /// Sends it within a transaction, in one round trip; the rows of each statement.
    async fn send(&self, wire: &Wire<'_>, begin: &str) -> Result<Vec<Vec<Row>>, Error> {
        match self {
            Self::Query(query) => Ok(vec![query.send_within(wire, begin, "COMMIT").await?]),
            Self::Calls(calls) => wire.flight(Some(begin), calls, Some("COMMIT")).await,
        }
    }
}

/// A read under way.
struct Reading {
    /// There until the read is dropped.
    wire: Option<Wire<'static>>,
    token: CancelToken,
    tls: Connector,
    /// Whether the server has answered, so that the connection may be used again.
    finished: bool,
}

impl Reading {
    fn new(client: Object, store: &Postgres) -> Self {
        let token = client.cancel_token();
        Self {
            wire: Some(Wire::new(Line::Own(client), Arc::clone(&store.shared))),
            token,
            tls: store.pools.tls(),
            finished: false,
        }
    }

    async fn send(&self, asked: &Asked<'_, '_>, begin: &str) -> Result<Vec<Vec<Row>>, Error> {
        match &self.wire {
            Some(wire) => asked.send(wire, begin).await,
            None => Ok(Vec::new()),
        }
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        let Some(client) = self.wire.take().and_then(Wire::into_own) else {
            return;
        };
        let (token, tls) = (self.token.clone(), self.tls.clone());
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            // Without a runtime nothing can be sent; the statement timeout ends the read.
            drop(Object::take(client));
            return;
        };
        runtime.spawn(async move {
            let told = timeout(CANCEL_TIMEOUT, token.cancel_query(tls)).await;
            if !matches!(told, Ok(Ok(()))) {
                tracing::debug!("an abandoned read could not be cancelled; its time limit ends it");
            }
            drop(Object::take(client));
        });
    }
}
