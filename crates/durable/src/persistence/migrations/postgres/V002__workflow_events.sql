-- The history of each run: append-only, one key, no other index.

CREATE TABLE {s}.durable_workflow_events (
    partition_key INT NOT NULL,
    workflow_id UUID NOT NULL,
    sequence_num BIGINT NOT NULL,
    event_type TEXT COLLATE "C" NOT NULL,
    -- A small JSON object; the event's payload, if its kind has one, stands beside it.
    event_data BYTEA NOT NULL,
    payload BYTEA,
    created_at TIMESTAMPTZ NOT NULL,
    trace_id TEXT,
    span_id TEXT,
    PRIMARY KEY (partition_key, workflow_id, sequence_num)
) WITH (
    -- Nothing is updated; freeze and visibility map by inserts, deletes by retention only.
    autovacuum_vacuum_insert_scale_factor = 0.1,
    autovacuum_analyze_scale_factor = 0.1
);
