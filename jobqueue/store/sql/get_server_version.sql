-- Version of PostgreSQL; also the probe of "can it be reached".
SELECT current_setting('server_version');
