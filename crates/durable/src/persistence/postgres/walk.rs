//! A database as an audit reads it: page by page, each at one instant, on a connection of its own.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row};
use uuid::Uuid;

use super::bind::by_shard;
use super::checkup::late;
use super::migrate::{MIGRATIONS, connect, read_shards, read_status};
use super::options::PostgresOptions;
use super::pools::PLAN_SETTINGS;
use super::reader::read_all;
use super::reads::dump::belong;
use super::rows;
use super::schema::Schema;
use super::sql::walk as sql;
use super::sqlstate::store_error;
use super::statement::Statement;
use crate::audit::walk::{
    HeldKey, Holder, ORPHANS_MAX, OVERDUE_MAX, Overdue, PAGE_KEYS_MAX, PAGE_RUNS_MAX, Page,
    RUN_ROWS_MAX, RUNS_WITH_ROWS_MAX, Source, held, that_fit,
};
use crate::persistence::checkup::Work;
use crate::persistence::migrations::require_complete;
use crate::persistence::model::{Dump, KeyKind, Orphan};
use crate::persistence::{Shards, StoreResult};

/// Longest time for one statement, so that a page does not hold the clean-up of dead rows back for
/// long.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(60);

/// The number that stands in the text of [`sql::WALK_PAGE`].
const _: () = assert!(PAGE_RUNS_MAX == 100);

/// What belongs to runs, in the order of [`belong`].
const OF_RUNS: [&Statement; 11] = [
    &sql::WALK_RUNS,
    &sql::WALK_EVENTS,
    &sql::WALK_TASKS,
    &sql::WALK_TIMERS,
    &sql::WALK_FACTS,
    &sql::WALK_SIGNALS,
    &sql::WALK_UPDATES,
    &sql::WALK_ATTRIBUTES,
    &sql::WALK_MESSAGES,
    &sql::WALK_OUTBOX,
    &sql::WALK_LOGS,
];

/// The runs that have rows in a table, for every table whose rows belong to runs.
const RUNS_WITH_ROWS: [(&str, &Statement); 12] = [
    ("workflow_events", &sql::WALK_EVENT_RUNS),
    ("task_queue", &sql::WALK_TASK_RUNS),
    ("timers", &sql::WALK_TIMER_RUNS),
    ("inbox", &sql::WALK_FACT_RUNS),
    ("signals", &sql::WALK_SIGNAL_RUNS),
    ("updates", &sql::WALK_UPDATE_RUNS),
    ("search_attributes", &sql::WALK_ATTRIBUTE_RUNS),
    ("messages", &sql::WALK_MESSAGE_RUNS),
    ("outbox", &sql::WALK_OUTBOX_RUNS),
    ("step_logs", &sql::WALK_LOG_RUNS),
    ("dead_letter_queue", &sql::WALK_LETTER_RUNS),
    ("human_tasks", &sql::WALK_HUMAN_TASK_RUNS),
];

type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

/// A database that is only read.
pub(crate) struct Walk {
    client: Client,
    schema: Schema,
    shards: Shards,
}

impl Walk {
    pub(crate) async fn open(url: &str) -> StoreResult<Self> {
        let (client, options) = connect(url, &PostgresOptions::default()).await?;
        let schema = Schema::new(&options.schema)?;
        require_complete(&read_status(&client, &schema, MIGRATIONS).await?)?;
        let shards = read_shards(&client, &schema).await?;
        Ok(Self {
            client,
            schema,
            shards,
        })
    }

    /// Sent unnamed and typed, so that it works through a transaction pooler too.
    async fn ask(&self, statement: &Statement, values: Params<'_>) -> StoreResult<Vec<Row>> {
        let types = statement.params.iter().cloned();
        let params: Vec<(&(dyn ToSql + Sync), Type)> = values.iter().copied().zip(types).collect();
        let text = self.schema.render(statement.sql);
        let rows = self.client.query_typed(&text, &params).await;
        rows.map_err(store_error)
    }

    /// Several reads at one instant, planned as the pools plan theirs.
    async fn begin(&self) -> StoreResult<()> {
        let settings = PLAN_SETTINGS.map(|setting| format!("SET LOCAL {setting}; "));
        let begin = format!(
            "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {}SET LOCAL statement_timeout = {}",
            settings.concat(),
            STATEMENT_TIMEOUT.as_millis()
        );
        self.client.batch_execute(&begin).await.map_err(store_error)
    }

    /// Ends the transaction of a page, whatever became of it.
    async fn end<T>(&self, answer: StoreResult<T>) -> StoreResult<T> {
        let ended = self.client.batch_execute("ROLLBACK").await;
        let answer = answer?;
        ended.map_err(store_error)?;
        Ok(answer)
    }

    async fn read_page(&self, shard: i32, after: Uuid) -> StoreResult<Page> {
        let rows_max = i64::try_from(RUN_ROWS_MAX + 1).unwrap_or(i64::MAX);
        let rows = self
            .ask(&sql::WALK_PAGE, &[&shard, &after, &rows_max])
            .await?;
        let measured = read_all(&rows, |row| Ok((row.next()?, row.next()?, row.next()?)))?;
        let (load, too_large, looked) = that_fit(&measured);
        let mut dump = if load.is_empty() {
            Dump::default()
        } else {
            self.load(shard, &load).await?
        };
        let more = looked == PAGE_RUNS_MAX || looked < measured.len();
        let last = measured[..looked].last().map(|(id, _, _)| *id);
        let last = last.filter(|_| more);
        let until = last.unwrap_or(Uuid::max());
        for (table, statement) in RUNS_WITH_ROWS {
            let orphans = self.orphans(table, statement, shard, (after, until)).await;
            dump.orphans.extend(orphans?);
        }
        Ok(Page {
            dump,
            too_large,
            last,
        })
    }

