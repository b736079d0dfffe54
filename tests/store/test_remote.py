"""The statements behind remote workers: what a worker serves, what it holds, how far it is."""

from dataclasses import replace

from jobqueue.domain.job import Progress
from jobqueue.domain.lease import Lease
from jobqueue.store.jobs import get_job
from jobqueue.store.leases import look_up_leases, note_progress
from jobqueue.store.pool import Connection
from jobqueue.store.workers import (
    Serving,
    deregister_worker,
    get_session_key,
    is_newest_stream,
    open_stream,
    register_worker,
)
from tests.store.conftest import Connect
from tests.support.store import WORKER, add_queue, claim, submit
from tests.support.workers import facts


async def test_a_stream_has_room_for_what_its_worker_runs_and_holds_ready(db: Connection) -> None:
    number = await register_worker(db, replace(facts("w-1", concurrency=4), prefetch=3))
    assert await open_stream(db, number) == Serving(1, ("q",), frozenset({"t"}), 7)
    await deregister_worker(db, number)
    assert await open_stream(db, number) is None


async def test_only_the_last_stream_of_a_registered_worker_is_the_newest(db: Connection) -> None:
    number = await register_worker(db, facts("w-1"))
    streams = [serving.stream for _ in range(2) if (serving := await open_stream(db, number))]
    assert [await is_newest_stream(db, number, each) for each in streams] == [False, True]
    await deregister_worker(db, number)
    assert not await is_newest_stream(db, number, streams[-1])


async def test_sessions_are_signed_with_a_long_key_that_stays(db: Connection) -> None:
    key = await get_session_key(db)
    assert len(key) == 32
    assert await get_session_key(db) == key


async def test_only_leases_of_that_worker_and_token_are_found(db: Connection) -> None:
    await add_queue(db)
    await submit(db, 3)
    ours = [job.lease for job in await claim(db, 2, running=False)]
    (theirs,) = await claim(db, 1, worker=WORKER + 1)
    asked = [*ours, theirs.lease, Lease(ours[0].job, ours[0].token + 99), ours[0]]
    found = await look_up_leases(db, worker=WORKER, leases=asked)
    assert sorted(held.lease.job for held in found) == sorted(lease.job for lease in ours)
    assert {(held.queue, held.running) for held in found} == {("q", False)}


async def test_progress_is_kept_for_running_jobs_of_that_worker(db: Connection) -> None:
    await add_queue(db)
    ids = await submit(db, 3)
    (running,) = await claim(db, 1)
    (waiting,) = await claim(db, 1, running=False)
    (theirs,) = await claim(db, 1, worker=WORKER + 1)
    said = {job.lease: Progress(40, "on it") for job in (running, waiting, theirs)}
    assert await note_progress(db, worker=WORKER, progress=said) == [running.lease]
    stale = Lease(running.lease.job, running.lease.token - 1)
    assert await note_progress(db, worker=WORKER, progress={stale: Progress(90, "late")}) == []
    shown = [job and job.progress for job in [await get_job(db, job_id) for job_id in ids]]
    assert shown == [Progress(40, "on it"), None, None]
    await note_progress(db, worker=WORKER, progress={running.lease: Progress(None, "")})
    found = await get_job(db, running.job_id)
    assert found is not None
    assert found.progress == Progress(None, "")


async def test_progress_does_not_wait_for_a_row_that_somebody_holds(
    db: Connection, another: Connect
) -> None:
    await add_queue(db)
    (job_id,) = await submit(db)
    (job,) = await claim(db, 1)
    other = await another()
    async with other.transaction():
        await other.execute("SELECT 1 FROM jobqueue.leases FOR UPDATE")
        said = {job.lease: Progress(40, "dropped")}
        assert await note_progress(db, worker=WORKER, progress=said) == [job.lease]
    found = await get_job(db, job_id)
    assert found is not None
    assert found.progress is None
