-- Audit rows: who changed what, written in the commit of the change. The table of V009 was never written to; it is made anew with what a
-- row says. Ids are dated UUIDv7: the primary key is in the order of time, and lists and retention go by it.

DROP VIEW {s}.durable_audit_view;
DROP TABLE {s}.durable_audit;

CREATE TABLE {s}.durable_audit (
    id UUID PRIMARY KEY,
    at TIMESTAMPTZ NOT NULL,
    request_id UUID NOT NULL,
    actor TEXT COLLATE "C" NOT NULL,
    role TEXT COLLATE "C" NOT NULL,
    action TEXT COLLATE "C" NOT NULL,
    idempotency_key TEXT COLLATE "C",
    target_kind TEXT COLLATE "C" NOT NULL,
    target_id TEXT COLLATE "C" NOT NULL,
    detail BYTEA
);

CREATE INDEX durable_audit_target ON {s}.durable_audit (target_id, id);
CREATE INDEX durable_audit_actor ON {s}.durable_audit (actor, id);

CREATE VIEW {s}.durable_audit_view AS
SELECT id, at, request_id, actor, role, action, idempotency_key, target_kind, target_id,
       {s}.durable_json(detail) AS detail
FROM {s}.durable_audit;
