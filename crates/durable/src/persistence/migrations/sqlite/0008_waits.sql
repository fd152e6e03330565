-- How long activities waited for their first attempt, together. What was counted before has no waits.

ALTER TABLE durable_rollups ADD COLUMN wait_ms INTEGER NOT NULL DEFAULT 0;