    /// Rows of a table whose run, with an id above one and up to another, is gone.
    async fn orphans(
        &self,
        table: &str,
        statement: &Statement,
        shard: i32,
        (mut above, until): (Uuid, Uuid),
    ) -> StoreResult<Vec<Orphan>> {
        let most = i64::try_from(RUNS_WITH_ROWS_MAX).unwrap_or(i64::MAX);
        let mut found = Vec::new();
        loop {
            let rows = self
                .ask(statement, &[&shard, &above, &until, &most])
                .await?;
            let runs: Vec<(Uuid, bool)> = read_all(&rows, |row| Ok((row.next()?, row.next()?)))?;
            let gone = runs.iter().filter(|(_, gone)| *gone);
            found.extend(gone.map(|(run_id, _)| Orphan {
                table: table.to_owned(),
                run_id: Some(*run_id),
            }));
            match runs.iter().map(|(run_id, _)| *run_id).max() {
                Some(last) if runs.len() == RUNS_WITH_ROWS_MAX && found.len() < ORPHANS_MAX => {
                    above = last;
                }
                _ => break,
            }
        }
        found.truncate(ORPHANS_MAX);
        Ok(found)
    }

    async fn load(&self, shard: i32, ids: &[Uuid]) -> StoreResult<Dump> {
        let mut answers = Vec::with_capacity(OF_RUNS.len());
        for statement in OF_RUNS {
            answers.push(self.ask(statement, &[&shard, &ids]).await?);
        }
        let (runs, orphans) = belong(&answers)?;
        let letters = self.ask(&sql::WALK_LETTERS, &[&shard, &ids]).await?;
        let named: Vec<&str> = runs
            .iter()
            .filter_map(|run| run.run.idempotency_key.as_deref())
            .collect();
        let mut keys = Vec::new();
        for (shard, names) in by_shard(&named, |key| self.shards.of_key(key)) {
            let names: Vec<&str> = names.into_iter().copied().collect();
            let rows = self.ask(&sql::WALK_KEYS_NAMED, &[&shard, &names]).await?;
            keys.extend(read_all(&rows, rows::keys::record)?.into_iter().flatten());
        }
        Ok(Dump {
            runs,
            keys,
            dead_letters: read_all(&letters, rows::letters::record)?,
            orphans,
            ..Dump::default()
        })
    }

    async fn read_keys(&self, shard: i32, after: (&str, &str)) -> StoreResult<Vec<HeldKey>> {
        let most = i64::try_from(PAGE_KEYS_MAX).unwrap_or(i64::MAX);
        let rows = self
            .ask(&sql::WALK_KEYS, &[&shard, &after.0, &after.1, &most])
            .await?;
        let keys: Vec<(KeyKind, String, Option<Uuid>)> = read_all(&rows, |row| {
            Ok((row.name(KeyKind::parse)?, row.next()?, row.next()?))
        })?;
        let runs: Vec<Uuid> = keys.iter().filter_map(|(_, _, run)| *run).collect();
        let mut holders = BTreeMap::new();
        for (shard, ids) in by_shard(&runs, |id| self.shards.of_run(*id)) {
            let ids: Vec<Uuid> = ids.into_iter().copied().collect();
            // A run whose row could not be deleted is in both: what it says itself comes last.
            for (deleted, statement) in [
                (true, &sql::WALK_DELETED_HOLDERS),
                (false, &sql::WALK_HOLDERS),
            ] {
                let rows = self.ask(statement, &[&shard, &ids]).await?;
                holders.extend(read_all(&rows, |row| {
                    let id: Uuid = row.next()?;
                    let holder = Holder {
                        idempotency_key: row.next()?,
                        business_id: row.next()?,
                        deleted,
                    };
                    Ok((id, holder))
                })?);
            }
        }
        Ok(held(keys, &holders))
    }
}

impl Source for Walk {
    fn shards(&self) -> Shards {
        self.shards
    }

    async fn page(&mut self, shard: i32, after: Uuid) -> StoreResult<Page> {
        self.begin().await?;
        let page = self.read_page(shard, after).await;
        self.end(page).await
    }

    async fn keys(&mut self, shard: i32, after: (&str, &str)) -> StoreResult<Vec<HeldKey>> {
        self.begin().await?;
        let keys = self.read_keys(shard, after).await;
        self.end(keys).await
    }

    async fn overdue(&mut self, after: Duration) -> StoreResult<Vec<Overdue>> {
        let mut all = Vec::new();
        for work in [Work::Turns, Work::Tasks, Work::Timers] {
            let late = late(&self.client, &self.schema, work, after, OVERDUE_MAX).await?;
            all.extend(late.into_iter().map(|(run_id, seconds)| Overdue {
                run_id,
                what: work.is_late(),
                seconds,
            }));
        }
        let most = i64::try_from(OVERDUE_MAX).unwrap_or(i64::MAX);
        for shard in self.shards.from(0) {
            let values: Params<'_> = &[&shard, &after.as_secs_f64(), &most];
            let rows = self.ask(&sql::WALK_OVERDUE_DEADLINES, values).await?;
            all.extend(rows.iter().map(|row| Overdue {
                run_id: row.get(0),
                what: "its deadline is overdue",
                seconds: row.get(1),
            }));
        }
        Ok(all)
    }
}
