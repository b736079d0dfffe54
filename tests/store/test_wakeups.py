"""Hints by NOTIFY: sent in as few payloads as fit, heard again after every cut."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext

import pytest

from jobqueue.domain.limits import Limits
from jobqueue.errors import NotFound
from jobqueue.runtime.clock import ManualClock
from jobqueue.store.pool import Connection, Pool
from jobqueue.store.wakeups import Listener, notify_queues
from jobqueue.submission.announcer import Announcer
from jobqueue.submission.submitter import Submitter
from tests.support.store import add_queue, cut, spec
from tests.support.waiting import eventually


class Heard:
    """Remembers what a listener called back with."""

    def __init__(self, dsn: str, check_interval_s: float = 30.0) -> None:
        self.calls: list[frozenset[str]] = []
        self.listener = Listener(dsn, self.calls.append, check_interval_s=check_interval_s)

    async def listening(self) -> bool:
        """Connected, and has said that hints may have been missed."""
        return self.listener.healthy and frozenset() in self.calls

    async def queues(self, expected: set[str]) -> bool:
        return set().union(*self.calls) >= expected


@asynccontextmanager
async def listening(dsn: str, check_interval_s: float = 30.0) -> AsyncIterator[Heard]:
    heard = Heard(dsn, check_interval_s)
    await heard.listener.start()
    try:
        await eventually(heard.listening)
        yield heard
    finally:
        await heard.listener.stop()
    assert not heard.listener.healthy


class HalfOpen:
    """A connection whose peer went without a word: it takes questions and never answers."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.is_closed = connection.is_closed
        self.terminate = connection.terminate

    async def execute(self, *_: object, **__: object) -> str:
        raise TimeoutError


async def test_a_hint_reaches_every_listener(database: str, db: Connection) -> None:
    async with listening(database) as first, listening(database) as second:
        await notify_queues(db, ["b", "a", "b"])
        for heard in (first, second):
            await eventually(lambda h=heard: h.queues({"a", "b"}))  # type: ignore[misc]
            assert heard.calls == [frozenset(), {"a", "b"}]


async def test_many_names_are_split_into_payloads_that_postgresql_takes(
    database: str, db: Connection
) -> None:
    names = {f"{n:03}-{'x' * 124}" for n in range(200)}
    async with listening(database) as heard:
        await notify_queues(db, names)
        await eventually(lambda: heard.queues(names))
        assert 4 <= len(heard.calls) <= 6


async def test_no_names_are_no_notification(database: str, db: Connection) -> None:
    async with listening(database) as heard:
        await notify_queues(db, [])
        await notify_queues(db, ["a"])
        await eventually(lambda: heard.queues({"a"}))
        assert len(heard.calls) == 2


async def test_a_cut_connection_is_replaced_and_missed_hints_are_announced(
    database: str, db: Connection
) -> None:
    async with listening(database) as heard:
        heard.calls.clear()
        assert await cut(db, "jq-listener") == 1
        await eventually(heard.listening)
        await notify_queues(db, ["a"])
        await eventually(lambda: heard.queues({"a"}))


async def test_a_live_connection_is_checked_and_kept(database: str, db: Connection) -> None:
    async with listening(database, check_interval_s=0.02) as heard:
        begun = heard.listener.last_progress
        await eventually(lambda: progressed(heard.listener, begun))
        assert heard.calls == [frozenset()]


async def progressed(listener: Listener, since: float) -> bool:
    return listener.last_progress > since


async def test_a_connection_that_does_not_answer_is_replaced(database: str, db: Connection) -> None:
    async with listening(database, check_interval_s=0.05) as heard:
        assert heard.listener._connection is not None
        half_open = HalfOpen(heard.listener._connection)
        heard.calls.clear()
        heard.listener._connection = half_open  # type: ignore[assignment]
        await eventually(heard.listening)
        assert half_open.connection.is_closed()


async def test_nobody_listens_while_nobody_needs_hints(database: str, db: Connection) -> None:
    heard = Heard(database)
    needed = False
    heard.listener = Listener(
        database, heard.calls.append, check_interval_s=0.05, needed=lambda: needed
    )
    await heard.listener.start()
    begun = heard.listener.last_progress
    await eventually(lambda: progressed(heard.listener, begun))
    assert heard.calls == []
    needed = True
    heard.listener.wake()
    await eventually(heard.listening)
    needed = False
    await eventually(lambda: gone(db))
    await heard.listener.stop()


