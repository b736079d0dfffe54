"""Handlers that do with their payload what brings it close to a log. Imported by processes too."""

from jobqueue.worker import Context, handler


@handler("returns")
async def returns(context: Context) -> bytes:
    return context.payload


@handler("raises")
async def raises(context: Context) -> None:
    raise ValueError(context.payload.decode())


@handler("raises-in-process")
def raises_in_process(context: Context) -> None:
    raise KeyError(context.payload)
