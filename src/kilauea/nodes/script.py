"""Parses commands and small shell scripts, as used in examples, to determine how long they take and how they end.

Nothing is executed. Supported are `sleep`, `exit`, `true`, `false`, `echo`, `printf`, `seq`, `expr`, `test`, variables,
arithmetic, `env`, `hostname`, `id`, `sysctl`, `for`, `while`, `until` and `if`, and `;`, `&&`, `||` between them. Other
commands take no time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kilauea.api.numbers import whole_number
from kilauea.api.remembered import remembered_parts
from kilauea.api.times import SECOND
from kilauea.nodes.environment import expand as with_references
from kilauea.nodes.identity import PROGRAMS, UNASKED, Identity
from kilauea.nodes.shell_syntax import For, Group, If, NotUnderstood, Simple, Statement, Step, While, parse
from kilauea.nodes.shell_words import MOST_WORDS, calculate, expand

_SHELLS = frozenset({"sh", "bash", "ash", "dash", "zsh"})
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_NUMBER = re.compile(r"([0-9]{1,9}(?:\.[0-9]{0,6})?|\.[0-9]{1,6})([smhd]?)")
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL | re.ASCII)
_LEADS = frozenset({"exec", "time", "command"})
"""Words that may precede a command."""
_QUICK = frozenset({"set", "cd", "export", "trap", "wait", "true", ":", "local", "readonly", "unset", "shift"})
"""Commands that take no time and succeed."""
_COMPARISONS = {"-eq": "==", "-ne": "!=", "-lt": "<", "-le": "<=", "-gt": ">", "-ge": ">="}
MOST_STEPS = 5_000
"""Number of statements after which a script is considered endless."""
LONGEST_SCRIPT = 64 * 1024
"""Maximum number of characters of a command to parse: longer ones would delay other pods."""
MOST_FOLLOWED = 20_000
"""Maximum number of statements to follow for the output of an endless script."""

LONGEST_MESSAGE, LONGEST_FALLBACK, FALLBACK_LINES = 4096, 2048, 80
"""Bytes of a termination message, and bytes and lines of one that is taken from the log: the limits of kubelets."""

Line = tuple[int, str]
"""A line of output and its time, in microseconds after the start."""
Environment = tuple[tuple[str, str], ...]
"""Variables of a container and their values."""


@dataclass(frozen=True, slots=True)
class Script:
    """The effects of a command.

    Attributes:
        tells_time: True if it determines its run time.
        run_time: microseconds; None for no end.
        exit_code: its exit code.
        steps: its statements.
        environment: its variables.
        identity: the identity that programs print.
    """

    tells_time: bool
    run_time: int | None
    exit_code: int
    steps: tuple[Step, ...] = ()
    environment: Environment = ()
    identity: Identity = UNASKED

    @property
    def output(self) -> Iterator[Line]:
        """The lines that it prints, in order; infinite for an endless script."""
        run = _Run(self.environment, MOST_FOLLOWED, self.identity)
        try:
            yield from run.follow(self.steps)
        except (_Stop, NotUnderstood):
            return

    def message(self, path: str, until: int, fallback: bool) -> str:
        """Its termination message.

        Args:
            path: path of the message file.
            until: microseconds from the start to its end.
            fallback: True to use the end of its log if the file is empty.
        """
        run, lines = _Run(self.environment, MOST_FOLLOWED, self.identity), []
        try:
            for moment, text in run.follow(self.steps):
                if moment > until:
                    break
                lines.append(text)
        except (_Stop, NotUnderstood):
            pass
        written = ""
        for moment, file, text, appends in run.written:
            if moment <= until and file == path:
                written = written + text if appends else text
        if written or not fallback:
            return written.encode()[:LONGEST_MESSAGE].decode(errors="ignore")
        return "\n".join(lines[-FALLBACK_LINES:]).encode()[-LONGEST_FALLBACK:].decode(errors="ignore")


@remembered_parts(4096)
def read_script(
    command: tuple[str, ...], args: tuple[str, ...], environment: Environment = (), identity: Identity = UNASKED
) -> Script:
    """Return the effects of a container's command and arguments."""
    if sum(map(len, command + args)) > LONGEST_SCRIPT:
        return Script(False, 0, 0)
    known = dict(environment)
    words = [with_references(word, known) for word in command + args]
    try:
        if words and _base(words[0]) in _SHELLS:
            steps = parse(inline_script(words))
        else:
            steps = (Step("", Simple(tuple(map(_literal, words)))),) if words else ()
    except (NotUnderstood, RecursionError):
        return Script(False, 0, 0)
    run, endless = _Run(environment, MOST_STEPS, identity, stops_at_endless=True), False
    try:
        for _ in run.follow(steps):
            pass
    except _Endless:
        endless = True
    except NotUnderstood:
        run.unknown = True
    except _Stop:
        pass
    tells = endless or run.timed or (bool(steps) and not run.unknown)
    return Script(tells, None if endless else run.taken, run.status, steps, environment, identity)


