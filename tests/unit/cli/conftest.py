"""jq-ctl in this process, against a service that answers as told."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from jobqueue.cli.ctl.app import run
from tests.support.fake_service import FakeService


@pytest.fixture
def service() -> Iterator[FakeService]:
    fake = FakeService()
    fake.start()
    yield fake
    fake.stop()


@dataclass(frozen=True, slots=True)
class Ended:
    """What a run left behind."""

    code: int
    out: str
    err: str


Ctl = Callable[..., Ended]


@pytest.fixture
def ctl(
    service: FakeService, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Ctl:
    """Run jq-ctl with these arguments."""
    monkeypatch.setenv("JQ_SERVER_ADDR", service.address)
    monkeypatch.delenv("JQ_API_KEY", raising=False)

    def ended(*arguments: str) -> Ended:
        code = run(arguments)
        seen = capfd.readouterr()
        return Ended(code, seen.out, seen.err)

    return ended
