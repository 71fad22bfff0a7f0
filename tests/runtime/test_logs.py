"""Logs in JSON, and which messages are logged."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kilauea.runtime.logs import TEXT, JsonFormatter, TextFormatter, start_log


@contextmanager
def fresh_root() -> Iterator[logging.Logger]:
    """The root logger without handlers, as in a new process."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    root.handlers.clear()
    try:
        yield root
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)


def formatted(message: str, *args: object, error: Exception | None = None) -> dict[str, object]:
    """A record as the JSON log has it."""
    info = (type(error), error, None) if error else None
    record = logging.LogRecord("kilauea.part", logging.WARNING, "/x/part.py", 12, message, args, info)
    record.created = 1_767_225_600.25
    found: dict[str, object] = json.loads(JsonFormatter().format(record))
    return found


def test_a_json_message_has_time_level_origin_and_text() -> None:
    assert formatted('pod "%s"\nis é', "a") == {
        "ts": 1_767_225_600_250.0,
        "level": "warning",
        "logger": "kilauea.part",
        "caller": "part.py:12",
        "msg": 'pod "a"\nis é',
    }


def test_an_exception_is_a_field() -> None:
    assert "ValueError: no" in str(formatted("failed", error=ValueError("no"))["err"])


def test_a_message_is_one_line() -> None:
    record = logging.LogRecord("a", logging.INFO, "a.py", 1, "one\ntwo", (), None)
    assert "\n" not in JsonFormatter().format(record)


@pytest.mark.parametrize(
    ("level", "verbosity", "lowest"),
    [("", 2, logging.INFO), ("", 4, logging.DEBUG), ("error", 10, logging.ERROR), ("debug", 0, logging.DEBUG)],
)
def test_the_level_is_the_option_or_else_follows_the_verbosity(level: str, verbosity: int, lowest: int) -> None:
    with fresh_root() as root:
        start_log(TEXT, level, verbosity)
        assert root.level == lowest


@contextmanager
def logging_process(program: str) -> Iterator[subprocess.Popen[str]]:
    """A process with pipes; the program is given what starts its log."""
    command = [sys.executable, "-c", textwrap.dedent(program)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def test_the_form_is_that_of_the_option() -> None:
    program = """
        import logging
        from kilauea.runtime.logs import start_log
        start_log("json", "", 2)
        logging.getLogger("kilauea.x").info("said")
        """
    with logging_process(program) as process:
        _, text = process.communicate()
    assert json.loads(text)["msg"] == "said"


@pytest.mark.parametrize("start", ["start_log('text', '', 0)", "start_log('json', '', 0)", "log_warnings()"])
def test_a_log_that_is_not_read_holds_no_one_up(start: str) -> None:
    program = f"""
        import logging, sys
        from kilauea.runtime.logs import log_warnings, start_log
        {start}
        for number in range(40):
            logging.warning("%d %s", number, "x" * 100_000)
        print("goes on", flush=True)
        sys.stdin.readline()
        logging.warning("the last")
        """
    with logging_process(program) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "goes on\n"
        lines = [process.stderr.readline()]
        while "dropped" not in lines[-1]:
            lines.append(process.stderr.readline())
        kept = len(lines) - 1
        assert 9 <= kept < 20
        assert all(f"{number} xxx" in line for number, line in enumerate(lines[:kept]))
        assert f"{40 - kept} messages were dropped here" in lines[-1]
        process.stdin.write("\n")
        process.stdin.flush()
        assert "the last" in process.stderr.readline()
        process.communicate()
        assert process.returncode == 0


def test_a_process_ends_although_its_log_is_not_read() -> None:
    program = """
        import logging
        from kilauea.runtime.logs import log_warnings
        log_warnings()
        for _ in range(10):
            logging.warning("x" * 100_000)
        """
    with logging_process(program) as process:
        assert process.wait(60) == 0


def test_a_message_neither_controls_the_terminal_nor_looks_like_another() -> None:
    record = logging.LogRecord("kilauea.x", logging.WARNING, "x.py", 1, "pod %s", ("a\x1b[2J\n2026 E root: b",), None)
    record.created = 0.0
    formatter = TextFormatter("%(levelname).1s %(name)s: %(message)s")
    assert formatter.format(record) == "W kilauea.x: pod a\\x1b[2J\n    2026 E root: b"


def test_the_text_of_an_error_neither_controls_the_terminal_nor_looks_like_another_message() -> None:
    error = ValueError("a\x1b[2J\n2026 E root: b\x9b31m\u202e")
    record = logging.LogRecord("x", logging.ERROR, "x.py", 1, "failed", (), (ValueError, error, None))
    told = TextFormatter("%(levelname).1s %(name)s: %(message)s").format(record)
    assert told == "E x: failed\n    ValueError: a\\x1b[2J\n    2026 E root: b\\x9b31m\\u202e"
    line = JsonFormatter().format(record)
    assert line.isprintable()
    assert json.loads(line)["err"] == str(error).join(["ValueError: ", ""])
