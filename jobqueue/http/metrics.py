"""The page that Prometheus reads (R-7.1)."""

from collections.abc import Callable

from fastapi import FastAPI, Request, Response

Render = Callable[[str], tuple[bytes, str]]
"""Returns a page and its content type for what an Accept header asks for."""


def metrics_app(render: Render) -> FastAPI:
    """Return the application of the metrics port.

    ``render`` runs in a thread: many queues make a long page, and jobs must not wait for it.
    """
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)

    @app.get("/metrics")
    def metrics(request: Request) -> Response:
        page, content_type = render(request.headers.get("accept", ""))
        return Response(page, headers={"content-type": content_type})

    return app
