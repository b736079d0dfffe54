"""The health port, and which loops of this process are stuck (R-7.4)."""

from collections.abc import Callable

from jobqueue.http.health import Health, health_app
from jobqueue.http.server import HttpServer
from jobqueue.runtime.service import running_services


def stuck() -> dict[str, str]:
    """Return the loops of this process that make no progress, with for how long."""
    found = [(service.name, service.stuck_s) for service in running_services()]
    return {name: f"no progress for {idle_s:.0f} s" for name, idle_s in found if idle_s is not None}


def health_server(look: Callable[[], Health], port: int) -> HttpServer:
    """Return the health port of a program. ``look`` must answer at once, without a wait."""
    return HttpServer(health_app(look), "health.port", port)
