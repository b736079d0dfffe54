-- The least event id among the first blocks of each partition; NULL: there are no events. Rows are
-- only ever added, so the oldest are there, give or take what many sessions wrote at once.
SELECT min(e.eid) FROM jobqueue.job_events e WHERE e.ctid < '(128,0)'::tid;
