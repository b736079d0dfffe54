-- The place down to which one page of a list looks, for what no index leads to: before a job, the
-- last of the next $2 finished ones, or of those that are ready, or scheduled, whichever is newer.
-- NULL: there are no more, and it looks to the end.
-- $1 older than this job bigint · $2 jobs int · $3 finished, $4 ready, $5 scheduled ones count bool
SELECT greatest(
    (SELECT f.id FROM jobqueue.finished f WHERE $3::bool AND f.id < $1::bigint
     ORDER BY f.id DESC OFFSET $2::int LIMIT 1),
    (SELECT r.id FROM jobqueue.ready r WHERE $4::bool AND r.id < $1
     ORDER BY r.id DESC OFFSET $2 LIMIT 1),
    (SELECT s.id FROM jobqueue.scheduled s WHERE $5::bool AND s.id < $1
     ORDER BY s.id DESC OFFSET $2 LIMIT 1));
