-- Starts, signals and single activities from SQL: for any driver, inside the caller's own transaction.
--
-- Each function writes the rows that the library writes for the same request, and takes its locks in the same order; a test
-- holds the two together. Payloads are JSON, as the caller wrote it: type JSON and not JSONB, which would rewrite it.
-- A refusal is an error: SQLSTATE 23505 where a key or a workflow id is taken, P0002 where there is no such run, 55000 where it
-- has ended, 54000 where too much waits for it, 22023 for what cannot be stored, 0A000 for what only the library can do.

CREATE FUNCTION {s}.durable_shards() RETURNS INT
LANGUAGE sql STABLE AS $$
    SELECT m.value::int FROM {s}.durable_meta AS m WHERE m.key = 'shards'
$$;

-- FNV-1a in 64 bits, the high half folded into the low one, modulo the number of shards. In halves of 32 bits, since BIGINT has a
-- sign and no wrap-around: the prime is 2^40 + 435, so a product is 435 times the hash and its low half 8 bits up in the high one.
CREATE FUNCTION {s}.durable_shard(bytes BYTEA, shards INT) RETURNS INT
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
DECLARE
    high BIGINT := 3421674724; -- 0xcbf29ce4
    low BIGINT := 2216829733; -- 0x84222325
    product BIGINT;
