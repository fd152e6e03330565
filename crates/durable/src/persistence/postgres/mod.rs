//! The PostgreSQL store: statements, connections, schema. The rules are in [`super::sql`].
//!
//! A write is a few flights of pipelined statements on one connection: `BEGIN` with the first locks and reads, `COMMIT`
//! with the last writes. Nothing depends on the state of a session, so that a transaction pooler may stand in between.

mod bell;
mod bind;
mod checkup;
mod database;
mod instant;
mod migrate;
mod options;
mod part;
mod pools;
mod reader;
mod reads;
mod rows;
mod schema;
mod slots;
mod sql;
mod sqlstate;
mod statement;
mod tls;
mod transactions;
mod tx;
mod wire;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio_postgres::Row;
use uuid::Uuid;

pub(super) use checkup::checkup;
pub use migrate::{MIGRATIONS, migrate_up, migration_status, print, validate};
pub use options::{PoolConfig, PostgresOptions};
pub use part::Within;
pub(crate) use part::{DEFAULT_SCHEMA, send_signal, start_run};
pub use pools::PLAN_SETTINGS;
pub use transactions::ActivityTransaction;

use self::bell::Belfry;
use self::bind::Call;
use self::options::Target;
use self::pools::Pools;
use self::schema::Schema;
use self::slots::Slots;
use self::sqlstate::{Verdict, store_error, verdict};
use self::statement::Catalog;
use self::transactions::PgTransactions;
use self::tx::PgTx;
use self::wire::{Line, Shared, Wire};
use super::sql::tx::{Concern, Intent};
use super::{Shards, StoreError, StoreResult, Transactions};

/// Times that a write is planned again after the database asked for it.
const RETRIES_MAX: u32 = 20;
/// Times that a write is planned again after somebody else was first with a key. The next plan sees that key; a violation that
/// comes back is no race but a mistake, and has to be heard.
const TAKEN_RETRIES_MAX: u32 = 3;
/// Longest pause before that.
const BACKOFF_MS_MAX: u64 = 50;

/// Several reads at one instant.
const BEGIN_SNAPSHOT: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

/// Every statement of every migration, for the schema that a URL names. Connects to nothing.
///
/// # Errors
/// [`StoreError::Open`] when the URL cannot be read.
pub fn print_of_url(url: &str) -> StoreResult<String> {
    print(
        &Target::parse(url, PostgresOptions::default())?
            .options
            .schema,
    )
}

/// A PostgreSQL database.
pub struct Postgres {
    pools: Pools,
    shared: Arc<Shared>,
    shards: Shards,
    slots: Arc<Slots>,
    belfry: Belfry,
}

impl std::fmt::Debug for Postgres {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Postgres")
            .field("schema", self.shared.catalog.schema())
            .field("shards", &self.shards)
            .field("pooled", &self.shared.pooled)
            .finish_non_exhaustive()
    }
}

impl Postgres {
    /// Opens a database: `postgres://user:password@host:port/database`, with our own parameters `schema=`, `pooled=true` and
    /// `direct_url=` if wanted. Runs missing migrations unless the options say not to.
    ///
    /// # Errors
    /// [`StoreError::Open`] for a bad URL, a server that does not answer, a refused password, a missing database;
    /// [`StoreError::Schema`] when the schema is newer than this build, or not migrated.
    pub async fn open(url: &str, options: PostgresOptions) -> StoreResult<Self> {
        let target = Target::parse(url, options)?;
        let options = &target.options;
        let schema = Schema::new(&options.schema)?;
        let direct = match &options.direct_url {
            Some(url) => Target::parse(url, options.clone())?.route,
            None => target.route.clone(),
        };
        let client = migrate::direct(&direct, options.pools.connect_timeout).await?;
        if options.migrate {
            migrate::up(&client, &schema, options.shards).await?;
        } else {
            super::migrations::require_complete(&migrate::read_status(&client, &schema).await?)?;
        }
        let shards = migrate::read_shards(&client, &schema).await?;
        Ok(Self {
            belfry: Belfry::new(&direct, options, &schema),
            pools: Pools::new(&target.route, &options.pools, options.pooled)?,
            shared: Arc::new(Shared::new(Catalog::new(schema), options.pooled)),
            shards,
            slots: Arc::new(Slots::new()),
        })
    }

    /// Transactions for activities.
    fn activity_transactions(&self) -> Arc<dyn Transactions> {
        Arc::new(PgTransactions {
            pool: self.pools.activities(),
            shared: Arc::clone(&self.shared),
            shards: self.shards,
            slots: Arc::clone(&self.slots),
        })
    }

