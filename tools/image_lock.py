"""Pins what goes into the images: `make image-lock`.

Writes a .txt beside each .in of deploy/image/requirements, with the hashes of all platforms. The
versions are those of constraints.txt, so what ships is what is tested.
"""

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "deploy" / "image" / "requirements"
_OPTIONS = (
    *("--quiet", "--universal", "--python-version", "3.11", "--no-annotate"),
    *("--constraints", str(ROOT / "constraints.txt"), "--generate-hashes"),
    *("--custom-compile-command", "make image-lock"),
)


def main() -> None:
    """Resolve each list within the versions of a development environment."""
    for names in sorted(FOLDER.glob("*.in")):
        pins = names.with_suffix(".txt")
        pins.unlink(missing_ok=True)  # uv would keep the versions that it finds there
        command = ("uv", "pip", "compile", *_OPTIONS, "-o", str(pins), str(names))
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        print(f"{pins.relative_to(ROOT)} is written")


if __name__ == "__main__":
    main()
