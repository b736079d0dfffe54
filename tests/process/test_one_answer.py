"""A bad job gets the same words at every door, and nothing beside it is stored (R-3.2, R-9.4)."""

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from io import BytesIO
from typing import Any

import asyncpg
import grpc
import pytest
import pytest_asyncio
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from jobqueue.cli.ctl.specs import read_lines
from jobqueue.client import AsyncClient, JobSpec
from jobqueue.client.messages import spec_message
from jobqueue.errors import InvalidArgument
from jobqueue.v1 import job_pb2
from jobqueue.v1 import job_service_pb2 as pb
from tests.support.facade import Facade, serving

WIDE = "\N{OCTOPUS}"
TOO_LONG = 10 * 365 * 86_400.0 + 1
BAD: list[dict[str, Any]] = [
    {"queue": ""},
    {"queue": "a\x00"},
    {"queue": WIDE},
    {"type": "x" * 129},
    {"payload": b"x" * (1024 * 1024 + 1)},
    {"priority": -1},
    {"priority": 2**31 - 1},
    {"max_retries": -(2**31)},
    {"max_retries": 1_001},
    {"ttl_s": 0.0},
    {"ttl_s": TOO_LONG},
    {"delay_s": -1e-9},
    {"delay_s": TOO_LONG},
    {"timeout_s": -TOO_LONG},
    {"delay_s": 1.0, "not_before": datetime(2030, 1, 1, tzinfo=UTC)},
    {"idempotency_key": ""},
    {"idempotency_key": WIDE * 65},
    {"tenant": "a\x00b"},
    {"labels": {"": "a"}},
    {"labels": {"a\x00": "b", "c": WIDE * 65}},
    {"labels": dict.fromkeys(map(str, range(33)), "")},
    {"trace_context": {"traceparent": "x" * 513}},
]
NAMES = {"ttl_s": "ttl", "delay_s": "delay", "timeout_s": "run_timeout"}


@pytest_asyncio.fixture
async def facade(database: str) -> AsyncIterator[Facade]:
    async with serving(database) as facade:
        yield facade


@pytest_asyncio.fixture
async def client(facade: Facade) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(f"127.0.0.1:{facade.port}") as client:
        yield client


async def test_a_bad_job_gets_the_same_words_at_every_door(
    facade: Facade, client: AsyncClient, conn: asyncpg.Connection
) -> None:
    good = JobSpec("default")
    for fields in BAD:
        spec = JobSpec(**{"queue": "default", **fields})
        single = pb.SubmitJobRequest(job=spec_message(spec))
        batch = pb.SubmitJobsRequest(jobs=[spec_message(one) for one in (good, spec, good)])
        heard = {
            "gRPC": await refusal(facade.jobs.SubmitJob(single)),
            "gRPC, a batch": await refusal(facade.jobs.SubmitJobs(batch), "jobs[1]"),
            "client": await refusal(client.submit(spec)),
            "client, a batch": await refusal(client.submit_many([good, spec, good]), "jobs[1]"),
            "jq-ctl": told(good, spec),
        }
        assert len(set(heard.values())) == 1, heard
    assert await conn.fetchval("SELECT count(*) FROM jobqueue.jobs") == 0


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        ({"ttl": Duration(seconds=1, nanos=-1)}, grpc.StatusCode.INVALID_ARGUMENT),
        ({"not_before": Timestamp(seconds=253_402_300_800)}, grpc.StatusCode.INVALID_ARGUMENT),
        ({"not_before": Timestamp(seconds=4_000_000_000)}, grpc.StatusCode.INVALID_ARGUMENT),
        ({"labels": {"": ""}}, grpc.StatusCode.INVALID_ARGUMENT),
        ({"queue": "nowhere"}, grpc.StatusCode.NOT_FOUND),
        ({"idempotency_key": "k", "payload": b"other"}, grpc.StatusCode.ALREADY_EXISTS),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else value.name,
)
async def test_one_bad_job_of_ten_thousand_is_named_and_none_is_stored(
    facade: Facade, conn: asyncpg.Connection, fault: dict[str, Any], code: grpc.StatusCode
) -> None:
    batch = pb.SubmitJobsRequest(jobs=[job_pb2.JobSpec(queue="default")] * 10_000)
    batch.jobs[17].idempotency_key = "k"
    batch.jobs[9_998].MergeFrom(job_pb2.JobSpec(**fault))
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await facade.jobs.SubmitJobs(batch)
    assert caught.value.code() is code
    assert "jobs[9998]" in (caught.value.details() or "")
    for table in ("jobs", "ready", "scheduled", "job_events", "idempotency_keys"):
        assert await conn.fetchval(f"SELECT count(*) FROM jobqueue.{table}") == 0, table


async def refusal(call: Any, at: str = "job") -> str:
    """Return what a caller is told, as if the job had been alone."""
    with pytest.raises((InvalidArgument, grpc.aio.AioRpcError)) as caught:
        await call
    error: Any = caught.value
    if isinstance(error, grpc.aio.AioRpcError):
        assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
        return (error.details() or "").replace(at, "job")
    return str(error.message).replace(at, "job")


def told(good: JobSpec, bad: JobSpec) -> str:
    """Return what `jq-ctl` says of the second line of a file, as if it had been a job alone."""
    with pytest.raises(InvalidArgument) as caught:
        list(read_lines(BytesIO(_line(good) + _line(bad)), {}))
    return caught.value.message.replace("line 2", "job")


def _line(spec: JobSpec) -> bytes:
    said = {name: getattr(spec, name) for name in spec.__dataclass_fields__}
    fields = {NAMES.get(name, name): value for name, value in said.items() if value is not None}
    fields["payload"] = spec.payload.decode()
    if spec.not_before is not None:
        fields["not_before"] = spec.not_before.isoformat()
    fields["labels"], fields["trace_context"] = dict(spec.labels), dict(spec.trace_context)
    return json.dumps(fields).encode() + b"\n"
