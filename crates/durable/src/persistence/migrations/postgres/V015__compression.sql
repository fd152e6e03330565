-- Payloads that are too large for their row are compressed with LZ4, which costs a fraction of what PostgreSQL's own method does. What is stored
-- already stays as it is. A server that was built without it, or is older than 14, goes on as before.

DO $$
DECLARE
    found RECORD;
BEGIN
    FOR found IN
        SELECT tables.oid::regclass AS name, columns.attname AS payload
        FROM pg_class AS tables
        JOIN pg_attribute AS columns ON columns.attrelid = tables.oid
        WHERE tables.relnamespace = '{s}'::regnamespace
          AND tables.relkind IN ('r', 'p')
          AND tables.relname IN (
              'durable_workflow_instances', 'durable_workflow_versions', 'durable_workflow_events', 'durable_task_queue',
              'durable_dead_letter_queue', 'durable_circuit_breaker_state', 'durable_dedup', 'durable_workers',
              'durable_schedules', 'durable_inbox', 'durable_signals', 'durable_updates', 'durable_messages',
              'durable_outbox', 'durable_step_logs', 'durable_human_tasks', 'durable_audit')
          AND columns.atttypid = 'bytea'::regtype
          AND columns.attnum > 0
          AND NOT columns.attisdropped
    LOOP
        EXECUTE format('ALTER TABLE %s ALTER COLUMN %I SET COMPRESSION lz4', found.name, found.payload);
    END LOOP;
EXCEPTION
    WHEN feature_not_supported OR syntax_error THEN NULL;
END
$$;
