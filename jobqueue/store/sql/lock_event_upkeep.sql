-- Makes one server at a time seal and drop partitions of events: two at once would deadlock.
-- Held until the end of its transaction, which must not touch the partitions itself: detaching
-- one waits for every transaction that did. False: another server has it.
SELECT pg_try_advisory_xact_lock('jobqueue.job_events_kept'::regclass::oid::bigint);
