-- Transactions of this database that were prepared for a two-phase commit more than $1 seconds
-- ago and are neither committed nor rolled back, oldest first.
-- $1 seconds float8
SELECT p.gid AS name, p.owner AS role, extract(epoch FROM now() - p.prepared)::float8 AS age_s
FROM pg_prepared_xacts p
WHERE p.database = current_database()
  AND p.prepared < now() - make_interval(secs => $1::float8)
ORDER BY p.prepared;
