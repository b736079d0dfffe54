-- Lets nobody lower a depth before the end of the transaction. Jobs are removed without an event: a
-- count that was begun before would put them back for good.
LOCK TABLE jobqueue.queue_depths IN SHARE ROW EXCLUSIVE MODE;
