-- Deleting in slices: what a deleted run leaves, and what goes by its age.

-- Deleted runs whose rows are still to be deleted. A row is written in the commit that deletes the run.
CREATE TABLE {s}.durable_purges (
    partition_key INT NOT NULL,
    run_id UUID NOT NULL,
    -- The keys that the run had.
    idempotency_key TEXT COLLATE "C",
    business_id TEXT COLLATE "C",
    created_at TIMESTAMPTZ NOT NULL,
    -- When to go on: a deletion that failed is set aside for a while.
    retry_at TIMESTAMPTZ NOT NULL,
    failures INT NOT NULL,
    last_error TEXT,
    -- Events up to this number are deleted: the next slice does not walk over their index entries.
    events_through BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (partition_key, run_id)
) WITH (
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0
);

CREATE INDEX durable_purges_due
    ON {s}.durable_purges (partition_key, retry_at, run_id);
CREATE INDEX durable_purges_stuck
    ON {s}.durable_purges (partition_key, run_id)
    WHERE failures > 0;

-- Events up to this number were deleted; they belonged to earlier iterations.
ALTER TABLE {s}.durable_workflow_instances ADD COLUMN purged_through BIGINT NOT NULL DEFAULT 0;

-- As before, but a key that retention deletes between reserving it and locking it is reserved again: else two starts with one idempotency
-- key could both find none.
-- Starts a run and answers its id, or that of the run which the idempotency key started before.
--
-- version is the one that the workflow's code declares ('' where it declares none). reuse_policy says what a workflow_id that was
-- used before means: allow_duplicate, reject_duplicate or allow_duplicate_failed_only. Search attributes, signals sent along and
-- terminate_if_running are for the library.
CREATE OR REPLACE FUNCTION {s}.durable_start(
    workflow_type TEXT,
    input JSON DEFAULT NULL,
    version TEXT DEFAULT '',
    workflow_id TEXT DEFAULT NULL,
    reuse_policy TEXT DEFAULT 'allow_duplicate',
    idempotency_key TEXT DEFAULT NULL,
    memo JSON DEFAULT NULL,
    execution_timeout INTERVAL DEFAULT NULL,
    run_timeout INTERVAL DEFAULT NULL
) RETURNS UUID
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    new_run UUID := {s}.durable_uuid_v7();
    payload BYTEA := {s}.durable_payload('the input', durable_start.input);
    notes BYTEA := CASE WHEN durable_start.memo IS NOT NULL THEN {s}.durable_payload('the memo', durable_start.memo) END;
    print BIGINT;
    execution_ms BIGINT := {s}.durable_millis('execution_timeout', durable_start.execution_timeout);
    run_ms BIGINT := {s}.durable_millis('run_timeout', durable_start.run_timeout);
    of_key INT;
    of_id INT;
    key_run UUID;
    last_run UUID;
    found_print BIGINT;
    found_status TEXT;
    at TIMESTAMPTZ;
    locked BIGINT;
