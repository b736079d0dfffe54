-- Those of these attempts that their worker ended already: the answer for one whose settlement
-- was lost on its way. By primary key.
-- $1 ids bigint[], $2 tokens bigint[]
SELECT i.id AS job, i.token
FROM (SELECT DISTINCT id, token FROM unnest($1::bigint[], $2::bigint[]) t (id, token)) i
WHERE EXISTS (SELECT FROM jobqueue.finished f
              WHERE f.id = ANY (ARRAY[i.id]) AND f.token = i.token)
   OR EXISTS (SELECT FROM jobqueue.scheduled s
              WHERE s.id = ANY (ARRAY[i.id]) AND s.token = i.token);
