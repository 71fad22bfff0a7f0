"""The syntax of small shell scripts: words, simple commands, `for`, `while`, `until`, `if` and groups."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

OPERATORS = re.compile(r"&&|\|\||;;|[;&|\n()]")
_REDIRECTION = re.compile(r"[0-9]*(?:>>?|<<?<?)(?:&[0-9-])?")
_OF_OUTPUT = frozenset({">", ">>", "1>", "1>>"})
_LOG = frozenset({"/dev/stdout", "/dev/stderr", "/proc/1/fd/1", "/proc/1/fd/2", "/proc/self/fd/1", "/proc/self/fd/2"})
"""Files that are written to the log."""
_LOOP_HEAD = re.compile(r"\(\(([^;]*);([^;]*);(.*)\)\)", re.DOTALL)
_CLOSERS = {"(": ")", "{": "}", "`": "`", '"': '"', "'": "'"}


class NotUnderstood(ValueError):
    """An unsupported or invalid script."""


@dataclass(frozen=True, slots=True)
class Simple:
    """A command and its arguments, as written.

    Attributes:
        words: the command first.
        target: the file for its output; empty for the log.
        appends: True if the output is appended.
    """

    words: tuple[str, ...]
    target: str = ""
    appends: bool = False


@dataclass(frozen=True, slots=True)
class Step:
    """A statement with its preceding operator: `&&`, `||` or empty."""

    between: str
    statement: Statement


@dataclass(frozen=True, slots=True)
class For:
    """A loop over words."""

    name: str
    words: tuple[str, ...]
    body: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class While:
    """A loop while a condition holds, or (`until`) until it does."""

    condition: tuple[Step, ...]
    body: tuple[Step, ...]
    until: bool = False


@dataclass(frozen=True, slots=True)
class If:
    """Conditions, each with its body; the last body may have no condition."""

    branches: tuple[tuple[tuple[Step, ...], tuple[Step, ...]], ...]


@dataclass(frozen=True, slots=True)
class Group:
    """Statements in braces or parentheses."""

    body: tuple[Step, ...]


Statement = Simple | For | While | If | Group


def end_of(text: str, start: int) -> int:
    """The position after a quoted or bracketed part that starts at `start`.

    Raises:
        NotUnderstood: it never ends.
    """
    opened = text[start]
    closing, at = _CLOSERS[opened], start + 1
    while at < len(text):
        c = text[at]
        if c == closing:
            return at + 1
        if c == "\\" and opened != "'":
            at += 2
        elif opened in "({" and c in _CLOSERS:
            at = end_of(text, at)
        else:
            at += 1
    raise NotUnderstood(f"{opened} is never closed")


def tokens(text: str) -> Iterator[str]:
    """The words of a script as written, and the operators between them."""
    at, word = 0, ""
    while at < len(text):
        c = text[at]
        of_word = text.startswith("((", at) if not word else c == "&" and word[-1] in "<>"
        if found := (None if of_word else OPERATORS.match(text, at)):
            yield from [word] if word else []
            yield found[0]
            word, at = "", found.end()
            continue
        if c in " \t\r" or (c == "#" and not word):
            yield from [word] if word else []
            word = ""
            at = at + 1 if c != "#" else (text.find("\n", at) if "\n" in text[at:] else len(text))
            continue
        if text.startswith("\\\n", at):
            at += 2
            continue
        if (c == "$" and text[at + 1 : at + 2] in ("(", "{")) or (not word and text.startswith("((", at)):
            end = end_of(text, at + (c == "$"))
        elif c in "\"'`":
            end = end_of(text, at)
        else:
            end = at + (2 if c == "\\" else 1)
        word, at = word + text[at:end], end
    yield from [word] if word else []


def parse(text: str) -> tuple[Step, ...]:
    """The statements of a script.

    Raises:
        NotUnderstood: it is invalid or unsupported.
    """
    parser = _Parser(list(tokens(text)))
    steps = parser.steps(())
    if parser.at < len(parser.tokens):
        raise NotUnderstood(f"unexpected {parser.tokens[parser.at]}")
    return steps


class _Parser:
    """Parses statements from tokens, from left to right."""

    def __init__(self, tokens: Sequence[str]) -> None:
        self.tokens = tokens
        self.at = 0

    def _next(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def _take(self, *expected: str) -> str:
        token = self._next()
        if expected and token not in expected:
            raise NotUnderstood(f"{token or 'the end'} where {' or '.join(expected)} is needed")
        self.at += 1
        return token

    def _skip(self, *words: str) -> None:
        while self._next() and self._next() in words:
            self.at += 1

    def steps(self, ends: Sequence[str]) -> tuple[Step, ...]:
        """Parse statements up to one of some words, which is not consumed."""
        found: list[Step] = []
        between = ""
        while True:
            self._skip("\n", *(() if between else (";",)))
            if not self._next() or self._next() in ends or self._next() == ")":
                return tuple(found)
            found.append(Step(between, self._statement()))
            between = ""
            if self._next() in ("&&", "||"):
                between = self._take()
            elif self._next() == "|":
                raise NotUnderstood("a pipe")
            else:
                self._skip(";", "&", "\n")

    def _body(self, begin: str, *ends: str) -> tuple[Step, ...]:
        self._skip(";", "\n")
        self._take(begin)
        return self.steps(ends)

    def _statement(self) -> Statement:
        word = self._next()
        if word == "for":
            return self._for()
        if word in ("while", "until"):
            self._take()
            condition = self.steps(("do",))
            body = self._body("do", "done")
            self._take("done")
            return While(condition, body, word == "until")
        if word == "if":
            return self._if()
        if word in ("{", "("):
            self._take()
            body = self.steps(("}",) if word == "{" else ())
            self._take("}" if word == "{" else ")")
            return Group(body)
        if word in ("case", "function", "select"):
            raise NotUnderstood(word)
        return self._simple()

    def _for(self) -> Statement:
        self._take("for")
        name = self._take()
        head = _LOOP_HEAD.fullmatch(name)
        words: list[str] = []
        if head is None and self._next() == "in":
            self._take()
            while self._next() not in (";", "\n", ""):
                words.append(self._take())
        body = self._body("do", "done")
        self._take("done")
        if head is None:
            return For(name, tuple(words), body)
        first, condition, last = (Step("", Simple(("let", part.strip()))) for part in head.groups())
        return Group((first, Step("", While((condition,), (*body, last)))))

    def _if(self) -> Statement:
        branches = []
        while self._take("if", "elif", "else", "fi") != "fi":
            last = self.tokens[self.at - 1] == "else"
            condition = () if last else self.steps(("then",))
            if not last:
                self._take("then")
            branches.append((condition, self.steps(("elif", "else", "fi"))))
        return If(tuple(branches))

    def _simple(self) -> Simple:
        words: list[str] = []
        target, appends = "", False
        while self._next() and not OPERATORS.fullmatch(self._next()):
            word = self._take()
            if redirection := _REDIRECTION.match(word):
                path = word[redirection.end() :]
                if not path and "&" not in word:
                    path = self._take()
                if redirection[0] in _OF_OUTPUT and path not in _LOG:
                    target, appends = path, redirection[0].endswith(">>")
            else:
                words.append(word)
        if self._next() == "(":
            raise NotUnderstood("a function")
        return Simple(tuple(words), target, appends)
