"""Failures of nodes, random by seed.

Nodes fail independently: the times between failures and the times to repair are exponential. These are the usual
assumptions of availability models; real failures come in bursts, so the effect is rather understated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random


@dataclass(frozen=True, slots=True)
class Fault:
    """A node failure.

    Attributes:
        time: in microseconds since the start of the trace.
        node: its name.
        length: its duration, in microseconds.
    """

    time: int
    node: str
    length: int


def node_faults(nodes: Sequence[str], span: int, between: int, repair: int, seed: int) -> tuple[Fault, ...]:
    """Return the failures of nodes in a span of time, in order of their time.

    Args:
        nodes: names of the nodes.
        span: the length of the trace, in microseconds.
        between: mean time between failures of one node, in microseconds.
        repair: mean time to repair, in microseconds.
        seed: the same seed gives the same failures, regardless of the configuration.
    """
    found = []
    for name in sorted(nodes):
        rng = Random(f"{seed}/{name}")
        time = 0
        while (time := time + round(rng.expovariate(1 / between))) < span:
            length = max(1, round(rng.expovariate(1 / repair)))
            found.append(Fault(time, name, length))
            time += length
    return tuple(sorted(found, key=lambda fault: (fault.time, fault.node)))
