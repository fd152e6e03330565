-- What leaves a run: messages to other runs, events for the outside, log lines.

-- In the sender's shard and commit; a relay delivers and deletes.
CREATE TABLE {s}.durable_messages (
    partition_key INT NOT NULL,
    sender UUID NOT NULL,
    sequence_num BIGINT NOT NULL,
    idx INT NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    -- The message as JSON without its payloads, which stand beside it.
    data BYTEA NOT NULL,
    payload BYTEA,
    memo BYTEA,
    PRIMARY KEY (partition_key, sender, sequence_num, idx)
) WITH (
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0
);

CREATE TABLE {s}.durable_outbox (
    partition_key INT NOT NULL,
    workflow_id UUID NOT NULL,
    id UUID NOT NULL,
    event_type TEXT COLLATE "C" NOT NULL,
    payload BYTEA,
    idempotency_key TEXT COLLATE "C",
    state TEXT COLLATE "C" NOT NULL CHECK (state IN ('pending', 'in_flight', 'published', 'failed')),
    attempts INT NOT NULL,
    available_at TIMESTAMPTZ NOT NULL,
    token UUID,
    last_error TEXT,
    created_at TIMESTAMPTZ NOT NULL,
    published_at TIMESTAMPTZ,
    PRIMARY KEY (partition_key, workflow_id, id)
);

-- claim_outbox.
CREATE INDEX durable_outbox_open
    ON {s}.durable_outbox (partition_key, available_at, id, workflow_id)
    WHERE state IN ('pending', 'in_flight');

CREATE TABLE {s}.durable_step_logs (
    partition_key INT NOT NULL,
    workflow_id UUID NOT NULL,
    id UUID NOT NULL,
    activity_id TEXT COLLATE "C" NOT NULL,
    attempt INT NOT NULL,
    level TEXT NOT NULL,
    message TEXT NOT NULL,
    meta BYTEA,
    created_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (partition_key, workflow_id, id)
);
