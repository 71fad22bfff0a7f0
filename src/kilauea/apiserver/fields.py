"""What can be wrong with a field, as `Cause`s worded like the real server's, and the checks that many kinds share.

A path is text such as `spec.containers[0].image`. Every check answers with a list of causes, empty if all is well.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from kilauea.apiserver.status import Cause

# --- the kinds of error


def required(path: str, detail: str = "") -> Cause:
    """A field that must be there."""
    return Cause(path, "FieldValueRequired", "Required value" + (f": {detail}" if detail else ""))


def invalid_value(path: str, value: Any, detail: str) -> Cause:
    """A value that is not allowed, with the reason."""
    return Cause(path, "FieldValueInvalid", f"Invalid value: {_shown(value)}: {detail}")


def wrong_type(path: str, value: Any, detail: str) -> Cause:
    """A value of the wrong type."""
    return Cause(path, "FieldValueTypeInvalid", f"Invalid value: {_shown(value)}: {detail}")


def not_supported(path: str, value: Any, supported: Iterable[str]) -> Cause:
    """A word that is none of those allowed."""
    words = ", ".join(f'"{each}"' for each in supported)
    return Cause(path, "FieldValueNotSupported", f"Unsupported value: {_shown(value)}: supported values: {words}")


def duplicate(path: str, value: Any) -> Cause:
    """A value that may be there only once."""
    return Cause(path, "FieldValueDuplicate", f"Duplicate value: {_shown(value)}")


def forbidden_field(path: str, detail: str) -> Cause:
    """A field that may not be set, or not be changed."""
    return Cause(path, "FieldValueForbidden", f"Forbidden: {detail}")


def missing_reference(path: str, value: Any) -> Cause:
    """A value that refers to something that is not there."""
    return Cause(path, "FieldValueNotFound", f"Not found: {_shown(value)}")


def too_long(path: str, limit: int) -> Cause:
    """A text beyond its limit, in bytes."""
    return Cause(path, "FieldValueTooLong", f"Too long: may not be more than {limit} bytes")


def _shown(value: Any) -> str:
    """A value as JSON."""
    if value is None:
        return "null"
    return msgspec.json.encode(value).decode()


# --- names

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_SERVICE = r"[a-z]([-a-z0-9]*[a-z0-9])?"
_QUALIFIED = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE = rf"({_QUALIFIED})?"
_NAMES = {
    name: re.compile(text) for name, text in {"label": _LABEL, "subdomain": _SUBDOMAIN, "service": _SERVICE}.items()
}
_QUALIFIED_NAME, _LABEL_VALUE = re.compile(_QUALIFIED), re.compile(_VALUE)

_SUBDOMAIN_WORDS = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    f"'{_SUBDOMAIN}')"
)
_LABEL_WORDS = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    f"an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '{_LABEL}')"
)
_SERVICE_WORDS = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    f"and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '{_SERVICE}')"
)
_QUALIFIED_WORDS = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    f"character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_QUALIFIED}')"
)
_VALUE_WORDS = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    f"end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    f"'{_VALUE}')"
)


@lru_cache(maxsize=16384)
def subdomain_problems(text: str) -> tuple[str, ...]:
    """Why a text is no DNS subdomain, which most names must be."""
    return _name_problems(text, "subdomain", 253, _SUBDOMAIN_WORDS)


@lru_cache(maxsize=16384)
def label_problems(text: str) -> tuple[str, ...]:
    """Why a text is no DNS label, which names of namespaces, containers, volumes and ports must be."""
    return _name_problems(text, "label", 63, _LABEL_WORDS)


@lru_cache(maxsize=4096)
def service_name_problems(text: str) -> tuple[str, ...]:
    """Why a text is no name of a service: a label that begins with a letter."""
    return _name_problems(text, "service", 63, _SERVICE_WORDS)


@lru_cache(maxsize=4096)
def path_segment_problems(text: str) -> tuple[str, ...]:
    """Why a text cannot stand in a path, which is all that names of RBAC objects must do."""
    if text in (".", ".."):
        return (f"may not be '{text}'",)
    return tuple(f"may not contain '{mark}'" for mark in "/%" if mark in text)


def _name_problems(text: str, form: str, limit: int, words: str) -> tuple[str, ...]:
    """Length and form of a name."""
    found = [f"must be no more than {limit} bytes"] if len(text.encode()) > limit else []
    if not _NAMES[form].fullmatch(text):
        found.append(words)
    return tuple(found)


@lru_cache(maxsize=16384)
def qualified_name_problems(text: str) -> tuple[str, ...]:
    """Why a text is no qualified name (a key of labels and annotations): a name, maybe after a domain and a slash."""
    prefix, slash, name = text.rpartition("/")
    if "/" in prefix:
        form = " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return ("a qualified name must" + _QUALIFIED_WORDS.removeprefix("name part must") + form,)
    found: list[str] = []
    if slash and not prefix:
        found.append("prefix part must be non-empty")
    elif slash:
        found += [f"prefix part {each}" for each in subdomain_problems(prefix)]
    if not name:
        found.append("name part must be non-empty")
    elif len(name) > 63:
        found.append("name part must be no more than 63 bytes")
    if not _QUALIFIED_NAME.fullmatch(name):
        found.append(_QUALIFIED_WORDS)
    return tuple(found)


@lru_cache(maxsize=16384)
def label_value_problems(text: str) -> tuple[str, ...]:
    """Why a text is no value of a label."""
    found = ["must be no more than 63 bytes"] if len(text.encode()) > 63 else []
    if not _LABEL_VALUE.fullmatch(text):
        found.append(_VALUE_WORDS)
    return tuple(found)


# --- checks that many kinds share


def check_name(path: str, value: Any, problems: Sequence[str]) -> list[Cause]:
    """Causes for what is wrong with a name."""
    return [invalid_value(path, value, each) for each in problems]


def check_labels(path: str, labels: dict[str, Any]) -> list[Cause]:
    """Keys and values of labels."""
    found = []
    for key, value in labels.items():
        found += [invalid_value(path, key, each) for each in qualified_name_problems(key)]
        found += [invalid_value(path, value, each) for each in label_value_problems(value or "")]
    return found


MAX_ANNOTATIONS = 256 * 1024


def check_annotations(path: str, annotations: dict[str, Any]) -> list[Cause]:
    """Keys of annotations, and the size of all together."""
    found = []
    size = 0
    for key, value in annotations.items():
        found += [invalid_value(path, key, each) for each in qualified_name_problems(key.lower())]
        size += len(key) + len(value or "")
    if size > MAX_ANNOTATIONS:
        found.append(Cause(path, "FieldValueTooLong", f"Too long: may not be more than {MAX_ANNOTATIONS} bytes"))
    return found


def check_word(path: str, value: Any, supported: Sequence[str]) -> list[Cause]:
    """A word that must be one of a few."""
    return [] if value in supported else [not_supported(path, value, supported)]


def check_not_negative(path: str, value: Any) -> list[Cause]:
    """A number of at least 0, where there is one."""
    if isinstance(value, int) and value < 0:
        return [invalid_value(path, value, "must be greater than or equal to 0")]
    return []


def check_range(path: str, value: Any, low: int, high: int) -> list[Cause]:
    """A number between two bounds, both included, where there is one."""
    if isinstance(value, int) and not low <= value <= high:
        return [invalid_value(path, value, f"must be between {low} and {high}, inclusive")]
    return []


_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")


def check_label_selector(path: str, selector: dict[str, Any]) -> list[Cause]:
    """A `metav1.LabelSelector`."""
    found = check_labels(f"{path}.matchLabels", selector.get("matchLabels") or {})
    for number, term in enumerate(selector.get("matchExpressions") or ()):
        found += _check_requirement(f"{path}.matchExpressions[{number}]", term)
    return found


def _check_requirement(path: str, term: dict[str, Any]) -> list[Cause]:
    """One requirement of a label selector."""
    operator, values = term.get("operator", ""), term.get("values") or []
    found = []
    if operator in ("In", "NotIn") and not values:
        found.append(required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in ("Exists", "DoesNotExist") and values:
        found.append(
            forbidden_field(f"{path}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
        )
    elif operator not in _OPERATORS:
        found.append(invalid_value(f"{path}.operator", operator, "not a valid selector operator"))
    found += [
        invalid_value(f"{path}.key", term.get("key", ""), each) for each in qualified_name_problems(term.get("key", ""))
    ]
    for number, value in enumerate(values):
        found += [invalid_value(f"{path}.values[{number}]", value, each) for each in label_value_problems(value)]
    return found
