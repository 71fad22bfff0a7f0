"""Addresses, networks and URLs in CEL."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any, ClassVar
from urllib.parse import SplitResult, quote, unquote_plus, urlsplit

from kilauea.api.cel.values import CelError


@dataclass(frozen=True)
class IP:
    """An IP address."""

    address: IPv4Address | IPv6Address
    cel_type: ClassVar[str] = "net.IP"

    def __str__(self) -> str:
        return str(self.address)


@dataclass(frozen=True)
class CIDR:
    """A network, with the address in its text."""

    address: IPv4Address | IPv6Address
    network: IPv4Network | IPv6Network
    cel_type: ClassVar[str] = "net.CIDR"

    def __str__(self) -> str:
        return f"{self.address}/{self.network.prefixlen}"


@dataclass(frozen=True)
class URL:
    """A URL."""

    text: str
    parts: SplitResult
    cel_type: ClassVar[str] = "kubernetes.URL"


def ip(value: Any) -> IP:
    """Parse an address, or return the address in a network's text."""
    if value.__class__ is CIDR:
        return IP(value.address)
    _text(value)
    try:
        address = ip_address(value)
    except ValueError as error:
        raise CelError(f'IP Address "{value}" parse error during conversion from string: {error}') from None
    if "%" in value:
        raise CelError(f"IP address {value} with zone value is not allowed")
    if isinstance(address, IPv6Address) and address.ipv4_mapped:
        raise CelError(f"IPv4-mapped IPv6 address {value} is not allowed")
    return IP(address)


def is_ip(text: str) -> bool:
    """Return True if a text is an address."""
    return _holds(ip, text)


def is_canonical(text: str) -> bool:
    """Return True if an address is in canonical form."""
    return str(ip(text)) == text


def cidr(text: str) -> CIDR:
    """Parse a network."""
    _text(text)
    address, slash, bits = text.partition("/")
    try:
        if not slash or not bits.isdecimal() or (len(bits) > 1 and bits[0] == "0"):
            raise ValueError("no length of the prefix")
        return CIDR(ip(address).address, ip_network(text, strict=False))
    except ValueError as error:
        raise CelError(f'network address parse error during conversion from string: "{text}": {error}') from None


def is_cidr(text: str) -> bool:
    """Return True if a text is a network."""
    return _holds(cidr, text)


def url(text: str) -> URL:
    """Parse a URL: one with a scheme, or an absolute path."""
    _text(text)
    try:
        parts = urlsplit(text)
        _ = parts.port
        valid = (parts.scheme or text.startswith("/")) and not re.search(r"[\x00-\x20\x7f]|%(?![0-9a-fA-F]{2})", text)
    except ValueError as error:
        raise CelError(f'URL parse error during conversion from string: parse "{text}": {error}') from None
    if not valid or text[:1] == ":":
        raise CelError(f'URL parse error during conversion from string: parse "{text}": invalid URI for request')
    return URL(text, parts)


def is_url(text: str) -> bool:
    """Return True if a text is a URL."""
    return _holds(url, text)


def _holds(make: Callable[[str], Any], text: str) -> bool:
    _text(text)
    try:
        make(text)
    except CelError:
        return False
    return True


def _text(value: Any) -> None:
    if value.__class__ is not str:
        raise CelError("no such overload")


def _is_global(value: IP) -> bool:
    address = value.address
    return not (
        address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local
        or str(address) == "255.255.255.255"
    )  # fmt: skip


def _link_local_multicast(value: IP) -> bool:
    packed = value.address.packed
    return packed[:3] == b"\xe0\x00\x00" if len(packed) == 4 else packed[0] == 0xFF and packed[1] & 0x0F == 2


def _contains_ip(network: CIDR, address: Any) -> bool:
    inner = address.address if address.__class__ is IP else ip(address).address
    return inner.version == network.network.version and inner in network.network


def _contains_cidr(network: CIDR, other: Any) -> bool:
    inner = other if other.__class__ is CIDR else cidr(other)
    mine, its = network.network, inner.network
    return mine.version == its.version and mine.prefixlen <= its.prefixlen and its.network_address in mine


def _host(found: URL) -> str:
    return found.parts.netloc.rpartition("@")[2]


def _hostname(found: URL) -> str:
    host = _host(found)
    return host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]


def _query(found: URL) -> dict[str, list[str]]:
    made: dict[str, list[str]] = {}
    for part in found.parts.query.split("&"):
        if part and ";" not in part:
            key, _, value = part.partition("=")
            made.setdefault(unquote_plus(key), []).append(unquote_plus(value))
    return made


METHODS: Mapping[str, Callable[..., Any]] = {
    "containsCIDR": _contains_cidr,
    "containsIP": _contains_ip,
    "family": lambda value: value.address.version,
    "getEscapedPath": lambda found: quote(found.parts.path, safe="/%:@!$&'()*+,;=-._~"),
    "getHost": _host,
    "getHostname": _hostname,
    "getPort": lambda found: str(found.parts.port) if found.parts.port is not None else "",
    "getQuery": _query,
    "getScheme": lambda found: found.parts.scheme,
    "ip": lambda network: IP(network.address),
    "isGlobalUnicast": _is_global,
    "isLinkLocalMulticast": _link_local_multicast,
    "isLinkLocalUnicast": lambda value: value.address.is_link_local,
    "isLoopback": lambda value: value.address.is_loopback,
    "isUnspecified": lambda value: value.address.is_unspecified,
    "masked": lambda value: CIDR(value.network.network_address, value.network),
    "prefixLength": lambda value: value.network.prefixlen,
}
