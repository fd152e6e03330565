-- A letter by its id alone, as operators name it. The primary key begins with the run, which they need not know. A hash, which can only be
-- looked into: a tree on one short column is what the planner takes for a scan of everything while the table is small.

CREATE INDEX durable_dead_letter_queue_id ON {s}.durable_dead_letter_queue USING hash (id);
