-- One row per transition: audit log, job log and outbox in one. CACHE 1 on the sequence and
-- ordered inserts make eid order per-job order.

CREATE SEQUENCE jobqueue.event_id_seq CACHE 1;

CREATE TABLE jobqueue.job_events (
    eid         bigint NOT NULL DEFAULT nextval('jobqueue.event_id_seq'),
    xid         xid8 NOT NULL DEFAULT pg_current_xact_id(),
    job         bigint NOT NULL,
    at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    token       bigint,
    queue_id    int NOT NULL,
    seq         int NOT NULL,
    from_status jobqueue.job_state,
    to_status   jobqueue.job_state NOT NULL,
    reason      jobqueue.move_reason NOT NULL,
    attempt     int NOT NULL,
    worker_id   int,
    duration_ms int,  -- of the attempt that this move ended
    detail      text,
    CONSTRAINT job_events_legal_move CHECK (
        -- Its text is read by every statement that inserts: the shorter, the cheaper.
        CASE from_status
            WHEN 'PENDING' THEN to_status IN ('ASSIGNED', 'DEAD_LETTERED')
            WHEN 'ASSIGNED' THEN to_status IN ('RUNNING', 'FAILED', 'DEAD_LETTERED')
            WHEN 'RUNNING' THEN to_status IN ('DONE', 'FAILED')
            WHEN 'FAILED' THEN to_status IN ('PENDING', 'DEAD_LETTERED')
            WHEN 'DEAD_LETTERED' THEN to_status = 'PENDING'
            ELSE from_status IS NULL AND to_status = 'PENDING' END)
) PARTITION BY RANGE (at);

CREATE INDEX job_events_xid ON jobqueue.job_events (xid);
-- For ids of events and for ids of jobs: one index costs every move half of what two would.
CREATE INDEX job_events_ids ON jobqueue.job_events
    USING brin (eid, job int8_minmax_multi_ops) WITH (pages_per_range = 16);

-- Events of jobs that outlive their partition.
CREATE TABLE jobqueue.job_events_kept (LIKE jobqueue.job_events INCLUDING CONSTRAINTS);
CREATE UNIQUE INDEX job_events_kept_job ON jobqueue.job_events_kept (job, seq);
-- It has no primary key, and rows are deleted: a publication of all tables would have that refused.
ALTER TABLE jobqueue.job_events_kept REPLICA IDENTITY USING INDEX job_events_kept_job;

CREATE FUNCTION jobqueue.refuse_event_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'job events are immutable: % on % refused', TG_OP, TG_TABLE_NAME
        USING ERRCODE = 'restrict_violation';
END $$;

-- Row triggers are cloned to every partition, with ENABLE ALWAYS; TRUNCATE triggers are not.
CREATE TRIGGER job_events_immutable BEFORE UPDATE OR DELETE ON jobqueue.job_events
    FOR EACH ROW EXECUTE FUNCTION jobqueue.refuse_event_change();
ALTER TABLE jobqueue.job_events ENABLE ALWAYS TRIGGER job_events_immutable;
CREATE TRIGGER job_events_no_truncate BEFORE TRUNCATE ON jobqueue.job_events
    FOR EACH STATEMENT EXECUTE FUNCTION jobqueue.refuse_event_change();
ALTER TABLE jobqueue.job_events ENABLE ALWAYS TRIGGER job_events_no_truncate;
CREATE TRIGGER job_events_kept_immutable BEFORE UPDATE OR DELETE ON jobqueue.job_events_kept
    FOR EACH ROW EXECUTE FUNCTION jobqueue.refuse_event_change();
ALTER TABLE jobqueue.job_events_kept ENABLE ALWAYS TRIGGER job_events_kept_immutable;
CREATE TRIGGER job_events_kept_no_truncate BEFORE TRUNCATE ON jobqueue.job_events_kept
    FOR EACH STATEMENT EXECUTE FUNCTION jobqueue.refuse_event_change();
ALTER TABLE jobqueue.job_events_kept ENABLE ALWAYS TRIGGER job_events_kept_no_truncate;

-- LIKE + ATTACH never blocks inserts; CREATE … PARTITION OF waits for every open transaction
-- and stops the product meanwhile. False: it exists, or another server is making it now.
CREATE FUNCTION jobqueue.create_event_partition(p_week date) RETURNS bool
LANGUAGE plpgsql SET lock_timeout = '200ms' AS $$
DECLARE
    part text := 'job_events_' || to_char(p_week, 'IYYY"w"IW');
