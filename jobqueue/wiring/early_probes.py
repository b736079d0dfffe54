"""The health port of `jq-worker` before its loop runs (R-7.4)."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

import uvloop

from jobqueue.runtime.copies import close_in_copies
from jobqueue.runtime.ports import listen
from jobqueue.wiring.health import health_server
from jobqueue.wiring.worker_health import WorkerHealth

_SETTING = "health.port"


@contextmanager
def early_probes(port: int) -> Iterator[socket.socket]:
    """Answer probes from a thread meanwhile, and leave a socket on which to answer further.

    Handlers are imported in the main thread, without a loop, as some libraries need it; it may
    take minutes. Raises Unavailable when the port is taken.
    """
    listening = listen(_SETTING, port)
    loop, enough = uvloop.new_event_loop(), asyncio.Event()
    # Who connects between the two doors waits for the second: both have the same queue.
    answering = _answer(listening.dup(), enough)
    thread = Thread(target=loop.run_until_complete, args=(answering,), name="early-probes")
    thread.start()
    try:
        yield listening
    except BaseException:
        listening.close()
        raise
    finally:
        loop.call_soon_threadsafe(enough.set)
        thread.join()
        loop.close()


async def _answer(listening: socket.socket, enough: asyncio.Event) -> None:
    close_in_copies(listening)
    door = health_server(WorkerHealth().look, 0)
    await door.start(listening)
    await enough.wait()
    await door.stop()
