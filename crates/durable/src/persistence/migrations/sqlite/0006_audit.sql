-- Audit rows: who changed what, written in the commit of the change. The table of 0005 was never written to; it is made anew in the shape
-- that PostgreSQL has. Ids are dated UUIDv7: the primary key is in the order of time, and lists and retention go by it.

DROP TABLE durable_audit;

CREATE TABLE durable_audit (
    id              BLOB    NOT NULL PRIMARY KEY,
    at              INTEGER NOT NULL,
    request_id      BLOB    NOT NULL,
    actor           TEXT    NOT NULL,
    role            TEXT    NOT NULL,
    action          TEXT    NOT NULL,
    idempotency_key TEXT,
    target_kind     TEXT    NOT NULL, -- run, dead_letter, dead_letters, schedule, worker, breaker
    target_id       TEXT    NOT NULL,
    detail          BLOB
) STRICT, WITHOUT ROWID;

CREATE INDEX idx_durable_audit_target ON durable_audit (target_id, id);
CREATE INDEX idx_durable_audit_actor ON durable_audit (actor, id);
