"""No loop of any program ends because a turn raised, or because nobody refers to it."""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobqueue.client import AsyncClient, JobSpec
from tests.support.kafka import Broker, running_broker
from tests.support.metrics import scrape
from tests.support.probes import OK, becomes
from tests.support.programs import FREE_PORTS, Program, ServerProgram, environment
from tests.support.redis import RedisServer
from tests.support.stumbling import STOOD_UP, STUMBLED
from tests.support.waiting import eventually

SERVER = {"event-relay", "lock-reaper", "scheduler-promotion", "upkeep-events"}
KEEPER = {"presence", "renewal", "cancels", "trust", "stall"}
FLAGS = ("--handlers", "tests.support.fleet_handlers", "--queues")


class Stumbling(ServerProgram):
    """A program that is about to stumble."""

    def __init__(self, kind: str, folder: Path, *flags: str, **settings: object) -> None:
        argv = [sys.executable, "-m", "tests.support.stumbling_program", kind, *flags]
        env = environment(**FREE_PORTS, **settings)
        Program.__init__(self, argv, folder, env)

    def stumbled(self) -> set[str]:
        """Return the loops that did."""
        return {line["loop"] for line in self.lines() if STUMBLED in repr(line.get("exception"))}

    def stood_up(self) -> set[str]:
        """Return the loops that work again."""
        return {line["loop"] for line in self.lines() if line["message"] == STOOD_UP}


@pytest.fixture
def broker() -> Iterator[Broker]:
    with running_broker() as broker:
        yield broker


# Three programs start, one after the other.
@pytest.mark.timeout(300)
async def test_every_loop_goes_on_after_an_error_and_through_storms_of_the_collector(
    database: str, tmp_path: Path, broker: Broker
) -> None:
    (logs := tmp_path / "logs").mkdir()
    redis = RedisServer(tmp_path)
    around = {"db_url": database, "redis_addr": redis.addr, "kafka_brokers": broker.address}
    programs = [Stumbling("server", logs, "--grpc-port", "0", **around)]
    try:
        address = (await asyncio.to_thread(programs[0].ready)).address
        programs += [
            Stumbling("worker", logs, *FLAGS, "near", db_url=database),
            Stumbling("worker", logs, *FLAGS, "far", server_addr=address),
        ]
        for program in programs:
            await asyncio.to_thread(program.ready)
        await run_a_job(address, "near")
        await run_a_job(address, "far")
        for program, keeper in zip(programs, (set(), KEEPER | {"reconcile"}, KEEPER), strict=True):
            here = SERVER if program is programs[0] else {"claim"}
            await all_stand(program, here, {f"keeper-{duty}" for duty in keeper})
            await becomes(program, "/healthz", OK)
    finally:
        for program in programs:
            program.kill()
        redis.kill()


async def run_a_job(address: str, queue: str) -> None:
    async with AsyncClient(address) as client:
        await client.create_queue(queue)
        made = await client.submit(JobSpec(queue, b"x", type="work"))
        assert (await client.wait(made.job_id, timeout_s=60)).status == "DONE"


async def all_stand(program: Stumbling, least: set[str], elsewhere: set[str]) -> None:
    """Wait until each loop that runs, here and in the keeper, stumbled and stood up again.

    ``least`` are some of those here: what is not there at all would not be missed.
    """

    async def look() -> bool:
        here = {
            loop for (loop,) in (await scrape(program)).by("jq_loop_last_progress_seconds", "loop")
        }
        return here >= least and here | elsewhere <= program.stumbled() & program.stood_up()

    await eventually(look, within_s=90, what="all loops on their feet")
