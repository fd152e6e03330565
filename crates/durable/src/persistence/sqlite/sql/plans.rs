//! No statement of a request, a chore or a claim reads or sorts without bound on large tables.

use std::collections::BTreeSet;
use std::sync::{LazyLock, Mutex, PoisonError};

use durable_core::{AttributeValue, Timestamp};
use rusqlite::types::Value;
use rusqlite::{Connection, StatementStatus, params_from_iter};
use uuid::Uuid;

use super::{
    Declared, Purpose, attributes, audit, breakers, counts, dead_letters, dedup, events, facts,
    keys, messages, meta, outbox, purges, rollups, run_lists, runs, schedules, signals, step_logs,
    tasks, timers, transaction, updates, walk, workers,
};
use crate::persistence::Shards;
use crate::persistence::model::{
    AuditFilter, AuditKind, CountLimit, DeadLetterState, DlqFilter, LetterRank, Page, RunFilter,
    TaskFilter, TaskRank, TaskStatus, WorkflowStatus,
};
use crate::persistence::sqlite::db::{Db, sent};
use crate::persistence::sqlite::{migrate, tables};

/// Rows of each table that grows. A plan that is wrong is wrong at any size; what a statement does is
/// counted, and a scan of a table of this size is five times beyond what is allowed.
const ROWS: i64 = 300_000;

/// Most steps of SQLite's machine that a statement may take: those for ten thousand rows, which is
/// what a count may look at. Reading a filled table from end to end takes three steps a row or
/// more.
const STEPS_MAX: i32 = 200_000;

/// Tables that hold settings or one row for each thing that operators deploy. They do not grow with
/// the number of runs.
const SMALL: [&str; 6] = [
    "durable_circuit_breaker_state",
    "durable_meta",
    "durable_schedules",
    "durable_schema_migrations",
    "durable_workers",
    "durable_workflow_versions",
];

/// Every file of statements by its name. A test compares it with the folder.
const FILES: [(&str, &[Declared]); 25] = [
    ("attributes", attributes::DECLARED),
    ("audit", audit::DECLARED),
    ("breakers", breakers::DECLARED),
    ("counts", counts::DECLARED),
    ("dead_letters", dead_letters::DECLARED),
    ("dedup", dedup::DECLARED),
    ("events", events::DECLARED),
    ("facts", facts::DECLARED),
    ("keys", keys::DECLARED),
    ("messages", messages::DECLARED),
    ("meta", meta::DECLARED),
    ("outbox", outbox::DECLARED),
    ("purges", purges::DECLARED),
    ("rollups", rollups::DECLARED),
    ("run_lists", run_lists::DECLARED),
    ("runs", runs::DECLARED),
    ("schedules", schedules::DECLARED),
    ("signals", signals::DECLARED),
    ("step_logs", step_logs::DECLARED),
    ("tasks", tasks::DECLARED),
    ("timers", timers::DECLARED),
    ("transaction", transaction::DECLARED),
    ("updates", updates::DECLARED),
    ("walk", walk::DECLARED),
    ("workers", workers::DECLARED),
];

