-- What servers sign the sessions of remote workers with.
SELECT k.key FROM jobqueue.session_key k;
