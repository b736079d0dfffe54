-- Asks nothing; an answer proves that the peer of the connection is still there. Not the empty
-- statement, which asyncpg takes for a fault.
SELECT 1 AS answer;
