-- Bounds every wait for a lock in the rest of this transaction.
-- $1 milliseconds text
SELECT set_config('lock_timeout', $1::text, true);