    /// Statements sent since it was opened, `BEGIN` and `COMMIT` included: shows that a set costs no more than one.
    #[must_use]
    pub fn statements_sent(&self) -> u64 {
        self.shared.sent.load(Ordering::Relaxed)
    }

    /// Every statement by its name: the text as it is sent, and its parameters' type names. For tests that prepare and explain them.
    #[must_use]
    pub fn statements(&self) -> Vec<(&'static str, String, Vec<&'static str>)> {
        sql::all()
            .map(|statement| {
                let types = statement
                    .params
                    .iter()
                    .map(tokio_postgres::types::Type::name);
                let text = self.shared.catalog.text(statement).to_owned();
                (statement.name, text, types.collect())
            })
            .collect()
    }

    /// Runs an intent, again where the database asks for it.
    async fn carry_out<I: Intent>(&self, concern: Concern, intent: &I) -> StoreResult<I::Answer> {
        let (mut retries, mut taken) = (0, 0);
        loop {
            let (error, verdict) = match self.attempt(concern, intent).await {
                Ok(answer) => return Ok(answer),
                Err(failed) => failed,
            };
            let may_retry = match verdict {
                Some(Verdict::Again) => true,
                Some(Verdict::Taken) => {
                    taken += 1;
                    taken <= TAKEN_RETRIES_MAX
                }
                Some(Verdict::Lost | Verdict::Final) | None => false,
            };
            if !may_retry || retries == RETRIES_MAX {
                return Err(error);
            }
            retries += 1;
            tracing::debug!(%error, retries, "a write is planned again");
            pause(retries).await;
        }
    }

    /// Runs an intent once. The verdict says whether to run it again; none: the error is the rules' own.
    async fn attempt<I: Intent>(
        &self,
        concern: Concern,
        intent: &I,
    ) -> Result<I::Answer, (StoreError, Option<Verdict>)> {
        let wire = self.wire(concern).await.map_err(|error| (error, None))?;
        let mut tx = PgTx::new(wire, self.shards, intent.at());
        let (answer, changes) = match intent.plan(&mut tx).await {
            Ok(planned) => planned,
            // Nothing was committed, so that a connection found dead here does no more harm than a deadlock.
            Err(error) => {
                let again = tx.failed().map(|v| {
                    if v == Verdict::Lost {
                        Verdict::Again
                    } else {
                        v
                    }
                });
                return Err((error, again));
            }
        };
        match tx.commit(&changes, &self.slots).await {
            Ok(()) => Ok(answer),
            Err(error) => Err((error, tx.failed())),
        }
    }

    async fn wire(&self, concern: Concern) -> StoreResult<Wire<'static>> {
        let client = self.pools.get(concern).await?;
        Ok(Wire::new(Line::Own(client), Arc::clone(&self.shared)))
    }

    /// One statement that stands for itself. Not repeated when the connection is lost: it may have been carried out.
    async fn once(&self, concern: Concern, call: Call<'_>) -> StoreResult<Vec<Row>> {
        let wire = self.wire(concern).await?;
        let mut answers = wire
            .flight(None, &[call], None)
            .await
            .map_err(store_error)?;
        Ok(answers.pop().unwrap_or_default())
    }

    /// Reads at one instant, in one round trip; again on another connection if this one was found dead.
    async fn read(&self, concern: Concern, calls: &[Call<'_>]) -> StoreResult<Vec<Vec<Row>>> {
        let snapshot = calls.len() > 1;
        let mut retries = 0;
        loop {
            let wire = self.wire(concern).await?;
            let (begin, end) = if snapshot {
                (Some(BEGIN_SNAPSHOT), Some("COMMIT"))
            } else {
                (None, None)
            };
            let error = match wire.flight(begin, calls, end).await {
                Ok(answers) => return Ok(answers),
                Err(error) => error,
            };
            if snapshot {
                wire.send_and_forget("ROLLBACK");
            }
            if verdict(&error) == Verdict::Final || retries == RETRIES_MAX {
                return Err(store_error(error));
            }
            retries += 1;
            pause(retries).await;
        }
    }

    /// One read.
    async fn read_one(&self, concern: Concern, call: Call<'_>) -> StoreResult<Vec<Row>> {
        let mut answers = self.read(concern, &[call]).await?;
        Ok(answers.pop().unwrap_or_default())
    }
}

/// A little longer each time, by chance, so that those who met do not meet again.
async fn pause(retries: u32) {
    let ceiling = 1_u64
        .checked_shl(retries)
        .map_or(BACKOFF_MS_MAX, |ms| ms.min(BACKOFF_MS_MAX));
    let chance = u64::from(Uuid::now_v7().as_bytes()[15]) + 1;
    tokio::time::sleep(Duration::from_micros(ceiling * 1000 * chance / 256)).await;
}
