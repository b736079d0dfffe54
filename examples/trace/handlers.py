"""A handler that fails once, so that there is something to see."""

from jobqueue.worker import Context, handler


@handler("greet")
async def greet(context: Context) -> str:
    """Greet at the second attempt."""
    if context.attempt == 1:
        raise RuntimeError("not in the mood")
    return f"hello, {context.payload.decode()}"
