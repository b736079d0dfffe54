"""The stream over gRPC and through `jq-ctl`: complete, in order, without Kafka."""

import asyncio
import json
import signal
from asyncio.subprocess import PIPE
from collections.abc import Sequence
from contextlib import aclosing
from functools import partial

import pytest

from jobqueue.client import AsyncClient
from jobqueue.domain.job import JobEvent
from jobqueue.errors import InvalidArgument, NotFound
from jobqueue.rpc import guard
from jobqueue.rpc.signals import CALL_ENDED, CallEnded
from jobqueue.store.pool import Connection, Pool
from tests.support.facade import Facade, serving
from tests.support.kafka import Listener
from tests.support.kafka_way import Way
from tests.support.programs import ctl_command, environment, run_ctl
from tests.support.relays import EVENTS_PER_JOB, all_arrive, run_jobs
from tests.support.store import add_queue, submit
from tests.support.waiting import HANG_S, eventually

PARK = """
    INSERT INTO jobqueue.parked_events
        (event_id, job_id, queue, sequence, to_status, at, reason, attempt, cause)
    SELECT e.eid, j.job_id, 'q', e.seq, e.to_status, e.at, e.reason, e.attempt, 'too large'
    FROM jobqueue.job_events e JOIN jobqueue.jobs j ON j.id = e.job
"""


def client_of(server: Facade) -> AsyncClient:
    return AsyncClient(f"127.0.0.1:{server.port}")


async def kafka_state(server: Facade) -> tuple[str, str]:
    async with client_of(server) as client:
        parts = {part.name: part for part in (await client.status()).components}
    return parts["kafka"].state, parts["kafka"].detail


async def test_a_follower_sees_every_event_once_also_those_that_commit_late(
    database: str, conn: Connection, pool: Pool
) -> None:
    seen: list[JobEvent] = []
    async with serving(database) as server, client_of(server) as client:
        await add_queue(pool)
        await submit(pool, 1)

        async def follow() -> None:
            async for event in client.tail_events("q", after=0, follow=True):
                seen.append(event)  # noqa: PERF401 - it never ends

        following = asyncio.create_task(follow())
        await eventually(lambda: _has(seen, 1))
        async with conn.transaction():
            await submit(conn, 2)
            await submit(pool, 1)
            await eventually(lambda: _has(seen, 2))
        await eventually(lambda: _has(seen, 4))
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
    assert len({event.event_id for event in seen}) == len(seen) == 4


async def test_a_follower_whose_server_ends_goes_on_at_another_one_where_it_was(
    database: str, conn: Connection, pool: Pool
) -> None:
    async with serving(database) as server, serving(database) as other:
        client = AsyncClient(f"ipv4:127.0.0.1:{server.port},127.0.0.1:{other.port}")
        await add_queue(pool)
        await submit(pool, 1)
        async with aclosing(client.tail_events("q", after=0, follow=True)) as events:
            seen = [await anext(events)]
            async with conn.transaction():
                await submit(conn, 1)
                await submit(pool, 1)
                seen.append(await anext(events))
                await server.server.stop(grace_s=0.0)
                following = asyncio.ensure_future(anext(events))
            await submit(pool, 1)
            async with asyncio.timeout(HANG_S):
                seen += [await following, await anext(events)]
        await client.close()
    assert sorted(event.event_id for event in seen) == [1, 2, 3, 4]


async def test_a_follower_notices_nothing_when_a_stream_has_had_its_time(
    database: str, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "STREAM_S", 1.0)
    ended: list[str] = []

    def note(call: CallEnded) -> None:
        if call.method == "EventService/TailEvents":
            ended.append(call.status_code)

    stop = CALL_ENDED.subscribe(note)
    async with serving(database) as server, client_of(server) as client:
        await add_queue(pool)
        async with aclosing(client.tail_events("q", after=0, follow=True)) as events:
            seen = []
            for streams in range(3):
                await eventually(partial(_has, ended, streams))
                await submit(pool, 1)
                seen.append(await asyncio.wait_for(anext(events), HANG_S))
    stop()
    assert [event.event_id for event in seen] == [1, 2, 3]
    assert ended[:2] == ["UNAVAILABLE"] * 2


async def _has(seen: Sequence[object], count: int) -> bool:
    return len(seen) >= count


