-- Indexes partitions that take no more rows; returns how many.
SELECT jobqueue.seal_event_partitions();
