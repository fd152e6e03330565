-- How long activities waited for their first attempt, together. What was counted before has no waits.

ALTER TABLE {s}.durable_rollups ADD COLUMN wait_ms BIGINT NOT NULL DEFAULT 0;
