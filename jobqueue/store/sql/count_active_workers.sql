-- How many workers are there and take jobs.
SELECT count(*) FROM jobqueue.workers WHERE status = 'ACTIVE';
