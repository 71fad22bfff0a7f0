"""Sysctls of pods: the safe ones, and the rejection of pods with others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SAFE = frozenset(
    "kernel.shm_rmid_forced net.ipv4.ip_local_port_range net.ipv4.ip_local_reserved_ports "
    "net.ipv4.ip_unprivileged_port_start net.ipv4.ping_group_range net.ipv4.tcp_fin_timeout "
    "net.ipv4.tcp_keepalive_intvl net.ipv4.tcp_keepalive_probes net.ipv4.tcp_keepalive_time net.ipv4.tcp_rmem "
    "net.ipv4.tcp_syncookies net.ipv4.tcp_wmem".split()
)
"""Sysctls that do not affect other pods of the node; others must be allowed in the node's configuration."""
REFUSED = "SysctlForbidden"
_SWAPPED = str.maketrans("./", "/.")


def refusal(spec: Mapping[str, Any]) -> str:
    """Return the message with which a node rejects a pod for its sysctls; empty if it does not."""
    for each in (spec.get("securityContext") or {}).get("sysctls") or ():
        name = _dotted(str(each["name"]))
        if name not in SAFE:
            return f'forbidden sysctl: "{name}" not allowlisted'
        kind, field = ("Net", "hostNetwork") if name.startswith("net.") else ("IPC", "hostIPC")
        if spec.get(field):
            return f'forbidden sysctl: "{name}" not allowed with host {kind} enabled'
    return ""


def _dotted(name: str) -> str:
    """Return a name whose first separator is a slash with dots and slashes swapped."""
    slash, dot = name.find("/"), name.find(".")
    return name.translate(_SWAPPED) if slash >= 0 and (dot < 0 or slash < dot) else name
