"""On what and of what a run was made."""

import os
import platform
from pathlib import Path

import asyncpg
import grpc
import psutil

from jobqueue.runtime.version import version_line

_GIB = 1024**3


def machine() -> dict[str, str]:
    """Describe this machine; nothing in it names it or its owner."""
    return {
        "cpu": _cpu(),
        "cores": str(os.cpu_count()),
        "memory": f"{psutil.virtual_memory().total / _GIB:.0f} GiB",
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "load at start": f"{os.getloadavg()[0]:.2f}",
    }


def versions() -> dict[str, str]:
    """Name the versions that our own figures depend on."""
    return {
        "jobqueue": version_line(),
        "Python": platform.python_version(),
        "asyncpg": asyncpg.__version__,
        "grpcio": grpc.__version__,
    }


def _cpu() -> str:
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or "unknown")
