"""Batch scripts: their interpreter, their text, and the `#SBATCH` and `#KILAUEA` lines before the first command."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import NamedTuple

from kilauea.cli.jobs.commands import SHELLS
from kilauea.cli.vcctl.command import CommandError

MARKS = ("#SBATCH", "#KILAUEA")
MOST_BYTES = 100_000
"""Maximum size of a script: it is an argument of its interpreter, and Linux allows 128 KiB."""
LAUNCHERS = re.compile(r"^\s*(srun|sbcast|sattach|salloc)\b")
_PYTHON = re.compile(r"python[0-9.]*")


class Directive(NamedTuple):
    """A line with options."""

    line: int
    words: Sequence[str]


class Script(NamedTuple):
    """A batch script.

    Attributes:
        name: name of its file, for messages and `$0`.
        interpreter: words before `-c`.
        text: the whole text.
        directives: lines with options.
        launches: number and command of each line that starts a program of Slurm.
    """

    name: str
    interpreter: Sequence[str]
    text: str
    directives: Sequence[Directive]
    launches: Sequence[tuple[int, str]]

    @property
    def is_shell(self) -> bool:
        """True if shell commands can precede its text."""
        return _program(self.interpreter) in SHELLS

    def command(self, arguments: Sequence[str]) -> list[str]:
        """The command that runs it."""
        if self.is_shell:
            return [*self.interpreter, "-c", self.text, self.name, *arguments]
        return [*self.interpreter, "-c", self.text, *arguments]


def read_script(name: str, data: bytes) -> Script:
    """Read a batch script.

    Raises:
        CommandError: it cannot be run, or a line with options is invalid.
    """
    if len(data) > MOST_BYTES:
        raise CommandError(f"{name}: {len(data)} bytes are too many, at most {MOST_BYTES}: call a file from the script")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise CommandError(f"{name}: not a script: byte {error.start} is not UTF-8") from error
    if "\0" in text:
        raise CommandError(f"{name}: not a script: it has a zero byte")
    if "\r\n" in text:
        raise CommandError(f"{name}: has DOS line endings, which shells cannot read: convert it with dos2unix")
    lines = text.split("\n")
    if not lines[0].startswith("#!"):
        raise CommandError(f"{name}: the first line does not name an interpreter: begin the script with #!/bin/sh")
    interpreter = _interpreter(name, lines[0])
    launches = [(number, found[1]) for number, line in enumerate(lines, 1) if (found := LAUNCHERS.match(line))]
    return Script(name, interpreter, text, _directives(name, lines), launches)


def _interpreter(name: str, line: str) -> list[str]:
    words = line[2:].split()
    if words[:1] and words[0].endswith("/env"):
        words = words[1:]
    if not words or not (_program(words) in SHELLS or _PYTHON.fullmatch(_program(words))):
        raise CommandError(
            f"{name}: interpreter {line[2:].strip() or 'none'} is not supported: use a shell or Python, "
            "or call it from a script of #!/bin/sh"
        )
    return words


def _program(words: Sequence[str]) -> str:
    return words[0].rpartition("/")[2]


def _directives(name: str, lines: Sequence[str]) -> list[Directive]:
    """Options before the first line that is neither empty nor a comment, as in Slurm."""
    found = []
    for number, line in enumerate(lines, 1):
        if line.strip() and not line.startswith("#"):
            break
        mark, _, rest = line.partition(" ") if " " in line else line.partition("\t")
        if mark in MARKS:
            try:
                found.append(Directive(number, shlex.split(rest, comments=True)))
            except ValueError as error:
                raise CommandError(f"{name}:{number}: {rest.strip()} cannot be read: {error}") from error
    return found