async def test_the_tail_without_following_ends_and_shows_what_was_asked_for(
    database: str, pool: Pool
) -> None:
    async with serving(database) as server, client_of(server) as client:
        await add_queue(pool)
        await add_queue(pool, "other")
        await run_jobs(pool, 3)
        await submit(pool, 2, queue="other")
        everything = [event async for event in client.tail_events()]
        assert len(everything) == 3 * EVENTS_PER_JOB + 2
        assert len([e async for e in client.tail_events("other")]) == 2
        ended = [e async for e in client.tail_events(types=["job.completed"])]
        assert [event.type for event in ended] == ["job.completed"] * 3
        after = everything[-2].event_id
        assert [e async for e in client.tail_events(after=after)] == everything[-1:]
        with pytest.raises(InvalidArgument, match="none of"):
            [e async for e in client.tail_events(types=["job.born"])]


async def test_parked_events_are_listed_and_asked_for_again(database: str, pool: Pool) -> None:
    async with serving(database) as server, client_of(server) as client:
        await add_queue(pool)
        await submit(pool, 3)
        await pool.execute(PARK)
        parked = [each async for each in client.parked_events()]
        assert [each.cause for each in parked] == ["too large"] * 3
        assert await client.resend_events([parked[0].event.event_id]) == 1
        again = [each.resending async for each in client.parked_events()]
        assert again == [True, False, False]
        assert await client.resend_events(everything=True) == 3
        with pytest.raises(NotFound):
            await client.resend_events([999_999])


async def test_a_server_with_kafka_publishes_and_says_so(
    database: str, pool: Pool, way: Way, topic: str, listener: Listener
) -> None:
    brokers = way.settings(topic).brokers
    async with serving(database, kafka__brokers=brokers, kafka__topic=topic) as server:
        await add_queue(pool)
        await run_jobs(pool, 10)
        await all_arrive(pool, listener)
        await eventually(lambda: _is(server, ("ok", "relay holding")))
    async with serving(database) as server:
        assert (await kafka_state(server))[0] == "off"


async def _is(server: Facade, wanted: tuple[str, str]) -> bool:
    return await kafka_state(server) == wanted


async def test_a_closed_pipe_ends_the_tail_silently_also_one_that_follows(
    database: str, pool: Pool
) -> None:
    async with serving(database) as server:
        await add_queue(pool)
        await submit(pool, 3_000)
        env = environment(server_addr=f"127.0.0.1:{server.port}")
        for flags in ("", "--follow --output json"):
            tail = " ".join(ctl_command("events", "tail", "--from", "0"))
            shell = f"{tail} {flags} | head -1; echo ${{PIPESTATUS[0]}}"
            ended = await asyncio.create_subprocess_exec(
                "bash", "-c", shell, env=env, stdout=PIPE, stderr=PIPE
            )
            out, told = await asyncio.wait_for(ended.communicate(), 60)
            assert told == b""
            assert len(out.splitlines()) == 2
            assert out.splitlines()[-1] == b"0"


async def test_jq_ctl_shows_events_as_lines_of_json_and_ends_with_130_when_interrupted(
    database: str, pool: Pool
) -> None:
    async with serving(database) as server:
        address = f"127.0.0.1:{server.port}"
        await add_queue(pool)
        await submit(pool, 2)
        told = await asyncio.to_thread(run_ctl, address, "events", "tail", "--output", "json")
        assert told.returncode == 0, told.stderr
        assert [json.loads(line)["type"] for line in told.stdout.splitlines()] == [
            "job.submitted"
        ] * 2
        argv = ctl_command("events", "tail", "--follow", "--from", "0", "--output", "json")
        following = await asyncio.create_subprocess_exec(
            *argv, env=environment(server_addr=address), stdout=PIPE
        )
        assert following.stdout is not None
        assert await asyncio.wait_for(following.stdout.readline(), 60)
        following.send_signal(signal.SIGINT)
        await asyncio.wait_for(following.communicate(), 30)
        assert following.returncode == 130
        await pool.execute(PARK)
        shown = await asyncio.to_thread(run_ctl, address, "events", "parked")
        assert shown.stdout.count(b"too large") == 2
        sent = await asyncio.to_thread(run_ctl, address, "events", "resend", "--all")
        assert sent.stdout == b"2\n"
