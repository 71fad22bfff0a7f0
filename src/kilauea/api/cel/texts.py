"""Strings in CEL: functions, patterns, `format`, and the named formats of Kubernetes."""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from typing import Any, NamedTuple

from kilauea.api.cel import network, times
from kilauea.api.cel.values import NONE, CelError, CelType, Optional, check_type, is_number, type_of
from kilauea.api.patterns import find_all, pattern_of

_MOST_DIGITS = 100
_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_LABEL_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_QUALIFIED = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"


def string(value: Any) -> str:
    """Convert a value to a string."""
    kind = value.__class__
    if kind is str:
        return str(value)
    if kind is bool:
        return "true" if value else "false"
    if kind is float:
        return _double(value)
    if is_number(value):
        return str(int(value))
    if kind is bytes:
        return _decoded(value)
    if kind is datetime:
        return times.text_of_time(value)
    if kind is timedelta:
        return times.text_of_duration(value)
    if kind in (network.IP, network.CIDR):
        return str(value)
    raise CelError("no such overload")


def _decoded(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise CelError("invalid UTF-8 in bytes, cannot convert to string") from None


def _double(value: float) -> str:
    """Format a double as Go's `strconv` does."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
    text = repr(value).removesuffix(".0")
    if "e" not in text:
        return text
    number, _, exponent = text.partition("e")
    return f"{number}e{exponent[0] if exponent[0] in '+-' else '+'}{exponent.lstrip('+-').zfill(2)}"


def matches(text: str, pattern: str) -> bool:
    """Return True if a string contains a match of a pattern."""
    check_type(str, text, pattern)
    return pattern_of(pattern).search(text) is not None


def index_of(text: str, part: str, start: int = 0) -> int:
    """Return the index of the first occurrence, or -1."""
    check_type(str, part)
    if not 0 <= start <= len(text):
        raise CelError(f"index out of range: {start}")
    return text.find(part, start)


def last_index_of(text: str, part: str, start: int | None = None) -> int:
    """Return the index of the last occurrence, or -1."""
    check_type(str, part)
    if start is not None and not 0 <= start <= len(text):
        raise CelError(f"index out of range: {start}")
    return text.rfind(part) if start is None else text.rfind(part, 0, start + len(part))


def quoted(text: str) -> str:
    """Return a string as a quoted literal."""
    check_type(str, text)
    escapes = {"\\": "\\\\", '"': '\\"', "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    return '"' + "".join(escapes.get(letter, letter) for letter in text) + '"'


def _char_at(text: str, index: int) -> str:
    check_type(str, text)
    if not 0 <= index <= len(text):
        raise CelError(f"index out of range: {index}")
    return text[index : index + 1]


def _find(text: str, pattern: str) -> str:
    check_type(str, text, pattern)
    found = pattern_of(pattern).search(text)
    return found[0] if found else ""


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    check_type(str, text, pattern)
    found = find_all(pattern, text)
    return found if limit < 0 else found[:limit]


def _split(text: str, separator: str, limit: int = -1) -> list[str]:
    check_type(str, text, separator)
    if limit == 0:
        return []
    if not separator:
        letters = list(text)
        return letters if limit < 0 or len(letters) <= limit else [*letters[: limit - 1], "".join(letters[limit - 1 :])]
    return text.split(separator, limit - 1 if limit > 0 else -1)


def _substring(text: str, start: int, end: int | None = None) -> str:
    check_type(str, text)
    stop = len(text) if end is None else end
    if not 0 <= start <= len(text):
        raise CelError(f"index out of range: {start}")
    if not 0 <= stop <= len(text):
        raise CelError(f"index out of range: {stop}")
    if start > stop:
        raise CelError(f"invalid substring range. start: {start}, end: {stop}")
    return text[start:stop]


def _join(values: list[str], separator: str = "") -> str:
    if values.__class__ is not list:
        raise CelError("no such overload")
    check_type(str, *values)
    return separator.join(values)


def _replace(text: str, old: str, new: str, limit: int = -1) -> str:
    check_type(str, text, old, new)
    return text.replace(old, new, limit)


def _of_text(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(text: str, part: str) -> Any:
        check_type(str, text, part)
        return function(text, part)

    return run


def _alone(function: Callable[[str], str]) -> Callable[[str], str]:
    def run(text: str) -> str:
        check_type(str, text)
        return function(text)

    return run


_LOWER = {code: code + 32 for code in range(65, 91)}
_UPPER = {code: code - 32 for code in range(97, 123)}

# --- format

_VERB = re.compile(r"%(%|(?:\.(\d+))?([sdfeboxX])|.|$)", re.DOTALL)


def _format(text: str, values: list[Any]) -> str:
    """Replace the verbs in a string: `%s %d %f %e %b %o %x %X`, and `%.2f`."""
    check_type(str, text)
    rest = iter(values)
    number = 0

    def write(found: re.Match[str]) -> str:
        nonlocal number
        if found[1] == "%":
            return "%"
        if found[3] is None:
            raise CelError(f'could not parse formatting clause: unrecognized formatting clause "{found[1]}"')
        value = next(rest, _NOTHING)
        if value is _NOTHING:
            raise CelError(f"index {number} out of range")
        number += 1
        return _written(found[3], int(found[2]) if found[2] else 6, value)

    return _VERB.sub(write, text)


_NOTHING = object()


def _written(verb: str, digits: int, value: Any) -> str:
    if verb == "s":
        return _shown(value)
    if verb in "fe":
        if not is_number(value) or digits > _MOST_DIGITS:
            raise CelError(f"no such overload: %{verb} of {type_of(value)}")
        return _double(value) if not math.isfinite(value) else f"{float(value):.{digits}{verb}}"
    if verb in "xX" and value.__class__ in (str, bytes):
        text = value.encode().hex() if isinstance(value, str) else bytes(value).hex()
        return text.upper() if verb == "X" else text
    if value.__class__ is bool and verb == "b":
        return str(int(value))
    if not is_number(value) or (value.__class__ is float and (verb != "d" or math.isfinite(value))):
        raise CelError(
            f"error during formatting: only integers can be formatted with %{verb}, was given {type_of(value)}"
        )
    return _double(value) if value.__class__ is float else format(int(value), verb)


def _shown(value: Any) -> str:
    """Format a value for `%s`."""
    if value is None:
        return "null"
    if value.__class__ is list:
        return f"[{', '.join(map(_shown, value))}]"
    if value.__class__ is dict:
        return "{" + ", ".join(sorted(f"{_shown(key)}: {_shown(each)}" for key, each in value.items())) + "}"
    return str(value.name) if value.__class__ is CelType else string(value)


# --- named formats


class Format(NamedTuple):
    """A named string format of Kubernetes."""

    name: str
    cel_type: str = "kubernetes.NamedFormat"


def _label(form: str, most: int, words: str) -> Callable[[str], list[str]]:
    pattern = re.compile(form, re.ASCII)

    def problems(text: str) -> list[str]:
        found = [] if len(text) <= most else [f"must be no more than {most} characters"]
        return found if pattern.fullmatch(text) else [*found, words]

    return problems


def _prefix(check: Callable[[str], list[str]]) -> Callable[[str], list[str]]:
    return lambda text: check(f"{text[:-1]}a" if text.endswith("-") else text)


def _qualified(text: str) -> list[str]:
    prefix, slash, name = text.rpartition("/")
    problems = _CHECKS["dns1123Subdomain"](prefix) if slash else []
    return problems + _label(_QUALIFIED, 63, "name part must consist of alphanumeric characters, '-', '_' or '.'")(name)


def _parsed(parse: Callable[[str], Any], words: str) -> Callable[[str], list[str]]:
    def problems(text: str) -> list[str]:
        try:
            parse(text)
        except (ValueError, binascii.Error):
            return [words]
        return []

    return problems


_1123 = _label(_LABEL, 63, "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-'")
_SUB = _label(_SUBDOMAIN, 253, "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters")
_1035 = _label(_LABEL_1035, 63, "a DNS-1035 label must consist of lower case alphanumeric characters or '-'")
_CHECKS: Mapping[str, Callable[[str], list[str]]] = {
    "byte": _parsed(lambda text: base64.b64decode(text, validate=True), "invalid base64"),
    "date": _parsed(date.fromisoformat, "invalid date"),
    "datetime": _parsed(times.timestamp, "invalid datetime"),
    "dns1035Label": _1035,
    "dns1035LabelPrefix": _prefix(_1035),
    "dns1123Label": _1123,
    "dns1123LabelPrefix": _prefix(_1123),
    "dns1123Subdomain": _SUB,
    "dns1123SubdomainPrefix": _prefix(_SUB),
    "labelValue": _label(rf"({_QUALIFIED})?", 63, "a valid label must be an empty string or consist of alphanumerics"),
    "qualifiedName": _qualified,
    "uri": _parsed(network.url, "invalid URI"),
    "uuid": _label(r"[0-9a-fA-F]{8}(-?[0-9a-fA-F]{4}){3}-?[0-9a-fA-F]{12}", 36, "does not match the UUID format"),
}


def _validated(form: Format, text: str) -> Optional:
    if form.__class__ is not Format:
        raise CelError("no such overload")
    check_type(str, text)
    problems = _CHECKS[form.name](text)
    return Optional(problems, True) if problems else NONE


def _named(name: str) -> Optional:
    return Optional(Format(name), True) if name in _CHECKS else NONE


def _maker(name: str) -> Callable[[], Format]:
    return lambda: Format(name)


FORMATS: Mapping[str, Callable[..., Any]] = {"named": _named, **{name: _maker(name) for name in _CHECKS}}
"""Functions of the namespace `format`."""

METHODS: Mapping[str, Callable[..., Any]] = {
    "charAt": _char_at,
    "contains": _of_text(lambda text, part: part in text),
    "endsWith": _of_text(str.endswith),
    "find": _find,
    "findAll": _find_all,
    "format": _format,
    "join": _join,
    "lowerAscii": _alone(lambda text: text.translate(_LOWER)),
    "matches": matches,
    "replace": _replace,
    "split": _split,
    "startsWith": _of_text(str.startswith),
    "substring": _substring,
    "trim": _alone(str.strip),
    "upperAscii": _alone(lambda text: text.translate(_UPPER)),
    "validate": _validated,
}
"""Functions of strings; `indexOf` and `lastIndexOf` also apply to lists, and are with those."""
