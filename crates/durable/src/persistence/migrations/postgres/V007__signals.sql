-- What reaches a run from outside: the inbox, and the ledgers that make sending twice one sending.

-- Facts that wait for their turn, by number of arrival.
CREATE TABLE {s}.durable_inbox (
    partition_key INT NOT NULL,
    workflow_id UUID NOT NULL,
    arrival BIGINT NOT NULL,
    event_type TEXT COLLATE "C" NOT NULL,
    event_data BYTEA NOT NULL,
    payload BYTEA,
    -- Attempts of the activity that ended, as JSON; NULL is none.
    attempts BYTEA,
    last_attempt BYTEA,
    arrived_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (partition_key, workflow_id, arrival)
) WITH (
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0
);

-- sequence_num is the number of arrival.
CREATE TABLE {s}.durable_signals (
    partition_key INT NOT NULL,
    workflow_id UUID NOT NULL,
    id UUID NOT NULL,
    signal_type TEXT NOT NULL,
    payload BYTEA,
    sequence_num BIGINT NOT NULL,
    sent_at TIMESTAMPTZ NOT NULL,
    processed_at TIMESTAMPTZ,
    PRIMARY KEY (partition_key, workflow_id, id)
);

-- A turn marks what it took by arrival.
CREATE INDEX durable_signals_pending
    ON {s}.durable_signals (partition_key, workflow_id, sequence_num)
    WHERE processed_at IS NULL;

CREATE TABLE {s}.durable_updates (
    partition_key INT NOT NULL,
    workflow_id UUID NOT NULL,
    update_id TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    input BYTEA,
    sequence_num BIGINT NOT NULL,
    state TEXT COLLATE "C" NOT NULL CHECK (state IN ('pending', 'completed', 'failed')),
    result BYTEA,
    error BYTEA,
    created_at TIMESTAMPTZ NOT NULL,
    completed_at TIMESTAMPTZ,
    PRIMARY KEY (partition_key, workflow_id, update_id)
);
