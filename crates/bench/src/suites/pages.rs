//! How many pages of PostgreSQL's buffers statements touch: a figure that no busy machine changes.

use anyhow::Context as _;
use tokio_postgres::Client;

use crate::database::{Database, Kind};
use crate::raw;

/// Everything that was executed in this database except what is asked here.
const TOUCHED: &str = "
    SELECT COALESCE(SUM(s.shared_blks_hit + s.shared_blks_read), 0)::bigint
    FROM pg_stat_statements(false) AS s
    WHERE s.dbid = (SELECT d.oid FROM pg_database AS d WHERE d.datname = $1)";

/// Counts pages through a connection of its own, in another database.
pub(super) struct Pages {
    beside: Client,
    name: String,
}

impl Pages {
    /// A counter; none where the store is not PostgreSQL.
    ///
    /// # Errors
    /// PostgreSQL without `pg_stat_statements`: its figure must not be left out in silence.
    pub(super) async fn of(database: &Database) -> anyhow::Result<Option<Self>> {
        if database.kind != Kind::Postgres {
            return Ok(None);
        }
        let inside = raw::connect(&database.url).await?;
        let name = inside
            .query_one("SELECT current_database()::text", &[])
            .await?
            .get(0);
        let beside = database
            .beside()
            .await?
            .context("PostgreSQL has a server")?;
        // Another process may create it at the same moment; what counts is that it can be read.
        let _ = beside
            .batch_execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
            .await;
        let pages = Self { beside, name };
        pages.touched().await.context(
            "pg_stat_statements is needed to count pages; load it with shared_preload_libraries",
        )?;
        Ok(Some(pages))
    }

    /// Pages touched so far.
    pub(super) async fn touched(&self) -> anyhow::Result<i64> {
        Ok(self.beside.query_one(TOUCHED, &[&self.name]).await?.get(0))
    }
}