/// The texts that fill the tables; `n.i` is the number of the row, `{n}` the number of rows. Of a
/// hundred rows, one or a few are of the rare kinds that partial indexes hold.
const FILL: [&str; 18] = [
    "INSERT INTO durable_workflow_instances (partition_key, id, workflow_type, version, business_id, fingerprint, \
     status, parent_id, has_children, sequence, history_start, iteration, epoch, arrivals, consumed, ready_at, \
     blocked_build, deadline_at, created_at, updated_at, started_at, completed_at, task_count, line_count) \
     SELECT 0, {id}, 'type' || (i % 50), '', iif(i % 10 = 0, 'b' || i, NULL), i, \
     iif(i % 1000 >= 6, 'completed', iif(i % 1000 = 0, 'pending', iif(i % 1000 = 1, 'running', 'failed'))), \
     iif(i % 20 = 3, CAST(format('%016d', i / 100) AS BLOB), NULL), 0, 2, 0, 0, 0, 1, 1, \
     iif(i % 5 < 2, i, NULL), iif(i % 10000 = 0, 'build', NULL), iif(i % 1000 < 2, i, NULL), i, i, i, \
     iif(i % 1000 >= 2, i, NULL), 0, 0 FROM n",
    "INSERT INTO durable_search_attributes (partition_key, workflow_id, name, value_type, value) \
     SELECT 0, {id}, 'name' || (i % 5), 'int', i FROM n",
    "INSERT INTO durable_task_queue (partition_key, workflow_id, id, activity_id, activity_type, options, priority, \
     sequential, status, line, epoch, scheduled_at, visible_at, attempt, deliveries, lease_expires_at, timeout_at, \
     attempts, requeue_count) \
     SELECT 0, {id}, {id}, 'a', 'type' || (i % 50), '{}', i % 5, i % 5 = 3, \
     CASE i % 5 WHEN 1 THEN 'claimed' WHEN 2 THEN 'delayed' WHEN 3 THEN 'in_line' ELSE 'pending' END, i, 0, i, i, 0, \
     0, iif(i % 5 = 1, i, NULL), iif(i % 5 <> 3, i, NULL), '[]', 0 FROM n",
    "INSERT INTO durable_workflow_events (partition_key, workflow_id, sequence_num, event_type, event_data, created_at) \
     SELECT 0, {of}, i % 10, 'x', '{}', i FROM n",
    "INSERT INTO durable_timers (partition_key, workflow_id, timer_id, fire_at, epoch) SELECT 0, {id}, 't', i, 0 FROM n",
    "INSERT INTO durable_inbox (partition_key, workflow_id, arrival, event_type, event_data, attempts, arrived_at) \
     SELECT 0, {of}, i % 10, 'signal.received', '{}', '[]', i FROM n",
    "INSERT INTO durable_signals (partition_key, workflow_id, id, signal_type, sequence_num, sent_at, processed_at) \
     SELECT 0, {of}, {id}, 'x', i % 10, i, iif(i % 10 > 0, i, NULL) FROM n",
    "INSERT INTO durable_updates (partition_key, workflow_id, update_id, name, arrival, state, created_at, completed_at) \
     SELECT 0, {of}, 'u' || (i % 10), 'x', i % 10, iif(i % 10 > 0, 'completed', 'pending'), i, iif(i % 10 > 0, i, NULL) \
     FROM n",
    "INSERT INTO durable_keys (partition_key, kind, key, workflow_id, created_at) \
     SELECT 0, CASE i % 4 WHEN 0 THEN 'business' WHEN 1 THEN 'cron_slot' WHEN 2 THEN 'idempotency' ELSE 'tombstone' END, \
     'schedule@' || i, {id}, i FROM n",
    "INSERT INTO durable_dead_letter_queue (partition_key, workflow_id, id, activity_id, activity_type, options, epoch, \
     attempts, last_error, error_history, parked, state, dead_at, requeue_count) \
     SELECT 0, {id}, {id}, 'a', 'type' || (i % 50), '{}', 0, 3, '{}', '[]', 0, iif(i % 1000 < 5, 'dead', 'completed'), i, 0 \
     FROM n",
    "INSERT INTO durable_messages (partition_key, sender, sequence_num, idx, message) SELECT 0, {id}, 1, 0, '{}' FROM n",
    "INSERT INTO durable_outbox (partition_key, workflow_id, id, event_type, state, attempts, available_at, created_at) \
     SELECT 0, {id}, {id}, 'x', iif(i % 100 = 0, 'pending', 'published'), 1, i, i FROM n",
    "INSERT INTO durable_step_logs (partition_key, workflow_id, id, activity_id, attempt, level, message, created_at) \
     SELECT 0, {of}, {id}, 'a', 1, 'info', 'x', i FROM n",
    "INSERT INTO durable_audit (id, at, request_id, actor, role, action, target_kind, target_id) \
     SELECT {id}, i, {id}, 'actor' || (i % 50), 'admin', 'action' || (i % 20), 'run', 't' || i FROM n",
    "INSERT INTO durable_rollups (hour, kind, name, outcome, duration_exp, count, total_ms) \
     SELECT i / 100, 'activity', 'x' || (i % 10), 'completed', i / 10 % 10, 1, 1 FROM n",
    "INSERT INTO durable_purges (partition_key, run_id, created_at, retry_at, failures) \
     SELECT 0, {id}, i, i, iif(i % 100 = 0, 1, 0) FROM n",
    "INSERT INTO durable_dedup (key, created_at) SELECT format('%016d', i), i FROM n",
    "INSERT INTO durable_human_tasks (partition_key, workflow_id, task_id, status, created_at) \
     SELECT 0, {id}, 'x', 'approved', i FROM n",
];

