"""Logs in JSON, and which messages are logged."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kilauea.runtime.logs import JSON, TEXT, JsonFormatter, start_log


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


def test_the_form_is_that_of_the_option() -> None:
    stream = io.StringIO()
    with fresh_root() as root:
        start_log(JSON, "", 2)
        handler = root.handlers[0]
        assert isinstance(handler, logging.StreamHandler)
        handler.setStream(stream)
        logging.getLogger("kilauea.x").info("said")
    assert json.loads(stream.getvalue())["msg"] == "said"
