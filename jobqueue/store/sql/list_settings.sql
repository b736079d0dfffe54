-- The settings of PostgreSQL that our promises rest on, as our connections see them, and whether
-- this is a standby, and which of our tables a crash would empty.
SELECT current_setting('server_version_num')::int / 10000 AS version,
       pg_is_in_recovery() AS standby, current_setting('fsync') AS fsync,
       current_setting('full_page_writes') AS full_page_writes,
       current_setting('synchronous_commit') AS synchronous_commit,
       current_setting('default_transaction_read_only') AS default_transaction_read_only,
       current_setting('default_transaction_isolation') AS default_transaction_isolation,
       ARRAY(SELECT c.relname::text FROM pg_class c
             JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = 'jobqueue'
             WHERE c.relkind = 'r' AND c.relpersistence = 'u' ORDER BY 1) AS unlogged;
