-- Registers a worker, or again after its row was removed; returns its number, the same for the
-- same id for as long as events may name it. A row that is there is a former life's, which ended
-- without a word: what was asked of that one does not concern this one.
-- $1 worker id text · $2 hostname text · $3 pid int · $4 queues text[] · $5 types text[] ·
-- $6 concurrency int · $7 mode text · $8 version text · $9 prefetch int
WITH n AS (
    INSERT INTO jobqueue.worker_names AS w (name) VALUES ($1::text)
    ON CONFLICT (name) DO UPDATE SET seen_at = clock_timestamp()
    RETURNING w.worker_id
)
INSERT INTO jobqueue.workers AS w (worker_id, hostname, pid, queues, types, concurrency, mode,
    version, prefetch)
SELECT n.worker_id, $2::text, $3::int, $4::text[], $5::text[], $6::int, $7::text, $8::text,
       $9::int
FROM n
ON CONFLICT (worker_id) DO UPDATE SET hostname = excluded.hostname, pid = excluded.pid,
    queues = excluded.queues, types = excluded.types, concurrency = excluded.concurrency,
    mode = excluded.mode, version = excluded.version, prefetch = excluded.prefetch,
    status = 'ACTIVE', command = 'NONE', started_at = clock_timestamp(),
    last_beat_at = clock_timestamp()
RETURNING w.worker_id;
