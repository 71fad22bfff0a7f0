"""String formats in the schemas of custom resources; unknown ones are not checked, as in the real server."""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from collections.abc import Callable, Mapping
from datetime import date
from urllib.parse import urlsplit

from kilauea.api.times import parse_duration
from kilauea.apiserver.schema import scalars


def _reads(read: Callable[[str], object]) -> Callable[[str], bool]:
    """Return a predicate for strings that a parser accepts."""

    def check(text: str) -> bool:
        try:
            read(text)
        except (ValueError, TypeError, binascii.Error):
            return False
        return True

    return check


def _like(pattern: str) -> Callable[[str], bool]:
    compiled = re.compile(pattern)
    return lambda text: compiled.fullmatch(text) is not None


def _uri(text: str) -> None:
    """Check that a text is an absolute URI, or an absolute path."""
    if re.search(r"%(?![0-9A-Fa-f]{2})|[\x00-\x20]", text) or not (urlsplit(text).scheme or text.startswith("/")):
        raise ValueError(text)


def _base64(text: str) -> None:
    base64.b64decode(text, validate=True)


_HEX = "[0-9a-fA-F]"
_LABEL = "[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"

FORMATS: Mapping[str, Callable[[str], bool]] = {
    "byte": _reads(_base64),
    "cidr": _reads(lambda text: ipaddress.ip_interface(text) if "/" in text else ipaddress.ip_interface("")),
    "date": _reads(date.fromisoformat),
    "date-time": _reads(scalars.time),
    "duration": _reads(parse_duration),
    "email": _like(r"[^@\s<>]+@[^@\s<>]+"),
    "hostname": _like(rf"(?=.{{1,255}}$){_LABEL}(\.{_LABEL})*"),
    "ipv4": _reads(ipaddress.IPv4Address),
    "ipv6": _reads(ipaddress.IPv6Address),
    "mac": _like(rf"{_HEX}{{2}}([:-]{_HEX}{{2}}){{5}}"),
    "uri": _reads(_uri),
    "uuid": _like(rf"{_HEX}{{8}}-?{_HEX}{{4}}-?{_HEX}{{4}}-?{_HEX}{{4}}-?{_HEX}{{12}}"),
}


def matches_format(name: str, text: str) -> bool:
    """Return True if a text has a format, or if the format is not checked."""
    check = FORMATS.get(name)
    return check is None or check(text)
