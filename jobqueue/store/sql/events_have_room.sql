-- Whether the partition of events is attached that a day from now will fall into.
SELECT EXISTS (
    SELECT FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = 'jobqueue.job_events'::regclass AND NOT i.inhdetachpending
      AND c.relname = 'job_events_'
          || to_char(date_trunc('week', (now() AT TIME ZONE 'UTC') + interval '1 day'), 'IYYY"w"IW')
);