async def gone(db: Connection) -> bool:
    return not await db.fetchval(
        "SELECT count(*) FROM pg_stat_activity "
        "WHERE application_name = 'jq-listener' AND datname = current_database()"
    )


async def test_what_is_announced_together_is_sent_together_and_again_after_a_cut(
    database: str, db: Connection
) -> None:
    announcer = Announcer(database)
    await announcer.start()
    async with listening(database) as heard:
        announcer.announce(["a"])
        announcer.announce([])
        announcer.announce(["b"])
        await eventually(lambda: heard.queues({"a", "b"}))
        assert heard.calls[1:] == [{"a", "b"}]
        assert await cut(db, "jq-announcer") == 1
        await eventually(lambda: announced_again(announcer, heard))
    await announcer.stop()


async def announced_again(announcer: Announcer, heard: Heard) -> bool:
    """A hint that met the cut is lost; the next one goes through."""
    announcer.announce(["c"])
    await asyncio.sleep(0)
    return await heard.queues({"c"})


async def test_the_hint_of_a_lone_submission_comes_with_its_commit(
    database: str, db: Connection, pool: Pool
) -> None:
    await add_queue(db)
    announced: list[set[str]] = []
    announcer = Announcer(database, clock=ManualClock())  # not started: it sends nothing itself
    submitter = Submitter(
        pool, Limits(), lambda queues: announced.append(set(queues)), announcer.ride
    )
    async with listening(database) as heard:
        await submitter.submit(spec())
        await eventually(lambda: heard.queues({"q"}))
    assert announced == []


async def test_a_submission_that_is_refused_sends_no_hint(
    database: str, db: Connection, pool: Pool
) -> None:
    await add_queue(db)
    rode: list[str | None] = []

    @contextmanager
    def ride(queues: Iterable[str]) -> Iterator[str]:
        rode.append(",".join(queues))
        yield rode[-1] or ""

    submitter = Submitter(pool, Limits(), lambda _: None, ride)
    async with listening(database) as heard:
        with pytest.raises(NotFound):
            await submitter.submit(spec(queue="missing"))
        await submitter.submit(spec())  # hints come in the order of commits
        await eventually(lambda: heard.queues({"q"}))
        assert not await heard.queues({"missing"})
    assert rode == ["missing", "q"]


async def test_submissions_that_come_together_carry_no_hint(db: Connection, pool: Pool) -> None:
    await add_queue(db)
    announced: list[set[str]] = []
    announcer = Announcer("postgresql://", clock=ManualClock())
    submitter = Submitter(
        pool, Limits(), lambda queues: announced.append(set(queues)), announcer.ride
    )
    await asyncio.gather(*(submitter.submit(spec()) for _ in range(3)))
    assert announced == [{"q"}]


async def test_a_hint_that_is_refused_costs_no_job(db: Connection, pool: Pool) -> None:
    await add_queue(db)
    announced: list[set[str]] = []
    submitter = Submitter(
        pool,
        Limits(),
        lambda queues: announced.append(set(queues)),
        lambda _queues: nullcontext("x" * 8_000),  # more than NOTIFY takes
    )
    made = await submitter.submit(spec())
    assert await db.fetchval("SELECT count(*) FROM jobqueue.ready") == 1
    assert not made.existing
    assert announced == [{"q"}]


async def test_hints_ride_one_at_a_time_and_rest_four_times_as_long() -> None:
    clock = ManualClock()
    announcer = Announcer("postgresql://", clock=clock)
    with announcer.ride({"b", "a"}) as first, announcer.ride({"c"}) as beside:
        clock.advance(0.1)
    assert (first, beside) == ("a,b", None)
    clock.advance(0.3)
    with announcer.ride({"c"}) as early:
        pass
    clock.advance(0.2)
    with announcer.ride({"c"}) as late, announcer.ride(()) as nothing:
        pass
    assert (early, late, nothing) == (None, "c", None)


async def test_a_hint_that_hung_does_not_keep_others_from_riding_for_long() -> None:
    clock = ManualClock()
    announcer = Announcer("postgresql://", clock=clock)
    with announcer.ride({"q"}):
        clock.advance(30.0)
    clock.advance(1.0)
    with announcer.ride({"q"}) as hint:
        assert hint == "q"


async def test_hints_that_do_not_fit_into_one_do_not_ride() -> None:
    announcer = Announcer("postgresql://", clock=ManualClock())
    with announcer.ride(f"{n:0200}" for n in range(50)) as hint:
        assert hint is None
