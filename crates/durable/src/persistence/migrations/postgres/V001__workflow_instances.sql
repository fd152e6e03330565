-- Runs, one row each; and what fixes the shape of the database.
--
-- {s} is the schema, put in when the file is run. partition_key leads every key of a run's tables:
-- a fixed hash of the run's id over the number of shards in durable_meta. Text that is a key or is ordered by
-- has collation C: the order of bytes, the same on every store and whatever the database's locale.

CREATE TABLE {s}.durable_meta (
    key TEXT COLLATE "C" PRIMARY KEY,
    value TEXT NOT NULL
);

CREATE TABLE {s}.durable_workflow_instances (
    partition_key INT NOT NULL,
    id UUID NOT NULL,
    workflow_type TEXT COLLATE "C" NOT NULL,
    version TEXT COLLATE "C" NOT NULL,
    business_id TEXT COLLATE "C",
    idempotency_key TEXT COLLATE "C",
    fingerprint BIGINT NOT NULL,
    status TEXT COLLATE "C" NOT NULL CHECK (status IN ('pending', 'running', 'completed', 'failed', 'cancelled')),

    -- Payloads are JSON text or a codec's output; NULL is the absent payload.
    input BYTEA,
    result BYTEA,
    error BYTEA,
    memo BYTEA,

    parent_id UUID,
    parent_child_id TEXT,
    parent_epoch INT,
    parent_iteration INT,
    parent_close_policy TEXT,
    has_children BOOLEAN NOT NULL,

    sequence_num BIGINT NOT NULL,
    history_start BIGINT NOT NULL,
    iteration INT NOT NULL,
    epoch INT NOT NULL,
    arrivals BIGINT NOT NULL,
    consumed BIGINT NOT NULL,
    last_turn UUID,
    ready_at TIMESTAMPTZ,
    owner_id TEXT,
    owner_expires_at TIMESTAMPTZ,
    blocked_build TEXT,
    blocked_reason TEXT,
    task_count INT NOT NULL DEFAULT 0,
    line_count INT NOT NULL DEFAULT 0,

    execution_deadline TIMESTAMPTZ,
    run_deadline TIMESTAMPTZ,
    -- The earlier of the two while the run has not ended.
    deadline_at TIMESTAMPTZ,
    run_timeout_ms BIGINT,

    created_at TIMESTAMPTZ NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL,
    started_at TIMESTAMPTZ,
    completed_at TIMESTAMPTZ,

    trace_id TEXT,
    span_id TEXT,
    trace_flags SMALLINT,

    PRIMARY KEY (partition_key, id)
) WITH (
    -- Room on the page: a turn that leaves ready_at, deadline and status alone is a HOT update.
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_analyze_scale_factor = 0.05,
    autovacuum_vacuum_cost_delay = 0
);

-- claim_turns: longest ready first, by hosted type and version.
CREATE INDEX durable_workflow_instances_ready
    ON {s}.durable_workflow_instances (partition_key, workflow_type, version, ready_at, id)
    WHERE ready_at IS NOT NULL;

-- fire_due: deadlines in order.
CREATE INDEX durable_workflow_instances_deadline
    ON {s}.durable_workflow_instances (partition_key, deadline_at, id)
    WHERE deadline_at IS NOT NULL;

-- Lists and counts by status; completed runs are the mass and are found by their key.
CREATE INDEX durable_workflow_instances_status
    ON {s}.durable_workflow_instances (partition_key, status, id)
    WHERE status <> 'completed';

CREATE INDEX durable_workflow_instances_business
    ON {s}.durable_workflow_instances (partition_key, business_id, id)
    WHERE business_id IS NOT NULL;

CREATE INDEX durable_workflow_instances_parent
    ON {s}.durable_workflow_instances (partition_key, parent_id, id)
    WHERE parent_id IS NOT NULL;

-- Retention.
CREATE INDEX durable_workflow_instances_completed
    ON {s}.durable_workflow_instances (partition_key, completed_at)
    WHERE completed_at IS NOT NULL;

-- Typed columns, so that a filter on a search attribute is an index look-up and 1 is not "1".
CREATE TABLE {s}.durable_search_attributes (
    partition_key INT NOT NULL,
    workflow_id UUID NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    kind TEXT COLLATE "C" NOT NULL CHECK (kind IN ('text', 'int', 'double', 'bool', 'time')),
    value_text TEXT COLLATE "C",
    value_int BIGINT,
    value_double DOUBLE PRECISION,
    value_bool BOOLEAN,
    value_time TIMESTAMPTZ,
    PRIMARY KEY (partition_key, workflow_id, name)
);

CREATE INDEX durable_search_attributes_text
    ON {s}.durable_search_attributes (partition_key, name, value_text, workflow_id)
    WHERE value_text IS NOT NULL;
CREATE INDEX durable_search_attributes_int
    ON {s}.durable_search_attributes (partition_key, name, value_int, workflow_id)
    WHERE value_int IS NOT NULL;
CREATE INDEX durable_search_attributes_double
    ON {s}.durable_search_attributes (partition_key, name, value_double, workflow_id)
    WHERE value_double IS NOT NULL;
CREATE INDEX durable_search_attributes_bool
    ON {s}.durable_search_attributes (partition_key, name, value_bool, workflow_id)
    WHERE value_bool IS NOT NULL;
CREATE INDEX durable_search_attributes_time
    ON {s}.durable_search_attributes (partition_key, name, value_time, workflow_id)
    WHERE value_time IS NOT NULL;

-- Uniqueness that is not by run, sharded by the key itself. run_id is NULL only inside the
-- transaction that reserves the key.
CREATE TABLE {s}.durable_keys (
    partition_key INT NOT NULL,
    kind TEXT COLLATE "C" NOT NULL CHECK (kind IN ('idempotency', 'business', 'cron_slot', 'tombstone')),
    key TEXT COLLATE "C" NOT NULL,
    run_id UUID,
    created_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (partition_key, kind, key)
);

CREATE INDEX durable_keys_tombstones
    ON {s}.durable_keys (partition_key, created_at, key)
    WHERE kind = 'tombstone';

-- Which versions of a workflow type exist and where new runs go.
CREATE TABLE {s}.durable_workflow_versions (
    workflow_type TEXT COLLATE "C" NOT NULL,
    version TEXT COLLATE "C" NOT NULL,
    is_default BOOLEAN NOT NULL DEFAULT FALSE,
    created_at TIMESTAMPTZ NOT NULL,
    retired_at TIMESTAMPTZ,
    metadata BYTEA,
    PRIMARY KEY (workflow_type, version)
);
