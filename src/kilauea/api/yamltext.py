"""Parsing of YAML manifests to dicts, lists and scalars, document by document.

It uses the events of PyYAML's parser (libyaml if available), not its constructors. This is faster, limits depth and
aliases, finds duplicate keys, and reads scalars as Kubernetes users expect: numbers as in kubectl (`0644` and `0o644`
are octal, `1_000` is a thousand, and `80.0` is 80), but only `true` and `false` are booleans; times, `yes` and `on` are
text.

Errors are returned and not raised, because the next document can be read after an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import yaml

from kilauea.api.remembered import remembered

MAX_DEPTH = 100
"""Maximum depth of a document."""

MAX_ALIAS_NODES = 1_000_000
"""Maximum total nodes that the aliases of one document expand to, so that a small file cannot become huge."""
TEXT_OF_A_NODE = 32
"""Characters of a text that count as a further node."""


class TextFault(NamedTuple):
    """An error in a YAML document that does not stop its parser."""

    path: tuple[str | int, ...]
    line: int
    column: int
    message: str


class TextError(NamedTuple):
    """A syntax error that ends a document; line and column count from 1."""

    line: int
    column: int
    message: str


class YamlDocument(NamedTuple):
    """One document: its value, and the faults in it."""

    value: Any
    faults: tuple[TextFault, ...]


_EventSource = Callable[[], Any]
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NOT_YAML = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\xc2[\x80-\x84\x86-\x9f]|\xef\xbb\xbf|\xef\xbf[\xbe\xbf]")
_YAML_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_YAML_BOOLS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_YAML_INT = re.compile(r"[-+]?(?:0|[1-9][0-9_]{0,99})")
_YAML_BASED = re.compile(r"0x[0-9a-fA-F]{1,32}|0o?[0-7]{1,40}|0b[01]{1,64}")
_BASES = {"0x": 16, "0b": 2}
_MOST_WHOLE = 1e21
"""Whole numbers below this are written without a fraction, as by Go."""
_YAML_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]{1,3})?")
_STANDARD_TAG = "tag:yaml.org,2002:"


@remembered(16384, 64)
def _plain(text: str) -> str | int | float | bool | None:
    """Return the value of a plain scalar: null, true, false, a number, or its text (so `yes` and times are text)."""
    if text in _YAML_NULLS:
        return None
    if text in _YAML_BOOLS:
        return _YAML_BOOLS[text]
    if _YAML_INT.fullmatch(text):
        return int(text.replace("_", ""))
    if _YAML_BASED.fullmatch(text):
        return int(text.replace("o", ""), _BASES.get(text[:2], 8))
    if _YAML_FLOAT.fullmatch(text):
        number = float(text)
        return text if number in (float("inf"), float("-inf")) else whole(number)
    return text


def whole(number: float) -> int | float:
    """Return a number as Go writes it in JSON: without a fraction if it is whole."""
    return int(number) if number.is_integer() and abs(number) < _MOST_WHOLE else number


class _Refused(Exception):
    """A document is rejected, with the mark of the position and the reason."""

    def __init__(self, mark: Any, message: str) -> None:
        super().__init__(message)
        self.mark = mark


class _Frame:
    """A list or dict under construction; `key` is the key without a value yet."""

    __slots__ = ("anchor", "key", "merges", "merging", "size", "value")

    def __init__(self, value: Any, anchor: str | None) -> None:
        self.value = value
        self.anchor = anchor
        self.key: str | None = None
        self.merges: list[dict[str, Any]] = []
        self.merging = False
        self.size = 1


class _Builder:
    """Builds dicts, lists and scalars from the events of one YAML document."""

    def __init__(self, first_line: int) -> None:
        self.value: Any = None
        self.first_line = first_line
        self.faults: list[TextFault] = []
        self.stack: list[_Frame] = []
        self.anchors: dict[str, tuple[Any, int]] = {}
        self.expanded = 0

    def build(self, next_event: _EventSource) -> None:
        """Process events up to the end of the document.

        Raises:
            _Refused: it nests too deeply, has keys that are not strings, or its aliases expand to too much.
        """
        while True:
            event = next_event()
            kind = type(event)
            if kind is yaml.ScalarEvent:
                self.scalar(event)
            elif kind is yaml.MappingStartEvent:
                self.open(event, {})
            elif kind is yaml.SequenceStartEvent:
                self.open(event, [])
            elif kind is yaml.AliasEvent:
                self.alias(event)
            elif kind is yaml.DocumentEndEvent:
                return
            else:
                self.close(event)

    def fault(self, event: Any, message: str) -> None:
        """Record a fault at the current position."""
        path = tuple(len(frame.value) if frame.key is None else frame.key for frame in self.stack)
        mark = event.start_mark
        self.faults.append(TextFault(path, self.first_line + mark.line, mark.column + 1, message))

    def waits_for_key(self) -> bool:
        """True if a key is next."""
        return bool(self.stack) and self.stack[-1].key is None and type(self.stack[-1].value) is dict

    def scalar(self, event: Any) -> None:
        """Add a key, or a value that is neither a list nor a dict."""
        if self.waits_for_key():
            self.key(event, event.value, event.implicit[0])
            return
        value, tag = event.value, event.tag
        if tag is None:
            value = _plain(value) if event.implicit[0] else value
        elif tag.startswith(_STANDARD_TAG):
            value = value if tag in (_STANDARD_TAG + "str", _STANDARD_TAG + "timestamp") else _plain(value)
        elif tag != "!":
            self.fault(event, f"the tag {tag} is not known: leave it out")
        size = 1 + len(event.value) // TEXT_OF_A_NODE
        self.add(event, value, size)
        if event.anchor is not None:
            self.anchors[event.anchor] = (value, size)

    def key(self, event: Any, text: str, plain: bool) -> None:
        """Add a key of the innermost dict; all keys are text."""
        frame = self.stack[-1]
        frame.merging = text == "<<" and plain
        if not frame.merging and text in frame.value:
            frame.key = text
            self.fault(event, "is given twice: keep one of them")
        frame.key = text
        if event.anchor is not None and type(event) is yaml.ScalarEvent:
            self.anchors[event.anchor] = (text, 1)

    def open(self, event: Any, value: Any) -> None:
        """Begin a list or dict."""
        if self.waits_for_key():
            raise _Refused(event.start_mark, "a list or a mapping stands where a key is expected: use text")
        if len(self.stack) >= MAX_DEPTH:
            raise _Refused(event.start_mark, f"nested too deep: use at most {MAX_DEPTH} levels")
        if event.tag is not None and not event.tag.startswith(_STANDARD_TAG) and event.tag != "!":
            self.fault(event, f"the tag {event.tag} is not known: leave it out")
        self.stack.append(_Frame(value, event.anchor))

    def close(self, event: Any) -> None:
        """End the innermost list or dict."""
        frame = self.stack.pop()
        for merged in frame.merges:
            for key, value in merged.items():
                frame.value.setdefault(key, value)
        if frame.anchor is not None:
            self.anchors[frame.anchor] = (frame.value, frame.size)
        self.add(event, frame.value, frame.size)

    def alias(self, event: Any) -> None:
        """Add the value of an earlier anchor."""
        if event.anchor not in self.anchors:
            self.fault(event, f"the alias *{event.anchor} has no anchor before it: write &{event.anchor} at the value")
        value, size = self.anchors.get(event.anchor, ("", 1))
        self.expanded += size
        if self.expanded > MAX_ALIAS_NODES:
            raise _Refused(event.start_mark, f"aliases stand for more than {MAX_ALIAS_NODES} values: write fewer")
        if not self.waits_for_key():
            self.add(event, value, size)
        elif isinstance(value, str):
            self.key(event, value, False)
        else:
            raise _Refused(event.start_mark, f"the alias *{event.anchor} stands where a key is expected: use text")

    def add(self, event: Any, value: Any, size: int) -> None:
        """Add a finished value to the innermost list or dict."""
        if not self.stack:
            self.value = value
            return
        frame = self.stack[-1]
        frame.size += size
        if frame.key is None:
            frame.value.append(value)
            return
        if frame.merging:
            self.merge(event, frame, value)
        else:
            frame.value[frame.key] = value
        frame.key = None

    def merge(self, event: Any, frame: _Frame, value: Any) -> None:
        """Merge the value of a key `<<`: one dict or several, whose entries are added unless the dict has them."""
        sources = value if type(value) is list else [value]
        if all(type(source) is dict for source in sources):
            frame.merges += sources
        else:
            self.fault(event, "only mappings can be merged: use an alias of a mapping")


Steps = tuple[str | int, ...]


class _PlacingBuilder(_Builder):
    """Also records positions: of a value in a dict at its key, of an item of a list at its start."""

    def __init__(self, first_line: int) -> None:
        super().__init__(first_line)
        self.places: dict[Steps, tuple[int, int]] = {}

    def place(self, event: Any, last: tuple[str, ...] = ()) -> None:
        """Record the position of the value being built, or of its entry `last`, unless already recorded."""
        steps: list[str | int] = []
        for frame in self.stack:
            if type(frame.value) is list:
                steps.append(len(frame.value))
            elif frame.key is not None:
                steps.append(frame.key)
        mark = event.start_mark
        self.places.setdefault((*steps, *last), (self.first_line + mark.line, mark.column + 1))

    def key(self, event: Any, text: str, plain: bool) -> None:
        """As for every builder."""
        self.place(event, (text,))
        super().key(event, text, plain)

    def scalar(self, event: Any) -> None:
        """As for every builder."""
        if not self.waits_for_key():
            self.place(event)
        super().scalar(event)

    def open(self, event: Any, value: Any) -> None:
        """As for every builder."""
        self.place(event)
        super().open(event, value)

    def alias(self, event: Any) -> None:
        """As for every builder."""
        if not self.waits_for_key():
            self.place(event)
        super().alias(event)


def position(data: bytes, at: int) -> tuple[int, int]:
    """Return line and column, from 1, of an offset in UTF-8 text."""
    start = data.rfind(b"\n", 0, at) + 1
    return data.count(b"\n", 0, start) + 1, len(data[start:at].decode("utf-8", "replace")) + 1


def _documents(data: bytes, first_line: int, builder_of: type[_Builder] = _Builder) -> Iterator[_Builder]:
    """Yield the documents of a YAML text, each with its faults.

    Raises:
        yaml.YAMLError, _Refused: the rest of the text cannot be read.
    """
    loader = _LOADER(data)
    try:
        while True:
            event = loader.get_event()
            if event is None or type(event) is yaml.StreamEndEvent:
                return
            if type(event) is yaml.DocumentStartEvent:
                builder = builder_of(first_line)
                builder.build(loader.get_event)
                yield builder
    finally:
        loader.dispose()


def _yaml_error(error: Exception) -> tuple[int, int, str]:
    """Return line and column, both from 0, and the message of an error in a YAML text."""
    if isinstance(error, _Refused):
        return error.mark.line, error.mark.column, str(error)
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "cannot be read"
    return (mark.line, mark.column, f"not valid YAML: {problem}") if mark else (0, 0, f"not valid YAML: {problem}")


def _offset_of_line(data: bytes, line: int) -> int:
    """Return the offset of a line, counted from 0; the end if there are fewer."""
    at = 0
    for _ in range(line):
        at = data.find(b"\n", at) + 1
        if not at:
            return len(data)
    return at


def _next_document(data: bytes, at: int) -> int:
    """Return the start of the first line `---` after an offset, or the end."""
    found = data.find(b"\n---", at)
    return found + 1 if found >= 0 else len(data)


def bad_character(data: bytes, at: int = 0) -> int | None:
    """Return the offset of the first byte, from `at`, that is invalid in UTF-8 YAML; None if all are valid."""
    found = _NOT_YAML.search(data, at)
    end = found.start() if found else len(data)
    try:
        data[at:end].decode()
    except UnicodeDecodeError as error:
        return at + error.start
    return end if found else None


def _read_chunk(data: bytes, first_line: int) -> Iterator[YamlDocument | TextError | int]:
    """Yield documents up to the first error; then the error, and the offset at which to continue."""
    try:
        for builder in _documents(data, first_line):
            yield YamlDocument(builder.value, tuple(builder.faults))
    except (yaml.YAMLError, _Refused) as error:
        line, column, message = _yaml_error(error)
        yield TextError(first_line + line, column + 1, message)
        yield _next_document(data, max(_offset_of_line(data, line) - 1, 0))


def read_documents(data: bytes, first_line: int = 1) -> Iterator[YamlDocument | TextError]:
    """Yield all documents of a YAML text; after an error, continue at the next line `---`.

    Args:
        data: the text, in UTF-8 without a byte order mark.
        first_line: the number of its first line, for messages.
    """
    at = 0
    while at < len(data):
        bad = bad_character(data, at)
        # The parser reads ahead: what stands before a bad character must be given to it alone.
        end = len(data) if bad is None else max(data.rfind(b"\n---", at, bad) + 1, at)
        if bad is not None and end == at:
            line, column = position(data, bad)
            yield TextError(
                first_line + line - 1, column, "not valid YAML: a character that texts in UTF-8 do not have"
            )
            at = _next_document(data, bad)
            continue
        size = end - at
        for part in _read_chunk(data[at:end], first_line + data.count(b"\n", 0, at)):
            if isinstance(part, int):
                size = part
            else:
                yield part
        at += size


class YamlError(ValueError):
    """A text that is not one good YAML document; line and column count from 1."""

    def __init__(self, line: int, column: int, message: str) -> None:
        super().__init__(f"line {line}, column {column}: {message}" if line else message)
        self.line = line
        self.column = column
        self.message = message


def load_yaml(data: bytes) -> Any:
    """The value of a text that is one YAML document (JSON is YAML too), such as a configuration; None if it is empty.

    Raises:
        YamlError: no YAML, a key given twice, or a second document; the text names line and column.
    """
    parts = list(read_documents(data.removeprefix(b"\xef\xbb\xbf")))
    for part in parts:
        if isinstance(part, TextError):
            raise YamlError(part.line, part.column, part.message)
        for fault in part.faults:
            where = ".".join(str(step) for step in fault.path)
            raise YamlError(fault.line, fault.column, f"{where}: {fault.message}".removeprefix(": "))
    values = [part.value for part in parts if isinstance(part, YamlDocument) and part.value is not None]
    if len(values) > 1:
        raise YamlError(0, 0, "holds several documents: keep one of them")
    return values[0] if values else None


def load_yaml_with_lines(data: bytes) -> tuple[Any, dict[Steps, tuple[int, int]]]:
    """As `load_yaml`, and where things stand: line and column, from 1, by the keys and indices that lead there.

    What came in by an alias or a merge is not among them; the place of what holds it is.

    Raises:
        YamlError: as `load_yaml`.
    """
    value = load_yaml(data)
    places: dict[Steps, tuple[int, int]] = {}
    for builder in _documents(data.removeprefix(b"\xef\xbb\xbf"), 1, _PlacingBuilder):
        if isinstance(builder, _PlacingBuilder) and builder.value is not None:
            places = builder.places
    return value, places
