"""The scheduler's configuration in the same place as Volcano's: a config map with a fixed name."""

from __future__ import annotations

from collections.abc import Callable

from kilauea.api.kinds import CONFIG_MAPS, NAMESPACES
from kilauea.api.ports import Create, Interest, Key, Obj, Operation, Outcome, Patch, View, key_of
from kilauea.controllers.objects import is_going

PLACE = Key("volcano-system", "volcano-scheduler-configmap")
"""The ConfigMap with the configuration."""
FILE = "volcano-scheduler.conf"
"""The key of the configuration in it."""
NAME = f"ConfigMap {PLACE}"
"""Its name in messages."""
LOOK_SECONDS = 2.0
"""Seconds between two reads of a text that may change."""


def _concerned(obj: Obj) -> tuple[Key, ...]:
    """Yield the key for the config map and for its namespace."""
    return (PLACE,) if key_of(obj) in (PLACE, Key("", PLACE.namespace)) else ()


class ConfigurationController:
    """Maintains the config map.

    Args:
        text: its intended content; None while it is unknown.
        kept: True to restore the content always; otherwise it is only created, and users may change it.
    """

    name = "scheduler-configuration-controller"
    interests = (Interest(CONFIG_MAPS, _concerned, always=(PLACE,)), Interest(NAMESPACES, _concerned))

    def __init__(self, text: Callable[[], str | None], *, kept: bool) -> None:
        self._text = text
        self._kept = kept

    def reconcile(self, key: Key, view: View, now: int) -> Outcome:
        """Create or correct the config map and its namespace."""
        operations: list[Operation] = []
        again, text = LOOK_SECONDS if self._kept else None, self._text()
        namespace = view.get(NAMESPACES, Key("", key.namespace))
        if text is None or (namespace is not None and is_going(namespace)):
            return Outcome(again=again)
        if namespace is None:
            about = {"apiVersion": NAMESPACES.api_version, "kind": NAMESPACES.kind, "metadata": {"name": key.namespace}}
            operations.append(Create(NAMESPACES, about))
        found = view.get(CONFIG_MAPS, key)
        if found is None:
            operations.append(Create(CONFIG_MAPS, _config_map(key, text)))
        elif self._kept and (found.get("data") or {}).get(FILE) != text:
            operations.append(Patch(CONFIG_MAPS, key, {"data": {FILE: text}}))
        return Outcome(operations, again)


def _config_map(key: Key, text: str) -> Obj:
    metadata = {"name": key.name, "namespace": key.namespace}
    return {"apiVersion": CONFIG_MAPS.api_version, "kind": CONFIG_MAPS.kind, "metadata": metadata, "data": {FILE: text}}
