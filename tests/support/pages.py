"""Pages that are played: the commands of a Markdown page are run from its top to its end, as a reader would type them.

A block of `console` has commands after `$ ` and, below each, what it prints. A block of `bash` has commands alone. A
comment right before a block says more about it:

    <!-- file: gang.yaml -->      the block is written to this file
    <!-- exit code: 1 -->         its last command ends with this code
    <!-- not run: REASON -->      the block is left out, for this reason

A page is played in a folder of its own that holds a copy of `examples/`, with a home of its own. `make install` has
been done there: what it makes, `.venv`, is a link to the environment of the tests, and a page that has the command
finds programs only after it puts that on its PATH. `kilauea up` and `kilauea apiserver` run on in the background until
the page ends, on a free port. Output is compared without what differs from run to run: times, addresses, uids, progress
that is reported, and the width of columns; a line `...` stands for any lines. A command that looks at the cluster is
repeated until it prints what the page shows.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 40.0
"""Seconds that a cluster may take to show what a page shows."""
LONGEST = 120.0
"""Seconds that one command may take."""
INSTALL = "make install"
SERVERS = ("kilauea up", "kilauea apiserver")
LOOKS = (
    r"kubectl (?:get|describe|logs|events|auth)|vcctl \w+ (?:list|view|get|describe|tree|children)|vjobs|vqueues"
    r"|kilauea (?:doctor|explain|queues|plan|squeue|sinfo|sacct)"
)
"""Commands that change nothing, so that they may be repeated."""
ALONE = r"kilauea (?:plan|explain|queues) (?:[^|]* )?-f examples/(?!jobs|vcjobs|sharing)"
BLOCK = re.compile(
    r"(?:^<!-- (?P<note>[^\n]*?) -->\n+)?^(?P<fence>```+)(?P<language>[^\n]*)\n(?P<text>.*?)^(?P=fence)$", re.M | re.S
)
NOTE = re.compile(r"(file|exit code|not run): (.+)")
CHANGING = (
    (re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "<uid>"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)?"), "<time>"),
    (re.compile(r"\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),? .*?\d\d:\d\d:\d\d(?: \S+)?(?: \d{4})?"), "<time>"),
    (re.compile(r"\b\d{4}-\d\d-\d\d\b"), "<date>"),
    (re.compile(r"\b\d\d:\d\d:\d\d\b"), "<time>"),
    (re.compile(r"\b(?:\d+(?:\.\d+)?(?:ms|d|h|m|s))+\b(?: \((?:x\d+ over )?\S+ ago\))?"), "<age>"),
    (re.compile(r"^\S+: (?:Submitted|Pending|Running \(.*\)|Restarting|Completing|waits: .*)\n", re.M), ""),
    (re.compile(r"(?<=-)[bcdfghjklmnpqrstvwxz2456789]{5}\b"), "<suffix>"),
    (re.compile(r"\b10\.\d+\.\d+\.\d+\b"), "<ip>"),
    (re.compile(r"127\.0\.0\.1:\d+"), "127.0.0.1:<port>"),
    (re.compile(r"[ \t]+"), " "),
)
Environment = dict[str, str]


@dataclass(frozen=True)
class Block:
    """A fenced block of a page.

    Attributes:
        page: path of the page.
        line: number of its first line.
        language: after the fence.
        text: between the fences.
        about: what the comment before it says: `file`, `exit code`, `not run`.
        start: offset of the text in the page.
    """

    page: Path
    line: int
    language: str
    text: str
    about: dict[str, str]
    start: int

    @property
    def has_commands(self) -> bool:
        """True if a reader would type it."""
        return self.language in ("console", "bash")

    @property
    def is_played(self) -> bool:
        """True if the player runs it."""
        return self.has_commands and "not run" not in self.about

    def steps(self) -> list[Step]:
        """The commands, each with the lines that it is said to print."""
        if self.language == "bash":
            return [Step(command, None) for command in _commands(self.text)]
        out = []
        for part in re.split(r"^\$ ", self.text, flags=re.M)[1:]:
            command = re.match(r"(?:[^\n]*\\\n)*[^\n]*\n", part)
            assert command is not None, f"{self}: {part!r}"
            here = re.search(r"<<-?\s*'?(\w+)'?", command[0])
            length = command.end()
            if here:
                length = part.index(f"\n{here[1]}\n") + len(here[1]) + 2
            out.append(Step(part[:length].rstrip("\n"), part[length:].strip("\n")))
        return out

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


@dataclass(frozen=True)
class Step:
    """A command, and what it prints; None if the page does not say."""

    command: str
    shown: str | None


def _commands(text: str) -> list[str]:
    """Commands of a script; continued lines and here-documents stay together, and comments go."""
    out: list[str] = []
    until = ""
    for line in text.splitlines():
        if until or (out and out[-1].endswith("\\")):
            out[-1] += f"\n{line}"
            until = "" if line == until else until
            continue
        bare = re.sub(r"(^|\s+)# .*", "", line)
        if bare.strip():
            out.append(bare)
            here = re.search(r"<<-?\s*'?(\w+)'?", bare)
            until = here[1] if here else ""
    return out


def pages() -> list[Path]:
    """All pages: those of the repository itself, of the site, and of the examples."""
    return [
        *sorted(ROOT.glob("*.md")),
        *(page for of in ("docs", "examples") for page in sorted((ROOT / of).rglob("*.md"))),
    ]


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page, in order."""
    text = page.read_text()
    out = []
    for found in BLOCK.finditer(text):
        note = NOTE.fullmatch(found["note"] or "")
        line = text.count("\n", 0, found.start("text"))
        about = {note[1]: note[2]} if note else {}
        out.append(Block(page, line, found["language"], found["text"], about, found.start("text")))
    return out


