//! Fills a database with finished runs by SQL: templates are written through the store contract and
//! copied by the database, column by column as its catalogue lists them, so that a column that a
//! later migration adds is copied too.

use anyhow::{Context as _, ensure};
use everruns_durable::core::{Failure, Payload, WorkflowEvent};
use everruns_durable::persistence::model::{Next, StartRun, TurnCommit, TurnOutcome};
use everruns_durable::persistence::{OpenOptions, WorkflowEventStore, open};
use uuid::Uuid;

use crate::database::{Database, Kind};
use crate::output::Bar;
use crate::raw;

/// The workflow type of the finished runs.
pub(super) const TYPE: &str = "growth.finished";
/// The type of the few runs that failed.
pub(super) const FAILED_TYPE: &str = "growth.failed";
/// Runs copied by one statement.
const COPIED_AT_ONCE: u64 = 200_000;
/// Of so many runs one has a workflow id and a search attribute.
const FOUND_EVERY: u64 = 10;
/// So many runs share a value of the attribute, however many there are: what a filter by it finds
/// does not grow.
const RUNS_PER_CUSTOMER: u64 = 10;
/// Of so many runs one failed: enough for a page in a database of 10,000.
const FAILED_EVERY: u64 = 100;
/// The finished runs lie between so many days ago and yesterday: none is old enough for the default
/// retention of 30 days.
const DAYS: u64 = 20;
/// Hours over which totals are spread.
const HOURS: u64 = (DAYS - 1) * 24;

/// How old the oldest run is, in days: what ended before that is nothing.
pub(super) const OLDEST_DAYS: i64 = 20;

/// Ids of the runs that are copied.
struct Templates {
    plain: Uuid,
    found: Uuid,
    failed: Uuid,
}

/// Fills the database with so many finished runs of two events each, with keys, attributes and
/// totals that fit.
pub(super) async fn fill(database: &Database, runs: u64) -> anyhow::Result<()> {
    let store = open(&database.url, OpenOptions::default()).await?;
    let templates = Templates::write(&*store).await?;
    drop(store);
    let bar = Bar::new(format!("{runs} finished runs"), usize::try_from(runs)?);
    let dialect = Dialect::of(database).await?;
    let mut first = 1;
    while first <= runs {
        let last = runs.min(first + COPIED_AT_ONCE - 1);
        for statement in dialect.copies(&templates, first, last, runs).await? {
            dialect.execute(statement).await?;
        }
        bar.set(usize::try_from(last)?);
        first = last + 1;
    }
    dialect.execute(dialect.totals(runs).await?).await?;
    drop(bar);
    dialect.settle(database).await
}

/// Gives one finished run, the oldest of all, a history of so many events.
pub(super) async fn long_history(database: &Database, events: u64) -> anyhow::Result<Uuid> {
    let store = open(&database.url, OpenOptions::default()).await?;
    let run = write(
        &*store,
        StartRun::new(Uuid::now_v7(), "growth.long", payload()?),
        |turn| {
            turn.next = completed()?;
            Ok(())
        },
    )
    .await?;
    drop(store);
    let dialect = Dialect::of(database).await?;
    let mut first = 3;
    while first <= events {
        let last = events.min(first + 5 * COPIED_AT_ONCE - 1);
        dialect
            .execute(dialect.lengthen(run, first, last).await?)
            .await?;
        first = last + 1;
    }
    dialect.execute(dialect.age(run, events)).await?;
    dialect.settle(database).await?;
    Ok(run)
}

/// What is left of a run that is being deleted, looked for past the store.
pub(super) struct Remains {
    dialect: Dialect,
    run: Uuid,
    shard: i32,
}

impl Remains {
    /// Of a run that is still there: its shard is read from its row.
    pub(super) async fn of(database: &Database, run: Uuid) -> anyhow::Result<Self> {
        let dialect = Dialect::of(database).await?;
        let (schema, id) = (dialect.schema(), dialect.id_literal(run));
        let shard = dialect
            .number(format!(
                "SELECT partition_key FROM {schema}durable_workflow_instances WHERE id = {id}"
            ))
            .await?;
        Ok(Self {
            dialect,
            run,
            shard,
        })
    }

    /// Whether its row, an event of it or the note of its deletion is there.
    pub(super) async fn are_there(&self) -> anyhow::Result<bool> {
        let (schema, id) = (self.dialect.schema(), self.dialect.id_literal(self.run));
        let shard = self.shard;
        let there = |table: &str, column: &str| {
            format!(
                "EXISTS (SELECT 1 FROM {schema}{table} WHERE partition_key = {shard} AND {column} = {id})"
            )
        };
        let found = self
            .dialect
            .number(format!(
                "SELECT CASE WHEN {} OR {} OR {} THEN 1 ELSE 0 END",
                there("durable_workflow_instances", "id"),
                there("durable_purges", "run_id"),
                there("durable_workflow_events", "workflow_id"),
            ))
            .await?;
        Ok(found != 0)
    }
}

