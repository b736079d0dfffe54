-- Bounds every statement in the rest of this transaction, and its waits for locks.
-- $1 milliseconds of a statement text · $2 milliseconds of a wait text
SELECT set_config('statement_timeout', $1::text, true), set_config('lock_timeout', $2::text, true);
