"""Write the generated rooms from ``proto/``, or check that what is committed is what they give.

    python -m tools.generate_protos            generate
    python -m tools.generate_protos --check    lint the protos and compare; exit 1 on a difference

The generator is pinned (``grpcio-tools`` in the ``dev`` extra): generated code refuses to run on
anything older than its generator, so a newer generator would raise the floor of every user.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROTO = ROOT / "proto"
PACKAGES = (Path("jobqueue/v1"), Path("jobqueue/externalscaler"))
GENERATED = ("*_pb2.py", "*_pb2.pyi", "*_pb2_grpc.py", "*_pb2_grpc.pyi")


def main() -> int:
    """Generate or check; return the exit code."""
    parser = argparse.ArgumentParser(description="Generate code from proto/.")
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 if stale")
    if parser.parse_args().check:
        return _check()
    for old in _generated(ROOT).values():
        old.unlink()
    _generate(ROOT)
    return 0


def _check() -> int:
    faults = _lint()
    with tempfile.TemporaryDirectory() as scratch:
        _generate(Path(scratch))
        faults += _differences(_generated(Path(scratch)), _generated(ROOT))
    for fault in faults:
        sys.stderr.write(f"{fault}\n")
    return 1 if faults else 0


def _lint() -> list[str]:
    asked = subprocess.run(
        [_tool("buf"), "lint"], cwd=PROTO, capture_output=True, text=True, check=False
    )
    return (asked.stdout + asked.stderr).splitlines() if asked.returncode else []


def _generate(out: Path) -> None:
    """Run protoc on every proto; ``out`` is the folder that holds ``jobqueue``."""
    command = [
        *(sys.executable, "-m", "grpc_tools.protoc", f"--proto_path={PROTO}"),
        *(f"--python_out={out}", f"--pyi_out={out}"),
        *(f"--grpc_python_out={out}", f"--mypy_grpc_out={out}"),
        f"--plugin=protoc-gen-mypy_grpc={_tool('protoc-gen-mypy_grpc')}",
        *sorted(str(path.relative_to(PROTO)) for path in PROTO.rglob("*.proto")),
    ]
    made = subprocess.run(command, cwd=PROTO, capture_output=True, text=True, check=False)
    if made.returncode:
        sys.exit(made.stderr)
    for package in PACKAGES:
        _drop_empty_services(out / package)


def _drop_empty_services(folder: Path) -> None:
    """Remove the gRPC files of protos without a service: they hold nothing but imports."""
    for code in folder.glob("*_pb2_grpc.py"):
        if "class " not in code.read_text(encoding="utf-8"):
            code.unlink()
            code.with_suffix(".pyi").unlink(missing_ok=True)


def _generated(out: Path) -> dict[str, Path]:
    """Return by its path below ``out`` each file that was generated."""
    found = [path for p in PACKAGES for pattern in GENERATED for path in (out / p).glob(pattern)]
    return {str(path.relative_to(out)): path for path in found}


def _differences(fresh: dict[str, Path], committed: dict[str, Path]) -> list[str]:
    missing = [f"{name}: missing" for name in fresh.keys() - committed.keys()]
    extra = [f"{name}: has no proto" for name in committed.keys() - fresh.keys()]
    stale = [
        f"{name}: stale, run `make proto`"
        for name in fresh.keys() & committed.keys()
        if fresh[name].read_bytes() != committed[name].read_bytes()
    ]
    return sorted([*missing, *extra, *stale])


def _tool(name: str) -> str:
    """Find a program beside this interpreter: the virtualenv need not be on PATH."""
    beside = Path(sys.executable).parent / name
    return str(beside) if os.access(beside, os.X_OK) else name


if __name__ == "__main__":
    sys.exit(main())
