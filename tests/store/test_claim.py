"""Claims: which jobs, in which order, how many, and what is written about them."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from jobqueue.domain.outcome import Released
from jobqueue.store.leases import lock_queue, start_leases
from jobqueue.store.pool import Connection
from jobqueue.store.queues import pause_queue
from tests.store.conftest import Connect
from tests.support.store import (
    WORKER,
    add_queue,
    claim,
    claim_one,
    delete_queue,
    end_ttl,
    last_event,
    path,
    probes,
    row_of,
    settle,
    spec,
    status,
    store,
    submit,
)

CLAIMERS = 8
CLAIMED = "SELECT count(*) FROM jobqueue.job_event_log WHERE reason = 'CLAIMED'"
STATISTICS = """
    DELETE FROM pg_statistic
    WHERE starelid = ANY ('{jobqueue.ready,jobqueue.scheduled,jobqueue.leases}'::regclass[])
"""


async def test_a_claim_to_run_writes_lease_and_both_events(db: Connection) -> None:
    await add_queue(db)
    (job_id,) = await submit(db, payload=b"p", ttl_s=60.0)
    job = await claim_one(db)
    assert (job.job_id, job.payload, job.attempt, job.running) == (job_id, b"p", 1, True)
    assert await path(db, job_id) == ["PENDING:SUBMITTED", "ASSIGNED:CLAIMED", "RUNNING:STARTED"]
    lease = await row_of(db, "leases", job_id)
    assert lease is not None
    assert (lease["token"], lease["attempt"], lease["worker_id"]) == (job.lease.token, 1, WORKER)
    assert lease["ttl_expires_at"] is None
    assert lease["expires_at"] - lease["started_at"] >= timedelta(seconds=59)  # type: ignore[operator]
    event = await last_event(db, job_id)
    assert (event["token"], event["attempt"]) == (job.lease.token, 1)


async def test_a_prefetched_job_is_assigned_and_no_attempt_yet(db: Connection) -> None:
    await add_queue(db)
    (job_id,) = await submit(db, ttl_s=60.0)
    job = await claim_one(db, running=False)
    assert (job.running, job.attempt) == (False, 1)
    assert await path(db, job_id) == ["PENDING:SUBMITTED", "ASSIGNED:CLAIMED"]
    lease = await row_of(db, "leases", job_id)
    assert lease is not None
    assert (lease["attempt"], lease["started_at"]) == (0, None)
    assert lease["ttl_expires_at"] is not None


async def test_order_is_priority_then_ready_at_then_id(db: Connection) -> None:
    await add_queue(db)
    low, high, later_high = [(await submit(db, priority=p))[0] for p in (1, 9, 9)]
    tied = await submit(db, 2, priority=5)
    await db.execute(
        "UPDATE jobqueue.ready r SET ready_at = '2020-01-01' FROM jobqueue.jobs j "
        "WHERE j.id = r.id AND j.job_id = ANY ($1)",
        tied,
    )
    await db.execute(
        "UPDATE jobqueue.ready r SET ready_at = r.ready_at - interval '1 h' FROM jobqueue.jobs j "
        "WHERE j.id = r.id AND j.job_id = $1",
        later_high,
    )
    claimed = [job.job_id for job in await claim(db, 10)]
    assert claimed == [later_high, high, *tied, low]


@pytest.mark.parametrize("at", ["-infinity", "infinity", "4713-01-01 BC"])
async def test_a_job_that_is_ready_since_no_time_stops_no_claim(bare: Connection, at: str) -> None:
    await add_queue(bare)
    odd, plain = await submit(bare, 2)
    # Not a time the product stores: a hand in the database does.
    await bare.execute(
        "UPDATE jobqueue.ready r SET ready_at = $2::text::timestamptz FROM jobqueue.jobs j "
        "WHERE j.id = r.id AND j.job_id = $1",
        odd,
        at,
    )
    jobs = await claim(bare, 2, running=False)
    assert {job.job_id for job in jobs} == {odd, plain}
    leases = [job.lease for job in jobs]
    answers = await start_leases(bare, worker=WORKER, leases=leases, lease_s=60.0)
    assert [answer.state for answer in answers] == ["started"] * 2


async def test_a_claim_of_fewer_than_there_are_takes_the_oldest(db: Connection) -> None:
    await add_queue(db)
    ids = [(await submit(db))[0] for _ in range(4)]
    ids += await submit(db, 3)  # at one time: their ids decide
    taken = [[job.job_id for job in await claim(db, n)] for n in (1, 4)]
    assert taken == [ids[:1], ids[1:5]]


async def test_probes_are_visited_in_their_order_and_up_to_their_quotas(db: Connection) -> None:
    for name in ("a", "b"):
        await add_queue(db, name)
        await submit(db, 5, queue=name)
    where = [*probes(["b"], [0], quota=1), *probes(["a"], [0], quota=3)]
    assert [job.queue for job in await claim(db, 10, where=where)] == ["b", "a", "a", "a"]


async def test_a_place_that_is_visited_twice_gives_each_job_once_and_all_together(
    db: Connection,
) -> None:
    for name in ("a", "b"):
        await add_queue(db, name)
    ours, theirs = await submit(db, 5, queue="a"), await submit(db, 2, queue="b")
    first = probes(["a"], [0], quota=2)
    where = [*first, *probes(["b"], [0], quota=1), *(replace(p, quota=9, skip=2) for p in first)]
    assert [job.job_id for job in await claim(db, 10, where=where)] == [*ours, theirs[0]]


async def test_a_claim_locks_exactly_what_it_takes(db: Connection, another: Connect) -> None:
    for name in ("a", "b"):
        await add_queue(db, name)
        await submit(db, 10, queue=name)
    other = await another()
    async with db.transaction():
        assert len(await claim(db, 12, where=probes(["a", "b"]))) == 12
        free = await other.fetch("SELECT FROM jobqueue.ready FOR UPDATE SKIP LOCKED")
        assert len(free) == 8


async def test_a_claim_passes_over_what_another_one_holds(db: Connection, another: Connect) -> None:
    await add_queue(db)
    ids = await submit(db, 10)
    other = await another()
    await other.execute("SET lock_timeout = '1ms'")  # whoever waits fails
    async with db.transaction():
        assert len(await claim(db, 4)) == 4
        assert [job.job_id for job in await claim(other, 4)] == ids[4:8]


async def test_concurrent_claimers_all_fill_up_and_share_no_job(
    db: Connection, another: Connect
) -> None:
    await add_queue(db)
    await submit(db, CLAIMERS * 10 * 25)

    async def claimer(connection: Connection, worker: int) -> list[int]:
        sizes, held = [], []
        for _ in range(10):
            batch = await claim(connection, 25, worker=worker)
            sizes.append(len(batch))
            held += [job.lease.job for job in batch]
        assert sizes == [25] * 10
        return held

    connections = [await another() for _ in range(CLAIMERS)]
    claimed = await asyncio.gather(*[claimer(c, n) for n, c in enumerate(connections)])
    everything = [job for jobs in claimed for job in jobs]
    assert len(set(everything)) == len(everything) == CLAIMERS * 250


async def test_without_statistics_a_claim_takes_what_it_returns_and_no_more(
    db: Connection, another: Connect
) -> None:
    await add_queue(db)
    await submit(db, 2_000, delay_s=3_600.0)
    await submit(db, 10)
    await db.execute("ANALYZE jobqueue.ready, jobqueue.scheduled")
    assert await db.execute(STATISTICS) != "DELETE 0"
    connections = [await another() for _ in range(CLAIMERS)]

    async def claimer(connection: Connection, worker: int) -> list[int]:
        return [j.lease.job for _ in range(4) for j in await claim(connection, 1, worker=worker)]

    claimed = await asyncio.gather(*[claimer(c, n) for n, c in enumerate(connections)])
    found = [job for jobs in claimed for job in jobs]
    assert len(found) == len(set(found)) == 10
    assert await db.fetchval("SELECT count(*) FROM jobqueue.leases") == 10
    assert await db.fetchval(CLAIMED) == 10


@pytest.mark.parametrize(
    ("type_", "untyped", "runs"),
    [("t", False, True), ("unknown", True, False), (None, True, True), (None, False, False)],
)
async def test_a_job_nobody_here_can_run_comes_back_assigned(
    db: Connection, *, type_: str | None, untyped: bool, runs: bool
) -> None:
    await add_queue(db)
    (job_id,) = await submit(db, type=type_)
    (job,) = await claim(db, where=probes(untyped=untyped))
    assert job.running is runs
    assert await status(db, job_id) == ("RUNNING" if runs else "ASSIGNED")


@pytest.mark.parametrize("running", [True, False])
async def test_starting_ends_the_row_of_handbacks_and_missing_handlers(
    db: Connection, *, running: bool
) -> None:
    await add_queue(db)
    (job_id,) = await submit(db)
    await db.execute("UPDATE jobqueue.ready SET handbacks = 4, unhandled = 3, crashes = 1")
    job = await claim_one(db, running=running)
    expected = (0, 0, 1) if running else (4, 3, 1)
    assert (job.counters.handbacks, job.counters.unhandled, job.counters.crashes) == expected
    lease = await row_of(db, "leases", job_id)
    assert lease is not None
    assert (lease["handbacks"], lease["unhandled"], lease["crashes"]) == expected


async def test_paused_deleted_limited_and_unknown_queues_give_nothing(db: Connection) -> None:
    for name in ("paused", "deleted", "limited", "open"):
        await add_queue(db, name, max_running=5 if name == "limited" else None)
        await submit(db, queue=name)
    await pause_queue(db, "paused", paused=True)
    await delete_queue(db, "deleted", force=True)
    where = probes(["paused", "deleted", "limited", "unknown", "open"])
    assert [job.queue for job in await claim(db, 10, where=where)] == ["open"]
    came = await claim(db, 10, where=where, limited=["limited"])
    assert [job.queue for job in came] == ["limited"]


async def test_a_job_whose_ttl_is_over_is_never_claimed(db: Connection) -> None:
    await add_queue(db)
    await submit(db, ttl_s=60.0)
    await end_ttl(db)
    (fresh,) = await submit(db, ttl_s=60.0)
    assert [job.job_id for job in await claim(db, 10)] == [fresh]


async def test_a_token_never_comes_twice(db: Connection) -> None:
    await add_queue(db)
    await submit(db, 3)
    tokens = set()
    for _ in range(5):
        for job in await claim(db, 3):
            tokens.add(job.lease.token)
            await settle(db, job, Released())
    assert len(tokens) == 15


async def test_a_lease_is_as_old_as_its_claim_not_as_its_transaction(db: Connection) -> None:
    await add_queue(db)
    (job_id,) = await submit(db)
    async with db.transaction():
        await db.execute("SELECT pg_sleep(0.05)")  # the transaction's age is the fault
        await claim_one(db)
        begun = await db.fetchval("SELECT now()")
        lease = await row_of(db, "leases", job_id)
    assert lease is not None
    assert lease["claimed_at"] - begun >= timedelta(milliseconds=50)


async def test_a_job_carries_the_retry_policy_of_its_queue(db: Connection) -> None:
    await add_queue(db)
    await db.execute("UPDATE jobqueue.queues SET base_delay_s = 2, max_delay_s = 9, multiplier = 3")
    await store(db, [spec(max_retries=4, timeout_s=8.0, labels={"a": "b"})])
    job = await claim_one(db)
    policy = job.policy
    assert (policy.base_delay_s, policy.max_delay_s, policy.multiplier) == (2.0, 9.0, 3.0)
    assert (job.max_retries, job.timeout_s, job.labels) == (4, 8.0, {"a": "b"})


async def test_a_locked_queue_tells_its_room(db: Connection) -> None:
    await add_queue(db, max_running=5)
    await add_queue(db, "open")
    await submit(db, 3)
    await claim(db, 2, limited=["q"])
    await claim(db, 1, limited=["q"], running=False)
    async with db.transaction():
        room = await lock_queue(db, "q")
        assert (room.max_running, room.running) == (5, 3)
        for name in ("open", "unknown"):
            assert (await lock_queue(db, name)).max_running is None
    await pause_queue(db, "q", paused=True)
    async with db.transaction():
        assert (await lock_queue(db, "q")).max_running is None


async def test_claimers_racing_for_a_limited_queue_never_hold_more_than_it_allows(
    db: Connection, another: Connect
) -> None:
    await add_queue(db, max_running=10)
    await submit(db, 200)

    async def claimer(connection: Connection, worker: int) -> int:
        async with connection.transaction():
            room = await lock_queue(connection, "q")
            assert room.max_running is not None
            n = min(room.max_running - room.running, 3)
            return len(await claim(connection, n, worker=worker, limited=["q"])) if n else 0

    connections = [await another() for _ in range(CLAIMERS)]
    counts = await asyncio.gather(*[claimer(c, n) for n, c in enumerate(connections)])
    assert sum(counts) == 10
    assert await db.fetchval("SELECT count(*) FROM jobqueue.leases") == 10
