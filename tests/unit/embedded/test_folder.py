"""The lock of a data folder."""

import errno
import os
from pathlib import Path

import pytest

from jobqueue.embedded.folder import FolderLock


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
