-- A state is a table: a job's row is in exactly one of ready, scheduled, leases, finished.
-- Wide, immutable content is in jobs; narrow rows carry what every move needs, so that a move
-- never has to read jobs. Columns are ordered by size to save padding.

CREATE TABLE jobqueue.queues (
    queue_id         int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name             text COLLATE "C" NOT NULL,
    max_retries      int NOT NULL,
    ttl_s            float8,
    base_delay_s     float8 NOT NULL,
    max_delay_s      float8 NOT NULL,
    multiplier       float8 NOT NULL,
    priority_weights jsonb NOT NULL DEFAULT '{}',
    max_running      int,
    paused           bool NOT NULL DEFAULT false,
    created_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    deleted_at       timestamptz  -- a tombstone: a re-created name is a new queue_id
);
CREATE UNIQUE INDEX queues_name ON jobqueue.queues (name) WHERE deleted_at IS NULL;

CREATE TABLE jobqueue.jobs (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    job_id          uuid NOT NULL,
    created_at      timestamptz NOT NULL,
    not_before      timestamptz,
    ttl_s           float8,
    timeout_s       float8,
    queue_id        int NOT NULL,
    max_retries     int NOT NULL,
    priority        smallint NOT NULL,
    type            text,
    tenant          text NOT NULL DEFAULT '',
    idempotency_key text COLLATE "C",
    labels          jsonb,
    trace_context   jsonb,
    payload         bytea NOT NULL
);
CREATE UNIQUE INDEX jobs_job_id ON jobqueue.jobs (job_id);

CREATE TABLE jobqueue.ready (
    id         bigint PRIMARY KEY,
    ready_at   timestamptz NOT NULL,
    expires_at timestamptz,  -- end of the TTL; NULL once started, or without one
    queue_id   int NOT NULL,
    seq        int NOT NULL,
    attempt    int NOT NULL,
    reason     jobqueue.move_reason NOT NULL,
    priority   smallint NOT NULL,
    retries    smallint NOT NULL,
    crashes    smallint NOT NULL,
    handbacks  smallint NOT NULL,
    unhandled  smallint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_cost_delay = 0);
CREATE INDEX ready_claim ON jobqueue.ready (queue_id, priority, ready_at, id);
CREATE INDEX ready_expires ON jobqueue.ready (expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE jobqueue.scheduled (
    id         bigint PRIMARY KEY,
    ready_at   timestamptz NOT NULL,
    due_at     timestamptz NOT NULL,
    expires_at timestamptz,
    token      bigint,  -- of the attempt that its worker ended, so that a repeat knows itself
    queue_id   int NOT NULL,
    seq        int NOT NULL,
    attempt    int NOT NULL,
    reason     jobqueue.move_reason NOT NULL,
    priority   smallint NOT NULL,
    retries    smallint NOT NULL,
    crashes    smallint NOT NULL,
    handbacks  smallint NOT NULL,
    unhandled  smallint NOT NULL,
    failed     bool NOT NULL  -- FAILED until due; otherwise PENDING with a future not_before
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_cost_delay = 0);
CREATE INDEX scheduled_due ON jobqueue.scheduled (due_at);
CREATE INDEX scheduled_expires ON jobqueue.scheduled (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX scheduled_unhandled ON jobqueue.scheduled (queue_id) WHERE unhandled > 0;

CREATE SEQUENCE jobqueue.lease_token_seq;

-- expires_at is not indexed, so that a renewal stays a HOT update.
CREATE TABLE jobqueue.leases (
    id               bigint PRIMARY KEY,
    token            bigint NOT NULL,
    ready_at         timestamptz NOT NULL,
    ttl_expires_at   timestamptz,
    claimed_at       timestamptz NOT NULL,
    started_at       timestamptz,
    expires_at       timestamptz NOT NULL,
    queue_id         int NOT NULL,
    seq              int NOT NULL,
    attempt          int NOT NULL,
    worker_id        int NOT NULL,
    priority         smallint NOT NULL,
    retries          smallint NOT NULL,
    crashes          smallint NOT NULL,
    handbacks        smallint NOT NULL,
    unhandled        smallint NOT NULL,
    running          bool NOT NULL,
    cancel_requested bool NOT NULL DEFAULT false,
    progress_percent smallint CHECK (progress_percent BETWEEN 0 AND 100),
    progress_message text
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_cost_delay = 0);

CREATE TABLE jobqueue.finished (
    id               bigint PRIMARY KEY,
    started_at       timestamptz,
    finished_at      timestamptz NOT NULL,
    token            bigint,  -- of the attempt that its worker ended
    queue_id         int NOT NULL,
    seq              int NOT NULL,
    attempt          int NOT NULL,
    worker_id        int,
    reason           jobqueue.move_reason NOT NULL,
    retries          smallint NOT NULL,
    dead             bool NOT NULL,
    result_truncated bool NOT NULL DEFAULT false,
    result           bytea,
    error            text
);
CREATE INDEX finished_dead ON jobqueue.finished (queue_id, id) WHERE dead;

-- Names outlive their worker: leases, finished and events hold the number.
CREATE TABLE jobqueue.worker_names (
    worker_id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name      text COLLATE "C" NOT NULL UNIQUE,
    seen_at   timestamptz NOT NULL DEFAULT clock_timestamp()  -- registered last, or ended
);

CREATE TABLE jobqueue.workers (
    worker_id    int PRIMARY KEY REFERENCES jobqueue.worker_names,
    hostname     text NOT NULL,
    pid          int NOT NULL,
    queues       text[] NOT NULL,
    types        text[] NOT NULL,
    concurrency  int NOT NULL,
    prefetch     int NOT NULL DEFAULT 0,
    streams      int NOT NULL DEFAULT 0,  -- of jobs, opened so far: the newest is served, no other
    mode         text NOT NULL,
    version      text NOT NULL,
    status       text NOT NULL DEFAULT 'ACTIVE' CHECK (status IN ('ACTIVE', 'DRAINING', 'OFFLINE')),
    command      text NOT NULL DEFAULT 'NONE' CHECK (command IN ('NONE', 'DRAIN', 'SHUTDOWN')),
    started_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    last_beat_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    clock_skew_ms bigint  -- its clock minus ours at that beat; shown, never reckoned with
) WITH (fillfactor = 50);

-- What servers sign the sessions of remote workers with, so that none can be guessed. One row.
CREATE TABLE jobqueue.session_key (
    only_row bool PRIMARY KEY DEFAULT true CHECK (only_row),
    key      bytea NOT NULL DEFAULT uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())
);
INSERT INTO jobqueue.session_key DEFAULT VALUES;

CREATE TABLE jobqueue.idempotency_keys (
    tenant       text COLLATE "C" NOT NULL,
    key          text COLLATE "C" NOT NULL,
    job_id       uuid NOT NULL,
    content_hash bytea NOT NULL,
    PRIMARY KEY (tenant, key)
);
