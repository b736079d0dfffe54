"""A server that answers SubmitJob and does nothing else: what gRPC itself costs."""

import asyncio
import contextlib
import signal

import grpc
import grpc.aio
import uvloop

from bench.programs.talk import say
from jobqueue.v1.job_service_pb2 import SubmitJobRequest, SubmitJobResponse

_SERVICE = "jobqueue.v1.JobService"
_ANSWER = SubmitJobResponse(job_id="00000000-0000-4000-8000-000000000000")


async def _echo(_request: SubmitJobRequest, _context: object) -> SubmitJobResponse:
    return _ANSWER


async def main() -> None:
    """Serve on a free port until told to end."""
    server = grpc.aio.server()
    method = grpc.unary_unary_rpc_method_handler(
        _echo, SubmitJobRequest.FromString, SubmitJobResponse.SerializeToString
    )
    handlers = {"SubmitJob": method}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_SERVICE, handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    say(message="ready", grpc_port=port)
    await ended.wait()
    await server.stop(None)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        uvloop.run(main())
