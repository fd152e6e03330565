//! Schedules: `durable_schedules`.

use crate::persistence::postgres::statement::{Statement, statements};

/// A whole schedule, in the order in which `rows::schedules::record` reads it.
macro_rules! schedule_columns {
    () => {
        "id, workflow_type, version, input, cron, time_zone, overlap, catchup_window_ms, paused, \
         next_fire_at, last_fire_at, last_run, created_at, updated_at"
    };
}

/// What a list or a look at what is due reads of a schedule: the same without its input.
macro_rules! listed_schedule_columns {
    () => {
        "id, workflow_type, version, NULL::bytea, cron, time_zone, overlap, catchup_window_ms, paused, \
         next_fire_at, last_fire_at, last_run, created_at, updated_at"
    };
}

statements! {
    /// Locks schedules. Primary key; locks in its order.
    LOCK_SCHEDULES [TEXT_ARRAY] = concat!("
        SELECT ", schedule_columns!(), "
        FROM {s}.durable_schedules
        WHERE id = ANY($1)
        ORDER BY id
        FOR UPDATE");

    /// Writes schedules that a tick changed, all of them.
    PUT_SCHEDULES [TEXT_ARRAY, TEXT_ARRAY, TEXT_ARRAY, BYTEA_ARRAY, TEXT_ARRAY, TEXT_ARRAY, TEXT_ARRAY,
                   INT8_ARRAY, BOOL_ARRAY, TIMESTAMPTZ_ARRAY, TIMESTAMPTZ_ARRAY, UUID_ARRAY,
                   TIMESTAMPTZ_ARRAY, TIMESTAMPTZ_ARRAY] = concat!("
        INSERT INTO {s}.durable_schedules (", schedule_columns!(), ")
        SELECT unnest($1), unnest($2), unnest($3), unnest($4), unnest($5), unnest($6), unnest($7), unnest($8),
               unnest($9), unnest($10), unnest($11), unnest($12), unnest($13), unnest($14)
        ON CONFLICT (id) DO UPDATE
        SET workflow_type = excluded.workflow_type, version = excluded.version,
            input = excluded.input, cron = excluded.cron, time_zone = excluded.time_zone,
            overlap = excluded.overlap, catchup_window_ms = excluded.catchup_window_ms,
            paused = excluded.paused, next_fire_at = excluded.next_fire_at,
            last_fire_at = excluded.last_fire_at, last_run = excluded.last_run,
            updated_at = excluded.updated_at");

    /// Creates or replaces a schedule; what its ticks have left there is kept.
    REPLACE_SCHEDULE [TEXT_ARRAY, TEXT_ARRAY, TEXT_ARRAY, BYTEA_ARRAY, TEXT_ARRAY, TEXT_ARRAY, TEXT_ARRAY,
                      INT8_ARRAY, BOOL_ARRAY, TIMESTAMPTZ_ARRAY, TIMESTAMPTZ_ARRAY, UUID_ARRAY,
                      TIMESTAMPTZ_ARRAY, TIMESTAMPTZ_ARRAY] = concat!("
        INSERT INTO {s}.durable_schedules (", schedule_columns!(), ")
        SELECT unnest($1), unnest($2), unnest($3), unnest($4), unnest($5), unnest($6), unnest($7), unnest($8),
               unnest($9), unnest($10), unnest($11), unnest($12), unnest($13), unnest($14)
        ON CONFLICT (id) DO UPDATE
        SET workflow_type = excluded.workflow_type, version = excluded.version,
            input = excluded.input, cron = excluded.cron, time_zone = excluded.time_zone,
            overlap = excluded.overlap, catchup_window_ms = excluded.catchup_window_ms,
            paused = excluded.paused, next_fire_at = excluded.next_fire_at,
            updated_at = excluded.updated_at");

    /// Creates a schedule unless there is one.
    CREATE_SCHEDULE [TEXT_ARRAY, TEXT_ARRAY, TEXT_ARRAY, BYTEA_ARRAY, TEXT_ARRAY, TEXT_ARRAY, TEXT_ARRAY,
                     INT8_ARRAY, BOOL_ARRAY, TIMESTAMPTZ_ARRAY, TIMESTAMPTZ_ARRAY, UUID_ARRAY,
                     TIMESTAMPTZ_ARRAY, TIMESTAMPTZ_ARRAY] = concat!("
        INSERT INTO {s}.durable_schedules (", schedule_columns!(), ")
        SELECT unnest($1), unnest($2), unnest($3), unnest($4), unnest($5), unnest($6), unnest($7), unnest($8),
               unnest($9), unnest($10), unnest($11), unnest($12), unnest($13), unnest($14)
        ON CONFLICT (id) DO NOTHING
        RETURNING id");

    /// A schedule. Primary key.
    READ_SCHEDULE [TEXT] = concat!("
        SELECT ", schedule_columns!(), "
        FROM {s}.durable_schedules
        WHERE id = $1");

    /// A page of schedules. Primary key, in its order.
    LIST_SCHEDULES [TEXT, INT8, INT8] = concat!("
        SELECT ", listed_schedule_columns!(), "
        FROM {s}.durable_schedules
        WHERE $1 IS NULL OR id > $1
        ORDER BY id
        LIMIT $2 OFFSET $3");

    /// Deletes a schedule. Primary key.
    DELETE_SCHEDULE [TEXT] = "
        DELETE FROM {s}.durable_schedules
        WHERE id = $1
        RETURNING id";

    /// Schedules that are due, without their inputs. Index `due`, in its order.
    DUE_SCHEDULES [TIMESTAMPTZ, INT8] = concat!("
        SELECT ", listed_schedule_columns!(), "
        FROM {s}.durable_schedules
        WHERE NOT paused AND next_fire_at <= (SELECT COALESCE($1, clock_timestamp()))
        ORDER BY next_fire_at, id
        LIMIT $2");

    /// All schedules.
    DUMP_SCHEDULES [] for Proof = concat!("
        SELECT ", schedule_columns!(), "
        FROM {s}.durable_schedules");
}
