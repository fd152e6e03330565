//! Dead letters: `durable_dead_letter_queue`.

use crate::persistence::postgres::statement::{Statement, statements};

/// A whole letter, in the order in which `rows::letters::record` reads it.
macro_rules! letter_columns {
    () => {
        "t.id, t.workflow_id, t.activity_id, t.activity_type, t.input, t.options, t.epoch, t.attempts, \
         t.last_error, t.error_history, t.parked, t.state, t.dead_at, t.requeued_at, t.requeue_count"
    };
}
pub(in crate::persistence::postgres) use letter_columns;

/// What a list shows of a letter, in the order in which `rows::letters::listed` reads it: no input,
/// no attempts, and of the last error only its head, which is all that is taken out of TOAST.
macro_rules! listed_letter_columns {
    () => {
        "t.id, t.workflow_id, t.activity_id, t.activity_type, t.options, t.epoch, t.attempts, \
         substring(t.last_error FROM 1 FOR 12288), t.parked, t.state, t.dead_at, t.requeued_at, \
         t.requeue_count"
    };
}
pub(in crate::persistence::postgres) use listed_letter_columns;

/// What a letter changes of a stored one.
macro_rules! letter_again {
    () => {
        "
        ON CONFLICT (partition_key, workflow_id, id) DO UPDATE
        SET activity_id = excluded.activity_id, activity_type = excluded.activity_type,
            input = excluded.input, options = excluded.options, epoch = excluded.epoch,
            attempts = excluded.attempts, last_error = excluded.last_error,
            error_history = excluded.error_history, parked = excluded.parked,
            state = excluded.state, dead_at = excluded.dead_at,
            requeued_at = COALESCE(excluded.requeued_at, t.requeued_at),
            requeue_count = excluded.requeue_count"
    };
}

statements! {
    /// Letters by run and id; the run's lock keeps them as they are. Primary key.
    READ_LETTERS [INT4, UUID_ARRAY, UUID_ARRAY] = concat!("
        SELECT ", letter_columns!(), "
        FROM (SELECT $1 AS shard, unnest($2) AS workflow_id, unnest($3) AS id OFFSET 0) AS k
        JOIN {s}.durable_dead_letter_queue AS t
          ON t.partition_key = ANY(ARRAY[k.shard]) AND t.workflow_id = k.workflow_id AND t.id = k.id
        ORDER BY t.workflow_id, t.id
        FOR UPDATE OF t");

    /// Writes letters; when a stored one was put back is kept unless the new one says so itself.
    PUT_LETTERS [INT4, UUID_ARRAY, UUID_ARRAY, TEXT_ARRAY, TEXT_ARRAY, BYTEA_ARRAY, BYTEA_ARRAY, INT4_ARRAY,
                 INT4_ARRAY, BYTEA_ARRAY, BYTEA_ARRAY, BOOL_ARRAY, TEXT_ARRAY, TIMESTAMPTZ_ARRAY,
                 TIMESTAMPTZ_ARRAY, INT4_ARRAY] = concat!("
        INSERT INTO {s}.durable_dead_letter_queue AS t
            (partition_key, id, workflow_id, activity_id, activity_type, input, options, epoch,
             attempts, last_error, error_history, parked, state, dead_at, requeued_at, requeue_count)
        SELECT $1, unnest($2), unnest($3), unnest($4), unnest($5), unnest($6), unnest($7), unnest($8), unnest($9),
               unnest($10), unnest($11), unnest($12), unnest($13), unnest($14), unnest($15), unnest($16)", letter_again!());

    /// Writes letters of queued tasks, whose inputs move inside the database. Primary keys; the
    /// tasks or their runs are locked, so that each task is there.
    BURY_TASKS [INT4, UUID_ARRAY, UUID_ARRAY, TEXT_ARRAY, TEXT_ARRAY, BYTEA_ARRAY, INT4_ARRAY, INT4_ARRAY,
                BYTEA_ARRAY, BYTEA_ARRAY, BOOL_ARRAY, TEXT_ARRAY, TIMESTAMPTZ_ARRAY, TIMESTAMPTZ_ARRAY,
                INT4_ARRAY] = concat!("
        INSERT INTO {s}.durable_dead_letter_queue AS t
            (partition_key, id, workflow_id, activity_id, activity_type, input, options, epoch,
             attempts, last_error, error_history, parked, state, dead_at, requeued_at, requeue_count)
        SELECT k.shard, k.id, k.workflow_id, k.activity_id, k.activity_type, q.input, k.options, k.epoch,
               k.attempts, k.last_error, k.error_history, k.parked, k.state, k.dead_at, k.requeued_at,
               k.requeue_count
        FROM (SELECT $1 AS shard, unnest($2) AS id, unnest($3) AS workflow_id, unnest($4) AS activity_id,
                     unnest($5) AS activity_type, unnest($6) AS options, unnest($7) AS epoch,
                     unnest($8) AS attempts, unnest($9) AS last_error, unnest($10) AS error_history,
                     unnest($11) AS parked, unnest($12) AS state, unnest($13) AS dead_at,
                     unnest($14) AS requeued_at, unnest($15) AS requeue_count
              OFFSET 0) AS k
        JOIN {s}.durable_task_queue AS q
          ON q.partition_key = ANY(ARRAY[k.shard]) AND q.workflow_id = k.workflow_id AND q.id = k.id", letter_again!());
}
