"""Submits no-op jobs in batches: `submit WAY WHERE`.

WAY is `submission` (in process; WHERE is a DSN), `client` (the client library; WHERE is the address
of a server) or `messages` (gRPC alone, every message made beforehand).
"""

import sys
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import cache
from uuid import uuid4

import grpc.aio
import uvloop

from bench.ours import CLIENT, SUBMISSION
from bench.programs.talk import PAYLOAD_BYTES, submit_in_batches
from bench.systems import NOOP, QUEUE
from jobqueue.client import AsyncClient
from jobqueue.client.messages import spec_message
from jobqueue.domain.job import JobSpec
from jobqueue.domain.limits import Limits
from jobqueue.store.pool import create_pool
from jobqueue.submission.submitter import Submitter
from jobqueue.transport import channel_options
from jobqueue.v1.job_service_pb2 import SubmitJobsRequest
from jobqueue.v1.job_service_pb2_grpc import JobServiceStub

Submit = Callable[[int], Awaitable[object]]

_TIMEOUT_S = 60.0
_SPEC = JobSpec(queue=QUEUE, type=NOOP, payload=b"x" * PAYLOAD_BYTES)


async def _in_process(dsn: str, stack: AsyncExitStack) -> Submit:
    pool = await create_pool(dsn, size=8)
    stack.push_async_callback(pool.close)
    submitter = Submitter(pool, Limits(), announce=lambda _queues: None)
    return lambda count: submitter.submit_many([_SPEC] * count)


async def _by_client(address: str, stack: AsyncExitStack) -> Submit:
    client = await stack.enter_async_context(AsyncClient(address, timeout_s=_TIMEOUT_S))
    return lambda count: client.submit_many([_SPEC] * count)


async def _by_messages(address: str, stack: AsyncExitStack) -> Submit:
    channel = grpc.aio.insecure_channel(address, channel_options(address))
    stack.push_async_callback(channel.close)
    stub = JobServiceStub(channel)

    @cache
    def request(count: int) -> SubmitJobsRequest:
        return SubmitJobsRequest(jobs=[spec_message(_SPEC)] * count)

    async def submit(count: int) -> object:
        # The id names the call, and nothing else differs between calls.
        message = request(count)
        message.request_id = uuid4().hex
        return await stub.SubmitJobs(message, timeout=_TIMEOUT_S)

    return submit


async def main(way: str, where: str) -> None:
    """Connect, then take orders."""
    ways = {SUBMISSION: _in_process, CLIENT: _by_client}
    async with AsyncExitStack() as stack:
        submit = await ways.get(way, _by_messages)(where, stack)
        await submit_in_batches(submit)


if __name__ == "__main__":
    uvloop.run(main(*sys.argv[1:]))
