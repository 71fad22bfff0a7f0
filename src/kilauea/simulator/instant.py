"""A cluster where every decision has come true the moment it is made.

Pods that were bound run, evicted pods are gone, pods that were promised room say where, and pod groups have the phase
of the plan. Used to plan several cycles in a row.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping

import msgspec

from kilauea.api.core import Pod, PodStatus
from kilauea.api.meta import Object
from kilauea.api.scheduling import PodGroup, PodGroupStatus
from kilauea.engine.events import Changed, Event, Gone
from kilauea.engine.plan import Plan


def events_after(plan: Plan, pods: MutableMapping[str, Pod], groups: MutableMapping[str, Object]) -> Iterator[Event]:
    """What a watcher would see after a plan; `pods` and `groups` (by `namespace/name`) are brought up to date."""
    for eviction in plan.evictions:
        pods.pop(eviction.pod, None)
        yield Gone("Pod", eviction.pod)
    for bind in plan.binds:
        pod = pods[bind.pod]
        spec = msgspec.structs.replace(pod.spec, node_name=bind.node)
        pods[bind.pod] = pod = msgspec.structs.replace(pod, spec=spec, status=PodStatus(phase="Running"))
        yield Changed(pod)
    for promise in plan.nominations:
        pod = pods[promise.pod]
        known = pod.status or PodStatus()
        if known.nominated_node_name != promise.node:
            status = msgspec.structs.replace(known, nominated_node_name=promise.node)
            pods[promise.pod] = pod = msgspec.structs.replace(pod, status=status)
            yield Changed(pod)
    for key, outcome in plan.groups.items():
        group = groups.get(key)
        if isinstance(group, PodGroup) and (group.status is None or group.status.phase != outcome.phase):
            groups[key] = group = msgspec.structs.replace(group, status=PodGroupStatus(phase=outcome.phase))
            yield Changed(group)
