"""Maintains one NodeShard for each scheduler, with the nodes that it should use.

The schedulers themselves write the status: a node changes its scheduler only when the previous one has released it
(`kilauea.runtime.scheduler.sharding`). So NodeShards need not be written atomically.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kilauea.api.kinds import CONFIG_MAPS, NODE_SHARDS, NODES, PODS
from kilauea.api.ports import (
    Create,
    Delete,
    Interest,
    Key,
    Obj,
    Operation,
    Outcome,
    Patch,
    Record,
    View,
    key_of,
    no_keys,
)
from kilauea.api.times import SECOND
from kilauea.controllers.objects import NOTHING, is_going, labels_of, name_of, spec_of, status_of, uid_of
from kilauea.controllers.sharding.configuration import ShardingError, SharingPlan, of_config_map
from kilauea.controllers.sharding.policies import candidates_of, shared_out

CONFIGURATION = Key("volcano-system", "volcano-sharding-configmap")
BY_NODES = Key("", "nodes")
"""The key for changes of nodes."""
CHANGE_SECONDS = 0.2
"""Seconds for which changes are collected before nodes are divided."""
LEAST_NEW = 0.1
"""The fraction of a shard that must change before it is written."""


class ShardingController:
    """Divides nodes, at each change of its configuration and periodically.

    Args:
        configuration: the ConfigMap with the policies.
        plan: the policies without such a ConfigMap.
    """

    name = "sharding-controller"

    def __init__(self, configuration: Key = CONFIGURATION, plan: SharingPlan | None = None) -> None:
        self._configuration = configuration
        self._plan = plan or SharingPlan()
        self.interests = (
            Interest(CONFIG_MAPS, self._concerns, always=(configuration,)),
            Interest(NODES, lambda node: (BY_NODES,), delay=CHANGE_SECONDS, matters=_matters),
            Interest(NODE_SHARDS, lambda shard: (configuration,), delay=CHANGE_SECONDS, matters=_desire),
            Interest(PODS, no_keys),
        )

    def _concerns(self, config_map: Obj) -> Iterable[Key]:
        return (self._configuration,) if key_of(config_map) == self._configuration else ()

    def reconcile(self, key: Key, view: View, now: int) -> Outcome:
        """Update the NodeShards by the configuration; an invalid one changes nothing."""
        config_map = view.get(CONFIG_MAPS, self._configuration)
        try:
            plan = self._plan if config_map is None else of_config_map(config_map)
        except ShardingError as error:
            assert config_map is not None
            message = f"{error}; NodeShards remain unchanged"
            return Outcome([Record(config_map, "Warning", "InvalidConfiguration", message)])
        if not plan.schedulers or (key == BY_NODES and not plan.on_nodes):
            return NOTHING
        wanted = shared_out(plan.schedulers, candidates_of(view.list(NODES), view.list(PODS)))
        there = {name_of(each): each for each in view.list(NODE_SHARDS)}
        again = plan.period / SECOND if key != BY_NODES else None
        return Outcome(_operations(wanted, there), again=again)


def _operations(wanted: Mapping[str, Sequence[str]], there: Mapping[str, Obj]) -> list[Operation]:
    """Write all shards that differ if one differs enough; delete those of schedulers that are not listed."""
    foreign = [each for name, each in there.items() if name not in wanted and not is_going(each)]
    out: list[Operation] = [Delete(NODE_SHARDS, key_of(each), uid_of(each)) for each in foreign]
    existing = {name: list(spec_of(there[name]).get("nodesDesired") or ()) for name in wanted if name in there}
    if not any(_differs_enough(existing.get(name), nodes) for name, nodes in wanted.items()):
        return out
    for name, nodes in wanted.items():
        if name not in there:
            metadata = {"name": name}
            head = {"apiVersion": NODE_SHARDS.api_version, "kind": NODE_SHARDS.kind, "metadata": metadata}
            out.append(Create(NODE_SHARDS, {**head, "spec": {"nodesDesired": list(nodes)}}))
        elif existing[name] != list(nodes):
            out.append(Patch(NODE_SHARDS, Key("", name), {"spec": {"nodesDesired": list(nodes)}}))
    return out


def _differs_enough(existing: Sequence[str] | None, wanted: Sequence[str]) -> bool:
    if existing is None or len(existing) != len(wanted):
        return True
    new = len(set(wanted) - set(existing))
    return new >= max(1.0, LEAST_NEW * len(wanted))


def _matters(old: Obj | None, new: Obj | None) -> bool:
    """Return True if a node was added, removed, or changed its labels or capacity."""
    if old is None or new is None:
        return True
    capacity = [status_of(node).get("capacity") for node in (old, new)]
    return labels_of(old) != labels_of(new) or capacity[0] != capacity[1] or is_going(old) != is_going(new)


def _desire(old: Obj | None, new: Obj | None) -> bool:
    """Return True if the desired nodes of a shard changed; the status is the scheduler's."""
    return old is None or new is None or spec_of(old) != spec_of(new)