def _literal(word: str) -> str:
    """Quote a word that no shell parses, so that it stays unchanged."""
    return "'" + word.replace("'", "'\\''") + "'"


def _base(word: str) -> str:
    """The name of a program without its folder."""
    return word.rpartition("/")[2]


def inline_script(words: Sequence[str]) -> str:
    """The text after `-c`, `-ec` and the like; empty if there is none."""
    for number, word in enumerate(words[1:], 1):
        if word.startswith("-") and not word.startswith("--") and word.endswith("c"):
            return words[number + 1] if number + 1 < len(words) else ""
    return ""


class _Stop(Exception):
    """The script ends."""


class _Endless(_Stop):
    """The script never ends."""


class _Break(_Stop):
    """A loop ends, or continues with its next iteration; outside of loops, the script ends."""

    def __init__(self, over: bool) -> None:
        self.over = over


class _Run:
    """One execution of a script; `follow` yields its lines.

    Args:
        environment: initial variables.
        most: maximum number of statements to follow.
        identity: the identity that programs print.
        stops_at_endless: True to raise at an endless loop at once, instead of following it.
    """

    def __init__(self, environment: Environment, most: int, identity: Identity, stops_at_endless: bool = False) -> None:
        self.variables = {"?": "0", **dict(environment)}
        self._identity = identity
        self._exported = {name for name, _ in environment if name != "?"}
        self.taken = self.status = 0
        self.written: list[tuple[int, str, str, bool]] = []
        """Output to files: time, path, text, and True if it is appended."""
        self.timed = self.unknown = False
        self.followed = 0
        self._left = most
        self._stops_at_endless = stops_at_endless

    def follow(self, steps: Sequence[Step]) -> Iterator[Line]:
        """Follow statements to the end.

        Raises:
            _Stop: the script ends here, or never.
            NotUnderstood: the further execution is unknown.
        """
        for between, statement in ((step.between, step.statement) for step in steps):
            if (between == "&&" and self.status) or (between == "||" and not self.status):
                continue
            self._left -= 1
            self.followed += 1
            if self._left < 0:
                raise _Endless
            yield from self._statement(statement)
            self.variables["?"] = str(self.status)

    def _statement(self, statement: Statement) -> Iterator[Line]:
        if isinstance(statement, Simple):
            words = self._expanded(statement.words)
            if not statement.target:
                yield from self._command(words)
                return
            text = "\n".join(line for _, line in self._command(words))
            if text and _ends_line(words):
                text += "\n"
            path = "".join(expand(statement.target, self.variables, self._output))
            self.written.append((self.taken, path, text, statement.appends))
        elif isinstance(statement, Group):
            yield from self.follow(statement.body)
        elif isinstance(statement, If):
            for condition, body in statement.branches:
                yield from self.follow(condition)
                if not condition or not self.status:
                    self.status = 0
                    yield from self.follow(body)
                    break
            else:
                self.status = 0
        else:
            yield from self._loop(statement)

    def _loop(self, loop: For | While) -> Iterator[Line]:
        if isinstance(loop, While) and self._stops_at_endless and _never_ends(loop):
            self.timed = True
            raise _Endless
        for value in self._rounds(loop):
            if isinstance(loop, For):
                self.variables[loop.name] = value
            else:
                self._left -= 1
                yield from self.follow(loop.condition)
                if (self.status == 0) == loop.until:
                    break
            try:
                yield from self.follow(loop.body)
            except _Break as leaves:
                if leaves.over:
                    break
        self.status = 0

    def _rounds(self, loop: For | While) -> Iterator[str]:
        if isinstance(loop, For):
            yield from self._expanded(loop.words)
        while isinstance(loop, While):
            if self._left < 0:
                raise _Endless
            yield ""

    def _expanded(self, words: Sequence[str]) -> list[str]:
        expanded = []
        assigned = True
        for word in words:
            assignment = _ASSIGNMENT.fullmatch(word) if assigned else None
            assigned = assignment is not None
            if assignment and len(words) == 1:
                self.variables[assignment[1]] = " ".join(expand(assignment[2], self.variables, self._output))
                return [":"]
            if assignment is None:
                expanded += expand(word, self.variables, self._output)
        return expanded

    def _output(self, text: str) -> str:
        """The output of `$(...)`."""
        inner = _Run(tuple(self.variables.items()), min(self._left, MOST_STEPS), self._identity)
        lines = []
        try:
            for _, line in inner.follow(parse(text)):
                lines.append(line)
        except _Stop:
            pass
        self._left -= inner.followed
        if inner.unknown:
            return f"$({text})"  # as in `echo $(date)`
        self.taken += inner.taken
        return "\n".join(lines)

    def _command(self, words: list[str]) -> Iterator[Line]:
        while words and _base(words[0]) in _LEADS:
            words = words[1:]
        name, rest = _base(words[0]) if words else ":", words[1:]
        if name == "exit":
            self.timed = True
            code = whole_number(rest[0]) if rest else None
            self.status = self.status if code is None else code % 256
            raise _Stop
        if name in ("break", "continue"):
            raise _Break(name == "break")
        status, self.status = self.status, 0
        if name in ("env", "printenv"):
            for text in self._environment(name, rest):
                yield self.taken, text
        elif name in ("echo", "printf", "seq"):
            for text in _printed(name, rest):
                yield self.taken, text
        elif name in PROGRAMS and (told := self._identity.printed(name, rest)) is not None:
            for text in told:
                yield self.taken, text
        elif name == "sleep":
            self._sleep(rest)
        elif name in ("[", "[[", "test", "!"):
            self.status = self._test(name, rest, status)
        elif name in ("let", "expr"):
            value = calculate(" ".join(rest) or "1", self.variables)
            self.status = int(not value)
            if name == "expr":
                yield self.taken, str(value)
        elif words and words[0].startswith("((") and words[0].endswith("))"):
            self.status = int(not calculate(words[0][2:-2], self.variables))
        elif _serves(name, rest):
            raise _Endless
        elif name == "export":
            self._export(rest)
        elif name == "false":
            self.status = 1
        elif name not in _QUICK:
            self.unknown = True

    def _environment(self, name: str, words: Sequence[str]) -> list[str]:
        """The lines that `env` or `printenv NAME` prints; `env` with words runs another program."""
        if name == "env" and words:
            self.unknown = True
            return []
        known = {each: self.variables[each] for each in sorted(self._exported) if each in self.variables}
        if not words:
            return [line for each, value in known.items() for line in f"{each}={value}".split("\n")]
        self.status = int(not all(each in known for each in words))
        return [line for each in words if each in known for line in known[each].split("\n")]

    def _export(self, words: Sequence[str]) -> None:
        """Export variables, and set those with a value."""
        assigned = [word for word in words if _ASSIGNMENT.fullmatch(word)]
        self._expanded(assigned[:1])
        self._exported.update(word.partition("=")[0] for word in words)

    def _test(self, name: str, words: list[str], before: int) -> int:
        """The status of a comparison; files do not exist."""
        words = [word for word in words if word not in ("]", "]]")]
        if words[:1] == ["!"]:
            return 1 - self._test("[", words[1:], before)
        if len(words) == 2:
            return int(not {"-n": bool(words[1]), "-z": not words[1]}.get(words[0], False))
        if len(words) == 3 and words[1] in _COMPARISONS:
            return int(not calculate(f"{words[0]} {_COMPARISONS[words[1]]} {words[2]}", self.variables))
        if len(words) == 3 and words[1] in ("=", "==", "!="):
            return int((words[0] == words[2]) == (words[1] == "!="))
        if len(words) > 1:
            raise NotUnderstood(name)
        return int(not words or not words[0])

    def _sleep(self, lengths: Sequence[str]) -> None:
        """Add up the arguments of `sleep`."""
        for text in lengths:
            found = _NUMBER.fullmatch(text)
            if text in ("infinity", "inf"):
                raise _Endless
            if found:
                self.timed = True
                self.taken += int(float(found[1]) * _UNITS[found[2]] * SECOND)
            else:
                self.unknown = True


