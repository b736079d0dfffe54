"""How the parts of the system are, for ``jq-ctl status`` (R-7.5)."""

from collections.abc import Iterable, Iterator

from jobqueue.runtime.service import Service
from jobqueue.v1 import admin_service_pb2 as admin

OK, DEGRADED, DOWN, OFF = "ok", "degraded", "down", "off"


def loop_states(services: Iterable[Service]) -> Iterator[admin.ComponentStatus]:
    """Yield one entry for each loop: down when it hangs, degraded while its turns fail."""
    for service in services:
        stuck_s = service.stuck_s
        if stuck_s is not None:
            yield component(service.name, DOWN, f"no progress for {stuck_s:.0f} s")
        elif service.failures:
            yield component(service.name, DEGRADED, f"{service.failures} failures in a row")
        else:
            yield component(service.name, OK)


def component(name: str, state: str, detail: str = "") -> admin.ComponentStatus:
    """Return one entry."""
    return admin.ComponentStatus(name=name, state=state, detail=detail)