/// Databases with large tables, one for all tests: without statistics, which the store never
/// gathers, and with those of a file that an operator analysed.
static PLAIN: LazyLock<Mutex<Connection>> = LazyLock::new(|| Mutex::new(filled()));
static ANALYSED: LazyLock<Mutex<Connection>> = LazyLock::new(|| {
    let plain = PLAIN.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("analysed.db");
    plain
        .execute("VACUUM INTO ?1", [path.to_str().unwrap()])
        .unwrap();
    let conn = Connection::open(path).unwrap();
    conn.execute_batch("PRAGMA synchronous = OFF; PRAGMA journal_mode = MEMORY; ANALYZE")
        .unwrap();
    // The file is read through the open connection; its name is not needed any more.
    drop(folder);
    Mutex::new(conn)
});

/// An empty name is a file of SQLite's own, which is gone with its connection.
fn filled() -> Connection {
    let mut conn = Connection::open("").unwrap();
    conn.execute_batch(
        "PRAGMA synchronous = OFF; PRAGMA journal_mode = MEMORY; PRAGMA cache_size = -200000",
    )
    .unwrap();
    migrate::bring_up(&mut conn).unwrap();
    for text in FILL {
        let text = text
            .replace("{id}", "CAST(format('%016d', i) AS BLOB)")
            .replace("{of}", "CAST(format('%016d', i / 10) AS BLOB)");
        let numbers =
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)";
        let (insert, select) = text.split_once("SELECT").unwrap();
        conn.execute(&format!("{insert} {numbers} SELECT{select}"), [ROWS])
            .unwrap();
    }
    conn
}

/// The steps of a statement's plan.
fn plan(conn: &Connection, sql: &str) -> Vec<String> {
    let mut statement = conn.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let values = samples(sql, statement.parameter_count());
    let steps = statement.query_map(params_from_iter(values), |row| row.get::<_, String>(3));
    steps.unwrap().map(Result::unwrap).collect()
}

/// The table that a step of a plan reads, by its name or its alias.
fn table_of<'a>(sql: &'a str, step: &'a str) -> Option<&'a str> {
    let read = step
        .strip_prefix("SCAN ")
        .and_then(|rest| rest.split(' ').next())?;
    if read.starts_with("durable_") {
        return Some(read);
    }
    let words: Vec<&str> = sql
        .split(|c: char| c.is_whitespace() || "(),".contains(c))
        .filter(|word| !word.is_empty())
        .collect();
    words
        .windows(3)
        .find(|words| words[0].starts_with("durable_") && words[1] == "AS" && words[2] == read)
        .map(|words| words[0])
}

/// What is wrong with a statement: a growing table that is read from end to end, or too much work
/// for values that nothing matches, or everything does. A scan that a limit ends is judged by its
/// work.
fn complaints(conn: &Connection, sql: &str) -> Vec<String> {
    let plan = plan(conn, sql);
    let limited = sql.contains("LIMIT");
    let scans = plan.iter().filter(|step| {
        let grows = table_of(sql, step).is_some_and(|table| !SMALL.contains(&table));
        grows && !limited
    });
    let mut complaints: Vec<String> = scans.cloned().collect();
    let steps = work(conn, sql);
    if complaints.is_empty() && steps > STEPS_MAX {
        complaints.push(format!("{steps} steps: {}", plan.join(" / ")));
    }
    complaints
}

