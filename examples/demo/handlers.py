"""What the demo's workers run in Python."""

import os
from pathlib import Path

from examples.demo.files import digest
from jobqueue.worker import Context, handler


@handler("hash-file")
def hash_file(context: Context) -> str:
    """Return the SHA-256 of the file whose path is the payload."""
    return digest(Path(os.fsdecode(context.payload)))


@handler("always-fails")
async def always_fails(context: Context) -> None:
    """Fail, whichever attempt it is."""
    raise RuntimeError(f"attempt {context.attempt} failed, as every attempt will")


@handler("fails-once")
async def fails_once(context: Context) -> str:
    """Fail the first attempt only."""
    if context.attempt == 1:
        raise RuntimeError("the first attempt fails")
    return "well in the end"
