-- A letter by its id alone, as operators name it. The primary key begins with the run, which they need not know.

CREATE INDEX idx_durable_dlq_id ON durable_dead_letter_queue (id);
