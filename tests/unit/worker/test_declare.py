import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobqueue.errors import SettingsError
from jobqueue.worker import Context, RetryLater, handler
from jobqueue.worker.declare import declared
from jobqueue.worker.registry import Command, Registry, Shell, load_handlers

_GREET = """from jobqueue.worker import handler
@handler("declare-copied")
async def greet(context): ...
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where ``import twice`` looks."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # a change shows in its seconds only
    yield tmp_path / "twice.py"
    sys.modules.pop("twice", None)


def test_a_declared_function_stays_itself() -> None:
    def function(_context: Context) -> None: ...

    assert handler("declare-plain")(function) is function
    assert declared()["declare-plain"].call is function


def test_a_taken_type_is_refused() -> None:
    @handler("declare-taken")
    def first(_context: Context) -> None: ...

    with pytest.raises(ValueError, match=r"taken by .*first"):

        @handler("declare-taken")
        def second(_context: Context) -> None: ...


def test_a_reloaded_function_replaces_itself() -> None:
    def make() -> None:
        @handler("declare-reload")
        def again(_context: Context) -> None: ...

    make()
    make()


def test_a_copy_under_the_same_name_is_refused(module: Path) -> None:
    module.write_text(_GREET + _GREET)
    with pytest.raises(ValueError, match=r"taken by twice\.greet in line 2"):
        importlib.import_module("twice")


def test_a_module_that_was_changed_may_be_reloaded(module: Path) -> None:
    module.write_text(_GREET)
    twice = importlib.import_module("twice")
    module.write_text(f"# Greets.\n{_GREET}")
    importlib.reload(twice)
    assert declared()["declare-copied"].call is twice.greet


@pytest.mark.parametrize("name", ["", "a b", "x" * 129])
def test_a_bad_type_name_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="type"):
        handler(name)(lambda _context: None)


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan"), float("inf")])
def test_a_bad_timeout_is_refused(seconds: float) -> None:
    with pytest.raises(ValueError, match="timeout"):
        handler("declare-timeout", timeout=seconds)(lambda _context: None)


def test_a_function_without_an_argument_is_refused() -> None:
    with pytest.raises(ValueError, match="Context"):
        handler("declare-empty")(lambda: None)


def test_threads_are_not_for_async_functions() -> None:
    async def function(_context: Context) -> None: ...

    with pytest.raises(ValueError, match="async"):
        handler("declare-async-thread", threads=True)(function)


def test_an_object_with_an_async_call_runs_on_the_loop() -> None:
    class Handler:
        async def __call__(self, context: Context) -> None: ...

    handler("declare-object")(Handler())
    assert declared()["declare-object"].on_loop


@pytest.mark.parametrize(
    "delay", [-1.0, float("nan"), float("inf"), 1e12, pytest.param(10**400, id="huge")]
)
def test_a_retry_cannot_be_asked_for_at_no_time(delay: float) -> None:
    with pytest.raises(ValueError, match="delay_s"):
        RetryLater(delay)


def test_a_job_with_a_type_goes_to_that_handler_only(registry: Registry) -> None:
    found = registry.resolve("default", "echo")
    assert found is not None
    assert found.type == "echo"
    assert registry.resolve("echo", "unknown") is None


def test_a_job_without_type_goes_to_its_queue_then_to_default() -> None:
    mail, fallback = Command("mail", ("m",)), Command("default", ("d",))
    both = Registry({"mail": mail, "default": fallback})
    assert both.resolve("mail", None) is mail
    assert both.resolve("other", None) is fallback
    alone = Registry({"mail": mail})
    assert alone.untyped("mail")
    assert not alone.untyped("other")


def test_the_shell_is_there_only_when_allowed() -> None:
    assert "shell" not in load_handlers([]).types
    assert load_handlers([], allow_shell=True).handlers["shell"] == Shell()


def test_all_faults_of_handlers_are_reported_at_once() -> None:
    commands = {"shell": ["true"], "nothing": [], "a b": ["true"]}
    with pytest.raises(SettingsError) as caught:
        load_handlers(["no_such_module", "tests.support.exits"], commands, allow_shell=True)
    text = str(caught.value)
    for part in ("no_such_module", "SystemExit: 5", "allow_shell", "nothing", "a b"):
        assert part in text


def test_a_worker_without_sync_handlers_needs_no_children(registry: Registry) -> None:
    assert registry.needs_children
    assert not Registry({"mail": Command("mail", ("m",))}).needs_children