impl Templates {
    async fn write(store: &dyn WorkflowEventStore) -> anyhow::Result<Self> {
        let start =
            |workflow_type| anyhow::Ok(StartRun::new(Uuid::now_v7(), workflow_type, payload()?));
        let complete = |turn: &mut TurnCommit| {
            turn.next = completed()?;
            Ok(())
        };
        let mut found = start(TYPE)?;
        found.business_id = Some("order-0".to_owned());
        found
            .attributes
            .insert("customer".to_owned(), "customer-0".into());
        Ok(Self {
            plain: write(store, start(TYPE)?, complete).await?,
            found: write(store, found, complete).await?,
            failed: write(store, start(FAILED_TYPE)?, |turn| {
                let error = Failure::new("CardDeclined", "no funds");
                turn.events.pop();
                turn.events.push(WorkflowEvent::WorkflowFailed {
                    error: error.clone().into(),
                });
                turn.next = Next::Fail { error };
                Ok(())
            })
            .await?,
        })
    }
}

fn payload() -> anyhow::Result<Payload> {
    Ok(Payload::from_json_text(r#"{"ok":true,"value":42}"#)?)
}

fn completed() -> anyhow::Result<Next> {
    Ok(Next::Complete { result: payload()? })
}

/// Writes one run whose whole history is one turn of two events.
async fn write(
    store: &dyn WorkflowEventStore,
    start: StartRun,
    end: impl FnOnce(&mut TurnCommit) -> anyhow::Result<()>,
) -> anyhow::Result<Uuid> {
    let id = start.run_id;
    store.start_runs(vec![start], None).await?;
    let run = store.get_run(id).await?.context("it was started")?;
    let mut turn = TurnCommit::new(&run, Uuid::now_v7());
    turn.events = vec![
        WorkflowEvent::WorkflowStarted { input: payload()? },
        WorkflowEvent::WorkflowCompleted { result: payload()? },
    ];
    end(&mut turn)?;
    let outcomes = store.commit_turns(vec![turn], None).await?;
    let done = matches!(outcomes.first(), Some(TurnOutcome::Committed(_)));
    ensure!(done, "a template could not be written: {outcomes:?}");
    Ok(id)
}

/// What differs between the two databases.
enum Dialect {
    Postgres(tokio_postgres::Client),
    Sqlite(String),
}

/// An expression for the column of a copied row; the template is `t`, the number of the copy `n`.
type Column<'a> = (&'a str, String);

impl Dialect {
    async fn of(database: &Database) -> anyhow::Result<Self> {
        Ok(match database.kind {
            Kind::Postgres => Self::Postgres(raw::connect(&database.url).await?),
            _ => Self::Sqlite(database.path().context("SQLite has a path")?.to_owned()),
        })
    }

    /// The statements that copy the templates for the runs `first` to `last`.
    async fn copies(
        &self,
        templates: &Templates,
        first: u64,
        last: u64,
        runs: u64,
    ) -> anyhow::Result<Vec<String>> {
        let millis = self.millis(runs);
        let at = |offset: &str| self.instant(&millis, offset);
        let times = [
            ("created_at", at("0")),
            ("started_at", at("5")),
            ("updated_at", at("1000")),
            ("completed_at", at("1000")),
        ];
        let id = self.run_id(&millis);
        let order = "'order-' || n".to_owned();
        let cases = [
            (templates.found, format!("n % {FOUND_EVERY} = 0"), true),
            (templates.failed, format!("n % {FAILED_EVERY} = 1"), false),
            (
                templates.plain,
                format!("n % {FOUND_EVERY} <> 0 AND n % {FAILED_EVERY} <> 1"),
                false,
            ),
        ];
        let mut statements = Vec::new();
        for (template, case, found) in cases {
            let numbers = self.numbers(first, last, &case);
            let template = self.id_literal(template);
            let own = |key: &str| format!("t.{key} = {template}");
            let mut run: Vec<Column<'_>> = vec![("id", id.clone())];
            run.extend(times.iter().map(|(name, time)| (*name, time.clone())));
            if found {
                run.push(("business_id", order.clone()));
            }
            statements.push(
                self.copy("durable_workflow_instances", &run, &numbers, &own("id"))
                    .await?,
            );
            let event = [("workflow_id", id.clone()), ("created_at", at("1000"))];
            statements.push(
                self.copy(
                    "durable_workflow_events",
                    &event,
                    &numbers,
                    &own("workflow_id"),
                )
                .await?,
            );
            if found {
                let customers = (runs / FOUND_EVERY / RUNS_PER_CUSTOMER).max(1);
                let customer = format!("'customer-' || (n / {FOUND_EVERY}) % {customers}");
                let (value, holder) = match self {
                    Self::Postgres(_) => ("value_text", "run_id"),
                    Self::Sqlite(_) => ("value", "workflow_id"),
                };
                let attribute = [("workflow_id", id.clone()), (value, customer)];
                statements.push(
                    self.copy(
                        "durable_search_attributes",
                        &attribute,
                        &numbers,
                        &own("workflow_id"),
                    )
                    .await?,
                );
                let key = [
                    ("key", order.clone()),
                    (holder, id.clone()),
                    ("created_at", at("0")),
                ];
                statements.push(
                    self.copy("durable_keys", &key, &numbers, &own(holder))
                        .await?,
                );
            }
        }
        Ok(statements)
    }

    /// Totals by the hour: those of the templates, spread over the time in which the runs ended.
    async fn totals(&self, runs: u64) -> anyhow::Result<String> {
        let hour = match self {
            Self::Postgres(_) => "t.hour - n * INTERVAL '1 hour'",
            Self::Sqlite(_) => "t.hour - n * 3600000000",
        };
        let count = format!(
            "CASE t.outcome WHEN 'failed' THEN {} ELSE {} END",
            (runs / FAILED_EVERY).div_ceil(HOURS),
            (runs - runs / FAILED_EVERY).div_ceil(HOURS)
        );
        let columns = [("hour", hour.to_owned()), ("count", count)];
        let numbers = self.numbers(24, 24 + HOURS - 1, "TRUE");
        let of = format!("t.kind = 'workflow' AND t.name IN ('{TYPE}', '{FAILED_TYPE}')");
        self.copy("durable_rollups", &columns, &numbers, &of).await
    }

    async fn lengthen(&self, run: Uuid, first: u64, last: u64) -> anyhow::Result<String> {
        let id = self.id_literal(run);
        let own = format!("t.workflow_id = {id} AND t.sequence_num = 1");
        let event = [("sequence_num", "n".to_owned())];
        let numbers = self.numbers(first, last, "TRUE");
        self.copy("durable_workflow_events", &event, &numbers, &own)
            .await
    }

    /// Makes a run older than all others.
    fn age(&self, run: Uuid, events: u64) -> String {
        let (table, sequence, past) = match self {
            Self::Postgres(_) => (
                "durable.durable_workflow_instances",
                "sequence_num",
                format!("now() - INTERVAL '{} days'", DAYS + 5),
            ),
            Self::Sqlite(_) => (
                "durable_workflow_instances",
                "sequence",
                format!("(unixepoch('now') - {} * 86400) * 1000000", DAYS + 5),
            ),
        };
        let id = self.id_literal(run);
        format!(
            "UPDATE {table} SET {sequence} = {events}, created_at = {past}, started_at = {past}, \
             updated_at = {past}, completed_at = {past} WHERE id = {id}"
        )
    }

    /// When run `n` was started, in milliseconds since 1970: evenly over the days, in the order of
    /// `n`.
    fn millis(&self, runs: u64) -> String {
        let now = match self {
            // Taken once a statement; the statements of one batch must agree, so whole days.
            Self::Postgres(_) => "(extract(epoch FROM date_trunc('day', now()))::bigint * 1000)",
            Self::Sqlite(_) => "(unixepoch('now', 'start of day') * 1000)",
        };
        let span = (DAYS - 1) * 86_400_000;
        let begin = DAYS * 86_400_000;
        match self {
            Self::Postgres(_) => format!("({now} - {begin} + (n::bigint * {span}) / {runs})"),
            Self::Sqlite(_) => format!("({now} - {begin} + (n * {span}) / {runs})"),
        }
    }

    fn instant(&self, millis: &str, offset: &str) -> String {
        match self {
            Self::Postgres(_) => format!("to_timestamp(({millis} + {offset}) / 1000.0)"),
            Self::Sqlite(_) => format!("({millis} + {offset}) * 1000"),
        }
    }

    /// The id of run `n`: the form of a UUID of version 7, in the order of time.
    fn run_id(&self, millis: &str) -> String {
        match self {
            Self::Postgres(_) => format!(
                "(lpad(to_hex({millis}), 12, '0') || '7' || lpad(to_hex(n & 4095), 3, '0') || '8' \
                 || lpad(to_hex(n), 15, '0'))::uuid"
            ),
            Self::Sqlite(_) => {
                format!("unhex(printf('%012x7%03x8%015x', {millis}, n & 4095, n))")
            }
        }
    }

    fn id_literal(&self, id: Uuid) -> String {
        match self {
            Self::Postgres(_) => format!("'{id}'::uuid"),
            Self::Sqlite(_) => format!("x'{}'", id.simple()),
        }
    }

    /// The numbers of a copy, as a table `numbers(n)`.
    fn numbers(&self, first: u64, last: u64, case: &str) -> String {
        match self {
            Self::Postgres(_) => {
                format!(
                    "(SELECT n FROM generate_series({first}, {last}) AS g(n) WHERE {case}) AS numbers"
                )
            }
            Self::Sqlite(_) => format!(
                "(WITH RECURSIVE g(n) AS (SELECT {first} UNION ALL SELECT n + 1 FROM g WHERE n < {last}) \
                 SELECT n FROM g WHERE {case}) AS numbers"
            ),
        }
    }

    /// A statement that copies the template's rows of a table, with some columns replaced.
    async fn copy(
        &self,
        table: &str,
        replaced: &[Column<'_>],
        numbers: &str,
        of: &str,
    ) -> anyhow::Result<String> {
        let columns = self.columns(table).await?;
        for (name, _) in replaced {
            let there = columns.iter().any(|column| column == name);
            ensure!(
                there,
                "{table} has no column {name}: fill.rs is behind the schema"
            );
        }
        let values: Vec<String> = columns
            .iter()
            .map(|column| {
                let own = replaced.iter().find(|(name, _)| name == column);
                own.map_or_else(|| format!("t.{column}"), |(_, value)| value.clone())
            })
            .collect();
        let schema = self.schema();
        Ok(format!(
            "INSERT INTO {schema}{table} ({}) SELECT {} FROM {schema}{table} AS t CROSS JOIN {numbers} WHERE {of}",
            columns.join(", "),
            values.join(", ")
        ))
    }

    async fn columns(&self, table: &str) -> anyhow::Result<Vec<String>> {
        let columns: Vec<String> = match self {
            Self::Postgres(client) => client
                .query(
                    "SELECT column_name::text FROM information_schema.columns WHERE table_schema = 'durable' \
                     AND table_name = $1 AND is_generated = 'NEVER' ORDER BY ordinal_position",
                    &[&table],
                )
                .await?
                .iter()
                .map(|row| row.get(0))
                .collect(),
            Self::Sqlite(path) => {
                let connection = rusqlite::Connection::open(path)?;
                let mut statement =
                    connection.prepare("SELECT name FROM pragma_table_info(?1) ORDER BY cid")?;
                let names = statement.query_map([table], |row| row.get(0))?;
                names.collect::<Result<_, _>>()?
            }
        };
        ensure!(!columns.is_empty(), "there is no table {table}");
        Ok(columns)
    }

    /// The schema, as it stands before the name of a table.
    fn schema(&self) -> &'static str {
        match self {
            Self::Postgres(_) => "durable.",
            Self::Sqlite(_) => "",
        }
    }

    /// The one number that a statement answers.
    async fn number(&self, statement: String) -> anyhow::Result<i32> {
        match self {
            Self::Postgres(client) => Ok(client.query_one(&statement, &[]).await?.get(0)),
            Self::Sqlite(path) => {
                let path = path.clone();
                let read = move || {
                    let connection = rusqlite::Connection::open(path)?;
                    connection.query_row(&statement, [], |row| row.get(0))
                };
                Ok(tokio::task::spawn_blocking(read).await??)
            }
        }
    }

    async fn execute(&self, statement: String) -> anyhow::Result<()> {
        match self {
            Self::Postgres(client) => client
                .batch_execute(&statement)
                .await
                .with_context(|| statement)?,
            Self::Sqlite(path) => {
                let path = path.clone();
                tokio::task::spawn_blocking(move || {
                    let connection = rusqlite::Connection::open(path)?;
                    // A crash in the middle costs the copy and nothing else.
                    connection
                        .execute_batch("PRAGMA synchronous = OFF; PRAGMA cache_size = -200000")?;
                    connection.execute_batch(&statement)
                })
                .await??;
            }
        }
        Ok(())
    }

    /// Puts the database in order, as one in which the runs have come together over time.
    async fn settle(&self, database: &Database) -> anyhow::Result<()> {
        match self {
            Self::Postgres(_) => database.settle().await,
            Self::Sqlite(path) => {
                let connection = rusqlite::Connection::open(path)?;
                connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
                Ok(())
            }
        }
    }
}
