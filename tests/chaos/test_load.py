"""Callers repeat one submission in ten, those without an answer above all."""

import random
from collections.abc import Sequence
from typing import cast
from uuid import UUID, uuid4

from jobqueue.client import AsyncClient, JobSpec, Submitted
from jobqueue.errors import Unavailable
from tests.chaos.load import Load


class Forgetful:
    """A server that keeps keys, and whose answer is lost one time in two."""

    def __init__(self, rng: random.Random) -> None:
        self.received: list[JobSpec] = []
        self._rng = rng
        self._known: dict[str | None, UUID] = {}

    async def submit(self, spec: JobSpec, *, timeout_s: float) -> Submitted:
        return (await self.submit_many([spec], timeout_s=timeout_s))[0]

    async def submit_many(
        self, specs: Sequence[JobSpec], *, timeout_s: float
    ) -> tuple[Submitted, ...]:
        self.received += specs
        made = tuple(self._made(spec.idempotency_key) for spec in specs)
        if self._rng.random() < 0.5:
            raise Unavailable("the answer is lost")
        return made

    def _made(self, key: str | None) -> Submitted:
        job = uuid4() if key is None else self._known.setdefault(key, uuid4())
        return Submitted(job)


async def submitted(turns: int) -> tuple[Load, Forgetful]:
    rng = random.Random(1)
    load, server = Load((), 0, rng), Forgetful(rng)
    for _ in range(turns):
        await load._turn(cast("AsyncClient", server))
    return load, server


async def test_one_submission_in_ten_repeats_an_earlier_key_alone_or_in_a_batch() -> None:
    load, server = await submitted(500)
    assert 0.08 < load.repeats / len(server.received) < 0.12
    new = len({spec.payload for spec in server.received})
    assert len(server.received) - new == load.repeats
    keys = {spec.idempotency_key for spec in server.received} - {None}
    assert 0.08 < len(keys) / new < 0.12


async def test_a_submission_without_an_answer_is_sent_again_under_its_key_until_it_has_one() -> (
    None
):
    load, _ = await submitted(500)
    heard: dict[str, list[str | None]] = {}
    for call in load.calls:
        if call.key:
            heard.setdefault(call.key, []).append(call.job)
    answered_late = [jobs for jobs in heard.values() if jobs[0] is None and any(jobs)]
    assert len(answered_late) > 20
    assert load.doubted >= len(answered_late)
    assert all(len(set(jobs) - {None}) <= 1 for jobs in heard.values())


async def test_the_job_of_a_repeat_is_counted_once() -> None:
    load, _ = await submitted(500)
    assert load.accepted == len({call.job for call in load.calls if call.job})
