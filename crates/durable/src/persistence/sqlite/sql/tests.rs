//! Every statement fits the schema, and the hot ones use their indexes.

use rusqlite::Connection;

use super::{
    attributes, audit, breakers, counts, dead_letters, dedup, events, facts, keys, messages, meta,
    outbox, purges, rollups, run_lists, runs, schedules, signals, step_logs, tasks, timers,
    transaction, updates, walk, workers,
};
use crate::persistence::sqlite::migrate;

fn migrated() -> Connection {
    let mut conn = Connection::open_in_memory().unwrap();
    migrate::bring_up(&mut conn).unwrap();
    conn
}

fn every_statement() -> Vec<&'static str> {
    [
        attributes::ALL,
        audit::ALL,
        breakers::ALL,
        counts::ALL,
        dead_letters::ALL,
        dedup::ALL,
        events::ALL,
        facts::ALL,
        keys::ALL,
        messages::ALL,
        meta::ALL,
        outbox::ALL,
        purges::ALL,
        rollups::ALL,
        run_lists::ALL,
        runs::ALL,
        schedules::ALL,
        signals::ALL,
        step_logs::ALL,
        tasks::ALL,
        timers::ALL,
        transaction::ALL,
        updates::ALL,
        walk::ALL,
        workers::ALL,
        &slices(),
    ]
    .concat()
}

/// The statements that delete in slices.
fn slices() -> Vec<&'static str> {
    let all = purges::BELONGINGS.iter().chain(purges::OLD);
    all.flat_map(|slice| [slice.size, slice.delete]).collect()
}

fn every_list() -> [String; 7] {
    let audit_rows = [
        audit::BY_ACTOR,
        audit::BY_ACTION,
        audit::OF_KIND,
        audit::OF_TARGET,
        audit::OF_REQUEST,
        audit::FROM,
        audit::UNTIL,
        audit::ID_FROM,
        audit::ID_UNTIL,
        audit::PAGE,
    ]
    .concat();
    let runs = conditions_of_runs();
    let letters = [
        dead_letters::OF_ID,
        dead_letters::OF_RUN_ID,
        dead_letters::OF_TYPE,
        dead_letters::IN_STATE,
        dead_letters::AFTER,
        dead_letters::DEAD_BEFORE,
        dead_letters::PAGE,
    ]
    .concat();
    let tasks = [
        tasks::OF_RUN_ID,
        tasks::OF_TYPE,
        tasks::IN_STATUS,
        tasks::PAGE,
    ]
    .concat();
    let workers = [
        workers::IN_GROUP,
        workers::IN_STATUS,
        workers::HEARD_SINCE,
        workers::ORDER,
    ]
    .concat();
    [
        format!("{}{audit_rows}", audit::LIST),
        format!(
            "{}{runs}{}{}{}",
            run_lists::KEYS,
            run_lists::BY_ID,
            run_lists::BEFORE,
            run_lists::ID_ORDER
        ),
        format!("{}{runs}", run_lists::COUNT),
        format!("{}{letters}", dead_letters::LIST),
        format!("{}{letters}", dead_letters::PURGEABLE),
        format!("{}{tasks}", super::tasks::LIST),
        format!("{}{workers}", super::workers::LIST),
    ]
}

/// All that a filter may say of a run.
fn conditions_of_runs() -> String {
    [
        run_lists::STATUS_IN,
        run_lists::OF_TYPE,
        run_lists::OF_BUSINESS_ID,
        run_lists::OF_PARENT,
        run_lists::CREATED_FROM,
        run_lists::CREATED_UNTIL,
        run_lists::BLOCKED,
        run_lists::WITH_ATTRIBUTE,
    ]
    .concat()
}

