"""What the driver's errors mean to a caller, and which may be tried again (R-4.12)."""

import asyncpg
import pytest

from jobqueue.errors import (
    Aborted,
    DeadlineExceeded,
    Internal,
    JobQueueError,
    NotFound,
    Unavailable,
)
from jobqueue.store import faults

UNSENDABLE = asyncpg.exceptions._base.DataError("invalid input for query argument $1")


@pytest.mark.parametrize(
    ("error", "kind", "transient"),
    [
        (asyncpg.DeadlockDetectedError("x"), Aborted, True),
        (asyncpg.SerializationError("x"), Aborted, True),
        (asyncpg.LockNotAvailableError("x"), Aborted, False),
        (asyncpg.QueryCanceledError("x"), DeadlineExceeded, False),
        (asyncpg.AdminShutdownError("x"), Unavailable, True),
        (asyncpg.CannotConnectNowError("x"), Unavailable, True),
        (asyncpg.TooManyConnectionsError("x"), Unavailable, True),
        (asyncpg.ReadOnlySQLTransactionError("x"), Unavailable, True),
        (asyncpg.ConnectionDoesNotExistError("x"), Unavailable, True),
        (asyncpg.DiskFullError("x"), Unavailable, False),
        (asyncpg.OutOfMemoryError("x"), Unavailable, False),
        (asyncpg.PostgresIOError("x"), Unavailable, False),
        (
            asyncpg.ObjectNotInPrerequisiteStateError("parallel worker failed to initialize"),
            Unavailable,
            False,
        ),
        (asyncpg.InterfaceError("connection is closed"), Unavailable, True),
        (asyncpg.InternalClientError("another operation is in progress"), Unavailable, True),
        (asyncpg.ProtocolError("x"), Unavailable, True),
        (ConnectionResetError(), Unavailable, True),
        (EOFError(), Unavailable, True),
        (TimeoutError(), DeadlineExceeded, True),
        (UNSENDABLE, Internal, False),
        (asyncpg.UniqueViolationError("x"), Internal, False),
        (asyncpg.NumericValueOutOfRangeError("x"), Internal, False),
        (Unavailable("x"), Unavailable, True),
        (NotFound("job", "x"), NotFound, False),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_each_error_has_one_meaning(
    error: Exception, kind: type[JobQueueError], *, transient: bool
) -> None:
    assert type(faults.translate(error)) is kind
    assert faults.is_transient(error) is transient


def test_what_is_not_known_is_told_by_its_code() -> None:
    refused = faults.translate(asyncpg.UniqueViolationError("x"))
    assert refused.message == "the database refused the statement (23505)"
    assert faults.translate(UNSENDABLE).message == "the database refused the statement (DataError)"


def test_what_the_database_is_not_ready_for_is_told_in_its_words() -> None:
    closed = 'database "jobs" is not currently accepting connections'
    refused = faults.translate(asyncpg.ObjectNotInPrerequisiteStateError(closed))
    assert refused.message == f"the database is not ready: {closed}"


def test_an_error_of_ours_passes_as_it_is() -> None:
    ours = NotFound("job", "x")
    assert faults.translate(ours) is ours
    with pytest.raises(NotFound) as caught, faults.translated():
        raise ours
    assert caught.value is ours


def test_the_cause_is_kept() -> None:
    cause = asyncpg.AdminShutdownError("x")
    with pytest.raises(Unavailable) as caught, faults.translated():
        raise cause
    assert caught.value.__cause__ is cause


class Flaky:
    """Fails as told, then works."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.calls = 0

    async def __call__(self) -> str:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return "ok"


@pytest.fixture(autouse=True)
def _no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faults, "_BASE_DELAY_S", 0.0)


async def test_a_transient_error_is_tried_three_times() -> None:
    flaky = Flaky(asyncpg.DeadlockDetectedError("x"), ConnectionResetError())
    assert await faults.retrying(flaky) == "ok"
    assert flaky.calls == 3
    hopeless = Flaky(*[ConnectionResetError()] * 9)
    with pytest.raises(Unavailable):
        await faults.retrying(hopeless)
    assert hopeless.calls == 3


async def test_any_other_error_is_tried_once() -> None:
    flaky = Flaky(asyncpg.UniqueViolationError("x"))
    with pytest.raises(Internal):
        await faults.retrying(flaky)
    assert flaky.calls == 1


async def test_no_try_at_all_is_a_fault_of_the_caller() -> None:
    with pytest.raises(AssertionError, match="at least 1"):
        await faults.retrying(Flaky(), tries=0)


def test_waits_between_tries_grow_are_jittered_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faults, "_BASE_DELAY_S", 0.05)
    for number, ceiling in ((1, 0.1), (2, 0.2), (4, 0.8), (5, 1.0), (10**6, 1.0)):
        assert ceiling / 2 <= faults.backoff_s(number) <= ceiling


class Rejected(asyncpg.PostgresError):
    sqlstate = "JQ001"
    detail = "3 NO_QUEUE"


def test_the_item_that_failed_a_batch_is_named() -> None:
    error = asyncpg.PostgresError("item 3 of the batch: NO_QUEUE")
    assert faults.rejected_item(error) is None
    assert faults.rejected_item(Rejected("item 3")) == (2, "NO_QUEUE")
