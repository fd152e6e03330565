-- A letter by its id alone, as operators name it. The primary key begins with the run, which they need not know.

CREATE INDEX durable_dead_letter_queue_id ON {s}.durable_dead_letter_queue (id);
