"""Pin versions of the official Python clients for the tests: `make lock` runs this after the other requirements.

    python tests/official_clients/lock.py requirements/clients-29.in

The versions go into a folder of their own, before the environment on the path, so a file pins only what differs from
`requirements/dev.txt`. What both need is the version there.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

DEV = Path(__file__).parents[2] / "requirements" / "dev.txt"
PIN = re.compile(r"^([a-z0-9][a-z0-9.-]*)==(\S+)(?:.*\n(?:    .*\n)*)", re.MULTILINE)
OPTIONS = (
    "--quiet --upgrade --generate-hashes --allow-unsafe --strip-extras --no-header --no-emit-options "
    "--annotation-style=line"
).split()


def pins(text: str) -> dict[tuple[str, str], str]:
    """The lines of each pin by name and version."""
    return {(found[1], found[2]): found[0] for found in PIN.finditer(text)}


def lock(source: Path) -> str:
    """What must be installed beside the environment, as lines of a requirements file."""
    free = re.findall(r"^[a-z0-9-]+", source.read_text(), re.MULTILINE)
    there = pins(DEV.read_text())
    with tempfile.TemporaryDirectory() as folder:
        constraints, output = Path(folder) / "constraints.txt", Path(folder) / "locked.txt"
        fixed = [f"{name}=={version}" for name, version in there if name not in free or source.stem.endswith("newest")]
        constraints.write_text("\n".join(fixed) + "\n")
        command = [sys.executable, "-m", "piptools", "compile", *OPTIONS, "--constraint", str(constraints)]
        subprocess.run([*command, "--output-file", str(output), str(source)], check=True)
        locked = pins(output.read_text())
    lines = "".join(text for pin, text in locked.items() if pin not in there)
    return re.sub(r"^    # via.*\n(?:    #.*\n)*", "", lines, flags=re.MULTILINE)


def main() -> None:
    """Write the locked file beside each source."""
    for source in map(Path, sys.argv[1:]):
        head = f"# Pinned versions for requirements/{source.name}, beside dev.txt. Made by `make lock`; do not edit.\n"
        source.with_suffix(".txt").write_text(head + lock(source))


if __name__ == "__main__":
    main()
