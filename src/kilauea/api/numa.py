"""Texts about NUMA nodes: sets of processors (`0-3,8`), and the annotation with the NUMA nodes assigned to a pod."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

DECISION = "volcano.sh/topology-decision"
"""On a pod: the resources that it was given, by NUMA node, as JSON."""
MOST_CPUS = 4096
"""Ids of processors are below this."""

_RANGE = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?")


def parse_cpuset(text: str) -> int:
    """The processors of a list such as `0-3,8`, as a mask with a bit for each.

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
    """The annotation for numbers of processors by NUMA node."""
    numa = {str(node): {"cpu": str(count)} for node, count in sorted(cpus.items())}
    return msgspec.json.encode({"numa": numa}).decode()


def parse_decision(text: str) -> dict[int, int]:
    """Numbers of processors by NUMA node in the annotation; what cannot be read counts for none."""
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
