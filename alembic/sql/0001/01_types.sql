-- Statuses and reasons are enums: four bytes in every row, words in every query.

CREATE TYPE jobqueue.job_state AS ENUM
    ('PENDING', 'ASSIGNED', 'RUNNING', 'DONE', 'FAILED', 'DEAD_LETTERED');

CREATE TYPE jobqueue.move_reason AS ENUM (
    'SUBMITTED', 'CLAIMED', 'STARTED', 'COMPLETED', 'HANDLER_FAILED', 'TIMED_OUT',
    'LEASE_EXPIRED', 'ASSIGNMENT_TIMEOUT', 'RELEASED', 'NO_HANDLER', 'RETRY_LATER', 'RETRY_DUE',
    'RETRIES_EXHAUSTED', 'CRASH_LIMIT', 'REFUSED', 'TTL_EXPIRED', 'CANCELLED', 'OPERATOR_RETRY');
