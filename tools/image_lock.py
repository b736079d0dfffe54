"""Pins what goes into the images: `make image-lock`.

Writes a .txt beside each .in of deploy/image/requirements, with the hashes of all platforms. The
versions are those that a fresh development environment gets, so what ships is what is tested.
"""

import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "deploy" / "image" / "requirements"
_OPTIONS = ("--quiet", "--universal", "--python-version", "3.11", "--no-annotate")
_NOTE = "make image-lock"


def main() -> None:
    """Resolve the development environment, then each list within it."""
    with tempfile.TemporaryDirectory() as made:
        everything = Path(made) / "everything.txt"
        _compile(ROOT / "pyproject.toml", everything, "--extra", "dev", "--extra", "embedded")
        for names in sorted(FOLDER.glob("*.in")):
            pins = names.with_suffix(".txt")
            pins.unlink(missing_ok=True)  # uv would keep the versions that it finds there
            _compile(names, pins, "--constraints", str(everything), "--generate-hashes")
            print(f"{pins.relative_to(ROOT)} is written")


def _compile(source: Path, target: Path, *options: str) -> None:
    note = ("--custom-compile-command", _NOTE)
    command = ("uv", "pip", "compile", *_OPTIONS, *note, *options, "-o", str(target), str(source))
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
