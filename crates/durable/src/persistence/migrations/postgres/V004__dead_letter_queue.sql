-- Activities that failed for good. A letter's id is its task's.

CREATE TABLE {s}.durable_dead_letter_queue (
    partition_key INT NOT NULL,
    id UUID NOT NULL,
    workflow_id UUID NOT NULL,
    activity_id TEXT COLLATE "C" NOT NULL,
    activity_type TEXT COLLATE "C" NOT NULL,
    input BYTEA,
    options BYTEA NOT NULL,
    epoch INT NOT NULL,
    attempts INT NOT NULL,
    -- The last failure, and every attempt's, as JSON.
    last_error BYTEA NOT NULL,
    error_history BYTEA NOT NULL,
    parked BOOLEAN NOT NULL,
    state TEXT COLLATE "C" NOT NULL CHECK (state IN ('dead', 'requeued', 'completed', 'discarded')),
    dead_at TIMESTAMPTZ NOT NULL,
    requeued_at TIMESTAMPTZ,
    requeue_count INT NOT NULL,
    PRIMARY KEY (partition_key, workflow_id, id)
);

-- Lists, newest death first.
CREATE INDEX durable_dead_letter_queue_dead_at
    ON {s}.durable_dead_letter_queue (partition_key, dead_at DESC, id, workflow_id);
