"""The address under which other hosts know this one."""

from __future__ import annotations

import ipaddress
import socket

_ELSEWHERE = "198.51.100.1"
"""An address for documentation: nothing is sent, the system only says from which address it would be."""


def advertised_address(host: str) -> str | None:
    """The address that a server which listens at a host advertises; None if there is none.

    As Kubernetes does, a server that listens at loopback or at all addresses advertises that of the interface which
    leads outside.
    """
    try:
        found = ipaddress.ip_address(host)
    except ValueError:  # a name
        return _outgoing()
    return _outgoing() if found.is_loopback or found.is_unspecified else str(found)


def _outgoing() -> str | None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((_ELSEWHERE, 9))
            found: str = probe.getsockname()[0]
        except OSError:
            return None
    return None if ipaddress.ip_address(found).is_loopback else found
