"""Ports of the servers of tests: none is given twice, nor to two processes that run tests."""

import pytest

from tests.support import redis


def test_no_port_is_given_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis, "_PORTS", range(20_000, 20_040))
    monkeypatch.setattr(redis, "_given", set())
    monkeypatch.delenv("PYTEST_XDIST_WORKER_COUNT", raising=False)
    given = [redis.free_port() for _ in range(20)]
    assert len(set(given)) == 20


def test_processes_that_run_tests_beside_each_other_share_no_port() -> None:
    def share(number: int) -> set[int]:
        names = {"PYTEST_XDIST_WORKER": f"gw{number}", "PYTEST_XDIST_WORKER_COUNT": "3"}
        return set(redis._ports_of(names))

    shares = [share(number) for number in range(3)]
    assert sum(map(len, shares)) == len(set().union(*shares)) == len(redis._PORTS)
    assert share(3) in shares  # one that took the place of another that died
    assert set(redis._ports_of({})) == set(redis._PORTS)
