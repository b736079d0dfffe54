-- Where a reader without a stored cursor begins: what commits after this statement. epoch changes
-- when transaction ids may have been issued anew: after a crash, a failover or a restore. A crash of
-- one backend leaves the postmaster as it is, but every recovery resets the statistics.
SELECT pg_current_snapshot()::text AS snapshot, e.last_value AS last_eid,
       clock_timestamp() - interval '1 day' AS since,
       concat_ws('/', s.system_identifier, c.timeline_id, pg_postmaster_start_time(),
                 b.stats_reset) AS epoch,
       pg_is_in_recovery() AS standby
FROM jobqueue.event_id_seq e, pg_control_system() s, pg_control_checkpoint() c,
     pg_stat_bgwriter b;
