"""Values with special formats in Kubernetes: quantities, times, bytes, IntOrString.

Each function takes a JSON value and returns it in the form that the real server returns, or raises `ValueError` with
the message of the real server.
"""

from __future__ import annotations

import base64
import binascii
import re
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

from kilauea.api.remembered import remembered

QUANTITY_WORDS = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
LARGEST_QUANTITY = 2**63 - 1
_QUANTITY = re.compile(r"([+-]?)(?=\.?[0-9])([0-9]*)(?:\.([0-9]*))?(?:[eE]([+-]?[0-9]{1,3})|([numkMGTPE]|[KMGTPE]i)?)")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_DECIMAL_SUFFIX = {power: suffix for suffix, power in _DECIMAL.items()}
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_NANO = 10**9


def quantity(value: Any) -> str:
    """Return a quantity in canonical form: `1024Ki` is `1Mi`, 1.5 is `1500m`."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(QUANTITY_WORDS)
    return _quantity(value if isinstance(value, str) else repr(value))


@remembered(16384, 64)
def _quantity(text: str) -> str:
    found = _QUANTITY.fullmatch(text)
    if found is None:
        raise ValueError(QUANTITY_WORDS)
    sign, whole, fraction, exponent, suffix = found.groups("")
    scale = 1024 ** _BINARY.index(suffix) if suffix.endswith("i") else 1
    power = int(exponent) if exponent else _DECIMAL.get(suffix, 0)
    shift = 9 + power - len(fraction)
    nanos = int(whole + fraction) * scale
    nanos = nanos * 10**shift if shift >= 0 else -(-nanos // 10**-shift)
    nanos = min(nanos, LARGEST_QUANTITY * _NANO)
    if not nanos:
        return "0"
    if scale > 1 and nanos >= 1024 * _NANO and nanos % _NANO == 0:
        return sign.strip("+") + _binary_text(nanos // _NANO)
    return sign.strip("+") + _decimal_text(nanos, bool(exponent))


def amount_of(text: str) -> Fraction:
    """Return the value of a canonical quantity."""
    found = _QUANTITY.fullmatch(text)
    if found is None:
        raise ValueError(QUANTITY_WORDS)
    sign, whole, fraction, exponent, suffix = found.groups("")
    scale = Fraction(1024) ** _BINARY.index(suffix) if suffix.endswith("i") else Fraction(1)
    power = (int(exponent) if exponent else _DECIMAL.get(suffix, 0)) - len(fraction)
    return int(f"{sign}{whole}{fraction}") * scale * Fraction(10) ** power


def exact_text(number: Fraction) -> str:
    """Return a number as a canonical quantity, rounded up to thousandths."""
    return quantity(f"{-(-number.numerator * 1000 // number.denominator)}m")


def _binary_text(units: int) -> str:
    power = 0
    while units % 1024 == 0 and power < len(_BINARY) - 1:
        units //= 1024
        power += 1
    return f"{units}{_BINARY[power]}"


def _decimal_text(nanos: int, scientific: bool) -> str:
    power = -9
    while nanos % 1000 == 0 and power < 18:
        nanos //= 1000
        power += 3
    return f"{nanos}e{power}" if scientific and power else f"{nanos}{_DECIMAL_SUFFIX[power]}"


def int_or_string(value: Any) -> int | str:
    """Return a 32-bit integer or a string."""
    if isinstance(value, str) or (type(value) is int and -(2**31) <= value < 2**31):
        return value
    raise TypeError("int32")


def _byte(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 256:
        raise TypeError("uint8")
    return value


def encoded_bytes(value: Any) -> str:
    """Return base64-encoded bytes. As in Go, a list of numbers is also accepted."""
    if isinstance(value, list):
        return base64.b64encode(bytes(map(_byte, value))).decode()
    if not isinstance(value, str):
        raise TypeError("[]uint8")
    try:
        return base64.b64encode(base64.b64decode(value.replace("\n", "").replace("\r", ""), validate=True)).decode()
    except (binascii.Error, ValueError) as error:
        good = re.match(r"(?:[A-Za-z0-9+/]{4})*[A-Za-z0-9+/]{0,3}", value)
        raise ValueError(f"illegal base64 data at input byte {good.end() if good else 0}") from error


_PIECES = (
    ("2006", r"\d{4}"),
    ("-", "-"),
    ("01", r"\d\d"),
    ("-", "-"),
    ("02", r"\d\d"),
    ("T", "T"),
    ("15", r"\d\d"),
    (":", ":"),
    ("04", r"\d\d"),
    (":", ":"),
    ("05", r"\d\d"),
)
_SECONDS = (*_PIECES, ("Z07:00", r"(?:[.,]\d+)?(?:Z|[+-]\d\d:\d\d)"))
_MICROS = (*_PIECES, (".000000", r"[.,]\d{6}(?!\d)"), ("Z07:00", r"Z|[+-]\d\d:\d\d"))


def time(value: Any) -> str:
    """Return a time in UTC with a precision of seconds."""
    if not isinstance(value, str):
        raise TypeError("string")
    return _time_in_seconds(value)


@remembered(4096, 64)
def _time_in_seconds(value: str) -> str:
    """Return a time as `time` does; cached, as the same time recurs in many objects."""
    return _text(_time(value, "2006-01-02T15:04:05Z07:00", _SECONDS), "seconds")


def micro_time(value: Any) -> str:
    """Return a time in UTC with a precision of microseconds; six fractional digits are required."""
    if not isinstance(value, str):
        raise TypeError("string")
    if _SETTLED.fullmatch(value) and _is_moment(value):  # the common format of lease renewals
        return value
    return _text(_time(value, "2006-01-02T15:04:05.000000Z07:00", _MICROS), "microseconds")


_SETTLED = re.compile(r"[1-9][0-9]{3}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}Z")
"""A time in canonical form."""


def _is_moment(value: str) -> bool:
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return False
    return True


def _text(moment: datetime, timespec: str) -> str:
    """Format a time in UTC; a year before 1000 has four digits, too."""
    return moment.replace(tzinfo=None).isoformat(timespec=timespec) + "Z"


def _time(value: str, layout: str, pieces: tuple[tuple[str, str], ...]) -> datetime:
    rest = value
    for name, pattern in pieces:
        found = re.match(pattern, rest)
        if found is None:
            raise ValueError(f'parsing time "{value}" as "{layout}": cannot parse "{rest}" as "{name}"')
        rest = rest[found.end() :]
    if rest:
        raise ValueError(f'parsing time "{value}": extra text: "{rest}"')
    try:
        return datetime.fromisoformat(value.replace(",", ".")).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        part = next((name for name in ("month", "day", "hour", "minute", "second") if name in str(error)), "day")
        raise ValueError(f'parsing time "{value}": {part} out of range') from error