#[test]
fn every_walk_of_a_list_is_in_the_order_of_its_index() {
    use run_lists as l;
    let conn = migrated();
    let status = [l::BY_STATUS, l::IN_STATUS].concat();
    let of_type = [l::BY_TYPE, l::IN_STATUS].concat();
    let started = [l::BY_START, l::CREATED_FROM, l::CREATED_UNTIL].concat();
    let walks = [
        (l::BY_ID, l::ID_ORDER, "_id "),
        (l::BY_BUSINESS_ID, l::ID_ORDER, "_business (business_id=?"),
        (l::BY_PARENT, l::ID_ORDER, "_parent (parent_id=?"),
        (l::BY_BLOCKED, l::ID_ORDER, "_blocked"),
        (&status, l::ID_ORDER, "_status (status=?"),
        (
            &of_type,
            l::ID_ORDER,
            "_type_status (workflow_type=? AND status=?",
        ),
        (
            &started,
            l::START_ORDER,
            "_created (created_at>? AND created_at<?",
        ),
    ];
    for rest in [String::new(), conditions_of_runs()] {
        for (walk, order, index) in walks {
            let sql = [l::KEYS, &rest, walk, l::BEFORE, order].concat();
            let found = plan(&conn, &sql);
            let steps = format!("{found} ");
            assert!(steps.contains(index), "{sql}\n{found}");
            assert!(!found.contains("TEMP B-TREE"), "{sql}\n{found}");
        }
    }
    let keys = [
        (l::ATTRIBUTE_KEYS, String::new()),
        (l::ATTRIBUTE_KEYS_WHERE, conditions_of_runs()),
    ];
    for (keys, rest) in keys {
        let sql = [
            keys,
            &rest,
            l::OF_ATTRIBUTES,
            l::BEFORE_ATTRIBUTE,
            l::ATTRIBUTE_ORDER,
        ]
        .concat();
        let found = plan(&conn, &sql);
        assert!(
            found.contains("_value (name=? AND value_type=? AND value=?"),
            "{found}"
        );
        assert!(!found.contains("TEMP B-TREE"), "{sql}\n{found}");
    }
}

#[test]
fn letters_of_a_state_are_read_in_the_order_of_their_index() {
    let conn = migrated();
    let of_type = [dead_letters::OF_TYPE, dead_letters::IN_STATE].concat();
    for conditions in ["", dead_letters::IN_STATE, dead_letters::OF_TYPE, &of_type] {
        let sql = [dead_letters::LIST, conditions, dead_letters::PAGE].concat();
        let found = plan(&conn, &sql);
        assert!(
            found.contains("USING INDEX idx_durable_dlq"),
            "{sql}\n{found}"
        );
        assert!(!found.contains("TEMP B-TREE"), "{sql}\n{found}");
    }
}

/// The plan of a statement, one step a line.
fn plan(conn: &Connection, sql: &str) -> String {
    let mut statement = conn.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let binds = vec![1_i64; statement.parameter_count()];
    let steps = statement
        .query_map(rusqlite::params_from_iter(binds), |row| {
            row.get::<_, String>(3)
        })
        .unwrap();
    steps.map(Result::unwrap).collect::<Vec<_>>().join("\n")
}

/// A queue of this size, of which a third may be claimed.
fn fill(conn: &Connection, tasks: i64) {
    conn.execute(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1) \
         INSERT INTO durable_task_queue (partition_key, workflow_id, id, activity_id, activity_type, \
         options, priority, sequential, status, line, epoch, scheduled_at, visible_at, attempt, \
         deliveries, attempts, requeue_count) \
         SELECT 0, CAST(format('%016d', i) AS BLOB), zeroblob(16), 'a', 't', '{}', i % 10, 0, \
         CASE i % 3 WHEN 0 THEN 'pending' ELSE 'claimed' END, i, 0, i, i, 0, 0, '[]', 0 \
         FROM n WHERE ?1 > 0",
        [tasks],
    )
    .unwrap();
}

#[test]
fn every_statement_fits_the_schema() {
    let conn = migrated();
    for sql in every_statement() {
        if let Err(error) = conn.prepare(sql) {
            panic!("{sql}\n{error}");
        }
    }
    for sql in every_list() {
        conn.prepare(&sql).unwrap();
    }
}

