-- Names the database itself, the same by whatever address it was reached, also after a failover.
SELECT s.system_identifier::text || '-' || d.oid::text
FROM pg_catalog.pg_control_system() s, pg_catalog.pg_database d
WHERE d.datname = current_database();
