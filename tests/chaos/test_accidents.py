"""Accidents are planned from a seed, tried again a bounded number of times, and told by name."""

import asyncio
import random
import signal
import subprocess
from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import psutil
import pytest
import redis

from jobqueue.config.seams import read_seams
from jobqueue.store.statements import names
from tests.chaos.accidents import TRIES, Accidents, actions_on
from tests.chaos.at_database import meets
from tests.chaos.at_programs import AtPrograms
from tests.chaos.journal import Journal
from tests.chaos.plan import (
    AT_SERVERS,
    FROM_ONE_SERVER,
    GROUPS,
    KINDS,
    LEAST,
    REAPING,
    SEAMS,
    WEATHERS,
    plan,
    step_of,
    strikes_servers,
)
from tests.chaos.scene import Scene
from tests.chaos.victims import Victims
from tests.support.programs import Program
from tests.support.waiting import eventually

PLANNED = plan(random.Random(1), 1.0)


def kind_of(name: str) -> str:
    return name.partition(":")[0]


def test_the_same_seed_plans_the_same() -> None:
    assert plan(random.Random(1), 1.0) == PLANNED != plan(random.Random(2), 1.0)


def test_a_round_begins_with_what_happens_but_once() -> None:
    """It is taken from the end; what is left for want of time is then none of these."""
    once = [name for name, times in Counter(PLANNED).items() if times == 1]
    assert set(SEAMS) < set(once) == set(PLANNED[-len(once) :])
    assert set(plan(random.Random(1), 20.0)[-len(once) :]) == set(once)


def test_a_round_plans_more_than_must_land() -> None:
    for kind, kinds in KINDS.items():
        assert sum(kind_of(name) in kinds for name in PLANNED) > 1.1 * LEAST[kind]


def test_every_planned_accident_can_be_done_and_has_its_class() -> None:
    kinds = {kind_of(name) for name in PLANNED}
    assert kinds == actions_on(cast("Scene", SimpleNamespace(system=None))).keys()
    assert Counter(kinds) == Counter(kind for group in GROUPS.values() for kind in group)


def test_every_seam_is_at_a_statement_and_more_rounds_leave_none_out() -> None:
    assert {step_of(seam)[0] for seam in SEAMS} <= set(names())
    assert all(read_seams(seam.partition(":")[2].replace("/", ".")) for seam in SEAMS)
    assert set(SEAMS) <= set(plan(random.Random(1), 20.0))


def test_what_only_a_server_sends_strikes_a_server() -> None:
    struck = {step_of(name)[0] for name in SEAMS if strikes_servers(name)}
    assert struck == {name.partition("/")[0] for name in AT_SERVERS}
    assert not strikes_servers("seam:settle_leases/before=kill@2")
    assert strikes_servers("pause_leader:reaper")


@pytest.mark.parametrize(
    ("step", "found"),
    [
        ("claim_jobs", "rows"),
        ("promote_jobs", "rows"),
        ("expire_jobs", "rows"),
        ("cancel_job", "CANCELLED"),
        ("retry_job", "RETRIED"),
    ],
)
def test_a_step_that_may_find_nothing_to_do_is_struck_when_it_did(step: str, found: str) -> None:
    struck = [name for name in SEAMS if name.startswith(f"seam:{step}/")]
    assert struck == [f"seam:{step}/{moment}[{found}]=kill" for moment in ("before", "after")]


def test_a_reaping_that_took_leases_back_is_struck_before_and_after_its_commit() -> None:
    """``lock_expired_leases`` opens its transaction, so behind it is behind both statements."""
    struck = [name for name in SEAMS if not REAPING.isdisjoint(step_of(name))]
    assert REAPING < FROM_ONE_SERVER
    assert struck == [
        "seam:lock_expired_leases/open[rows]=kill",
        "seam:settle_leases/open[rows]=kill",
        "seam:lock_expired_leases/after[rows]=kill",
        "seam_stop:lock_expired_leases/open[rows]=stop",
    ]


def test_every_weather_is_planned_for_every_stretch_of_the_network() -> None:
    stretches = ("net:worker/", "net:server/", "net:grpc/", "redis:", "kafka:")
    assert {f"{stretch}{weather}" for stretch in stretches for weather in WEATHERS} <= set(PLANNED)


