"""The page that Prometheus reads (R-7.1)."""

from collections.abc import Callable

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

Render = Callable[[str], tuple[bytes, str]]
"""Returns a page and its content type for what an Accept header asks for."""


def metrics_app(render: Render) -> Starlette:
    """Return the application of the metrics port.

    ``render`` runs in a thread: many queues make a long page, and jobs must not wait for it.
    """

    # Not async, so that Starlette calls it in a thread.
    def metrics(request: Request) -> Response:
        page, content_type = render(request.headers.get("accept", ""))
        return Response(page, headers={"content-type": content_type})

    return Starlette(routes=[Route("/metrics", metrics)])
