import asyncio
from collections.abc import Callable
from typing import cast

import pytest

from jobqueue.config.model import DbSettings
from jobqueue.embedded.server import EmbeddedPostgres
from jobqueue.errors import Unavailable
from jobqueue.wiring.database import (
    DatabaseRevival,
    await_database,
    cause_of,
    check_not_refused,
)
from tests.support.waiting import HANG_S

NOWHERE = "postgresql://x@127.0.0.1:1/none"


async def test_a_database_that_never_answers_is_given_up_after_the_patience(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with asyncio.timeout(HANG_S):
        with pytest.raises(Unavailable):
            await await_database(DbSettings(), NOWHERE, patience_s=3.0)
    assert [r.getMessage() for r in caplog.records] == ["waiting for PostgreSQL"]


async def test_a_database_that_does_not_answer_is_no_refusal() -> None:
    await check_not_refused(DbSettings(), NOWHERE)


def test_the_cause_names_what_the_driver_said_once() -> None:
    error = Unavailable("the database cannot be reached")
    assert cause_of(error) == "the database cannot be reached"
    error.__cause__ = OSError("connection refused")
    assert cause_of(error) == "the database cannot be reached: connection refused"


class Recovering:
    """A database whose revival takes long."""

    tell: Callable[[str], None]

    def revive(self) -> bool:
        self.tell("redo in progress")
        return True


async def test_a_revival_that_recovers_makes_progress_before_it_is_done() -> None:
    revival = DatabaseRevival(cast("EmbeddedPostgres", Recovering()))
    revival.last_progress = 0.0
    assert revival.stuck_s
    await revival.turn()
    assert revival.stuck_s is None
