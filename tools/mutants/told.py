"""Ways to break what is told of jobs and queues, and the tests that must notice."""

from tools.mutants.mutant import Mutant

_SQL = "jobqueue/store/sql"

TOLD = (
    Mutant(
        "jobs that are removed while figures are counted anew stay in them",
        f"{_SQL}/lock_depths.sql",
        "SHARE ROW EXCLUSIVE",
        "ACCESS SHARE",
        "tests/races/test_recount.py",
    ),
    Mutant(
        "jobs of a deleted queue hide those of the one that has its name",
        f"{_SQL}/count_delayed.sql",
        " AND q.deleted_at IS NULL",
        "",
        "tests/store/test_figures.py",
    ),
    Mutant(
        "a job that waits for longer than its events are kept forgets why it failed",
        f"{_SQL}/get_job.sql",
        "\n          UNION ALL\n"
        "          SELECT job, seq, at, from_status, to_status, reason, detail"
        " FROM jobqueue.job_events_kept",
        "",
        "tests/store/test_partitions.py",
    ),
    Mutant(
        "a handler whose lease was lost took no time",
        "jobqueue/worker/executor.py",
        "if attempt.given_up:\n            return\n        if not self._seconds",
        "if outcome is None:\n            return\n        if not self._seconds",
        "tests/unit/worker/test_handlers.py",
    ),
    Mutant(
        "a page of rare jobs looks through all that ever ended",
        "jobqueue/store/jobs.py",
        "return await db.fetchval(_LIST_END, before, LOOKED_THROUGH, *flags) or 0",
        "return 0",
        "tests/store/test_desk.py",
    ),
    Mutant(
        "a page without jobs is the last one",
        "jobqueue/submission/jobs.py",
        'if end else ""',
        'if end and page else ""',
        "tests/store/test_desk.py",
    ),
    Mutant(
        "jq-ctl job list looks for rare jobs however long it takes",
        "jobqueue/cli/ctl/job.py",
        " or (left is not None and monotonic() > ends_at)",
        "",
        "tests/unit/cli/test_ctl_output.py",
    ),
    Mutant(
        "a tail walks the ids of events that are long gone",
        "jobqueue/events/tail.py",
        "max(upto, first - _DISORDER)",
        "upto",
        "tests/store/test_tail.py",
    ),
    Mutant(
        "a tail goes on from places without what commits late",
        "jobqueue/events/tail.py",
        "if past else self._told(place)",
        "if past else self._told(Place(place.step, place.step.end.last_eid))",
        "tests/store/test_tail.py",
    ),
)