def _printed(name: str, words: list[str]) -> list[str]:
    """The lines that a command prints."""
    if name == "seq":
        if not 1 <= len(words) <= 3 or not all(re.fullmatch("-?[0-9]{1,9}", word, re.ASCII) for word in words):
            raise NotUnderstood(name)
        numbers = [int(word) for word in words]
        first, last = numbers[0] if len(numbers) > 1 else 1, numbers[-1]
        step = numbers[1] if len(numbers) == 3 else 1
        if not step or (last - first) // step > MOST_WORDS:
            raise NotUnderstood(name)
        return [str(number) for number in range(first, last + (1 if step > 0 else -1), step)]
    if name == "printf":
        form, values = (words[0], list(words[1:])) if words else ("", [])
        text = re.sub("%[0-9.-]*[sdif]", lambda _: values.pop(0) if values else "", form)
        return text.replace("\\n", "\n").replace("\\t", "\t").splitlines()
    while words and words[0] in ("-n", "-e", "-ne", "-en"):
        words = words[1:]
    return " ".join(words).split("\n")


def _ends_line(words: Sequence[str]) -> bool:
    """Return True if the output of a command ends with a line break."""
    if _base(words[0]) == "printf":
        return words[1:2] != [] and words[1].endswith("\\n")
    return not (_base(words[0]) == "echo" and words[1:2] in (["-n"], ["-ne"], ["-en"]))


def _serves(name: str, words: Sequence[str]) -> bool:
    """Return True if a command is known to run forever: `tail -f`, and `sshd -D`, as used by MPI workers."""
    if name == "sshd":
        return "-D" in words
    return name == "tail" and any(word.startswith("-") and "f" in word.lower() for word in words)


def _never_ends(loop: While) -> bool:
    """Return True if a loop is meant to run forever."""
    if _leaves(loop.body) or len(loop.condition) != 1:
        return False
    condition = loop.condition[0].statement
    words = list(condition.words) if isinstance(condition, Simple) else []
    if loop.until:
        return words == ["false"]
    return bool(words) and (_base(words[0]) in ("true", ":", "sleep") or words in (["[", "1", "]"], ["((1))"]))


def _leaves(steps: Sequence[Step]) -> bool:
    """Return True if any statement ends a loop or the script."""
    for statement in (step.statement for step in steps):
        if isinstance(statement, Simple):
            inner: Sequence[Sequence[Step]] = ()
            if statement.words[:1] in (("break",), ("exit",)):
                return True
        elif isinstance(statement, If):
            inner = [part for branch in statement.branches for part in branch]
        else:
            inner = [statement.body]
        if any(map(_leaves, inner)):
            return True
    return False
