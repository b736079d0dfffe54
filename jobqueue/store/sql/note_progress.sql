-- Keeps how far running attempts are, for people; gone with the lease. Answers those held, one
-- row each. Of a row that somebody holds just now the word is dropped: another one will come.
-- Not an event: it moves nothing. No index has these columns, so it is a HOT update.
-- $1 ids bigint[], $2 tokens bigint[], $3 percents int2[], $4 messages text[] · $5 worker int
WITH i AS (
    SELECT DISTINCT ON (id, token) id, token, percent, message
    FROM unnest($1::bigint[], $2::bigint[], $3::smallint[], $4::text[])
             WITH ORDINALITY t (id, token, percent, message, ord)
    ORDER BY id, token, ord DESC
), k AS MATERIALIZED (
    SELECT i.id, i.percent, i.message, x.token
    FROM i, LATERAL (
        SELECT l.token FROM jobqueue.leases l
        WHERE l.id = i.id AND l.token = i.token AND l.worker_id = $5::int AND l.running
        FOR NO KEY UPDATE SKIP LOCKED
    ) x
), u AS (
    UPDATE jobqueue.leases l SET progress_percent = k.percent, progress_message = k.message
    FROM k WHERE l.id = k.id AND l.token = k.token
)
SELECT i.id AS job, i.token
FROM i JOIN jobqueue.leases l ON l.id = i.id AND l.token = i.token
WHERE l.worker_id = $5::int AND l.running;
