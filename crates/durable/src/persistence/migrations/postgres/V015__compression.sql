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
          AND tables.relname LIKE 'durable\_%'
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
