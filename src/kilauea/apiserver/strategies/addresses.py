"""Checks of IP addresses and CIDR ranges, for fields of many kinds."""

from __future__ import annotations

import ipaddress
import re
import socket

ADDRESS_FORM = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
CIDR_FORM = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
_CANONICAL = "should be in RFC 5952 canonical format"
_LEADING_ZERO = re.compile(r"(^|[.:/])0[0-9]")
_LEADING_ZEROS = re.compile(r"(^|[./:])0+(?=[0-9]+($|[./]))")


def parse_cidr(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    """Parse a CIDR range, dropping host bits; return None if the text is not one."""
    if "/" not in text or "%" in text:
        return None
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        return None


def cidr_problems(text: str) -> tuple[str, ...]:
    """Return the errors in a CIDR range in the form required in new objects."""
    if "/" in text and ":" not in text and _LEADING_ZERO.search(text):
        bare = _LEADING_ZEROS.sub(r"\1", text)
        return () if parse_cidr(bare) is None else ("must not have leading 0s in IP or prefix length",)
    found = parse_cidr(text)
    if found is None or ("/" in text and not text.rpartition("/")[2].isdigit()):
        return (CIDR_FORM,)
    if _is_mapped(ipaddress.ip_interface(text).ip):
        return ("must not have an IPv4-mapped IPv6 address",)
    try:
        ipaddress.ip_network(text)
    except ValueError:
        return ("must not have bits set beyond the prefix length",)
    return ()


def parse_address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Parse an IP address, which may have leading zeros; return None if the text is not one."""
    if "%" in text:
        return None
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        pass
    try:
        return ipaddress.ip_address(_LEADING_ZEROS.sub(r"\1", text)) if "." in text else None
    except ValueError:
        return None


def address_problems(text: str) -> tuple[str, ...]:
    """Return the errors in an IP address in the form required in new objects."""
    try:
        socket.inet_pton(socket.AF_INET, text)  # the usual form, in a tenth of the time of the other check
    except (OSError, ValueError):
        pass
    else:
        return ()
    found = parse_address(text)
    if found is None:
        return (ADDRESS_FORM,)
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return ("must not have leading 0s",)
    return ("must not be an IPv4-mapped IPv6 address",) if _is_mapped(found) else ()


def canonical_address_problems(text: str) -> tuple[str, ...]:
    """Return the errors in an IP address that must also be in canonical form."""
    problems = address_problems(text)
    if problems or ":" not in text or text == (canonical := str(parse_address(text))):
        return problems
    return (f'must be in canonical form ("{canonical}")',)


def canonical_cidr_problems(text: str) -> tuple[str, ...]:
    """Return the errors in a CIDR range that must also be in canonical form."""
    problems = cidr_problems(text)
    if problems or text == (canonical := str(parse_cidr(text))):
        return problems
    return (f'must be in canonical form ("{canonical}")',)


def address_warnings(path: str, text: str) -> list[str]:
    """Warn about an IP address in an unusual form."""
    found = parse_address(text)
    if found is None:
        return []
    if address_problems(text):
        usual = found.ipv4_mapped if found.version == 6 and found.ipv4_mapped is not None else found
        return [f'{path}: non-standard IP address "{text}" is invalid: use "{usual}"']
    return [f'{path}: IPv6 address "{text}" {_CANONICAL} ("{found}")'] if str(found) != text else []


def cidr_warnings(path: str, text: str) -> list[str]:
    """Warn about a valid CIDR range in an unusual form."""
    found = parse_cidr(text)
    return [f'{path}: IPv6 CIDR value "{text}" {_CANONICAL} ("{found}")'] if found and str(found) != text else []


def _is_mapped(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    return address.version == 6 and address.ipv4_mapped is not None
