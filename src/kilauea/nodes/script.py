"""Reads commands and small shell scripts as people write them in examples, to tell how long they take and how they end.

Known are `sleep`, `exit`, `true`, `false`, `echo`, loops that never end, and `;`, `&&`, `||` between them.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from kilauea.api.times import SECOND

_SHELLS = frozenset({"sh", "bash", "ash", "dash", "zsh"})
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_NUMBER = re.compile(r"([0-9]{1,9}(?:\.[0-9]{0,6})?|\.[0-9]{1,6})([smhd]?)")
_COMMENT = re.compile(r"(^|\s)#[^\n]*")
_LEADS = frozenset({"do", "then", "else", "exec", "time", "{", "("})
"""Words that may stand before a command."""
_QUICK = frozenset({"set", "cd", "export", "trap", "wait", "true", ":", "done", "fi", "}", ")"})
"""Commands that take no time and succeed."""
_BREAKS = ";&|\n"


@dataclass(frozen=True, slots=True)
class Script:
    """What a command does.

    Attributes:
        tells_time: whether it says how long it takes.
        run_time: microseconds; None for ever.
        exit_code: with which it ends.
        output: lines that it prints.
    """

    tells_time: bool
    run_time: int | None
    exit_code: int
    output: tuple[str, ...]


@lru_cache(maxsize=4096)
def read_script(command: tuple[str, ...], args: tuple[str, ...]) -> Script:
    """What a container's command and arguments do."""
    words = command + args
    reading = _Reading()
    if words and _base(words[0]) in _SHELLS:
        try:
            reading.read(_statements(_inline(words)))
        except ValueError:  # quotes that never end
            reading.unknown = True
    else:
        reading.read([("", words)] if words else [])
    return reading.result()


def _base(word: str) -> str:
    """The name of a program without its folder."""
    return word.rpartition("/")[2]


def _inline(words: Sequence[str]) -> str:
    """The text after `-c`, `-ec` and the like; empty if there is none."""
    for number, word in enumerate(words[1:], 1):
        if word.startswith("-") and not word.startswith("--") and word.endswith("c"):
            return words[number + 1] if number + 1 < len(words) else ""
    return ""


def _statements(text: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The simple commands of a script, each with what stands before it: `&&`, `||`, or something else."""
    lexer = shlex.shlex(_COMMENT.sub(r"\1", text), posix=True, punctuation_chars=_BREAKS)
    lexer.commenters = ""  # they would take the end of the line with them
    lexer.whitespace = " \t\r"
    between, words = "", list[str]()
    for token in lexer:
        if token.strip(_BREAKS):
            words.append(token)
        else:
            if words:
                yield between, tuple(words)
            between, words = token.strip(), []
    if words:
        yield between, tuple(words)


@dataclass(slots=True)
class _Reading:
    """What is known of a script so far."""

    taken: int = 0
    timed: bool = False
    endless: bool = False
    unknown: bool = False
    status: int = 0
    output: list[str] = field(default_factory=list)

    def result(self) -> Script:
        """The script, once it is read; one that does nothing, or something unknown, does not tell its time."""
        tells = self.timed or self.endless or not self.unknown
        return Script(tells, None if self.endless else self.taken, self.status, tuple(self.output))

    def read(self, statements: Sequence[tuple[str, tuple[str, ...]]] | Iterator[tuple[str, tuple[str, ...]]]) -> None:
        """Follow statements to the end, or to an `exit`, or for ever."""
        empty = True
        for between, words in statements:
            empty = False
            if (between == "&&" and self.status) or (between == "||" and not self.status):
                continue
            if self._follow(words):
                break
        self.unknown = self.unknown or empty

    def _follow(self, words: tuple[str, ...]) -> bool:
        """Follow one statement; returns whether the script gets no further."""
        while words and words[0] in _LEADS:
            words = words[1:]
        name, rest = _base(words[0]) if words else ":", words[1:]
        if name == "exit":
            self.timed = True
            self.status = int(rest[0]) % 256 if rest and rest[0].isdecimal() else self.status
            return True
        self.status = 1 if name == "false" else 0
        if name == "sleep":
            self._sleep(rest)
        elif name == "echo":
            self.output.append(" ".join(word for word in rest if word not in ("-n", "-e")))
        elif _never_ends(name, rest):
            self.endless = True
        elif name not in _QUICK and name != "false":
            self.unknown = True
        return self.endless

    def _sleep(self, lengths: Sequence[str]) -> None:
        """Add up what `sleep` is given."""
        for text in lengths:
            found = _NUMBER.fullmatch(text)
            if text in ("infinity", "inf"):
                self.endless = True
            elif found:
                self.timed = True
                self.taken += int(float(found[1]) * _UNITS[found[2]] * SECOND)
            else:
                self.unknown = True


def _never_ends(name: str, rest: Sequence[str]) -> bool:
    """Loops and commands that are written to go on for ever."""
    if name == "while":
        return bool(rest) and (_base(rest[0]) in ("true", ":", "sleep") or list(rest) == ["[", "1", "]"])
    if name == "until":
        return list(rest) == ["false"]
    return name == "tail" and any(word.startswith("-") and "f" in word.lower() for word in rest)
