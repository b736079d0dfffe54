"""Every method has a role, and no table names a method that is not there."""

import importlib
import pkgutil
from collections.abc import Iterator
from itertools import chain

import pytest

import jobqueue.v1
from jobqueue.config.api_keys import Role
from jobqueue.rpc.access import _NEEDED, needed_role


def methods() -> Iterator[str]:
    """Yield every method of every service that the protocol has."""
    for found in pkgutil.iter_modules(jobqueue.v1.__path__):
        if found.name.endswith("_pb2"):
            module = importlib.import_module(f"jobqueue.v1.{found.name}")
            for service in module.DESCRIPTOR.services_by_name.values():
                yield from (f"/{service.full_name}/{method.name}" for method in service.methods)


METHODS = sorted(methods())


def test_there_are_methods_to_ask_about() -> None:
    services = {method.split("/")[1] for method in METHODS}
    assert {"jobqueue.v1.JobService", "jobqueue.v1.AdminService"} <= services


@pytest.mark.parametrize("method", METHODS)
def test_every_method_of_the_protocol_has_a_role(method: str) -> None:
    assert needed_role(method) is not None


def test_the_table_names_only_methods_that_exist() -> None:
    assert set(_NEEDED) - set(METHODS) == set()


@pytest.mark.parametrize(
    "method",
    ["/jobqueue.v1.JobService/Forgotten", "/other.Service/Method", "/", "", "Method"],
)
def test_what_is_not_listed_is_open_to_nobody(method: str) -> None:
    assert needed_role(method) is None


@pytest.mark.parametrize(
    ("role", "names"),
    [
        (Role.SUBMIT, ("SubmitJob", "GetJob", "WatchJob", "CancelJob", "GetVersion")),
        (Role.OPERATE, ("ListJobs", "DeleteJob", "PauseQueue", "ShutdownWorker")),
        (Role.ADMIN, ("CreateQueue", "UpdateQueue", "DeleteQueue")),
    ],
)
def test_looking_around_needs_more_than_an_id_and_queues_are_an_admins(
    role: Role, names: tuple[str, ...]
) -> None:
    paths = chain.from_iterable(
        (method for method in METHODS if method.endswith(f"/{name}")) for name in names
    )
    assert {needed_role(path) for path in paths} == {role}
