"""`jq-ctl top` on a real server: what goes on, and a restart under it (R-7.5)."""

import json
import subprocess
from typing import IO, Any

from tests.e2e.conftest import SERVER, Ctl, System
from tests.support.programs import ServerProgram, ctl_command, environment
from tests.support.redis import free_port

FLAGS = ("--interval", "0.5", "--output", "json")


def frame(out: IO[str], queue: str) -> Any:
    """Return the next frame's entry of a queue."""
    document = json.loads(out.readline())
    (found,) = (each for each in document["queues"] if each["queue"] == queue)
    return document, found


def test_top_shows_work_as_it_is_done(ctl: Ctl, system: System) -> None:
    command = ctl_command("top", "--queue", "default", *FLAGS)
    with subprocess.Popen(
        command, env=environment(server_addr=ctl.address), stdout=subprocess.PIPE, text=True
    ) as watching:
        assert watching.stdout is not None
        document, first = frame(watching.stdout, "default")
        assert first["done_per_second"] is None
        assert document["components"][0]["name"] == "postgresql"
        ctl.submit("--type", "echo", "--wait")
        seen = first
        while seen["done_total"] == first["done_total"]:
            document, seen = frame(watching.stdout, "default")
        assert seen["done_per_second"] > 0
        assert seen["entered_per_second"] >= 0
        assert {each["worker_id"] for each in document["workers"]} >= {"e2e"}
        watching.terminate()


def test_top_outlives_a_restart_of_its_server(ctl: Ctl, system: System, queue: str) -> None:
    port = str(free_port())

    def start() -> ServerProgram:
        return ServerProgram(system.dsn, system.folder, "--grpc-port", port, **SERVER)

    first = start().ready()
    with subprocess.Popen(
        ctl_command("top", "--queue", queue, *FLAGS),
        env=environment(server_addr=first.address),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as watching:
        assert watching.stdout is not None
        assert watching.stderr is not None
        frame(watching.stdout, queue)
        first.kill()
        assert watching.stderr.readline().endswith("; trying again\n")
        ctl.submit(queue=queue)
        second = start()
        try:
            second.ready()
            pending = 0
            while not pending:
                _, found = frame(watching.stdout, queue)
                pending = found["depth"][0]["count"]
            assert found["depth"][0] == {"status": "PENDING", "count": 1}
        finally:
            second.kill()
        watching.terminate()
