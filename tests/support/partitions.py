"""Events of weeks long past."""

from jobqueue.store.pool import Connection
from jobqueue.store.upkeep import roll_stats

YEAR_S = 365 * 86_400.0
AN_OLD_WEEK = "2020-01-06"
OLD = "job_events_2020w02"
AN_EVENT = """
    INSERT INTO jobqueue.job_events (job, at, queue_id, seq, to_status, reason, attempt)
    VALUES (1, $1::text::timestamptz, 1, 1, 'PENDING', 'SUBMITTED', 0)
"""


async def age_everything(db: Connection) -> None:
    """Count all events so far, then move them and their jobs into a week of 2020.

    The next week and this one have had events too.
    """
    await roll_stats(db)
    await db.execute("SELECT jobqueue.create_event_partition($1::text::date)", "2020-01-13")
    for at in ("2020-01-14", "now"):
        undone = db.transaction()
        await undone.start()
        await db.execute(AN_EVENT, at)
        await undone.rollback()
    await db.execute("SELECT jobqueue.create_event_partition($1::text::date)", AN_OLD_WEEK)
    await db.execute("ALTER TABLE jobqueue.job_events DISABLE TRIGGER job_events_immutable")
    await db.execute("UPDATE jobqueue.job_events SET at = timestamptz '2020-01-07' + (at - now())")
    await db.execute("ALTER TABLE jobqueue.job_events ENABLE ALWAYS TRIGGER job_events_immutable")
    await db.execute("UPDATE jobqueue.jobs SET created_at = '2020-01-07'")


async def keep_an_event_of_no_job(db: Connection) -> None:
    """Leave among the kept events one that may be forgotten."""
    await roll_stats(db)
    await db.execute(
        "INSERT INTO jobqueue.job_events_kept (eid, xid, job, at, queue_id, seq, to_status,"
        " reason, attempt) VALUES (0, '3', 1, '2020-01-07', 1, 1, 'PENDING', 'SUBMITTED', 0)"
    )


async def detach_is_pending(db: Connection) -> bool:
    """Tell whether a partition waits to be detached."""
    return bool(await db.fetchval("SELECT bool_or(inhdetachpending) FROM pg_inherits"))
