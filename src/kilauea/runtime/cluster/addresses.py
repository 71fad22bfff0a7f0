"""The address at which other hosts can reach this one."""

from __future__ import annotations

import ipaddress
import socket

_ELSEWHERE = {socket.AF_INET: "198.51.100.1", socket.AF_INET6: "2001:db8::1"}
"""Addresses for documentation: nothing is sent, the system only determines the source address."""


_LOCAL = "127.0.0.1"


def advertised_address(host: str) -> str | None:
    """Return the address that a server which listens on a host advertises; None without one.

    As in Kubernetes, a server that listens on loopback or on all addresses advertises that of the outgoing interface,
    in the family of the host if possible. Addresses that are invalid in endpoints are left out.
    """
    try:
        found = ipaddress.ip_address(host)
    except ValueError:  # a name
        return _outgoing(socket.AF_INET, socket.AF_INET6)
    if not (found.is_loopback or found.is_unspecified):
        return host if _is_for_endpoints(host) else None
    families = (socket.AF_INET, socket.AF_INET6)
    return _outgoing(*(families if found.version == 4 else reversed(families)))


def local_address(host: str) -> str | None:
    """Return the address at which programs on this machine reach a server that listens on a host; None for a name."""
    try:
        found = ipaddress.ip_address(host)
    except ValueError:
        return _LOCAL if host == "localhost" else None
    return (_LOCAL if found.version == 4 else "::1") if found.is_unspecified else str(found)


def may_listen(address: str, port: int) -> bool:
    """Return True if this process may listen on a port, which may be in use: those below 1024 need a privilege."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except PermissionError:
            return False
        except OSError:
            pass  # another process listens there
    return True


def _outgoing(*families: socket.AddressFamily) -> str | None:
    """The source address of outgoing packets, in the first of some families that has one."""
    return next((found for found in map(_outgoing_in, families) if found is not None), None)


def _outgoing_in(family: socket.AddressFamily) -> str | None:
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((_ELSEWHERE[family], 9))
            found: str = probe.getsockname()[0]
    except OSError:  # the host may lack the whole family
        return None
    return found if _is_for_endpoints(found) else None


def _is_for_endpoints(text: str) -> bool:
    """Return False for addresses that Kubernetes rejects in endpoints, as they are meaningless to other hosts."""
    found = ipaddress.ip_address(text)
    return not (found.is_loopback or found.is_unspecified or found.is_link_local or found.is_multicast)
