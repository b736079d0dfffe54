DROP VIEW jobqueue.job_event_log, jobqueue.job_status;
DROP FUNCTION jobqueue.in_calendar;
DROP FUNCTION jobqueue.claim_jobs, jobqueue.start_leases, jobqueue.complete_leases,
    jobqueue.settle_leases;
DROP FUNCTION jobqueue.submit_jobs, jobqueue.known_jobs, jobqueue.free_unused_keys,
    jobqueue.said, jobqueue.cancel_job, jobqueue.retry_job, jobqueue.delete_job,
    jobqueue.remove_finished, jobqueue.create_event_partition, jobqueue.keep_events,
    jobqueue.forget_kept_events, jobqueue.seal_event_partition;
-- Partitions that a cut off run of the upkeep left detached depend on what goes below.
DO $$
DECLARE
    part regclass;
BEGIN
    FOR part IN
        SELECT c.oid FROM pg_class c
        WHERE c.relnamespace = 'jobqueue'::regnamespace AND c.relkind = 'r'
          AND c.relname ~ '^job_events_[0-9]{4}w[0-9]{2}$'
          AND NOT EXISTS (SELECT FROM pg_inherits i WHERE i.inhrelid = c.oid)
    LOOP
        EXECUTE format('DROP TABLE %s', part);
    END LOOP;
END $$;
DROP TABLE jobqueue.parked_events, jobqueue.removed_jobs, jobqueue.queue_minutes,
    jobqueue.queue_depths, jobqueue.event_cursors,
    jobqueue.job_events, jobqueue.job_events_kept, jobqueue.idempotency_keys, jobqueue.session_key,
    jobqueue.workers,
    jobqueue.worker_names, jobqueue.finished, jobqueue.leases, jobqueue.scheduled,
    jobqueue.ready, jobqueue.jobs, jobqueue.queues;
DROP FUNCTION jobqueue.refuse_event_change;
DROP SEQUENCE jobqueue.event_id_seq, jobqueue.cursor_token_seq,
    jobqueue.lease_token_seq;
DROP TYPE jobqueue.job_state, jobqueue.move_reason;