@pytest.mark.parametrize(
    ("line", "proven"),
    [
        ("[7 postgres [unknown] 53300] FATAL:  sorry, too many clients already", True),
        ("[7 postgres jq-server-listener 53300] FATAL:  sorry, too many clients already", True),
        ("[7 chaos [unknown] 53300] FATAL:  sorry, too many clients already", False),
        ("[7 postgres jq-server 25006] ERROR:  cannot execute UPDATE", False),
        ("[7 postgres jq-server 53300] STATEMENT:  SELECT 1", False),
    ],
)
def test_a_refusal_is_proven_by_a_program_that_met_it(line: str, *, proven: bool) -> None:
    assert meets("53300", f"2026-11-29 11:01:33.789 UTC {line}\n") is proven


def failing(times: int, error: BaseException | None = None) -> tuple[Any, list[str]]:
    """An action that does not land so many times, and what it was asked for."""
    asked: list[str] = []

    async def act(what: str) -> bool:
        asked.append(what)
        if len(asked) <= times and error is not None:
            raise error
        return len(asked) > times

    return act, asked


async def test_an_accident_that_did_not_land_is_tried_again() -> None:
    act, asked = failing(1)
    journal = Journal()
    await Accidents({"kill": act}, journal, rest_s=0).strike("kill:worker")
    assert asked == ["worker"] * 2
    assert (journal.landed, journal.missed) == ({"kill:worker": 1}, {})
    assert journal.again == {"kill:worker": 1}


async def test_what_never_lands_is_tried_a_few_times_and_missed() -> None:
    act, asked = failing(1_000, AssertionError("a seam was not reached; last seen: False"))
    journal = Journal()
    await Accidents({"seam": act}, journal, rest_s=0).strike("seam:x")
    assert len(asked) == TRIES
    assert (journal.landed, journal.missed) == ({}, {"seam:x": 1})
    assert journal.again == {"seam:x (a seam)": TRIES}


@pytest.mark.parametrize(
    "error",
    [
        TimeoutError(),
        subprocess.TimeoutExpired("jq-worker", 30.0),
        psutil.TimeoutExpired(10.0),
        redis.ConnectionError(),
    ],
)
async def test_an_accident_that_met_another_is_tried_again(error: Exception) -> None:
    act, asked = failing(1, error)
    journal = Journal()
    await Accidents({"kill": act}, journal, rest_s=0).strike("kill:worker")
    assert len(asked) == 2
    assert journal.again == {f"kill:worker ({type(error).__name__})": 1}


async def test_a_program_that_a_signal_does_not_end_fails_the_run() -> None:
    def ended(within_s: float) -> int:
        raise subprocess.TimeoutExpired("jq-worker", within_s)

    journal = Journal()
    at_programs = AtPrograms(cast("Scene", SimpleNamespace(system=None, journal=journal)))
    program = cast("Program", SimpleNamespace(send=lambda _: None, ended=ended))
    with pytest.raises(subprocess.TimeoutExpired):
        await at_programs._ends(program, signal.SIGTERM)
    assert journal.unmet == ["an end by SIGTERM within 60 s"]


async def test_an_accident_that_is_at_fault_itself_ends_the_run() -> None:
    act, _ = failing(1, KeyError("a slip"))
    with pytest.raises(KeyError):
        await Accidents({"kill": act}, Journal(), rest_s=0).strike("kill:worker")


async def test_one_victim_has_one_accident_at_a_time_and_the_next_one_strikes_another() -> None:
    victims = Victims(["worker-0", "worker-1", "server-0"], random.Random(1))
    async with victims.one("worker") as first, victims.one("worker") as second:
        assert {first, second} == {"worker-0", "worker-1"}
        third = asyncio.create_task(taken(victims.one, "worker"))
        await settled(lambda: not third.done())
    assert await third == first
    for _ in range(10):
        last, first = first, await taken(victims.one, "worker")
        assert first != last


async def test_who_wants_all_gets_them_though_others_come_for_one() -> None:
    victims = Victims(["server-0", "server-1"], random.Random(1))
    async with victims.one("server"):
        whole = asyncio.create_task(taken(victims.all, "server"))
        await settled(lambda: not whole.done())
        later = asyncio.create_task(taken(victims.one, "server"))
        await settled(lambda: not later.done())
    assert sorted(await whole) == ["server-0", "server-1"]
    assert (await later).startswith("server")


async def taken(lend: Callable[[str], Any], kind: str) -> Any:
    async with lend(kind) as names:
        return names


async def settled(seen: Callable[[], bool]) -> None:
    """Let every task go as far as it can, then look."""
    for _ in range(5):
        await asyncio.sleep(0)

    async def look() -> bool:
        return seen()

    await eventually(look)
