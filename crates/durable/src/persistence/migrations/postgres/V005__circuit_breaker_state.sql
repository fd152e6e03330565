-- Small tables by a key of their own: breakers, results recorded once, totals.

CREATE TABLE {s}.durable_circuit_breaker_state (
    key TEXT COLLATE "C" PRIMARY KEY,
    state TEXT COLLATE "C" NOT NULL CHECK (state IN ('closed', 'open', 'half_open')),
    failure_count BIGINT NOT NULL,
    success_count BIGINT NOT NULL,
    opened_at TIMESTAMPTZ,
    data BYTEA,
    version BIGINT NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL
);

CREATE TABLE {s}.durable_dedup (
    key TEXT COLLATE "C" PRIMARY KEY,
    result BYTEA,
    created_at TIMESTAMPTZ NOT NULL
);

-- Totals of one hour. Every committer adds to a slot of its own, so that two do not wait for one row; readers sum.
CREATE TABLE {s}.durable_rollups (
    partition_key INT NOT NULL,
    hour TIMESTAMPTZ NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    outcome TEXT COLLATE "C" NOT NULL,
    duration_exp SMALLINT NOT NULL,
    slot INT NOT NULL,
    count BIGINT NOT NULL,
    total_ms BIGINT NOT NULL,
    PRIMARY KEY (partition_key, hour, kind, name, outcome, duration_exp, slot)
) WITH (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0
);