/// The steps that a statement takes with sample values; what it changes is taken back. A statement
/// that refuses the samples has taken none.
fn work(conn: &Connection, sql: &str) -> i32 {
    let changes = ["SELECT", "DELETE", "UPDATE", "WITH"];
    if !changes.iter().any(|verb| sql.starts_with(verb)) {
        return 0;
    }
    conn.execute_batch("SAVEPOINT work").unwrap();
    let steps = {
        let mut statement = conn.prepare(sql).unwrap();
        let values = samples(sql, statement.parameter_count());
        let mut rows = statement.query(params_from_iter(values)).unwrap();
        while let Ok(Some(_)) = rows.next() {}
        drop(rows);
        statement.get_status(StatementStatus::VmStep)
    };
    conn.execute_batch("ROLLBACK TO work; RELEASE work")
        .unwrap();
    steps
}

/// A value for each parameter, by what it is compared with.
fn samples(sql: &str, count: usize) -> Vec<Value> {
    let mut values = vec![Value::Integer(1); count];
    let mut next = 0;
    for (place, _) in sql.match_indices('?') {
        let number: String = sql[place + 1..]
            .chars()
            .take_while(char::is_ascii_digit)
            .collect();
        let at = match number.parse::<usize>() {
            Ok(number) => number - 1,
            Err(_) => next,
        };
        next = at + 1;
        if let Some(value) = sample(&sql[..place]) {
            values[at] = value;
        }
        // A condition on the shard of a table that has none.
        if sql[place + 1 + number.len()..].starts_with(" = 0") {
            values[at] = Value::Integer(0);
        }
    }
    values
}

/// The value of a parameter behind a text: one that makes the condition hold for every row where it
/// is a range, and for none where it is an equality, since both make a careless plan read the most.
fn sample(before: &str) -> Option<Value> {
    let before = before.trim_end();
    if before.ends_with("json_each(") {
        return Some(Value::Text("[\"x\"]".into()));
    }
    if before.ends_with("LIMIT") {
        return Some(Value::Integer(100));
    }
    if before.ends_with("OFFSET") {
        return Some(Value::Integer(0));
    }
    let operator = ["<=", ">=", "<>", "<", ">", "="]
        .into_iter()
        .find(|operator| before.ends_with(operator))?;
    let column = before[..before.len() - operator.len()]
        .trim_end()
        .rsplit(|c: char| !c.is_alphanumeric() && c != '_')
        .next()?;
    let id = column == "id" || column == "sender" || column.ends_with("_id");
    Some(match (operator, id) {
        ("<" | "<=", true) => Value::Blob(vec![0xff; 16]),
        (">" | ">=", true) => Value::Blob(vec![0; 16]),
        (_, true) => Value::Blob(b"0000000000000500".to_vec()),
        ("<" | "<=", false) => Value::Integer(i64::MAX),
        (">" | ">=", false) => Value::Integer(i64::MIN),
        _ if column == "partition_key" => Value::Integer(0),
        _ => Value::Text("x".into()),
    })
}

