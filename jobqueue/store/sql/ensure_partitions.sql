-- Makes the partitions of this week and of the next $1 weeks; returns how many were new.
-- $1 weeks int
SELECT count(*) FILTER (WHERE jobqueue.create_event_partition(
    (date_trunc('week', now() AT TIME ZONE 'UTC'))::date + 7 * n)) AS created
FROM generate_series(0, $1::int) n;
