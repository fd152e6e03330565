-- For people: what waits for them, what they did, which versions they deployed. The statements on these tables come with the features.

CREATE TABLE durable_human_tasks (
    partition_key INTEGER NOT NULL,
    workflow_id   BLOB    NOT NULL,
    task_id       TEXT    NOT NULL,
    status        TEXT    NOT NULL, -- open, approved, rejected, expired, cancelled
    assignee      TEXT,
    role          TEXT,
    request       BLOB,
    decision      TEXT,
    actor         TEXT,
    answer        BLOB,
    due_at        INTEGER,
    created_at    INTEGER NOT NULL,
    decided_at    INTEGER,
    PRIMARY KEY (partition_key, workflow_id, task_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX idx_durable_human_tasks_open
    ON durable_human_tasks (role, created_at, workflow_id, task_id)
    WHERE status = 'open';

CREATE TABLE durable_audit (
    id          BLOB    NOT NULL PRIMARY KEY,
    actor       TEXT    NOT NULL,
    action      TEXT    NOT NULL,
    subject     TEXT    NOT NULL,
    workflow_id BLOB,
    details     BLOB,
    created_at  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX idx_durable_audit_workflow ON durable_audit (workflow_id, id) WHERE workflow_id IS NOT NULL;

CREATE TABLE durable_workflow_versions (
    workflow_type TEXT    NOT NULL,
    version       TEXT    NOT NULL,
    state         TEXT    NOT NULL, -- active, draining, disabled
    share         REAL    NOT NULL, -- of new runs
    created_at    INTEGER NOT NULL,
    updated_at    INTEGER NOT NULL,
    PRIMARY KEY (workflow_type, version)
) STRICT, WITHOUT ROWID;
