"""Idempotency keys, alone, in batches and in races (R-3.3)."""

import asyncio
import random
from uuid import UUID, uuid4

import asyncpg
import pytest

from jobqueue.store.faults import rejected_item
from jobqueue.store.jobs import delete_job, retry_job
from jobqueue.store.pool import Connection
from tests.store.conftest import Connect
from tests.support.store import (
    FAILURE,
    Stored,
    add_queue,
    claim_one,
    settle,
    spec,
    status,
    store,
    store_items,
    submit,
    waits_for_lock,
)
from tests.support.waiting import eventually

CLIENTS = 8


async def count(db: Connection, table: str) -> int:
    return int(await db.fetchval(f"SELECT count(*) FROM jobqueue.{table}"))


Answers = dict[Connection, "asyncio.Task[list[Stored]]"]


async def waits_or_has_it(answers: Answers, db: Connection, connection: Connection) -> bool:
    return answers[connection].done() or await waits_for_lock(db, connection)


async def next_answer(answers: Answers) -> tuple[Connection, Stored]:
    """Wait for the one who has the key; take it out."""
    await asyncio.wait(answers.values(), return_when=asyncio.FIRST_COMPLETED)
    (winner,) = [connection for connection, answer in answers.items() if answer.done()]
    (stored,) = await answers.pop(winner)
    return winner, stored


async def test_the_same_key_and_content_give_the_same_job(db: Connection) -> None:
    await add_queue(db)
    (first,) = await store(db, [spec(idempotency_key="k", payload=b"p")])
    (again,) = await store(db, [spec(idempotency_key="k", payload=b"p")])
    assert (again.outcome, again.job_id) == ("EXISTING", first.job_id)
    assert await count(db, "jobs") == 1


async def test_the_same_key_with_any_other_content_is_a_mismatch(db: Connection) -> None:
    await add_queue(db)
    await add_queue(db, "other")
    await store(db, [spec(idempotency_key="k")])
    changes: list[dict[str, object]] = [
        {"payload": b"other"},
        {"type": "other"},
        {"type": None},
        {"priority": 1},
        {"max_retries": 1},
        {"ttl_s": 1.0},
        {"timeout_s": 1.0},
        {"delay_s": 1.0},
        {"queue": "other"},
    ]
    for change in changes:
        (again,) = await store(db, [spec(**({"idempotency_key": "k"} | change))])
        assert again.outcome == "MISMATCH", change
    assert await count(db, "jobs") == 1


async def test_labels_and_traces_are_no_content(db: Connection) -> None:
    await add_queue(db)
    await store(db, [spec(idempotency_key="k")])
    (again,) = await store(
        db, [spec(idempotency_key="k", labels={"a": "b"}, trace_context={"c": "d"})]
    )
    assert again.outcome == "EXISTING"


async def test_keys_of_two_tenants_are_two_keys(db: Connection) -> None:
    await add_queue(db)
    found = await store(db, [spec(idempotency_key="k", tenant=t) for t in ("", "a", "b")])
    assert [s.outcome for s in found] == ["NEW"] * 3


async def test_equal_keys_in_one_batch_give_one_job_at_both_places(db: Connection) -> None:
    await add_queue(db)
    twin = spec(idempotency_key="k")
    first, other, second = await store(db, [twin, spec(), twin], atomic=True)
    assert (first.outcome, second.outcome) == ("NEW", "EXISTING")
    assert first.job_id == second.job_id != other.job_id
    assert await count(db, "jobs") == 2


async def test_equal_keys_with_other_content_fail_the_second_of_a_batch(db: Connection) -> None:
    await add_queue(db)
    twins = [spec(idempotency_key="k", payload=p) for p in (b"1", b"2")]
    with pytest.raises(asyncpg.PostgresError) as caught:
        await store(db, [spec(), *twins], atomic=True)
    assert rejected_item(caught.value) == (2, "MISMATCH")
    assert await count(db, "jobs") == await count(db, "idempotency_keys") == 0
    assert [s.outcome for s in await store(db, twins)] == ["NEW", "MISMATCH"]


async def test_a_key_is_free_again_when_its_job_is_deleted(db: Connection) -> None:
    await add_queue(db)
    (old,) = await submit(db, idempotency_key="k")
    await settle(db, await claim_one(db))
    assert await delete_job(db, old) == "DELETED"
    (new,) = await store(db, [spec(idempotency_key="k", payload=b"other")])
    assert new.outcome == "NEW"


