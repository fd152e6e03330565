-- The most frequent events are stored without what goes without saying; the view says it.

CREATE OR REPLACE VIEW {s}.durable_workflow_events_view AS
SELECT workflow_id, sequence_num, event_type,
       CASE event_type
           WHEN 'activity.scheduled' THEN '{"options": {}}'::jsonb
           WHEN 'activity.started' THEN '{"attempt": 1}'::jsonb
           ELSE '{}'::jsonb
       END || {s}.durable_json(event_data) AS event_data,
       {s}.durable_json(payload) AS payload,
       created_at, partition_key, trace_id, span_id
FROM {s}.durable_workflow_events;
