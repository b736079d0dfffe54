"""A process knows itself from its copies, whoever makes them."""

import ctypes
import os
from collections.abc import Callable

import pytest

from jobqueue.runtime import original as module
from jobqueue.runtime.original import Original, original

LIBC = ctypes.PyDLL(None)
FORKS = [os.fork, LIBC.fork]
WAYS = ["by a page", "by its number"]


@pytest.fixture(params=WAYS)
def here(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Original:
    """Of this process, told in either way."""
    if request.param == "by its number":
        monkeypatch.setattr(module, "_marked", lambda: None)
    monkeypatch.setattr(module, "_original", bool)
    return original()


def in_a_copy(fork: Callable[[], int], told: Callable[[], object]) -> bool:
    """Return what is told in a copy of this process."""
    if copy := fork():
        return os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1]) == 1
    try:
        os._exit(bool(told()))
    finally:
        os._exit(2)


@pytest.mark.parametrize("fork", FORKS, ids=["python", "c"])
def test_what_is_true_here_is_false_in_every_copy(fork: Callable[[], int], here: Original) -> None:
    assert here()
    assert not in_a_copy(fork, here)
    assert here()


@pytest.mark.parametrize("fork", FORKS, ids=["python", "c"])
def test_a_copy_that_begins_anew_is_an_original_itself(
    fork: Callable[[], int], here: Original
) -> None:
    def begins() -> bool:
        own = original()
        return bool(own()) and not here() and not in_a_copy(fork, own)

    assert in_a_copy(fork, begins)


def test_it_is_the_same_for_as_long_as_the_process_lives(here: Original) -> None:
    assert original() is here