/// Fails with all that is wrong with statements, each with its name.
fn judge(statements: &[(String, String)]) {
    let mut wrong = Vec::new();
    // Made before the other one is locked: it is a copy of it.
    LazyLock::force(&ANALYSED);
    for (when, conn) in [("without statistics", &PLAIN), ("analysed", &ANALYSED)] {
        let conn = conn.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, sql) in statements {
            let found = complaints(&conn, sql).into_iter();
            wrong.extend(found.map(|why| format!("{name}, {when}: {why}")));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} plans:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn no_statement_reads_or_sorts_without_bound_on_large_tables() {
    let mut statements = Vec::new();
    for (file, declared) in FILES {
        for statement in declared {
            match statement.purpose {
                Purpose::Service => {
                    let name = format!("{file}::{}", statement.name);
                    statements.push((name, statement.sql.to_owned()));
                }
                Purpose::Opening | Purpose::List | Purpose::Proof => {}
            }
        }
    }
    let pairs = [
        ("purges::BELONGINGS", purges::BELONGINGS),
        ("purges::OLD", purges::OLD),
    ];
    for (name, pairs) in pairs {
        for pair in pairs {
            statements.push((name.to_owned(), pair.size.to_owned()));
            statements.push((name.to_owned(), pair.delete.to_owned()));
        }
    }
    judge(&statements);
}

/// The judge itself: a table that is read from end to end, and one that is sorted for a few rows.
#[test]
fn a_scan_and_a_sort_of_a_large_table_are_found() {
    let conn = PLAIN.lock().unwrap_or_else(PoisonError::into_inner);
    let scan = "SELECT workflow_id FROM durable_workflow_events WHERE event_type = ?1";
    let found = complaints(&conn, scan);
    assert!(
        found[0].starts_with("SCAN durable_workflow_events"),
        "{found:?}"
    );
    let sort = "SELECT id FROM durable_workflow_instances ORDER BY updated_at LIMIT ?1";
    let found = complaints(&conn, sort);
    assert!(
        found[0].contains("USE TEMP B-TREE FOR ORDER BY"),
        "{found:?}"
    );
    let bounded =
        "SELECT id FROM durable_workflow_instances WHERE partition_key = ?1 ORDER BY id LIMIT ?2";
    assert_eq!(complaints(&conn, bounded), Vec::<String>::new());
}

#[test]
fn every_file_of_statements_is_explained() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/persistence/sqlite/sql");
    let own = ["mod", "plans", "tests"];
    let files: BTreeSet<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|file| {
            file.unwrap()
                .path()
                .file_stem()
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned()
        })
        .filter(|file| !own.contains(&&**file))
        .collect();
    let known: BTreeSet<String> = FILES.iter().map(|(file, _)| (*file).to_owned()).collect();
    assert_eq!(files, known);
}

#[test]
fn every_table_is_filled_or_small() {
    let conn = PLAIN.lock().unwrap_or_else(PoisonError::into_inner);
    let mut names = conn
        .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND name LIKE 'durable%'")
        .unwrap();
    let names = names.query_map([], |row| row.get::<_, String>(0)).unwrap();
    for table in names.map(Result::unwrap) {
        let count = format!("SELECT count(*) FROM {table}");
        let rows: i64 = conn.query_row(&count, [], |row| row.get(0)).unwrap();
        let small = SMALL.contains(&&*table);
        assert!(small || rows == ROWS, "{table} has {rows} rows: fill it");
    }
}

/// Sends lists to an empty store and answers the texts that it sent, each with the list's name.
struct Lists {
    conn: Connection,
    texts: Vec<(String, String)>,
}

impl Lists {
    fn new() -> Self {
        let mut conn = Connection::open_in_memory().unwrap();
        migrate::bring_up(&mut conn).unwrap();
        Self {
            conn,
            texts: Vec::new(),
        }
    }

