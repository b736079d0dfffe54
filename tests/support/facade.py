"""A whole server in this process, on real PostgreSQL, and stubs that call it over the wire."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypeVar

import grpc
from google.protobuf.message import Message
from google.rpc import error_details_pb2 as details
from grpc_status import rpc_status

from jobqueue.config.load import load_settings
from jobqueue.v1 import admin_service_pb2 as admin_pb
from jobqueue.v1 import admin_service_pb2_grpc as admin_grpc
from jobqueue.v1 import job_pb2
from jobqueue.v1 import job_service_pb2 as jobs_pb
from jobqueue.v1 import job_service_pb2_grpc as jobs_grpc
from jobqueue.wiring.server import Server
from tests.support.waiting import HANG_S, eventually

D = TypeVar("D", bound=Message)


@dataclass(frozen=True)
class Facade:
    """The server and how to reach it."""

    server: Server
    port: int
    channel: grpc.aio.Channel
    # Quoted: the asynchronous stubs exist for the type checker only.
    jobs: "jobs_grpc.JobServiceAsyncStub"
    admin: "admin_grpc.AdminServiceAsyncStub"

    async def submit(self, queue: str = "default", **fields: object) -> str:
        """Submit one job and return its id."""
        spec = job_pb2.JobSpec(queue=queue, **fields)  # type: ignore[arg-type]
        return (await self.jobs.SubmitJob(jobs_pb.SubmitJobRequest(job=spec))).job_id

    async def get(self, job_id: str) -> job_pb2.Job:
        """Look a job up."""
        return (await self.jobs.GetJob(jobs_pb.GetJobRequest(job_id=job_id))).job

    async def becomes(self, job_id: str, status: str, *, within_s: float = HANG_S) -> job_pb2.Job:
        """Wait until a job has this status, one of the six words; return it."""
        wanted = job_pb2.JobStatus.Value(f"JOB_STATUS_{status}")

        async def look() -> job_pb2.Job | None:
            job = await self.get(job_id)
            return job if job.status == wanted else None

        job = await eventually(look, within_s=within_s, what=f"{job_id} {status}")
        assert job is not None
        return job

    async def workers(self) -> list[admin_pb.Worker]:
        """Return the registered workers."""
        return list((await self.admin.ListWorkers(admin_pb.ListWorkersRequest())).workers)


@asynccontextmanager
async def serving(dsn: str, **flags: object) -> AsyncIterator[Facade]:
    """Serve ``dsn`` on a free port; ``flags`` are settings, dots written as two underscores."""
    usual = {"db.url": dsn, "grpc.port": 0, "db.connect_timeout_ms": int(HANG_S * 1000)}
    given = {key.replace("__", "."): value for key, value in flags.items()}
    loaded = load_settings(flags={**usual, **given}, env={}, path=None)
    server = Server(loaded.settings, dsn)
    port = await server.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            jobs = jobs_grpc.JobServiceStub(channel)
            yield Facade(server, port, channel, jobs, admin_grpc.AdminServiceStub(channel))
    finally:
        await server.stop(grace_s=5.0)


def reason(error: grpc.aio.AioRpcError) -> str:
    """Return the stable word that programs test for."""
    return str(_detail(error, details.ErrorInfo()).reason)


def bad_fields(error: grpc.aio.AioRpcError) -> list[str]:
    """Return the fields that a request was refused for."""
    return [v.field for v in _detail(error, details.BadRequest()).field_violations]


def _detail(error: grpc.aio.AioRpcError, wanted: D) -> D:
    status = rpc_status.from_call(error)
    assert status is not None, f"no rich status in {error!r}"
    assert any(packed.Unpack(wanted) for packed in status.details)
    return wanted
