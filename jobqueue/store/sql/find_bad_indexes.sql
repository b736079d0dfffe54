-- Indexes of ours that PostgreSQL does not use because they are not valid, and those of $1 that
-- are missing.
-- $1 names of indexes that statements rely on text[]
SELECT c.relname AS name, 'not valid' AS fault
FROM pg_index x
JOIN pg_class c ON c.oid = x.indexrelid
JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = 'jobqueue'
WHERE NOT (x.indisvalid AND x.indisready)
UNION ALL
SELECT w.name, 'missing' FROM unnest($1::text[]) w (name)
WHERE to_regclass('jobqueue.' || quote_ident(w.name)) IS NULL
ORDER BY 1;
