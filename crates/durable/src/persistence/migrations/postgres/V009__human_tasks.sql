-- People: what a run asks of them, and what they did.

CREATE TABLE {s}.durable_human_tasks (
    partition_key INT NOT NULL,
    workflow_id UUID NOT NULL,
    task_id TEXT COLLATE "C" NOT NULL,
    state TEXT COLLATE "C" NOT NULL,
    assignee TEXT,
    request BYTEA,
    answer BYTEA,
    decision TEXT,
    actor TEXT,
    due_at TIMESTAMPTZ,
    created_at TIMESTAMPTZ NOT NULL,
    decided_at TIMESTAMPTZ,
    PRIMARY KEY (partition_key, workflow_id, task_id)
);

CREATE INDEX durable_human_tasks_open
    ON {s}.durable_human_tasks (partition_key, state, created_at)
    WHERE decided_at IS NULL;

-- Append-only: who did what to what.
CREATE TABLE {s}.durable_audit (
    id UUID PRIMARY KEY,
    at TIMESTAMPTZ NOT NULL,
    actor TEXT NOT NULL,
    action TEXT NOT NULL,
    target_kind TEXT COLLATE "C" NOT NULL,
    target_id TEXT COLLATE "C" NOT NULL,
    outcome TEXT COLLATE "C" NOT NULL,
    detail BYTEA
);

CREATE INDEX durable_audit_at ON {s}.durable_audit (at);
CREATE INDEX durable_audit_target ON {s}.durable_audit (target_kind, target_id, at);
