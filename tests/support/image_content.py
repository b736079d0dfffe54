"""What goes into the images, made once for all test processes of a session."""

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.manifests.tools import refuse_or_skip
from tools.image_content import build_wheel, stage


def staged(program: str, temporary: pytest.TempPathFactory) -> Path:
    """Return the environment of a program's image; it is not to be changed.

    Skips where it cannot be made; with JQ_REQUIRE_IMAGE=1 that is a failure.
    """
    if sys.platform != "linux" or shutil.which("strip") is None:
        refuse_or_skip("image", "images are made on Linux, with strip of binutils")
    base = temporary.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "image"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = folder / f"{program}.done"
        if not done.exists():
            _make(program, folder)
            done.touch()
    return folder / program


def _make(program: str, folder: Path) -> None:
    wheels = list(folder.glob("*.whl"))
    try:
        stage(program, wheels[0] if wheels else build_wheel(folder), folder)
    except subprocess.CalledProcessError as error:
        if "Failed to fetch" in error.stderr:
            refuse_or_skip("image", "the package index cannot be reached")
        raise AssertionError(error.stderr) from error
