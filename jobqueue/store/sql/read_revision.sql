-- The revision of the schema. Undefined table: never migrated.
SELECT version_num FROM jobqueue.alembic_version;
