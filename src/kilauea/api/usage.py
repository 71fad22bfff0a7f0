"""The usage of simulated pods: the values in annotations of their containers, or otherwise their requests.

`kilauea.dev/cpu-usage` and `kilauea.dev/memory-usage` on a pod apply to each of its containers, and
`kilauea.dev/cpu-usage.worker` only to the container `worker`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kilauea.api.quantity import QuantityError, amount

CPU_USAGE, MEMORY_USAGE = "kilauea.dev/cpu-usage", "kilauea.dev/memory-usage"
USAGE = {"cpu": CPU_USAGE, "memory": MEMORY_USAGE}
"""The annotation for each resource."""


def container_usage(pod: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    """Return cpu (in thousandths) and memory (in bytes) of each running container of a pod, by its name."""
    running = {
        each["name"]
        for each in (pod.get("status") or {}).get("containerStatuses") or ()
        if (each.get("state") or {}).get("running") is not None
    }
    notes = pod["metadata"].get("annotations") or {}
    return {
        container["name"]: {resource: _used(notes, container, resource) for resource in USAGE}
        for container in pod["spec"].get("containers") or ()
        if container["name"] in running
    }


def _used(notes: Mapping[str, str], container: Mapping[str, Any], resource: str) -> int:
    annotation = USAGE[resource]
    text = notes.get(f"{annotation}.{container['name']}", notes.get(annotation))
    requested = ((container.get("resources") or {}).get("requests") or {}).get(resource, "0")
    for given in (text, requested):
        try:
            if given is not None:
                return amount(resource, given)
        except QuantityError:
            continue  # an invalid quantity is reported at pod start
    return 0


def total_usage(usage: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    """Return the sum of the usage of containers."""
    return {resource: sum(each[resource] for each in usage.values()) for resource in USAGE}


def usage_texts(usage: Mapping[str, int]) -> dict[str, str]:
    """Return a usage as quantities, in the units of the metrics server."""
    return {"cpu": f"{usage['cpu']}m", "memory": f"{-(-usage['memory'] // 1024)}Ki"}
