-- What reaches a run from outside, and what runs tell each other.

CREATE TABLE durable_inbox (
    partition_key INTEGER NOT NULL,
    workflow_id   BLOB    NOT NULL,
    arrival       INTEGER NOT NULL,
    event_type    TEXT    NOT NULL,
    event_data    TEXT    NOT NULL,
    payload       BLOB,
    attempts      TEXT    NOT NULL, -- failed ones before the end of an activity, JSON
    last_attempt  TEXT,             -- the one that ended it, JSON
    arrived_at    INTEGER NOT NULL,
    PRIMARY KEY (partition_key, workflow_id, arrival)
) STRICT, WITHOUT ROWID;

-- `sequence_num` is the arrival number: the run's own counter, never a global one.
CREATE TABLE durable_signals (
    partition_key INTEGER NOT NULL,
    workflow_id   BLOB    NOT NULL,
    id            BLOB    NOT NULL,
    signal_type   TEXT    NOT NULL,
    payload       BLOB,
    sequence_num  INTEGER NOT NULL,
    sent_at       INTEGER NOT NULL,
    processed_at  INTEGER,
    PRIMARY KEY (partition_key, workflow_id, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX idx_durable_signals_pending
    ON durable_signals (partition_key, workflow_id, sequence_num)
    WHERE processed_at IS NULL;

CREATE TABLE durable_updates (
    partition_key INTEGER NOT NULL,
    workflow_id   BLOB    NOT NULL,
    update_id     TEXT    NOT NULL,
    name          TEXT    NOT NULL,
    input         BLOB,
    arrival       INTEGER NOT NULL,
    state         TEXT    NOT NULL, -- pending, completed, failed
    result        BLOB,
    error         TEXT,
    created_at    INTEGER NOT NULL,
    completed_at  INTEGER,
    PRIMARY KEY (partition_key, workflow_id, update_id)
) STRICT, WITHOUT ROWID;

-- In the sender's shard and commit. The payloads are kept beside the message, byte for byte.
CREATE TABLE durable_messages (
    partition_key INTEGER NOT NULL,
    sender        BLOB    NOT NULL,
    sequence_num  INTEGER NOT NULL,
    idx           INTEGER NOT NULL,
    message       TEXT    NOT NULL,
    payload       BLOB,
    memo          BLOB,
    PRIMARY KEY (partition_key, sender, sequence_num, idx)
) STRICT, WITHOUT ROWID;

-- In the key's own shard, not the run's.
CREATE TABLE durable_keys (
    partition_key INTEGER NOT NULL,
    kind          TEXT    NOT NULL, -- idempotency, business, cron_slot, tombstone
    key           TEXT    NOT NULL,
    workflow_id   BLOB    NOT NULL,
    created_at    INTEGER NOT NULL,
    PRIMARY KEY (partition_key, kind, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX idx_durable_keys_tombstones ON durable_keys (created_at, key) WHERE kind = 'tombstone';
