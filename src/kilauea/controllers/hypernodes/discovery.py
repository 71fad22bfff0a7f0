"""Discovery of HyperNodes: creates and updates those that a source reports, and deletes its others.

HyperNodes created by users are not changed; those of a disabled source stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterable

from kilauea.api.kinds import CONFIG_MAPS, HYPER_NODES, NODES
from kilauea.api.ports import Create, Delete, Interest, Key, Obj, Operation, Outcome, Patch, Record, View, key_of
from kilauea.controllers.hypernodes.configuration import LABEL, read_configuration
from kilauea.controllers.hypernodes.labels import SOURCE, domains_of, hypernodes_of
from kilauea.controllers.objects import NOTHING, is_going, labels_of, merge_patch, name_of, spec_of, uid_of

CONFIGURATION = Key("volcano-system", "volcano-controller-configmap")
DISCOVERY_SECONDS = 1.0
"""Seconds for which changes of nodes are collected before HyperNodes are built from them."""


class DiscoveryController:
    """Creates HyperNodes from labels of nodes, if its ConfigMap enables that.

    Those of a fabric come from outside the cluster, so a process of the runtime makes them.
    """

    name = "hyperNode-controller"

    def __init__(self, configuration: Key = CONFIGURATION) -> None:
        self._configuration = configuration
        self.interests = (
            Interest(CONFIG_MAPS, self._concerns),
            Interest(NODES, lambda node: (configuration,), delay=DISCOVERY_SECONDS),
            Interest(HYPER_NODES, self._discovered, labels=(SOURCE,), delay=DISCOVERY_SECONDS),
        )

    def _concerns(self, config_map: Obj) -> Iterable[Key]:
        return (self._configuration,) if key_of(config_map) == self._configuration else ()

    def _discovered(self, hypernode: Obj) -> Iterable[Key]:
        return (self._configuration,) if SOURCE in labels_of(hypernode) else ()

    def reconcile(self, key: Key, view: View, now: int) -> Outcome:
        """Update HyperNodes from the labels of nodes."""
        config_map = view.get(CONFIG_MAPS, key)
        if config_map is None:
            return NOTHING
        read = read_configuration(config_map)
        operations: list[Operation] = [Record(config_map, "Warning", "Discovery", each) for each in read.errors]
        if read.types is None:
            return Outcome(operations)
        nodes = [node for node in view.list(NODES) if not is_going(node)]
        existing = view.labelled(HYPER_NODES, SOURCE, LABEL)
        taken = {name_of(each) for each in view.list(HYPER_NODES)}
        wanted = hypernodes_of(domains_of(nodes, read.types), existing, taken)
        return Outcome([*operations, *written(wanted, existing)])


def written(wanted: Iterable[Obj], existing: Iterable[Obj]) -> list[Create | Patch | Delete]:
    """Return the operations that update the HyperNodes of a source to its report."""
    there = {name_of(each): each for each in existing}
    operations: list[Create | Patch | Delete] = []
    for each in wanted:
        operations += _written(each, there.pop(name_of(each), None))
    operations += [Delete(HYPER_NODES, key_of(each), uid_of(each)) for each in there.values() if not is_going(each)]
    return operations


def _written(wanted: Obj, there: Obj | None) -> list[Create | Patch | Delete]:
    """Create or update a HyperNode."""
    if there is None:
        return [Create(HYPER_NODES, wanted)]
    patch = {}
    if changes := merge_patch(spec_of(there), spec_of(wanted)):
        patch["spec"] = changes
    if any(labels_of(there).get(name) != value for name, value in labels_of(wanted).items()):
        patch["metadata"] = {"labels": labels_of(wanted)}
    return [Patch(HYPER_NODES, key_of(wanted), patch)] if patch else []
