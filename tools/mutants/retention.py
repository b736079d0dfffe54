"""Ways to break what removes old rows and counts the rest, and the tests that must notice."""

from tools.mutants.mutant import Mutant

_EVENTS = "alembic/sql/0001/03_events.sql"
_PARTITIONS = "alembic/sql/0001/07_partitions.sql"
_SQL = "jobqueue/store/sql"

_KEPT_TESTS = "tests/store/test_kept_events.py"
_PARTITION_TESTS = "tests/store/test_partitions.py"
_UPKEEP_TESTS = "tests/races/test_upkeep.py"

RETENTION = (
    Mutant(
        "a clock that jumped ahead takes the newest events",
        f"{_SQL}/list_old_partitions.sql",
        "WHERE w.outlived",
        "WHERE true",
        _PARTITION_TESTS,
    ),
    Mutant(
        "a restored dump goes to Kafka again and again",
        f"{_SQL}/open_event_window.sql",
        "AND e.xid < pg_snapshot_xmax(pg_current_snapshot())",
        "AND true",
        "tests/store/test_cursor.py",
    ),
    Mutant(
        "what was open when a cursor passed by is missed after a restore, if its ids are low",
        f"{_SQL}/reseed_event_cursor.sql",
        "SELECT pg_snapshot_xip(c.snapshot) UNION ALL",
        "SELECT NULL::xid8 UNION ALL",
        "tests/store/test_restored_stream.py",
    ),
    Mutant(
        "a job that is removed before a restored cursor begins anew is forgotten",
        f"{_SQL}/forget_removed_jobs.sql",
        "WHERE c.system_identifier <> s.system_identifier",
        "WHERE false",
        "tests/store/test_restored_stream.py",
    ),
    Mutant(
        "what a restored dump brought is counted once more when its transactions come to pass",
        f"{_SQL}/recount_stats.sql",
        "restored_eid = greatest(restored_eid, (",
        "restored_eid = least(restored_eid, (",
        "tests/store/test_restored_figures.py",
    ),
    Mutant(
        "events of jobs that nothing is known of go to Kafka",
        f"{_SQL}/read_event_window.sql",
        "AND coalesce(j.job_id, r.job_id) IS NOT NULL",
        "",
        "tests/store/test_cursor.py",
    ),
    Mutant(
        "however many removed jobs there are, they are forgotten at once or not at all",
        f"{_SQL}/forget_removed_jobs.sql",
        "WHERE r.id > $1::bigint ORDER BY r.id LIMIT $2::int",
        "WHERE r.id > $1::bigint ORDER BY r.id",
        _KEPT_TESTS,
    ),
    Mutant(
        "a step of the hourly upkeep that fails keeps the others",
        "jobqueue/reaper/upkeep.py",
        "self.tell(error, step=step.name)\n            return False",
        "self.tell(error, step=step.name)\n            raise",
        _UPKEEP_TESTS,
    ),
    Mutant(
        "a step of the hourly upkeep that takes too long ends the others",
        "jobqueue/reaper/upkeep.py",
        "if connection_lost(cause) and not out_of_time(cause):",
        "if connection_lost(cause):",
        _UPKEEP_TESTS,
    ),
    Mutant(
        "an outage in the midst of the hourly upkeep puts it off for an hour",
        "jobqueue/reaper/upkeep.py",
        "if connection_lost(cause) and not out_of_time(cause):",
        "if False:",
        _UPKEEP_TESTS,
    ),
    Mutant(
        "upkeep that left something undone is at it again at once",
        "jobqueue/runtime/service.py",
        "self._rest(None) if told else self._backoff()",
        "self._backoff()",
        "tests/unit/runtime/test_service.py",
    ),
    Mutant(
        "upkeep gives up before an autovacuum gives way",
        _PARTITIONS,
        "RETURNS bool\nLANGUAGE plpgsql SET lock_timeout = '30s'",
        "RETURNS bool\nLANGUAGE plpgsql SET lock_timeout = '200ms'",
        _PARTITION_TESTS,
    ),
    Mutant(
        "kept events stay for ever once all tables are published",
        _EVENTS,
        "REPLICA IDENTITY USING INDEX job_events_kept_job",
        "REPLICA IDENTITY DEFAULT",
        _KEPT_TESTS,
    ),
    Mutant(
        "a partition that was left detached keeps the schema",
        "alembic/sql/0001/down/drop.sql",
        "EXECUTE format('DROP TABLE %s', part)",
        "NULL",
        "tests/store/test_migrate.py",
    ),
    Mutant(
        "a count of all jobs may take no longer than other statements",
        "jobqueue/store/upkeep.py",
        "connection.execute(_RECOUNT_STATS, timeout=SWEEP_TIMEOUT_S)",
        "connection.execute(_RECOUNT_STATS)",
        _UPKEEP_TESTS,
    ),
)
