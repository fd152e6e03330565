//! Schedules.

/// All columns, in the order in which a schedule is read and written.
macro_rules! schedule_columns {
    () => {
        "id, workflow_type, version, input, cron, time_zone, overlap, catchup_window_ms, paused, \
         next_fire_at, last_fire_at, last_run, created_at, updated_at"
    };
}

/// What a list or a look at what is due reads of a schedule: the same without its input.
macro_rules! listed_schedule_columns {
    () => {
        "id, workflow_type, version, NULL, cron, time_zone, overlap, catchup_window_ms, paused, \
         next_fire_at, last_fire_at, last_run, created_at, updated_at"
    };
}

/// Inserts a schedule.
macro_rules! insert_schedule {
    () => {
        concat!(
            "INSERT INTO durable_schedules (",
            schedule_columns!(),
            ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO "
        )
    };
}

/// Inserts a schedule, or replaces what a user says about it.
macro_rules! put_schedule {
    () => {
        concat!(
            insert_schedule!(),
            "UPDATE SET \
             workflow_type = excluded.workflow_type, version = excluded.version, \
             input = excluded.input, cron = excluded.cron, time_zone = excluded.time_zone, \
             overlap = excluded.overlap, catchup_window_ms = excluded.catchup_window_ms, \
             paused = excluded.paused, next_fire_at = excluded.next_fire_at, \
             updated_at = excluded.updated_at"
        )
    };
}

statements! {
    /// A user's word: the past of a schedule that exists is kept.
    PUT = put_schedule!();
    /// Unless there is one.
    CREATE = concat!(insert_schedule!(), "NOTHING");
    /// A fire: the past changes too.
    PUT_FIRED = concat!(
        put_schedule!(), ", last_fire_at = excluded.last_fire_at, last_run = excluded.last_run"
    );
    /// One schedule.
    GET = concat!("SELECT ", schedule_columns!(), " FROM durable_schedules WHERE id = ?1");
    /// All of them.
    DUMP for Proof = concat!("SELECT ", schedule_columns!(), " FROM durable_schedules ORDER BY id");
    /// A page, without inputs.
    LIST = concat!(
        "SELECT ", listed_schedule_columns!(), " FROM durable_schedules WHERE ?1 IS NULL OR id > ?1 \
         ORDER BY id LIMIT ?2 OFFSET ?3"
    );
    /// Those that fire now, without inputs; by index `due`.
    DUE = concat!(
        "SELECT ", listed_schedule_columns!(), " FROM durable_schedules \
         WHERE paused = 0 AND next_fire_at <= ?1 ORDER BY next_fire_at, id LIMIT ?2"
    );
    /// Forgets one.
    DELETE = "DELETE FROM durable_schedules WHERE id = ?1";
}
