"""What the workers run: `jq-worker --handlers examples.load.handlers` with the three queues."""

import asyncio
import hashlib

from jobqueue.worker import Context, Fail, handler


@handler("load-mail")
async def mail(context: Context) -> str:
    """Wait, as for a server elsewhere, for as many milliseconds as the payload says."""
    await asyncio.sleep(int(context.payload) / 1_000)
    return "sent"


@handler("load-report", timeout=60)
def report(context: Context) -> str:
    """Keep a processor busy: hash as many blocks as the payload says."""
    digest = hashlib.sha256()
    for _ in range(int(context.payload)):
        digest.update(bytes(65_536))
    return digest.hexdigest()


@handler("load-flaky")
async def flaky(context: Context) -> str:
    """Fail at the first attempt."""
    if context.attempt == 1:
        raise RuntimeError("the first attempt fails")
    return "well in the end"


@handler("load-refused")
async def refused(context: Context) -> None:
    """End in the dead letters at once."""
    raise Fail(f"job {context.job_id} asks for what cannot be")