BEGIN
    IF shards = 1 THEN
        RETURN 0;
    END IF;
    FOR i IN 0 .. length(bytes) - 1 LOOP
        low := low # get_byte(bytes, i);
        product := low * 435;
        high := (high * 435 + (product >> 32) + (low << 8)) & 4294967295;
        low := product & 4294967295;
    END LOOP;
    RETURN ((high % shards) * (4294967296 % shards) + ((low # high) % shards)) % shards;
END
$$;

CREATE FUNCTION {s}.durable_run_shard(run_id UUID) RETURNS INT
LANGUAGE sql STABLE AS $$
    SELECT {s}.durable_shard(substring(uuid_send(run_id) FROM 9), {s}.durable_shards())
$$;

CREATE FUNCTION {s}.durable_key_shard(key TEXT) RETURNS INT
LANGUAGE sql STABLE AS $$
    SELECT {s}.durable_shard(convert_to(key, 'UTF8'), {s}.durable_shards())
$$;

-- 48 bits of milliseconds, the version, and what a random UUID has in the rest.
CREATE FUNCTION {s}.durable_uuid_v7() RETURNS UUID
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    millis BIGINT := floor(extract(epoch FROM clock_timestamp()) * 1000);
    bytes BYTEA := uuid_send(gen_random_uuid());
BEGIN
    bytes := overlay(bytes PLACING substring(int8send(millis) FROM 3) FROM 1 FOR 6);
    bytes := set_byte(bytes, 6, (get_byte(bytes, 6) & 15) | 112);
    RETURN encode(bytes, 'hex')::uuid;
END
$$;

-- Stands for workflow type, version and input: the first eight bytes of a SHA-256 over each with its length before it, little-endian.
CREATE FUNCTION {s}.durable_fingerprint(workflow_type TEXT, version TEXT, input BYTEA) RETURNS BIGINT
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
DECLARE
    part BYTEA;
    size BYTEA;
    whole BYTEA := ''::bytea;
    print BIGINT := 0;
BEGIN
    FOREACH part IN ARRAY ARRAY[convert_to(workflow_type, 'UTF8'), convert_to(version, 'UTF8'), input] LOOP
        size := int8send(length(part));
        FOR i IN REVERSE 8 .. 1 LOOP
            whole := whole || substring(size FROM i FOR 1);
        END LOOP;
        whole := whole || part;
    END LOOP;
    whole := sha256(whole);
    FOR i IN REVERSE 7 .. 0 LOOP
        print := (print << 8) | get_byte(whole, i);
    END LOOP;
    RETURN print;
END
$$;

-- Refuses a text that is missing, empty or longer than it may be.
CREATE FUNCTION {s}.durable_check_text(what TEXT, given TEXT, bytes_max INT) RETURNS VOID
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF given IS NULL OR given = '' THEN
        RAISE EXCEPTION 'durable: % is empty', what USING ERRCODE = '22023';
    ELSIF octet_length(convert_to(given, 'UTF8')) > bytes_max THEN
        RAISE EXCEPTION 'durable: % is longer than % bytes', what, bytes_max USING ERRCODE = '22023';
    END IF;
END
$$;

-- A payload as it is stored; SQL's NULL is JSON's.
CREATE FUNCTION {s}.durable_payload(what TEXT, given JSON) RETURNS BYTEA
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    bytes BYTEA := convert_to(COALESCE(given::text, 'null'), 'UTF8');
BEGIN
    IF length(bytes) > 4194304 THEN
        RAISE EXCEPTION 'durable: % has % bytes, the limit is 4194304', what, length(bytes) USING ERRCODE = '22023';
    END IF;
    RETURN bytes;
END
$$;

-- A timeout in whole milliseconds.
CREATE FUNCTION {s}.durable_millis(what TEXT, given INTERVAL) RETURNS BIGINT
LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE
    millis NUMERIC := extract(epoch FROM given) * 1000;
BEGIN
    IF millis < 0 OR millis > 3153600000000 OR millis <> trunc(millis) THEN
        RAISE EXCEPTION 'durable: % must be whole milliseconds, from none to a hundred years', what USING ERRCODE = '22023';
    END IF;
    RETURN millis;
END
$$;

-- Tells the engines at the caller's commit. A hint: without it they find the run within seconds.
CREATE FUNCTION {s}.durable_ring(run_id UUID) RETURNS VOID
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    name TEXT := trim(BOTH '"' FROM '{s}');
    channel TEXT := 'durable_' || name;
BEGIN
    IF octet_length(channel) > 63 THEN
        channel := 'durable_' || encode(substring(sha256(convert_to(name, 'UTF8')) FROM 1 FOR 16), 'hex');
    END IF;
    PERFORM pg_notify(channel, format(
        '{"i":"00000000000000000000000000000000","r":["%s"]}', replace(run_id::text, '-', '')));
END
$$;

-- Starts a run and answers its id, or that of the run which the idempotency key started before.
--
-- version is the one that the workflow's code declares ('' where it declares none). reuse_policy says what a workflow_id that was
-- used before means: allow_duplicate, reject_duplicate or allow_duplicate_failed_only. Search attributes, signals sent along and
-- terminate_if_running are for the library.
CREATE FUNCTION {s}.durable_start(
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

    -- Keys that do not exist are reserved, so that of two starts with one key the second waits here for the first to commit.
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

-- Sends a signal. True: it waits for the run's next turn. False: one with this id was sent before.
CREATE FUNCTION {s}.durable_signal(
    run_id UUID,
    signal_type TEXT,
    payload JSON DEFAULT NULL,
    signal_id UUID DEFAULT NULL
) RETURNS BOOLEAN
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    shard INT := {s}.durable_run_shard(durable_signal.run_id);
    own_id UUID := COALESCE(durable_signal.signal_id, {s}.durable_uuid_v7());
    bytes BYTEA := {s}.durable_payload('the payload', durable_signal.payload);
    run RECORD;
    at TIMESTAMPTZ;
BEGIN
    PERFORM {s}.durable_check_text('signal_type', durable_signal.signal_type, 200);
    SELECT t.status, t.arrivals, t.consumed INTO run
    FROM {s}.durable_workflow_instances AS t
    WHERE t.partition_key = shard AND t.id = durable_signal.run_id
    FOR UPDATE;
    PERFORM 1
    FROM {s}.durable_signals AS t
    WHERE t.partition_key = shard AND t.workflow_id = durable_signal.run_id AND t.id = own_id;
    IF FOUND THEN
        RETURN FALSE;
    END IF;
    IF run.status IS NULL THEN
        RAISE EXCEPTION 'durable: there is no run %', durable_signal.run_id USING ERRCODE = 'P0002';
    ELSIF run.status IN ('completed', 'failed', 'cancelled') THEN
        RAISE EXCEPTION 'durable: run % has ended: %', durable_signal.run_id, run.status USING ERRCODE = '55000';
    ELSIF run.arrivals - run.consumed >= 100000 THEN
        RAISE EXCEPTION 'durable: % facts wait for run %, which takes no more for now',
            run.arrivals - run.consumed, durable_signal.run_id USING ERRCODE = '54000';
    END IF;
    at := clock_timestamp();
    INSERT INTO {s}.durable_inbox
        (partition_key, workflow_id, arrival, event_type, event_data, payload, arrived_at)
    VALUES
        (shard, durable_signal.run_id, run.arrivals + 1, 'signal.received',
         convert_to(json_build_object('signal', json_build_object(
             'signal_id', own_id,
             'signal_type', durable_signal.signal_type,
             'sent_at', to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')))::text, 'UTF8'),
         bytes, at);
    INSERT INTO {s}.durable_signals
        (partition_key, workflow_id, id, signal_type, payload, sequence_num, sent_at)
    VALUES
        (shard, durable_signal.run_id, own_id, durable_signal.signal_type, bytes, run.arrivals + 1, at);
    UPDATE {s}.durable_workflow_instances AS t
    SET arrivals = run.arrivals + 1, ready_at = COALESCE(t.ready_at, at)
    WHERE t.partition_key = shard AND t.id = durable_signal.run_id;
    PERFORM {s}.durable_ring(durable_signal.run_id);
    RETURN TRUE;
END
$$;

-- Runs one activity, as a run of its own of the built-in workflow durable.activity, and answers that run's id. options are those
-- of the activity, as the library writes them: {"start_to_close_timeout_ms": 60000, "priority": 3, …}.
CREATE FUNCTION {s}.durable_enqueue(
    activity_type TEXT,
    input JSON DEFAULT NULL,
    options JSON DEFAULT NULL,
    workflow_id TEXT DEFAULT NULL,
    reuse_policy TEXT DEFAULT 'allow_duplicate',
    idempotency_key TEXT DEFAULT NULL,
    memo JSON DEFAULT NULL
) RETURNS UUID
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    request TEXT;
BEGIN
    PERFORM {s}.durable_check_text('activity_type', activity_type, 200);
    IF options IS NOT NULL AND json_typeof(options) <> 'object' THEN
        RAISE EXCEPTION 'durable: the options of an activity are a JSON object' USING ERRCODE = '22023';
    END IF;
    request := '{"activity_type":' || to_json(activity_type)::text
        || ',"input":' || COALESCE(input::text, 'null')
        || COALESCE(',"options":' || options::text, '') || '}';
    RETURN {s}.durable_start(
        workflow_type => 'durable.activity', input => request::json, workflow_id => workflow_id,
        reuse_policy => reuse_policy, idempotency_key => idempotency_key, memo => memo);
END
$$;