@pytest.mark.parametrize("first", [None, "mine"])
@pytest.mark.parametrize("joined", [False, True])
async def test_a_key_that_a_repeated_id_brings_along_is_not_kept_for_it(
    db: Connection, first: str | None, *, joined: bool
) -> None:
    await add_queue(db)
    job_id = uuid4()
    items = [(job_id, spec(idempotency_key=key, tenant="a")) for key in (first, "another")]
    for flush in [items] if joined else [items[:1], items[1:]]:
        answers = await store_items(db, flush)
    assert answers[-1] == (job_id, "REPEATED")
    kept = await db.fetch("SELECT key FROM jobqueue.idempotency_keys WHERE job_id = $1", job_id)
    assert [row["key"] for row in kept] == ([first] if first else [])


async def test_the_key_of_a_dead_job_leads_to_it_so_that_its_retry_meets_no_twin(
    db: Connection,
) -> None:
    await add_queue(db)
    (dead,) = await submit(db, idempotency_key="k", max_retries=0)
    await settle(db, await claim_one(db), FAILURE)
    assert await store(db, [spec(idempotency_key="k", max_retries=0)]) == [(dead, "EXISTING")]
    assert (await retry_job(db, dead)).word == "RETRIED"
    assert await store(db, [spec(idempotency_key="k", max_retries=0)]) == [(dead, "EXISTING")]
    assert await status(db, dead) == "PENDING"


@pytest.mark.parametrize(("commits", "outcome"), [(True, "EXISTING"), (False, "NEW")])
async def test_who_waits_for_a_key_gets_the_winners_job_or_wins(
    db: Connection, another: Connect, *, commits: bool, outcome: str
) -> None:
    await add_queue(db)
    winner, loser = await another(), await another()
    held = winner.transaction()
    await held.start()
    (first,) = await store(winner, [spec(idempotency_key="k")])
    second = asyncio.create_task(store(loser, [spec(idempotency_key="k")]))
    await eventually(lambda: waits_for_lock(db, loser))
    await (held.commit() if commits else held.rollback())
    (answer,) = await second
    assert answer.outcome == outcome
    assert (answer.job_id == first.job_id) is commits
    assert await status(db, answer.job_id) == "PENDING"


@pytest.mark.parametrize("gone", range(5))
async def test_of_five_who_wait_for_a_key_all_are_given_a_job_that_stays(
    db: Connection, another: Connect, gone: int
) -> None:
    await add_queue(db)
    five = [await another() for _ in range(5)]
    held = {connection: connection.transaction() for connection in five}
    answers: Answers = {}
    for connection, transaction in held.items():
        await transaction.start()
        answers[connection] = asyncio.create_task(store(connection, [spec(idempotency_key="k")]))
        await eventually(lambda c=connection: waits_or_has_it(answers, db, c))  # type: ignore[misc]
    for _ in range(gone):
        winner, outcome = await next_answer(answers)
        assert outcome.outcome == "NEW"
        await held.pop(winner).rollback()
    winner, kept = await next_answer(answers)
    assert kept.outcome == "NEW"
    await held.pop(winner).commit()
    for waiting in list(answers):
        assert await answers[waiting] == [(kept.job_id, "EXISTING")]
        await held.pop(waiting).rollback()
    assert await status(db, kept.job_id) == "PENDING"
    assert await count(db, "jobs") == await count(db, "idempotency_keys") == 1


async def test_a_key_that_goes_while_another_one_is_waited_for_makes_no_job_without_its_key(
    db: Connection, another: Connect
) -> None:
    await add_queue(db)
    (old,) = await submit(db, idempotency_key="a")
    await settle(db, await claim_one(db))
    winner, loser = await another(), await another()
    held = winner.transaction()
    await held.start()
    await store(winner, [spec(idempotency_key="b")])
    both = asyncio.create_task(store(loser, [spec(idempotency_key=key) for key in "ab"]))
    await eventually(lambda: waits_for_lock(db, loser), what="it has seen the first key")
    assert await delete_job(db, old) == "DELETED"
    await held.rollback()
    with pytest.raises(asyncpg.SerializationError):
        await both
    assert await count(db, "jobs") == await count(db, "idempotency_keys") == 0


async def test_clients_racing_with_overlapping_keys_make_one_job_a_key(
    db: Connection, another: Connect
) -> None:
    await add_queue(db)
    chance = random.Random(7)
    given: dict[str, set[UUID]] = {}

    async def client(connection: Connection) -> None:
        for _ in range(12):
            keys = [f"k{chance.randrange(120)}" for _ in range(20)]
            specs = [spec(idempotency_key=k, payload=k.encode()) for k in keys]
            for key, stored in zip(keys, await store(connection, specs, atomic=True), strict=True):
                given.setdefault(key, set()).add(stored.job_id)

    await asyncio.gather(*[client(await another()) for _ in range(CLIENTS)])
    assert {len(ids) for ids in given.values()} == {1}
    assert await count(db, "jobs") == await count(db, "idempotency_keys") == len(given)
