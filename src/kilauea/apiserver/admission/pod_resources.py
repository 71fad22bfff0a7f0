"""Total requests and limits of a pod.

Amounts of containers are added. Init containers run sequentially before them, so the largest counts, plus the sidecars
(init containers that always restart) started by then; sidecars also count in addition to the containers. Pod-level
amounts replace the sum.
"""

from __future__ import annotations

from typing import Any, Literal

from kilauea.apiserver.admission.amounts import Amount, Amounts, add, largest, parse_all

Side = Literal["requests", "limits"]
_POD_LEVEL = ("cpu", "memory")


def pod_amounts(spec: dict[str, Any], side: Side, *, every_pod_level: bool = False) -> dict[str, Amount]:
    """Return requests or limits of a pod, without its overhead.

    Args:
        spec: the spec of the pod.
        side: requests or limits.
        every_pod_level: True if huge pages may also be set at the pod level.
    """
    total: dict[str, Amount] = {}
    for container in spec.get("containers") or ():
        total = add(total, container_amounts(container, side))
    sidecars: dict[str, Amount] = {}
    beginning: Amounts = {}
    for container in spec.get("initContainers") or ():
        amounts = container_amounts(container, side)
        if container.get("restartPolicy") == "Always":
            total = add(total, amounts)
            sidecars = add(sidecars, amounts)
            amounts = sidecars
        else:
            amounts = add(amounts, sidecars)
        beginning = largest(beginning, amounts)
    total = largest(total, beginning)
    whole = parse_all((spec.get("resources") or {}).get(side))
    for name, amount in whole.items():
        if name in _POD_LEVEL or (every_pod_level and name.startswith("hugepages-")):
            total[name] = amount
    return total


def container_amounts(container: dict[str, Any], side: Side) -> dict[str, Amount]:
    """Return requests or limits of a container."""
    return parse_all((container.get("resources") or {}).get(side))
