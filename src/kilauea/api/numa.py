"""Text formats of NUMA nodes: CPU sets (`0-3,8`), and the annotation with the NUMA nodes assigned to a pod."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

DECISION = "volcano.sh/topology-decision"
"""On a pod: its allocated resources by NUMA node, as JSON."""
MOST_CPUS = 4096
"""Exclusive upper limit of CPU IDs."""

_RANGE = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?")


def parse_cpuset(text: str) -> int:
    """Parse a CPU list such as `0-3,8` into a bit mask.

    Raises:
        ValueError: it is not a list of ids and ranges of ids below `MOST_CPUS`; names the value and the form.
    """
    mask = 0
    for part in text.split(",") if text.strip() else ():
        found = _RANGE.fullmatch(part.strip())
        first = int(found[1]) if found else 1
        last = int(found[2] or found[1]) if found else 0
        if first > last or last >= MOST_CPUS:
            shown = text if len(text) <= 64 else text[:64] + "..."
            raise ValueError(f'"{shown}" is not a set of cpus: use ids below {MOST_CPUS} and ranges such as 0-3,8')
        mask |= (1 << (last + 1)) - (1 << first)
    return mask


def decision_text(cpus: Mapping[int, int]) -> str:
    """Return the annotation for numbers of CPUs by NUMA node."""
    numa = {str(node): {"cpu": str(count)} for node, count in sorted(cpus.items())}
    return msgspec.json.encode({"numa": numa}).decode()


def parse_decision(text: str) -> dict[int, int]:
    """Parse the numbers of CPUs by NUMA node in the annotation; invalid parts count as none."""
    try:
        document: Any = msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        return {}
    numa = document.get("numa") if isinstance(document, dict) else None
    out: dict[int, int] = {}
    for node, resources in numa.items() if isinstance(numa, dict) else ():
        cpu = str(resources.get("cpu")) if isinstance(resources, dict) else ""
        if all(part.isascii() and part.isdigit() and len(part) <= 4 for part in (node, cpu)):
            out[int(node)] = int(cpu)
    return out
