//! Dead letters.

/// All columns of a dead letter, in the order in which it is read and written.
macro_rules! letter_columns {
    () => {
        "id, workflow_id, activity_id, activity_type, input, options, epoch, attempts, last_error, \
         error_history, parked, state, dead_at, requeued_at, requeue_count"
    };
}

/// Writes a letter with this input; when it was last put back is not forgotten.
macro_rules! put_letter {
    ($input:literal) => {
        concat!(
            "INSERT INTO durable_dead_letter_queue (", letter_columns!(), ", partition_key) \
             VALUES (?1, ?2, ?3, ?4, ", $input, ", ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16) \
             ON CONFLICT DO UPDATE SET \
             activity_id = excluded.activity_id, activity_type = excluded.activity_type, \
             input = excluded.input, options = excluded.options, epoch = excluded.epoch, \
             attempts = excluded.attempts, last_error = excluded.last_error, \
             error_history = excluded.error_history, parked = excluded.parked, state = excluded.state, \
             dead_at = excluded.dead_at, requeued_at = coalesce(excluded.requeued_at, requeued_at), \
             requeue_count = excluded.requeue_count"
        )
    };
}

statements! {
    /// A changed letter.
    PUT = put_letter!("?5");
    /// The letter of a queued task, which has its input.
    BURY = put_letter!(
        "(SELECT q.input FROM durable_task_queue AS q \
          WHERE q.partition_key = ?16 AND q.workflow_id = ?2 AND q.id = ?1)"
    );
    /// One letter.
    GET = concat!(
        "SELECT ", letter_columns!(), " FROM durable_dead_letter_queue \
         WHERE partition_key = ?1 AND workflow_id = ?2 AND id = ?3"
    );
    /// A letter leaves.
    DELETE =
        "DELETE FROM durable_dead_letter_queue \
         WHERE partition_key = ?1 AND workflow_id = ?2 AND id = ?3";
    /// All letters of a run.
    OF_RUN = concat!(
        "SELECT ", letter_columns!(), " FROM durable_dead_letter_queue \
         WHERE partition_key = ?1 AND workflow_id = ?2 ORDER BY id"
    );
    /// All letters.
    DUMP for Proof = concat!(
        "SELECT ", letter_columns!(), " FROM durable_dead_letter_queue ORDER BY id, workflow_id"
    );
    /// A letter by its id alone.
    BY_ID = concat!(
        "SELECT ", letter_columns!(), " FROM durable_dead_letter_queue WHERE id = ?1 \
         ORDER BY dead_at DESC, workflow_id LIMIT 1"
    );
    /// Letters of all shards without payloads; of the last error only its head. Conditions follow.
    LIST for List =
        "SELECT id, workflow_id, activity_id, activity_type, options, epoch, attempts, \
         substr(last_error, 1, 12288), parked, state, dead_at, requeued_at, requeue_count \
         FROM durable_dead_letter_queue WHERE TRUE";
    /// Letters for which no run waits; conditions follow.
    PURGEABLE for List =
        "SELECT workflow_id, id FROM durable_dead_letter_queue AS d \
         WHERE NOT (parked = 1 AND state = 'dead' AND EXISTS (SELECT 1 FROM durable_task_queue AS t \
         WHERE t.partition_key = d.partition_key AND t.workflow_id = d.workflow_id AND t.id = d.id))";
}

pub(crate) const OF_ID: &str = " AND id = ?";
/// Shard and id of a run.
pub(crate) const OF_RUN_ID: &str = " AND partition_key = ? AND workflow_id = ?";
pub(crate) const OF_TYPE: &str = " AND activity_type = ?";
pub(crate) const IN_STATE: &str = " AND state = ?";
pub(crate) const DEAD_BEFORE: &str = " AND dead_at < ?";
/// When, again, id and run of the letter behind which to go on.
pub(crate) const AFTER: &str = " AND dead_at <= ? AND (dead_at < ? OR (id, workflow_id) > (?, ?))";
pub(crate) const PAGE: &str = " ORDER BY dead_at DESC, id, workflow_id LIMIT ? OFFSET ?";
