-- Makes one server at a time seal and drop partitions of events: two at once would deadlock.
-- Held until the end of its transaction, which must not touch the partitions itself: detaching
-- one waits for every transaction that did. It stands still until all is done elsewhere, and is not
-- ended for that. False: another server has it.
SELECT pg_try_advisory_xact_lock('jobqueue.job_events_kept'::regclass::oid::bigint)
FROM set_config('idle_in_transaction_session_timeout', '0', true);
