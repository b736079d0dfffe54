-- Takes a cursor whose lease is over, with a fresh token. No row: another holds it, or it is not
-- there, or this is a standby. valid is false in another cluster than the one the cursor was stored
-- in (a restored dump), where transaction ids mean something else.
-- $1 name text · $2 holder text · $3 seconds float8
UPDATE jobqueue.event_cursors c
SET holder = $2::text, token = nextval('jobqueue.cursor_token_seq'),
    expires_at = clock_timestamp() + make_interval(secs => $3::float8)
FROM pg_control_system() s
WHERE c.name = $1::text AND (c.expires_at IS NULL OR c.expires_at <= clock_timestamp())
  AND NOT pg_is_in_recovery()
RETURNING c.token,
          c.system_identifier = s.system_identifier
          AND pg_snapshot_xmax(c.snapshot) <= pg_snapshot_xmax(pg_current_snapshot()) AS valid;
