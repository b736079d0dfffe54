-- The two roles that programs use, made by RDS's administrator (jq_admin) in the database jobqueue.
-- Run it once, before the first migration, with the passwords from Secrets Manager:
--
--   psql "host=… dbname=jobqueue user=jq_admin sslmode=require" \
--     -v server_password=… -v worker_password=… -f bootstrap.sql
--
-- Run again with other passwords, it changes them.

\set ON_ERROR_STOP on

SELECT format('CREATE ROLE %I LOGIN', name)
FROM unnest(ARRAY['jq_user', 'jq_worker']) AS name
WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = name) \gexec

ALTER ROLE jq_user PASSWORD :'server_password';
ALTER ROLE jq_worker PASSWORD :'worker_password';

-- The server makes and drops partitions, so it owns the schema, which it creates by itself. An
-- administrator that is no superuser can give only to roles that it is a member of.
GRANT jq_user TO CURRENT_USER;

SELECT format('ALTER DATABASE %I OWNER TO jq_user', current_database()) \gexec

-- So that jq_db_oldest_xmin_age_seconds sees transactions of others. pg_read_all_stats would do, but
-- from PostgreSQL 16 on an administrator gives only what it has with ADMIN OPTION, which RDS's is
-- expected to have for this role.
GRANT pg_monitor TO jq_user;
