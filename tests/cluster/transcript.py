"""Transcripts: commands with the output that they must give, played at a server.

A transcript is a text file. A line that begins with `$ ` is a command for bash, lines with `> ` go on with it; below is
what it printed, both streams together, and `[exit N]` if it failed. Blank lines and lines with `#` before a command
are for the reader. What differs from run to run reads `<age>`, `<time>`, `<uid>`, `<version>` and the like.

    python tests/cluster/transcript.py FILE... --kubeconfig FILE    # plays at any server and prints the differences

So the same transcripts can be held against the real server (tests/kubernetes/serve.py).
"""

from __future__ import annotations

import argparse
import difflib
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import yaml

FOLDER = Path(__file__).resolve().parent / "transcripts"
COMMAND_SECONDS = 40

PRELUDE = r"""
# lines N FILE: wait until the file has N lines
lines() {
    for _ in $(seq 400); do [ "$(cat "$2" 2>/dev/null | wc -l)" -ge "$1" ] && return; sleep 0.05; done
    echo "only:"; cat "$2"
}
"""

RULES: list[tuple[str, str | Callable[[re.Match[str]], str]]] = [
    (r"(kube-api-access-|gen-)[a-z0-9]{5}\b", r"\1<suffix>"),
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "<uid>"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "<time>"),
    (r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d [+-]\d{4}", "<time>"),
    (r'(resourceVersion"?: )"\d+"', r'\1"<version>"'),
    (r"(Resource Version: +)\d+", r"\1<version>"),
    (r"https://127\.0\.0\.1:\d+", "<server>"),
    (r"(?<=  )(?:\d+m)?\d+s( *)$", r"<age>"),
    (r"(?<=  )((?:\d+m)?\d+s +)(?=\S)", lambda found: "<age>".ljust(len(found[1]))),
    (r"(?m)^(Age: +)\S+$", r"\1<age>"),
    (r"\b10\.\d+\.\d+\.\d+( *)", lambda found: "<cluster-ip>" + " " * max(0, len(found[0]) - len("<cluster-ip>"))),
]
"""What differs from run to run, and what stands in its place."""


@dataclass
class Step:
    """A command, what a reader is told before it, and what it must print."""

    notes: list[str]
    command: str
    output: str

    def text(self, output: str) -> str:
        """The step as it stands in the file, with an output."""
        first, *rest = self.command.split("\n")
        lines = [*self.notes, f"$ {first}", *(f"> {line}".rstrip() for line in rest)]
        return "\n".join(lines) + "\n" + output


def read_transcript(path: Path) -> list[Step]:
    """The steps of a file."""
    steps: list[Step] = []
    notes: list[str] = []
    for line in path.read_text().splitlines():
        if line.startswith("$ "):
            steps.append(Step(notes, line[2:], ""))
            notes = []
        elif line == ">" or line.startswith("> "):
            steps[-1].command += "\n" + line[2:]
        elif line.startswith("#") or (not line and not notes):
            notes.append(line)
        elif notes and notes != [""]:
            raise ValueError(f"{path}: output after a comment: {line!r}")
        else:
            steps[-1].output += "".join(f"{note}\n" for note in notes) + line + "\n"
            notes = []
    return steps


def play(path: Path, kubeconfig: Path, home: Path) -> str:
    """Play all steps in a namespace named after the file; returns the transcript as it came out."""
    own = _kubeconfig_with_namespace(kubeconfig, path.stem, home)
    folder = home / "work"
    folder.mkdir()
    environment = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "KUBECONFIG": str(own),
        "HOME": str(home),
        "KUBECACHEDIR": str(home / "cache"),
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "EDITOR": "false",
    }
    setup = f"kubectl create ns {path.stem}; kubectl create sa default"
    subprocess.run(["bash", "-c", setup], env=environment, capture_output=True, check=False)
    return "".join(step.text(_run(step.command, environment, folder)) for step in read_transcript(path))


def _run(command: str, environment: dict[str, str], folder: Path) -> str:
    """What a command prints, comparable, with its exit code if that is not 0."""
    process = subprocess.Popen(
        ["bash", "-c", PRELUDE + command],
        env=environment,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        printed = process.communicate(timeout=COMMAND_SECONDS)[0]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        printed = process.communicate()[0] + b"(did not end)\n"
    output = printed.decode(errors="backslashreplace")
    if output and not output.endswith("\n"):
        output += "\n"
    return comparable(output) + (f"[exit {process.returncode}]\n" if process.returncode else "")


def comparable(text: str) -> str:
    """A text with what differs from run to run replaced, and without blanks at the ends of lines."""
    lines = []
    for line in text.split("\n"):
        for pattern, replacement in RULES:
            line = re.sub(pattern, replacement, line)
        lines.append(line.rstrip())
    return "\n".join(lines)


def _kubeconfig_with_namespace(kubeconfig: Path, namespace: str, home: Path) -> Path:
    config = yaml.safe_load(kubeconfig.read_text())
    config["contexts"][0]["context"]["namespace"] = namespace
    own = home / "kubeconfig"
    own.write_text(yaml.safe_dump(config))
    return own


def main() -> int:
    """Play and print the differences."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, help="transcripts; all if none is named")
    parser.add_argument("--kubeconfig", type=Path, required=True)
    options = parser.parse_args()
    differ = 0
    for path in options.files or sorted(FOLDER.glob("*.txt")):
        with tempfile.TemporaryDirectory(prefix="transcript-") as home:
            played = play(path, options.kubeconfig.resolve(), Path(home))
        old, new = path.read_text().splitlines(), played.splitlines()
        lines = list(difflib.unified_diff(old, new, str(path.name), "this server", lineterm=""))
        print("\n".join(lines) if lines else f"{path.name}: the same")
        differ += bool(lines)
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
