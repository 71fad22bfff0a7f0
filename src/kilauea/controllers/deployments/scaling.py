"""Sizes of the replica sets of a deployment, with neither too few available pods nor too many pods in total."""

from __future__ import annotations

import math
from collections.abc import Sequence

from kilauea.api.numbers import whole_number
from kilauea.api.ports import Obj
from kilauea.controllers.objects import annotations_of, spec_of, status_of

DESIRED, MAXIMUM = "deployment.kubernetes.io/desired-replicas", "deployment.kubernetes.io/max-replicas"


def scaled(value: object, whole: int, *, up: bool) -> int:
    """A number, or a percentage of a whole; None if it cannot be read."""
    if isinstance(value, str):
        share = whole_number(value.removesuffix("%")) or 0
        return math.ceil(share * whole / 100) if up else share * whole // 100
    return value if isinstance(value, int) else 0


def is_rolling(deployment: Obj) -> bool:
    """Return True if old pods are deleted while new ones are created."""
    return bool((spec_of(deployment).get("strategy") or {}).get("type", "RollingUpdate") == "RollingUpdate")


def margins(deployment: Obj) -> tuple[int, int]:
    """Return the surge and the number of pods that may be unavailable; never both zero."""
    if not is_rolling(deployment):
        return 0, 0
    replicas = wanted_replicas(deployment)
    rolling = (spec_of(deployment).get("strategy") or {}).get("rollingUpdate") or {}
    surge = scaled(rolling.get("maxSurge", "25%"), replicas, up=True)
    unavailable = scaled(rolling.get("maxUnavailable", "25%"), replicas, up=False)
    if not surge and not unavailable:
        unavailable = 1
    return surge, min(unavailable, replicas)


def wanted_replicas(workload: Obj) -> int:
    """Return the desired number of replicas."""
    return int(spec_of(workload).get("replicas", 1))


def figures(deployment: Obj) -> tuple[int, int]:
    """Return the desired and the maximum number of pods; replica sets store both, to detect a change."""
    replicas = wanted_replicas(deployment)
    return replicas, replicas + margins(deployment)[0]


def available(replica_set: Obj) -> int:
    """Return the number of available pods of a replica set."""
    return int(status_of(replica_set).get("availableReplicas") or 0)


def new_size(deployment: Obj, owned: Sequence[Obj], has: int) -> int:
    """Return the new size of the current replica set, whose size is `has` now."""
    wanted, most = figures(deployment)
    if not is_rolling(deployment) or has >= wanted:
        return wanted
    room = most - sum(wanted_replicas(each) for each in owned)
    return min(wanted, has + max(0, room))


def old_sizes(deployment: Obj, owned: Sequence[Obj], mine: Obj) -> dict[int, int]:
    """Return the new size of each older replica set that shrinks, by its index in `owned`."""
    _, unavailable = margins(deployment)
    least = wanted_replicas(deployment) - unavailable
    waiting = max(0, wanted_replicas(mine) - available(mine))
    spare = sum(wanted_replicas(each) for each in owned) - least - waiting
    if spare <= 0:
        return {}
    sizes = {}
    serving = sum(available(each) for each in owned) - least
    for place, each in enumerate(owned):
        if each is mine:
            continue
        idle = min(spare, max(0, wanted_replicas(each) - available(each)))  # unavailable pods can be deleted freely
        gone = min(max(0, serving), wanted_replicas(each) - idle)
        spare, serving = spare - idle, serving - gone
        if idle or gone:
            sizes[place] = wanted_replicas(each) - idle - gone
    return sizes


def resized(deployment: Obj, owned: Sequence[Obj]) -> bool:
    """Return True if the number of pods differs from the one last written to the replica sets."""
    desired = str(wanted_replicas(deployment))
    told = [annotations_of(each).get(DESIRED) for each in owned if wanted_replicas(each)]
    return any(each is not None and each != desired for each in told)


def in_proportion(deployment: Obj, owned: Sequence[Obj], newest: Obj | None) -> dict[int, int]:
    """Sizes, by index, when the number of replicas changes during a rollout: each in proportion.

    The largest come first, and the first gets the remainder of the rounding.
    """
    wanted, most = figures(deployment)
    active = [place for place, each in enumerate(owned) if wanted_replicas(each)]
    if len(active) <= 1:
        only = active[0] if active else next((place for place, each in enumerate(owned) if each is newest), None)
        return {} if only is None or wanted_replicas(owned[only]) == wanted else {only: wanted}
    if not is_rolling(deployment):
        return {}
    if newest is not None and wanted_replicas(newest) == wanted == available(newest):
        return {place: 0 for place in active if owned[place] is not newest}
    total = sum(wanted_replicas(owned[place]) for place in active)
    to_add = (most if wanted > 0 else 0) - total
    order = sorted(active, key=lambda place: (-wanted_replicas(owned[place]), place if to_add > 0 else -place))
    sizes, left = {}, to_add
    for place in order:
        has = wanted_replicas(owned[place])
        before = whole_number(annotations_of(owned[place]).get(MAXIMUM, "")) or total
        share = round(has * most / before) - has
        share = max(0, min(share, left)) if to_add > 0 else min(0, max(share, left))
        sizes[place], left = has + share, left - share
    sizes[order[0]] = max(0, sizes[order[0]] + left)
    return {place: size for place, size in sizes.items() if size != wanted_replicas(owned[place])}
