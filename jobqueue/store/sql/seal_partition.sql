-- Indexes a partition that takes no more rows; false: there is none without its index.
SELECT jobqueue.seal_event_partition();
