"""A handler to try an installation with: the result of a job is its payload."""

from jobqueue.worker import Context, handler


@handler("echo")
async def echo(context: Context) -> bytes:
    """Return the payload."""
    return context.payload
