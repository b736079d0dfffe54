"""What goes into the images, made by the script of the Dockerfile: `make image-size` (R-10.1).

Needs no container engine. An image is a base that others publish and the content that is staged
here; the size of the latter is exact for this platform and Python.
"""

import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
CONTENT_LIMIT, IMAGE_LIMIT = 75_000_000, 190_000_000
"""Bytes of what is staged, and of an image with its base, uncompressed."""

_STAGE = ROOT / "deploy" / "image" / "stage.sh"


@dataclass(frozen=True, slots=True)
class Base:
    """What an image begins with: its tag, and bytes as they were on a day."""

    tag: str
    size: int
    measured: str


# Measured by unpacking the Debian packages that these images are made of, not by pulling them.
_DISTROLESS = Base("gcr.io/distroless/python3-debian13:nonroot", 55_000_000, "2026-11-28")
_DEBIAN = Base("debian:13-slim + python3.13, tini, ca-certificates", 118_500_000, "2026-11-28")

BASES = {"jq-server": _DISTROLESS, "jq-worker": _DEBIAN, "jq-ctl": _DEBIAN}
"""Program → base of its image."""


def build_wheel(folder: Path) -> Path:
    """Build the wheel of this checkout into ``folder`` and return it."""
    _run(
        *(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"),
        *("--wheel-dir", str(folder), str(ROOT)),
    )
    (wheel,) = folder.glob("jobqueue-*.whl")
    return wheel


def stage(program: str, wheel: Path, folder: Path) -> Path:
    """Make the environment of one image in ``folder``; return it.

    Raises CalledProcessError, with what was printed, where an installation fails.
    """
    venv = folder / program
    uv = str(Path(sys.executable).with_name("uv"))
    variables = {"PYTHON": sys.executable, "UV": uv}
    _run(str(_STAGE), program, str(wheel), str(venv), **variables)
    return venv


def size_of(root: Path) -> int:
    """Return the bytes of all files below, as the layer of an image counts them."""
    return sum(path.lstat().st_size for path in root.rglob("*") if not path.is_dir())


def _run(*argv: str, **variables: str) -> None:
    subprocess.run(
        argv, env=os.environ | variables, check=True, capture_output=True, text=True, cwd=ROOT
    )


def main() -> None:
    """Print a table; end with 1 when something is too large."""
    print(f"{'image':12}{'content':>10}{'base':>10}{'sum':>10}   MB; base, measured on")
    large = False
    with tempfile.TemporaryDirectory(prefix="jobqueue-image-") as made:
        wheel = build_wheel(Path(made))
        for program, base in BASES.items():
            content = size_of(stage(program, wheel, Path(made)))
            large |= content > CONTENT_LIMIT or content + base.size > IMAGE_LIMIT
            figures = "".join(f"{n / 1e6:10.1f}" for n in (content, base.size, content + base.size))
            print(f"{program:12}{figures}   {base.tag}, {base.measured}")
    sys.exit(1 if large else 0)


if __name__ == "__main__":
    main()
