-- Extends the lease of a cursor; 0 seconds end it. No row: the token is not the holder's any more.
-- $1 name text · $2 token bigint · $3 seconds float8
UPDATE jobqueue.event_cursors
SET expires_at = clock_timestamp() + make_interval(secs => $3::float8)
WHERE name = $1::text AND token = $2::bigint AND expires_at > clock_timestamp()
RETURNING token;