BEGIN
    PERFORM {s}.durable_check_text('workflow_type', durable_start.workflow_type, 200);
    IF durable_start.version IS NULL OR octet_length(convert_to(durable_start.version, 'UTF8')) > 512 THEN
        RAISE EXCEPTION 'durable: version is missing or longer than 512 bytes; a workflow without one has ''''' USING ERRCODE = '22023';
    END IF;
    IF durable_start.reuse_policy = 'terminate_if_running' THEN
        RAISE EXCEPTION 'durable: reuse_policy terminate_if_running is not supported from SQL'
            USING ERRCODE = '0A000', HINT = 'Start the run with the library, or terminate the old one first.';
    ELSIF durable_start.reuse_policy IS NULL OR durable_start.reuse_policy NOT IN
        ('allow_duplicate', 'reject_duplicate', 'allow_duplicate_failed_only') THEN
        RAISE EXCEPTION 'durable: reuse_policy % is not known', durable_start.reuse_policy
            USING ERRCODE = '22023', HINT = 'Use allow_duplicate, reject_duplicate or allow_duplicate_failed_only.';
    END IF;
    IF durable_start.workflow_id IS NOT NULL THEN
        PERFORM {s}.durable_check_text('workflow_id', durable_start.workflow_id, 512);
        of_id := {s}.durable_key_shard(durable_start.workflow_id);
    END IF;
    IF durable_start.idempotency_key IS NOT NULL THEN
        PERFORM {s}.durable_check_text('idempotency_key', durable_start.idempotency_key, 512);
        of_key := {s}.durable_key_shard(durable_start.idempotency_key);
    END IF;
    print := {s}.durable_fingerprint(durable_start.workflow_type, durable_start.version, payload);

    -- Keys that do not exist are reserved, so that of two starts with one key the second waits here for the first to commit. One that was
    -- there and is gone when it is to be locked is reserved again.
    LOOP
        INSERT INTO {s}.durable_keys (partition_key, kind, key, created_at)
        SELECT k.shard, k.kind, k.name, clock_timestamp()
        FROM (VALUES (of_id, 'business', durable_start.workflow_id),
                     (of_key, 'idempotency', durable_start.idempotency_key)) AS k(shard, kind, name)
        WHERE k.name IS NOT NULL
        ORDER BY k.shard, k.kind
        ON CONFLICT (partition_key, kind, key) DO NOTHING;
        PERFORM 1
        FROM {s}.durable_keys AS t
        WHERE (t.partition_key, t.kind, t.key) IN
            ((of_id, 'business', durable_start.workflow_id), (of_key, 'idempotency', durable_start.idempotency_key))
        ORDER BY t.partition_key, t.kind, t.key
        FOR UPDATE;
        GET DIAGNOSTICS locked = ROW_COUNT;
        EXIT WHEN locked = (durable_start.workflow_id IS NOT NULL)::INT + (durable_start.idempotency_key IS NOT NULL)::INT;
    END LOOP;
    SELECT t.run_id INTO key_run
    FROM {s}.durable_keys AS t
    WHERE t.partition_key = of_key AND t.kind = 'idempotency' AND t.key = durable_start.idempotency_key;
    SELECT t.run_id INTO last_run
    FROM {s}.durable_keys AS t
    WHERE t.partition_key = of_id AND t.kind = 'business' AND t.key = durable_start.workflow_id;
    PERFORM 1
    FROM {s}.durable_workflow_instances AS t
    WHERE (t.partition_key, t.id) IN
        (({s}.durable_run_shard(key_run), key_run), ({s}.durable_run_shard(last_run), last_run))
    ORDER BY t.partition_key, t.id
    FOR UPDATE;

    -- A key whose run was deleted counts as absent.
    SELECT t.fingerprint INTO found_print
    FROM {s}.durable_workflow_instances AS t
    WHERE t.partition_key = {s}.durable_run_shard(key_run) AND t.id = key_run;
    IF FOUND THEN
        IF found_print <> print THEN
            RAISE EXCEPTION 'durable: idempotency key % belongs to run %, which was started with another type, version or input',
                durable_start.idempotency_key, key_run USING ERRCODE = '23505', DETAIL = key_run::text;
        END IF;
        DELETE FROM {s}.durable_keys AS t
        WHERE t.partition_key = of_id AND t.kind = 'business' AND t.key = durable_start.workflow_id AND t.run_id IS NULL;
        RETURN key_run;
    END IF;
    SELECT t.status INTO found_status
    FROM {s}.durable_workflow_instances AS t
    WHERE t.partition_key = {s}.durable_run_shard(last_run) AND t.id = last_run;
    IF FOUND AND (durable_start.reuse_policy = 'reject_duplicate'
        OR (durable_start.reuse_policy = 'allow_duplicate_failed_only' AND found_status <> 'failed')) THEN
        RAISE EXCEPTION 'durable: workflow id % belongs to run %, which is %', durable_start.workflow_id, last_run, found_status
            USING ERRCODE = '23505', DETAIL = last_run::text;
    END IF;

    at := clock_timestamp();
    INSERT INTO {s}.durable_workflow_instances
        (partition_key, id, workflow_type, version, business_id, idempotency_key, fingerprint, status, input, memo,
         has_children, sequence_num, history_start, iteration, epoch, arrivals, consumed, ready_at,
         execution_deadline, run_deadline, deadline_at, run_timeout_ms, created_at, updated_at)
    VALUES
        ({s}.durable_run_shard(new_run), new_run, durable_start.workflow_type, durable_start.version,
         durable_start.workflow_id, durable_start.idempotency_key, print, 'pending', payload, notes,
         FALSE, 0, 0, 0, 0, 0, 0, at,
         at + execution_ms * INTERVAL '1 millisecond', at + run_ms * INTERVAL '1 millisecond',
         LEAST(at + execution_ms * INTERVAL '1 millisecond', at + run_ms * INTERVAL '1 millisecond'),
         run_ms, at, at);
    UPDATE {s}.durable_keys AS t
    SET run_id = new_run, created_at = at
    WHERE (t.partition_key, t.kind, t.key) IN
        ((of_id, 'business', durable_start.workflow_id), (of_key, 'idempotency', durable_start.idempotency_key));
    PERFORM {s}.durable_ring(new_run);
    RETURN new_run;
END
$$;
