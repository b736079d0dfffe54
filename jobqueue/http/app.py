"""The bare web application behind each HTTP port."""

from fastapi import FastAPI


def bare_app() -> FastAPI:
    """Return an application without pages, spans and metrics of its own.

    FastAPI traces every request once a program exports: a probe a second would bury the jobs.
    Releases before 0.165 do not, and ignore that it is turned off.
    """
    return FastAPI(
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False},
    )
