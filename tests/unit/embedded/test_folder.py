"""The lock of a data folder."""

import errno
import fcntl
import os
import time
from pathlib import Path

import pytest

from jobqueue.embedded.folder import FolderLock, is_held


@pytest.mark.parametrize("call", ["ftruncate", "write"])
def test_a_folder_that_could_not_be_taken_for_want_of_room_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(os, call, refuse)
        with pytest.raises(OSError, match="No space left"):
            FolderLock(tmp_path).take()
    lock = FolderLock(tmp_path)
    lock.take()
    lock.release()


def test_who_looks_whether_a_folder_is_held_keeps_it_from_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looker = os.open(tmp_path / "lock", os.O_RDONLY | os.O_CREAT)
    fcntl.flock(looker, fcntl.LOCK_SH)
    assert not is_held(tmp_path)
    monkeypatch.setattr(time, "sleep", lambda _s: os.close(looker))
    lock = FolderLock(tmp_path)
    lock.take()
    assert is_held(tmp_path)
    lock.release()
