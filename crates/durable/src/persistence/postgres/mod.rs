//! The PostgreSQL store: statements, connections, schema. The rules are in [`super::sql`].
//!
//! A write is a few flights of pipelined statements on one connection: `BEGIN` with the first locks and reads, `COMMIT`
//! with the last writes. Nothing depends on the state of a session, so that a transaction pooler may stand in between.

mod bell;
mod bind;
mod checkup;
#[cfg(any(test, feature = "testing"))]
mod composed;
mod database;
mod instant;
mod locks;
mod migrate;
mod operators;
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
mod walk;
mod wire;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio_postgres::Row;
use uuid::Uuid;

pub(super) use checkup::checkup;
pub use migrate::{MIGRATIONS, migrate_through, migrate_up, migration_status, print, validate};
pub use operators::LIST_SETTINGS;
pub use options::{PoolConfig, PostgresOptions};
pub use part::Within;
pub(crate) use part::{DEFAULT_SCHEMA, send_signal, start_run};
pub use pools::PLAN_SETTINGS;
pub use statement::{Purpose, SentStatement};
pub use transactions::ActivityTransaction;
pub(crate) use walk::Walk;

use self::bell::Belfry;
use self::bind::{Call, by_shard, value};
use self::locks::{LOCKED_PAUSE, LOCKED_WAIT_MAX, Locks};
use self::options::Target;
use self::pools::Pools;
use self::reader::{Reader, read_all};
use self::schema::Schema;
use self::slots::Slots;
use self::sqlstate::{Verdict, store_error, verdict};
use self::statement::{Catalog, Statement};
use self::transactions::PgTransactions;
use self::tx::PgTx;
use self::wire::{Line, Shared, Wire};
use super::sql::tx::{Concern, Intent, Patience};
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
    locks: Locks,
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
    /// Opens a database: `postgres://user:password@host:port/database`, with our own parameters
    /// `schema=`, `pooled=true`, `direct_url=`, `operator_pool_size=` and `operator_timeout_ms=` if
    /// wanted. Runs missing migrations unless the options say not to.
    ///
    /// # Errors
    /// [`StoreError::Open`] for a bad URL, a server that does not answer, a refused password, a missing database;
    /// [`StoreError::Schema`] when the schema is too new for this build, or not migrated.
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
            let runner = migrate::Runner {
                client: &client,
                schema: &schema,
                shards: options.shards,
                route: &direct,
                connect_timeout: options.pools.connect_timeout,
                pooled: options.pooled && options.direct_url.is_none(),
                migrations: MIGRATIONS,
            };
            runner.up().await?;
        } else {
            let status = migrate::read_status(&client, &schema, MIGRATIONS).await?;
            super::migrations::require_complete(&status)?;
        }
        let shards = migrate::read_shards(&client, &schema).await?;
        Ok(Self {
            belfry: Belfry::new(&direct, options, &schema),
            pools: Pools::new(&target.route, &options.pools, options.pooled)?,
            shared: Arc::new(Shared::new(Catalog::new(schema), options.pooled)),
            shards,
            slots: Arc::new(Slots::new()),
            locks: Locks::new(),
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

    /// Every statement that does not depend on a request's filters. For tests that prepare and
    /// explain them.
    #[must_use]
    pub fn statements(&self) -> Vec<SentStatement> {
        let sent = |statement: &'static Statement| SentStatement {
            name: statement.name,
            before: String::new(),
            sql: self.shared.catalog.text(statement).to_owned(),
            types: statement.params.to_vec(),
            purpose: statement.purpose,
        };
        sql::all().map(sent).collect()
    }

    /// The statements that were put together for requests with filters since the last call, each
    /// with its parameters in binary form. For tests that explain them.
    #[cfg(any(test, feature = "testing"))]
    #[must_use]
    pub fn take_composed(&self) -> Vec<(SentStatement, Vec<Option<Vec<u8>>>)> {
        self.shared.composed.take()
    }

    /// Runs an intent, again where the database asks for it.
    async fn carry_out<I: Intent>(&self, concern: Concern, intent: &I) -> StoreResult<I::Answer> {
        let (mut retries, mut taken) = (0, 0);
        loop {
            let failed = match self.attempt(concern, intent, Waits::Shortly).await {
                Ok(answer) => return Ok(answer),
                Err(failed) => failed,
            };
            let may_retry = match failed.verdict {
                Some(Verdict::Again) => true,
                Some(Verdict::Taken) => {
                    taken += 1;
                    taken <= TAKEN_RETRIES_MAX
                }
                Some(Verdict::Locked) => {
                    let locked = self.locked_among(concern, &failed.wanted).await?;
                    // Of runs that are free again the next plan knows; of anything else nobody
                    // does.
                    let free_again = locked.is_empty() && !failed.wanted.is_empty();
                    if !free_again && intent.patience() == Patience::None {
                        return Err(StoreError::Busy { runs: locked });
                    }
                    if !free_again {
                        return self.wait_and_carry_out(concern, intent, locked).await;
                    }
                    true
                }
                Some(Verdict::Lost | Verdict::Final) | None => false,
            };
            let error = failed.error;
            if !may_retry || retries == RETRIES_MAX {
                return Err(error);
            }
            retries += 1;
            tracing::debug!(%error, retries, "a write is planned again");
            pause(retries).await;
        }
    }

    /// Runs an intent that needs what another transaction has locked: in the lane of those who
    /// wait, until it is free or the wait is too long.
    async fn wait_and_carry_out<I: Intent>(
        &self,
        concern: Concern,
        intent: &I,
        mut locked: Vec<Uuid>,
    ) -> StoreResult<I::Answer> {
        let give_up = tokio::time::Instant::now() + LOCKED_WAIT_MAX;
        loop {
            tokio::time::sleep(LOCKED_PAUSE).await;
            if tokio::time::Instant::now() >= give_up {
                return Err(StoreError::Busy { runs: locked });
            }
            let turn = tokio::time::timeout_at(give_up, self.locks.lane().acquire()).await;
            let Ok(Ok(_turn)) = turn else {
                return Err(StoreError::Busy { runs: locked });
            };
            let failed = match self.attempt(concern, intent, Waits::InTheLane).await {
                Ok(answer) => {
                    self.locks.found(&locked, &[]);
                    return Ok(answer);
                }
                Err(failed) => failed,
            };
            match failed.verdict {
                Some(Verdict::Locked) => {
                    locked = self.locked_among(concern, &failed.wanted).await?;
                }
                Some(Verdict::Again | Verdict::Taken) => {}
                Some(Verdict::Lost | Verdict::Final) | None => return Err(failed.error),
            }
        }
    }

    /// Which of these runs another transaction has locked; waits for none of them.
    async fn locked_among(&self, concern: Concern, runs: &[Uuid]) -> StoreResult<Vec<Uuid>> {
        if runs.is_empty() {
            return Ok(Vec::new());
        }
        let mut ids = runs.to_vec();
        ids.sort_unstable();
        ids.dedup();
        let shards = self.shards;
        let groups = by_shard(&ids, |id| shards.of_run(*id));
        let call = |statement, shard: i32, ids: &[&Uuid]| {
            let ids: Vec<Uuid> = ids.iter().map(|id| **id).collect();
            Call::new(statement, vec![value(shard), value(ids)])
        };
        let mut calls = Vec::new();
        for (shard, ids) in &groups {
            calls.push(call(&sql::runs::LOCK_FREE_RUNS, *shard, ids));
            calls.push(call(&sql::runs::RUNS_THERE, *shard, ids));
        }
        let wire = self.wire(concern).await?;
        let begin = wire.shared().begin.clone();
        let answer = wire.flight(Some(&begin), &calls, Some("ROLLBACK")).await;
        let answers = answer.map_err(|error| {
            wire.send_and_forget("ROLLBACK");
            store_error(error)
        })?;
        let mut locked = Vec::new();
        for pair in answers.chunks(2) {
            let [free, there] = pair else { continue };
            let free = read_all(free, Reader::next::<Uuid>)?;
            let mut there = read_all(there, Reader::next::<Uuid>)?;
            there.retain(|id| !free.contains(id));
            locked.extend(there);
        }
        self.locks.found(&ids, &locked);
        Ok(locked)
    }

    /// Runs an intent once. The verdict says whether to run it again; none: the error is the rules' own.
    async fn attempt<I: Intent>(
        &self,
        concern: Concern,
        intent: &I,
        waits: Waits,
    ) -> Result<I::Answer, Failed> {
        let wire = self.wire(concern).await.map_err(|error| Failed {
            error,
            verdict: None,
            wanted: Vec::new(),
        })?;
        let mut tx = PgTx::new(wire, self.shards, intent.at());
        if waits == Waits::Shortly {
            tx.know(&self.locks);
        }
        let (answer, changes) = match intent.plan(&mut tx).await {
            Ok(planned) => planned,
            // Nothing was committed, so that a connection found dead here does no more harm than a deadlock.
            Err(error) => {
                let verdict = tx.failed().map(|v| {
                    if v == Verdict::Lost {
                        Verdict::Again
                    } else {
                        v
                    }
                });
                return Err(Failed {
                    error,
                    verdict,
                    wanted: tx.wanted(),
                });
            }
        };
        match tx.commit(&changes, &self.slots).await {
            Ok(()) => Ok(answer),
            Err(error) => Err(Failed {
                error,
                verdict: tx.failed(),
                wanted: Vec::new(),
            }),
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

/// How an attempt meets what is known to be locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waits {
    /// It does not wait for it.
    Shortly,
    /// It is its turn to wait.
    InTheLane,
}

/// An attempt that failed.
struct Failed {
    error: StoreError,
    verdict: Option<Verdict>,
    /// The runs that it was to lock when it failed.
    wanted: Vec<Uuid>,
}

/// A little longer each time, by chance, so that those who met do not meet again.
async fn pause(retries: u32) {
    let ceiling = 1_u64
        .checked_shl(retries)
        .map_or(BACKOFF_MS_MAX, |ms| ms.min(BACKOFF_MS_MAX));
    let chance = u64::from(Uuid::now_v7().as_bytes()[15]) + 1;
    tokio::time::sleep(Duration::from_micros(ceiling * 1000 * chance / 256)).await;
}
