"""Probes: is the process alive, and may it be given work (R-7.4)?"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

_OK, _UNAVAILABLE = 200, 503


@dataclass(frozen=True, slots=True)
class Health:
    """What the probes tell, by name and cause.

    ``stuck`` turns /healthz red, ``unready`` /readyz; ``degraded`` is only told.
    """

    stuck: Mapping[str, str] = field(default_factory=dict)
    unready: Mapping[str, str] = field(default_factory=dict)
    degraded: Mapping[str, str] = field(default_factory=dict)


def health_app(look: Callable[[], Health]) -> Starlette:
    """Return the application of the health port. ``look`` must answer at once, without a wait."""

    async def healthz(_request: Request) -> JSONResponse:
        return _answer(look().stuck, {})

    async def readyz(_request: Request) -> JSONResponse:
        health = look()
        return _answer(health.unready, health.degraded)

    return Starlette(routes=[Route("/healthz", healthz), Route("/readyz", readyz)])


def _answer(failing: Mapping[str, str], degraded: Mapping[str, str]) -> JSONResponse:
    body: dict[str, object] = {"status": "failing" if failing else "ok"}
    sections: Sequence[tuple[str, Mapping[str, str]]] = (
        ("failing", failing),
        ("degraded", degraded),
    )
    body |= {name: dict(found) for name, found in sections if found}
    return JSONResponse(body, _UNAVAILABLE if failing else _OK)
