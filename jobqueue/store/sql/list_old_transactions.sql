-- Transactions of this database that are open for more than $1 seconds, oldest first, but not
-- what they do: a query may hold a payload. hidden counts the sessions that our role may not look
-- at. Always one row at least.
-- $1 seconds float8
WITH sessions AS (
    SELECT a.pid, a.usename, a.application_name, a.state, a.xact_start, a.backend_type
    FROM pg_stat_activity a
    WHERE a.datname = current_database() AND a.pid <> pg_backend_pid()
), hidden AS (
    SELECT count(*) AS n FROM sessions s WHERE s.backend_type IS NULL
)
SELECT h.n AS hidden, s.pid, s.usename AS role, s.application_name AS application, s.state,
       extract(epoch FROM now() - s.xact_start)::float8 AS age_s
FROM hidden h
LEFT JOIN sessions s ON s.xact_start < now() - make_interval(secs => $1::float8)
    AND s.backend_type <> 'autovacuum worker'
ORDER BY s.xact_start;
