-- Which of these leases an operator wants to end. By primary key.
-- $1 ids bigint[], $2 tokens bigint[]
SELECT l.id AS job, l.token
FROM unnest($1::bigint[], $2::bigint[]) i (id, token)
JOIN jobqueue.leases l ON l.id = i.id AND l.token = i.token
WHERE l.cancel_requested;
