-- Makes a consumer's cursor, unless it is there: it begins with what commits after this statement.
-- Costs no transaction id when it is there.
-- $1 name text
INSERT INTO jobqueue.event_cursors (name, snapshot, since, last_eid, system_identifier)
SELECT $1::text, pg_current_snapshot(), '-infinity',
       e.last_value - (NOT e.is_called)::int, s.system_identifier
FROM jobqueue.event_id_seq e, pg_control_system() s
WHERE NOT EXISTS (SELECT FROM jobqueue.event_cursors WHERE name = $1)
ON CONFLICT (name) DO NOTHING;