def needs_cluster(page: Path) -> bool:
    """True if a page starts a server."""
    steps = (step for block in blocks(page) if block.is_played for step in block.steps())
    return any(step.command.startswith(SERVERS) for step in steps)


def stands_alone(command: str) -> bool:
    """True if a command reads examples only, so that it needs no cluster and none of the commands before it."""
    return re.match(ALONE, command) is not None and "kubeconfig" not in command.lower()


def comparable(text: str) -> list[str]:
    """Lines without what differs from run to run."""
    for pattern, instead in CHANGING:
        text = pattern.sub(instead, text)
    return [line.rstrip() for line in text.strip().splitlines()]


def matches(shown: str, printed: str) -> bool:
    """True if a command printed what a page shows; a line `...` stands for any lines."""
    patterns = (".*" if line.strip() == "..." else re.escape(line) for line in comparable(shown))
    return (
        re.fullmatch("\n".join(patterns).replace("\n.*", "(?:\n.*)?"), "\n".join(comparable(printed)), re.S) is not None
    )


def _path_without_ours() -> list[str]:
    """The folders of PATH in which none of our programs is."""
    return [each for each in os.environ["PATH"].split(":") if not (Path(each) / "kilauea").exists()]


class Shell:
    """A shell as a reader has it: variables and the folder stay from command to command."""

    def __init__(self, folder: Path, *, activated: bool) -> None:
        self.folder, self.home = folder / "work", folder / "home"
        self.home.mkdir(parents=True)
        shutil.copytree(ROOT / "examples", self.folder / "examples", ignore=shutil.ignore_patterns("__pycache__"))
        (self.folder / ".venv").symlink_to(sys.prefix)
        path = ([str(Path(sys.executable).parent)] if activated else []) + _path_without_ours()
        self._variables, self._place = folder / "variables", folder / "place"
        self._variables.touch()
        self._place.write_text(f"{self.folder}\n")
        kept = {key: value for key, value in os.environ.items() if key in ("LANG", "TMPDIR")}
        source = {"PYTHONPATH": str(ROOT / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
        self._environment = {**kept, **source, "HOME": str(self.home), "PATH": ":".join(path), "NO_COLOR": "1"}
        self._servers: list[subprocess.Popen[bytes]] = []

    def run(self, command: str) -> tuple[int, str]:
        """Run a command; its exit code, and all that it prints."""
        if command == INSTALL:
            return 0, ""
        if command.startswith(SERVERS):
            return 0, self._start(command)
        kept = f"code=$?; export -p > {self._variables}; pwd > {self._place}; exit $code"
        done = self._popen(f"{command}\n{kept}", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        try:
            printed = done.communicate(timeout=LONGEST)[0]
        except subprocess.TimeoutExpired:
            os.killpg(done.pid, signal.SIGKILL)
            raise AssertionError(f"took longer than {LONGEST:.0f} s: {command}") from None
        return done.returncode, self._without_home(printed.decode())

    def _start(self, command: str) -> str:
        """Start a server; what it prints until it is ready."""
        log = self.home / f"server-{len(self._servers)}.log"
        options = "" if "--listen" in command else " --listen 127.0.0.1:0"
        with log.open("wb") as to:
            server = self._popen(f"exec {command}{options} --durability normal", stdout=to)
        self._servers.append(server)
        end = time.monotonic() + LONGEST
        while "export KUBECONFIG=" not in log.read_text():
            assert server.poll() is None, f"{command}: {log.read_text()}"
            assert time.monotonic() < end, f"not ready: {command}: {log.read_text()}"
            time.sleep(0.1)
        return self._without_home(log.read_text())

    def _popen(self, script: str, **more: Any) -> subprocess.Popen[bytes]:
        before = f'set -a; . {self._variables}; cd "$(cat {self._place})"\n'
        return subprocess.Popen(
            ["bash", "-c", before + script],
            env=self._environment,
            cwd=self.folder,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            **more,
        )

    def _without_home(self, text: str) -> str:
        return text.replace(str(self.folder), "/home/you/kilauea").replace(str(self.home), "/home/you")

    def close(self) -> None:
        """End the servers."""
        for server in self._servers:
            server.send_signal(signal.SIGINT)
        for server in self._servers:
            try:
                server.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(server.pid, signal.SIGKILL)
                raise


@dataclass(frozen=True)
class Played:
    """What came of a command of a page."""

    block: Block
    step: Step
    code: int
    printed: str

    def fault(self) -> str:
        """What is wrong with it; empty if nothing is."""
        wanted = int(self.block.about.get("exit code", 0)) if self.step == self.block.steps()[-1] else 0
        told = f"{self.block}: $ {self.step.command}\n"
        if self.code != wanted:
            return f"{told}ends with exit code {self.code}, not {wanted}:\n{self.printed}"
        if self.step.shown is not None and not matches(self.step.shown, self.printed):
            return f"{told}prints\n{self.printed}\nand the page shows\n{self.step.shown}\n"
        return ""


def play(page: Path, folder: Path, *, alone: bool = False) -> list[Played]:
    """Run the commands of a page, or those that stand alone; it ends at the first fault, unless pages are rewritten."""
    installs = any(step.command == INSTALL for block in blocks(page) if block.is_played for step in block.steps())
    shell = Shell(folder, activated=alone or not installs)
    recording = bool(os.environ.get("KILAUEA_UPDATE_GOLDEN"))
    out: list[Played] = []
    try:
        for block in blocks(page):
            if "file" in block.about:
                file = shell.folder / block.about["file"]
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(block.text)
            for step in block.steps() if block.is_played else ():
                if alone and not stands_alone(step.command):
                    continue
                out.append(_played(shell, block, step, recording))
                if out[-1].fault() and not recording:
                    return out
    finally:
        shell.close()
    return out


def _played(shell: Shell, block: Block, step: Step, recording: bool) -> Played:
    repeatable = re.match(LOOKS, step.command) is not None and step.shown is not None
    end = time.monotonic() + (PATIENCE if repeatable and step.shown else 0)
    while True:
        done = Played(block, step, *shell.run(step.command))
        if not done.fault() or time.monotonic() > end:
            return done
        if recording:
            end = min(end, time.monotonic() + 6)
        time.sleep(0.3)


def rewritten(page: Path, played: list[Played]) -> str:
    """The page with what its commands printed."""
    text = page.read_text()
    by_block: dict[int, list[Played]] = {}
    for each in played:
        if each.block.language == "console":
            by_block.setdefault(each.block.start, []).append(each)
    for start in sorted(by_block, reverse=True):
        block = by_block[start][0].block
        parts = [f"$ {each.step.command}\n{_shown(each)}" for each in by_block[start]]
        new = "".join(f"{part}\n" if part[-1:] != "\n" else part for part in parts)
        text = text[:start] + new + text[start + len(block.text) :]
    return text


def _shown(played: Played) -> str:
    """What the page shows of a command: what it showed, if that is still true."""
    if played.step.shown and matches(played.step.shown, played.printed):
        return played.step.shown + "\n"
    lines = (line.rstrip() for line in played.printed.strip("\n").splitlines())
    return "".join(f"{line}\n" for line in lines)


def faults(page: Path, folder: Path, *, alone: bool = False) -> str:
    """What is wrong with the commands of a page, or with those that stand alone.

    With KILAUEA_UPDATE_GOLDEN=1 their output is written to the page first.
    """
    played = play(page, folder, alone=alone)
    if os.environ.get("KILAUEA_UPDATE_GOLDEN"):
        page.write_text(rewritten(page, played))
        played = [replace(each, step=replace(each.step, shown=None)) for each in played]
        played = [each for each in played if "exit code" not in each.block.about]
    return "\n".join(fault for each in played if (fault := each.fault()))