    fn send<T>(&mut self, name: &str, list: impl FnOnce(Db<'_>) -> T) {
        sent::take();
        list(Db {
            conn: &self.conn,
            shards: Shards::new(1),
        });
        let sent = sent::take();
        assert!(!sent.is_empty(), "{name} sent nothing");
        self.texts
            .extend(sent.into_iter().map(|text| (name.to_owned(), text)));
    }
}

/// An instant and an id, of which only the presence matters.
fn some() -> (Timestamp, Uuid) {
    (Timestamp::UNIX_EPOCH, Uuid::from_u128(1))
}

fn run_filters() -> Vec<(String, RunFilter)> {
    let (at, id) = some();
    let none = RunFilter::default;
    let mut filters = vec![("runs".to_owned(), none())];
    for status in WorkflowStatus::ALL {
        filters.push((
            format!("runs by status {}", status.as_str()),
            none().status(status),
        ));
    }
    let mut add = |name: &str, change: &dyn Fn(&mut RunFilter)| {
        let mut filter = none();
        change(&mut filter);
        filters.push((format!("runs by {name}"), filter));
    };
    add("workflow_type", &|f| f.workflow_type = Some("x".into()));
    add("business_id", &|f| f.business_id = Some("x".into()));
    add("parent", &|f| f.parent = Some(id));
    add("created_from", &|f| f.created_from = Some(at));
    add("created_until", &|f| f.created_until = Some(at));
    add("blocked", &|f| f.blocked = true);
    add("before", &|f| f.before = Some(id));
    add("attribute", &|f| {
        f.attributes.insert("x".into(), AttributeValue::Int(1));
    });
    filters
}

#[test]
fn every_filter_of_a_list_and_a_count_of_runs_is_bounded() {
    let mut lists = Lists::new();
    for (name, filter) in run_filters() {
        let count = format!("count of {name}");
        lists.send(&name, |db| {
            tables::run_lists::list(db, &filter, Page::default()).is_ok()
        });
        lists.send(&count, |db| {
            tables::run_lists::count(db, &filter, CountLimit::Capped).is_ok()
        });
    }
    judge(&lists.texts);
}

/// The queue holds open work only: what no index answers is looked through within the time limit of
/// operators' reads.
#[test]
fn tasks_of_a_run_and_pending_tasks_are_listed_by_an_index() {
    let (at, id) = some();
    let of_run = TaskFilter {
        run_id: Some(id),
        ..TaskFilter::default()
    };
    let pending = TaskFilter {
        status: Some(TaskStatus::Pending),
        ..TaskFilter::default()
    };
    let of_type = TaskFilter {
        activity_type: Some("x".into()),
        ..pending.clone()
    };
    let behind = TaskFilter {
        after: Some(TaskRank {
            priority: 2,
            visible_at: at,
            id,
            run_id: id,
        }),
        ..of_type.clone()
    };
    let mut lists = Lists::new();
    for (name, filter) in [
        ("tasks of a run", of_run),
        ("pending tasks", pending),
        ("pending tasks of a type", of_type),
        ("pending tasks of a type behind another", behind),
    ] {
        lists.send(name, |db| {
            tables::tasks::list(db, &filter, Page::default()).is_ok()
        });
    }
    judge(&lists.texts);
}

#[test]
fn every_filter_of_a_list_and_a_purge_of_dead_letters_is_bounded() {
    let (at, id) = some();
    let mut filters = vec![("letters".to_owned(), DlqFilter::default())];
    let mut add = |name: &str, change: &dyn Fn(&mut DlqFilter)| {
        let mut filter = DlqFilter::default();
        change(&mut filter);
        filters.push((format!("letters by {name}"), filter));
    };
    add("id", &|f| f.id = Some(id));
    add("run_id", &|f| f.run_id = Some(id));
    add("activity_type", &|f| f.activity_type = Some("x".into()));
    for state in DeadLetterState::ALL {
        add(&format!("state {}", state.as_str()), &|f| {
            f.state = Some(state);
        });
    }
    add("dead_before", &|f| f.dead_before = Some(at));
    add("after", &|f| {
        f.after = Some(LetterRank {
            dead_at: at,
            id,
            run_id: id,
        });
    });
    let mut lists = Lists::new();
    for (name, filter) in filters {
        let purge = format!("purge of {name}");
        lists.send(&name, |db| {
            tables::dead_letters::list(db, &filter, Page::default()).is_ok()
        });
        lists.send(&purge, |db| {
            tables::dead_letters::purge(db, &filter, 10).is_ok()
        });
    }
    judge(&lists.texts);
}

#[test]
fn every_filter_of_a_list_of_audit_rows_is_bounded() {
    let (at, id) = some();
    let mut filters = vec![("audit".to_owned(), AuditFilter::default())];
    let mut add = |name: &str, change: &dyn Fn(&mut AuditFilter)| {
        let mut filter = AuditFilter::default();
        change(&mut filter);
        filters.push((format!("audit by {name}"), filter));
    };
    add("actor", &|f| f.actor = Some("x".into()));
    add("action", &|f| f.action = Some("x".into()));
    add("kind", &|f| f.kind = Some(AuditKind::Worker));
    add("target_id", &|f| f.target_id = Some("x".into()));
    add("request_id", &|f| f.request_id = Some(id));
    add("from", &|f| f.from = Some(at));
    add("until", &|f| f.until = Some(at));
    add("before", &|f| f.before = Some(id));
    let mut lists = Lists::new();
    for (name, filter) in filters {
        lists.send(&name, |db| {
            tables::audit::list(db, &filter, Page::default()).is_ok()
        });
    }
    judge(&lists.texts);
}
