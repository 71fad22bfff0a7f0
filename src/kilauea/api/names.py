"""Checks of names and of label keys and values, with the messages of Kubernetes."""

from __future__ import annotations

import re

from kilauea.api.remembered import remembered

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_SERVICE = r"[a-z]([-a-z0-9]*[a-z0-9])?"
_QUALIFIED = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE = rf"({_QUALIFIED})?"
_DATA_KEY = re.compile(r"[-._a-zA-Z0-9]+")
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
_DATA_KEY_WORDS = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or "
    "'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)


@remembered(4096)
def subdomain_problems(text: str) -> tuple[str, ...]:
    """Return the errors in a DNS subdomain, which most names must be."""
    return _name_problems(text, "subdomain", 253, _SUBDOMAIN_WORDS)


@remembered(4096)
def label_problems(text: str) -> tuple[str, ...]:
    """Return the errors in a DNS label, which names of namespaces, containers, volumes and ports must be."""
    return _name_problems(text, "label", 63, _LABEL_WORDS)


@remembered(4096)
def service_name_problems(text: str) -> tuple[str, ...]:
    """Return the errors in the name of a service: a label that starts with a letter."""
    return _name_problems(text, "service", 63, _SERVICE_WORDS)


@remembered(4096)
def path_segment_problems(text: str) -> tuple[str, ...]:
    """Return the errors in a path segment, the only rule for names of RBAC objects."""
    if text in (".", ".."):
        return (f"may not be '{text}'",)
    return tuple(f"may not contain '{mark}'" for mark in "/%" if mark in text)


def _name_problems(text: str, form: str, limit: int, words: str) -> tuple[str, ...]:
    """Return the errors in the length and format of a name."""
    found = [f"must be no more than {limit} characters"] if len(text.encode()) > limit else []
    if _NAMES[form].fullmatch(text):
        return tuple(found)
    if form == "label" and _NAMES["subdomain"].fullmatch(text):
        words = "must not contain dots"
    return (*found, words)


@remembered(4096)
def qualified_name_problems(text: str) -> tuple[str, ...]:
    """Return the errors in a qualified name (a label or annotation key): a name with an optional domain prefix."""
    prefix, slash, name = text.rpartition("/")
    if "/" in prefix:
        form = " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return ("a valid label key must" + _QUALIFIED_WORDS.removeprefix("name part must") + form,)
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


@remembered(4096)
def label_value_problems(text: str) -> tuple[str, ...]:
    """Return the errors in the value of a label."""
    found = ["must be no more than 63 bytes"] if len(text.encode()) > 63 else []
    if not _LABEL_VALUE.fullmatch(text):
        found.append(_VALUE_WORDS)
    return tuple(found)


@remembered(4096)
def data_key_problems(text: str) -> tuple[str, ...]:
    """Return the errors in a key of the data of a ConfigMap or Secret, which can become the name of a file."""
    found = ["must be no more than 253 characters"] if len(text) > 253 else []
    if not _DATA_KEY.fullmatch(text):
        found.append(_DATA_KEY_WORDS)
    if text in (".", ".."):
        found.append(f"must not be '{text}'")
    elif text.startswith(".."):
        found.append("must not start with '..'")
    return tuple(found)
