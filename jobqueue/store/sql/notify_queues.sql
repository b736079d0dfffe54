-- A hint to idle workers, sent after commit: NOTIFY takes a cluster-wide lock at commit, so it
-- must not ride in a hot transaction.
-- $1 queue names, comma-separated, under 8,000 bytes text
SELECT pg_notify('jobqueue_ready', $1::text);
