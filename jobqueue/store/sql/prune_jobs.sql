-- Removes DONE jobs that ended more than $2 seconds ago. Walks finished by id from $1, at most
-- $3 rows a call, so that a held row or a young one never hides the rest; returns where to go on
-- (NULL: the end was reached), whether the last one was created less than $2 seconds ago, how many
-- were removed. Behind one so young nothing is due, unless a clock was wrong: ids go by creation, and
-- no job ends before it.
-- $1 after this job bigint · $2 retention seconds float8 · $3 rows to look at int
WITH page AS MATERIALIZED (
    SELECT f.id, f.dead, f.finished_at FROM jobqueue.finished f
    WHERE f.id > $1::bigint ORDER BY f.id LIMIT $3::int
), old AS MATERIALIZED (
    SELECT f.id FROM jobqueue.finished f JOIN page USING (id)
    WHERE NOT page.dead AND page.finished_at < now() - make_interval(secs => $2::float8)
    FOR UPDATE OF f SKIP LOCKED
), last AS (
    SELECT max(id) AS id FROM page HAVING count(*) = $3::int
)
SELECT (SELECT id FROM last) AS next_job,
       EXISTS (SELECT FROM last JOIN jobqueue.jobs j USING (id)
               WHERE j.created_at > now() - make_interval(secs => $2)) AS young,
       CASE WHEN EXISTS (SELECT FROM old)
            THEN jobqueue.remove_finished(ARRAY(SELECT id FROM old)) ELSE 0 END AS removed;
