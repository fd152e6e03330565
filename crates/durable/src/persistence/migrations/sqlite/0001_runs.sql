-- Runs and their histories.
-- Ids are 16-byte blobs, instants are microseconds since 1970, payloads are bytes (NULL: none), `*_data`, options and errors are JSON text.

CREATE TABLE durable_meta (
    key   TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Rows hold payloads and may be large, so that the table has a rowid and the key is an index beside it.
CREATE TABLE durable_workflow_instances (
    partition_key       INTEGER NOT NULL,
    id                  BLOB    NOT NULL,
    workflow_type       TEXT    NOT NULL,
    version             TEXT    NOT NULL,
    business_id         TEXT,
    idempotency_key     TEXT,
    fingerprint         INTEGER NOT NULL,
    status              TEXT    NOT NULL, -- pending, running, completed, failed, cancelled
    input               BLOB,
    result              BLOB,
    error               TEXT,
    memo                BLOB,
    trace_id            TEXT,
    span_id             TEXT,
    trace_flags         INTEGER,
    parent_id           BLOB,
    parent_child_id     TEXT,
    parent_epoch        INTEGER,
    parent_iteration    INTEGER,
    parent_close_policy TEXT,             -- cancel, terminate, abandon
    has_children        INTEGER NOT NULL,
    sequence            INTEGER NOT NULL,
    history_start       INTEGER NOT NULL,
    iteration           INTEGER NOT NULL,
    epoch               INTEGER NOT NULL,
    arrivals            INTEGER NOT NULL,
    consumed            INTEGER NOT NULL,
    last_turn           BLOB,
    ready_at            INTEGER,
    owner               TEXT,
    owner_expires_at    INTEGER,
    blocked_build       TEXT,
    blocked_reason      TEXT,
    execution_deadline  INTEGER,
    run_deadline        INTEGER,
    run_timeout_ms      INTEGER,
    deadline_at         INTEGER,          -- the earlier deadline while the run has not ended
    created_at          INTEGER NOT NULL,
    updated_at          INTEGER NOT NULL,
    started_at          INTEGER,
    completed_at        INTEGER,
    task_count          INTEGER NOT NULL,
    line_count          INTEGER NOT NULL,
    PRIMARY KEY (partition_key, id)
) STRICT;

-- claim_turns: what has a turn due, by type; the owner and the build are looked at without touching the row.
CREATE INDEX idx_durable_workflow_instances_ready
    ON durable_workflow_instances (partition_key, workflow_type, version, ready_at, id, owner_expires_at, blocked_build)
    WHERE ready_at IS NOT NULL;

CREATE INDEX idx_durable_workflow_instances_deadline
    ON durable_workflow_instances (partition_key, deadline_at, id)
    WHERE deadline_at IS NOT NULL;

-- purge_runs.
CREATE INDEX idx_durable_workflow_instances_completed
    ON durable_workflow_instances (partition_key, completed_at, id)
    WHERE completed_at IS NOT NULL;

-- Lists of all shards, newest first.
CREATE UNIQUE INDEX idx_durable_workflow_instances_id ON durable_workflow_instances (id);
CREATE INDEX idx_durable_workflow_instances_status ON durable_workflow_instances (status, id);
CREATE INDEX idx_durable_workflow_instances_type ON durable_workflow_instances (workflow_type, id);

CREATE INDEX idx_durable_workflow_instances_business
    ON durable_workflow_instances (business_id, id)
    WHERE business_id IS NOT NULL;

CREATE INDEX idx_durable_workflow_instances_parent
    ON durable_workflow_instances (parent_id, id)
    WHERE parent_id IS NOT NULL;

CREATE INDEX idx_durable_workflow_instances_blocked
    ON durable_workflow_instances (id)
    WHERE blocked_build IS NOT NULL;

-- Voided when the file is opened.
CREATE INDEX idx_durable_workflow_instances_owned
    ON durable_workflow_instances (partition_key, id)
    WHERE owner IS NOT NULL;

-- Append-only; the key is the table, so that a history is read in one sweep.
CREATE TABLE durable_workflow_events (
    partition_key INTEGER NOT NULL,
    workflow_id   BLOB    NOT NULL,
    sequence_num  INTEGER NOT NULL,
    event_type    TEXT    NOT NULL,
    event_data    TEXT    NOT NULL,
    payload       BLOB,
    created_at    INTEGER NOT NULL,
    PRIMARY KEY (partition_key, workflow_id, sequence_num)
) STRICT, WITHOUT ROWID;

-- One value of any type; `value_type` keeps 1, '1', 1.0 and true apart.
CREATE TABLE durable_search_attributes (
    partition_key INTEGER NOT NULL,
    workflow_id   BLOB    NOT NULL,
    name          TEXT    NOT NULL,
    value_type    TEXT    NOT NULL, -- text, int, double, bool, time
    value         ANY     NOT NULL,
    PRIMARY KEY (partition_key, workflow_id, name)
) STRICT, WITHOUT ROWID;

CREATE INDEX idx_durable_search_attributes_value
    ON durable_search_attributes (name, value_type, value, workflow_id);
