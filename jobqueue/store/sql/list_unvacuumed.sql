-- What keeps autovacuum from our tables: settings of the cluster that are off, and tables that
-- were taken out of it.
SELECT s.name, 'is off' AS fault FROM pg_settings s
WHERE s.name IN ('autovacuum', 'track_counts') AND s.setting = 'off'
UNION ALL
SELECT c.relname, 'is taken out of autovacuum'
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = 'jobqueue'
WHERE 'autovacuum_enabled=false' = ANY (c.reloptions) OR 'autovacuum_enabled=off' = ANY (c.reloptions)
ORDER BY 1;
