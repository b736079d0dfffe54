-- Says whether a commit that was answered survives a crash of PostgreSQL: anything but 'off'.
SELECT current_setting('synchronous_commit');