#[test]
fn the_claim_reads_its_index_in_order_whatever_the_size() {
    for size in [0, 10, 1_000_000] {
        let conn = migrated();
        fill(&conn, size);
        conn.execute_batch("ANALYZE").unwrap();
        let found = plan(&conn, tasks::CLAIMABLE);
        assert!(
            found.contains("USING COVERING INDEX idx_durable_task_queue_pending (partition_key=? AND activity_type=?)"),
            "{size} tasks: {found}"
        );
        assert!(!found.contains("TEMP B-TREE"), "{size} tasks: {found}");
    }
}

#[test]
fn what_runs_all_the_time_searches_by_its_index_and_sorts_nothing() {
    let conn = migrated();
    let expected = [
        (runs::READY, "idx_durable_workflow_instances_ready"),
        (runs::DUE, "idx_durable_workflow_instances_deadline"),
        (runs::NEXT_DUE, "idx_durable_workflow_instances_deadline"),
        (tasks::DUE, "idx_durable_task_queue_timeout"),
        (tasks::NEXT_DUE, "idx_durable_task_queue_timeout"),
        (tasks::EXPIRED, "idx_durable_task_queue_claimed"),
        (tasks::LINE_HEAD, "idx_durable_task_queue_line"),
        (timers::DUE, "idx_durable_timers_due"),
        (timers::NEXT_DUE, "idx_durable_timers_due"),
        (outbox::DUE, "idx_durable_outbox_due"),
        (runs::OPEN_CHILDREN, "idx_durable_workflow_instances_parent"),
        (keys::OLD_TOMBSTONES, "idx_durable_keys_tombstones"),
        (schedules::DUE, "idx_durable_schedules_due"),
        (signals::MARK, "idx_durable_signals_pending"),
        (events::AFTER, "PRIMARY KEY"),
        (facts::OF_RUN, "PRIMARY KEY"),
        (messages::PICK, "PRIMARY KEY"),
    ];
    for (sql, index) in expected {
        let found = plan(&conn, sql);
        assert!(
            found.starts_with("SEARCH") && found.contains(index),
            "{sql}\n{found}"
        );
        assert!(!found.contains("TEMP B-TREE"), "{sql}\n{found}");
    }
}

#[test]
fn a_letter_is_looked_up_by_its_id() {
    let conn = migrated();
    for list in [dead_letters::LIST, dead_letters::PURGEABLE] {
        let sql = [list, dead_letters::OF_ID, dead_letters::PAGE].concat();
        let found = plan(&conn, &sql);
        assert!(
            found.contains("idx_durable_dlq_id (id=?)"),
            "{sql}\n{found}"
        );
    }
}

#[test]
fn deletions_search_by_an_index() {
    let conn = migrated();
    let rest = [
        purges::PURGEABLE,
        purges::DUE,
        purges::STUCK,
        purges::PAST_RUNS,
        purges::PAST_SIZE,
        purges::DELETE_PAST,
        purges::OLD_ROLLUPS,
    ];
    for sql in slices().into_iter().chain(rest) {
        let found = plan(&conn, sql);
        assert!(!found.contains("SCAN durable_"), "{sql}\n{found}");
        assert!(found.contains("SEARCH "), "{sql}\n{found}");
    }
    for sql in [purges::PURGEABLE, purges::DUE, purges::PAST_RUNS] {
        let found = plan(&conn, sql);
        assert!(!found.contains("TEMP B-TREE"), "{sql}\n{found}");
    }
}

#[test]
fn no_statement_reads_a_run_table_from_end_to_end_without_being_a_list() {
    let conn = migrated();
    let lists = [
        run_lists::ALL,
        counts::ALL,
        &[tasks::LIST, keys::LIST, runs::DISOWN],
    ]
    .concat();
    let single = [
        runs::ALL,
        tasks::ALL,
        events::ALL,
        facts::ALL,
        signals::ALL,
        messages::ALL,
    ]
    .concat();
    for sql in single.into_iter().filter(|sql| !lists.contains(sql)) {
        let found = plan(&conn, sql);
        assert!(!found.contains("SCAN durable_"), "{sql}\n{found}");
    }
}
