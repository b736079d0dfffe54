"""How often the leases of a worker are renewed, measured in the database (R-4.1)."""

import asyncio
import contextlib
from datetime import datetime

import asyncpg
import pytest

from jobqueue.domain.outcome import Completed
from jobqueue.errors import DeadlineExceeded, Unavailable
from jobqueue.lease.interface import LeaseGone
from jobqueue.lease.settings import LeaseSettings
from jobqueue.lease.takeover import Takeover, expired
from jobqueue.store.pool import Connection
from tests.support.leases import Heard, is_renewed, open_leases
from tests.support.settling import settled
from tests.support.store import submit
from tests.support.waiting import eventually

SLOW_RENEWALS = """
    CREATE TABLE public.renewals (leases int NOT NULL, least_left_s float8 NOT NULL);
    CREATE FUNCTION public.be_slow() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN PERFORM pg_sleep(0.3); RETURN NULL; END $$;
    CREATE FUNCTION public.note_renewal() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN
        INSERT INTO public.renewals
        SELECT count(*), min(extract(epoch FROM o.expires_at - clock_timestamp())) FROM o;
        RETURN NULL;
    END $$;
    CREATE TRIGGER slow BEFORE UPDATE ON jobqueue.leases
        EXECUTE FUNCTION public.be_slow();
    CREATE TRIGGER noted AFTER UPDATE ON jobqueue.leases REFERENCING OLD TABLE AS o
        EXECUTE FUNCTION public.note_renewal();
"""


async def test_fifty_leases_are_renewed_together_and_in_time_by_a_slow_database(
    database: str, db: Connection
) -> None:
    await submit(db, 50)
    await db.execute(SLOW_RENEWALS)
    async with open_leases(database) as leases:
        jobs = await leases.claim(50, running=True)
        await is_renewed(db, jobs[0], times=3)
        renewals = await db.fetch("SELECT leases, least_left_s FROM public.renewals")
        assert all(await asyncio.gather(*(settled(leases, job, Completed()) for job in jobs)))
    assert {r["leases"] for r in renewals} == {50}
    assert all(r["least_left_s"] > 0 for r in renewals)
    assert len(renewals) >= 3


NOTED_RENEWALS = """
    CREATE TABLE public.beats (id bigint, token bigint, at timestamptz DEFAULT clock_timestamp());
    CREATE FUNCTION public.note_beat() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN INSERT INTO public.beats (id, token) SELECT id, token FROM n; RETURN NULL; END $$;
    CREATE TRIGGER noted AFTER UPDATE ON jobqueue.leases REFERENCING NEW TABLE AS n
        FOR EACH STATEMENT EXECUTE FUNCTION public.note_beat();
"""
THREE_IN_LESS = """
    SELECT count(*) FROM (
        SELECT at - lag(at, 2) OVER (PARTITION BY id, token ORDER BY at) AS took FROM public.beats
    ) of_three
    WHERE took < make_interval(secs => $1)
"""
LOST_AT_MOST = 20
"""A machine that stands still for a second costs so short a lease."""


@pytest.mark.parametrize("lease_s", [1.0, 2.0])
async def test_a_short_lease_is_renewed_three_times_before_it_would_end(
    database: str, db: Connection, lease_s: float
) -> None:
    await submit(db, 1 + LOST_AT_MOST)
    await db.execute(NOTED_RENEWALS)
    short = LeaseSettings(lease_s, renew_interval_s=lease_s / 3, heartbeat_interval_s=0.5)
    async with open_leases(database, settings=short) as leases:

        async def often() -> bool:
            if not leases._keeper.leases():
                with contextlib.suppress(DeadlineExceeded, Unavailable):  # it has not much time
                    assert await leases.claim(1, running=True), "so many were lost"
            return bool(await db.fetchval(THREE_IN_LESS, 0.9 * lease_s) >= 3)

        await eventually(often, within_s=60, what="three renewals in less than a lease, thrice")


RUN_OUT = "UPDATE jobqueue.leases SET expires_at = clock_timestamp() WHERE id = $1"
HOLD = "SELECT FROM jobqueue.leases WHERE id = $1 FOR UPDATE"


async def ends(db: Connection) -> dict[int, datetime]:
    """Return until when each lease lasts, by its job."""
    return {r["id"]: r["expires_at"] for r in await db.fetch("SELECT * FROM jobqueue.leases")}


async def test_of_twenty_leases_one_is_taken_back_and_one_is_held_and_the_others_are_renewed(
    database: str, db: Connection
) -> None:
    await submit(db, 20)
    reaper = Takeover(expired(), page_size=100, crash_limit=3)
    holder = await asyncpg.connect(database)
    async with open_leases(database) as leases:
        heard, (gone, held, *others) = Heard(leases), await leases.claim(20, running=True)

        async def taken_back() -> int:  # again where a renewal came between
            await db.execute(RUN_OUT, gone.lease.job)
            return (await reaper.step(db)).taken

        async with holder.transaction():
            await holder.execute(HOLD, held.lease.job)
            before = await ends(db)
            assert await eventually(taken_back, what="the end of a lease") == 1
            await heard.hears(LeaseGone(gone.lease))

            async def renewed() -> bool:
                now = await ends(db)
                return all(now[job.lease.job] > before[job.lease.job] for job in others)

            await eventually(renewed, what="renewals of all others")
            assert (await ends(db))[held.lease.job] == before[held.lease.job]
        await is_renewed(db, held)
        assert heard.news == [LeaseGone(gone.lease)]
        assert all(
            await asyncio.gather(*(settled(leases, j, Completed()) for j in (held, *others)))
        )
    await holder.close()
