"""The health check of a container: what it asks, and when it is content."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest

from jobqueue.cli.healthcheck import main


class Door(BaseHTTPRequestHandler):
    """Answers /healthz with 200 and all else with 503."""

    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/healthz" else 503)
        self.end_headers()
        self.wfile.write(b"told")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        pass


@contextmanager
def door() -> Iterator[int]:
    """Serve on a free port; yield it."""
    with HTTPServer(("127.0.0.1", 0), Door) as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server.server_port
        server.shutdown()


def test_it_is_content_with_a_program_that_answers_200(capsys: pytest.CaptureFixture[str]) -> None:
    with door() as port:
        assert main([], {"JQ_HEALTH_PORT": str(port)}) == 0
    assert "told" in capsys.readouterr().out


def test_it_asks_for_the_path_that_is_named_and_fails_on_any_other_status() -> None:
    with door() as port:
        assert main(["/readyz"], {"JQ_HEALTH_PORT": str(port)}) == 1


def test_it_fails_where_nobody_listens(capsys: pytest.CaptureFixture[str]) -> None:
    with door() as port:
        pass
    assert main([], {"JQ_HEALTH_PORT": str(port)}) == 1
    assert "refused" in capsys.readouterr().out


def test_it_fails_when_one_of_several_processes_does_not_answer() -> None:
    with door() as port:
        settings = {"JQ_HEALTH_PORT": str(port), "JQ_WORKER_PROCESSES": "2"}
        assert main([], settings) == 1


def test_it_fails_when_the_port_cannot_be_known(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([], {"JQ_HEALTH_PORT": "0"}) == 1
    assert "JQ_HEALTH_PORT is 0" in capsys.readouterr().out