BEGIN
    IF NOT pg_try_advisory_xact_lock('jobqueue.job_events'::regclass::oid::bigint)
       OR to_regclass('jobqueue.' || part) IS NOT NULL THEN
        RETURN false;
    END IF;
    EXECUTE format('CREATE TABLE jobqueue.%I (LIKE jobqueue.job_events INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', part);
    -- Events are looked for by ranges of what grows as the table does: 3,000 rows tell as much of
    -- that as 30,000, and a young partition is analyzed again and again.
    EXECUTE (SELECT format('ALTER TABLE jobqueue.%I ', part)
                    || string_agg(format('ALTER %I SET STATISTICS 10', attname), ', ')
             FROM pg_attribute
             WHERE attrelid = 'jobqueue.job_events'::regclass AND attnum > 0 AND NOT attisdropped);
    EXECUTE format('ALTER TABLE jobqueue.job_events ATTACH PARTITION jobqueue.%I FOR VALUES FROM (%L) TO (%L)',
        part, p_week::timestamp AT TIME ZONE 'UTC', (p_week + 7)::timestamp AT TIME ZONE 'UTC');
    EXECUTE format('CREATE TRIGGER job_events_no_truncate BEFORE TRUNCATE ON jobqueue.%I
        FOR EACH STATEMENT EXECUTE FUNCTION jobqueue.refuse_event_change()', part);
    EXECUTE format('ALTER TABLE jobqueue.%I ENABLE ALWAYS TRIGGER job_events_no_truncate', part);
    RETURN true;
END $$;

SELECT jobqueue.create_event_partition((date_trunc('week', now() AT TIME ZONE 'UTC'))::date + 7 * n)
FROM generate_series(-1, 3) n;

-- A consumer's cursor is a snapshot: its next window is what is visible now and was not then.
-- While a window is read in pages, window_* hold its other end, frozen, and how far it is read.
CREATE SEQUENCE jobqueue.cursor_token_seq CACHE 1;

CREATE TABLE jobqueue.event_cursors (
    name              text PRIMARY KEY,
    snapshot          pg_snapshot NOT NULL,
    since             timestamptz NOT NULL,  -- no event outside the snapshot is older than this
    last_eid          bigint NOT NULL,
    xid               xid8 NOT NULL DEFAULT pg_current_xact_id(),  -- that stored the snapshot
    system_identifier bigint NOT NULL,
    restored_eid      bigint NOT NULL DEFAULT 0,  -- of a restored dump, which stats has counted
    updated_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- Who may move it, until when; a move names the token of its lease.
    holder            text,
    token             bigint,
    expires_at        timestamptz,
    window_end        pg_snapshot,
    window_since      timestamptz,  -- of window_end, as the three above are of snapshot
    window_xid        xid8,
    window_at         timestamptz,
    window_eid        bigint,       -- events up to this one are passed
    window_last_eid   bigint
);

-- What an event needs of a job that was removed before every consumer had passed it.
CREATE TABLE jobqueue.removed_jobs (
    id            bigint PRIMARY KEY,
    job_id        uuid NOT NULL,
    trace_context jsonb,
    xid           xid8 NOT NULL DEFAULT pg_current_xact_id(),
    removed_at    timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Events that Kafka refused for good, whole: their partition may be dropped before they are resent.
CREATE TABLE jobqueue.parked_events (
    event_id    bigint PRIMARY KEY,
    job_id      uuid NOT NULL,
    queue       text NOT NULL,
    sequence    int NOT NULL,
    from_status jobqueue.job_state,
    to_status   jobqueue.job_state NOT NULL,
    at          timestamptz NOT NULL,
    reason      jobqueue.move_reason NOT NULL,
    attempt     int NOT NULL,
    worker_id   text,
    detail      text,
    traceparent text,
    cause       text NOT NULL,  -- of the refusal
    parked_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    resend_at   timestamptz     -- an operator asked for it; NULL: nobody did
);
CREATE INDEX parked_events_resend ON jobqueue.parked_events (event_id) WHERE resend_at IS NOT NULL;

-- Figures of queues: true at the cursor named stats; readers add the events after it.
CREATE TABLE jobqueue.queue_depths (
    queue_id int NOT NULL,
    status   jobqueue.job_state NOT NULL,
    depth    bigint NOT NULL DEFAULT 0,  -- jobs in this status
    entered  bigint NOT NULL DEFAULT 0,  -- moves into this status, ever
    PRIMARY KEY (queue_id, status)
);
CREATE TABLE jobqueue.queue_minutes (
    queue_id int NOT NULL,
    minute   timestamptz NOT NULL,
    ended    bigint NOT NULL,   -- attempts
    failed   bigint NOT NULL,   -- attempts
    busy_ms  bigint NOT NULL,   -- their durations
    PRIMARY KEY (queue_id, minute)
);
INSERT INTO jobqueue.event_cursors (name, snapshot, since, last_eid, system_identifier)
SELECT 'stats', pg_current_snapshot(), clock_timestamp() - interval '1 day', 0, system_identifier
FROM pg_control_system();
