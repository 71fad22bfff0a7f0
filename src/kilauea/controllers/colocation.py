"""Annotates pods with the ColocationConfiguration that applies to them, for agents on nodes.

If several configurations of a namespace select a pod, the newest applies. A pod that is no longer selected gets an
empty one, so that the agent on its node reverts its changes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from kilauea.api.kinds import COLOCATIONS, PODS
from kilauea.api.ports import Interest, Key, Obj, Outcome, Patch, View, key_of
from kilauea.controllers.objects import annotations_of, is_going, labels_of, matcher, name_of, spec_of

NAME = "volcano.sh/colocation-config-name"
CONFIG = "volcano.sh/colocation-config"
TELLING_SECONDS = 1.0
"""Seconds for which changes are collected."""


def _namespace_of(obj: Obj) -> Iterable[Key]:
    return (Key(obj["metadata"]["namespace"], ""),)


def _is_annotated(pod: Obj) -> str:
    """An index: the namespace of a pod that has been annotated."""
    annotations = annotations_of(pod)
    told = NAME in annotations or annotations.get(CONFIG, "{}") != "{}"
    return str(pod["metadata"]["namespace"]) if told else ""


class ColocationController:
    """Updates the annotations of the pods of a namespace."""

    name = "colocation-config-controller"
    interests = (
        Interest(COLOCATIONS, _namespace_of, delay=TELLING_SECONDS),
        Interest(PODS, _namespace_of, indexes={"colocated": _is_annotated}, delay=TELLING_SECONDS),
    )

    def reconcile(self, key: Key, view: View, now: int) -> Outcome:
        """Annotate all pods of a namespace; without configurations, only those that had one."""
        given = [each for each in view.list(COLOCATIONS, key.namespace) if not is_going(each)]
        newest = sorted(given, key=lambda each: (each["metadata"]["creationTimestamp"], name_of(each)), reverse=True)
        pods = view.list(PODS, key.namespace) if given else view.indexed(PODS, "colocated", key.namespace)
        return Outcome([patch for pod in pods if not is_going(pod) for patch in _annotate(pod, newest)])


def _annotate(pod: Obj, configurations: Sequence[Obj]) -> list[Patch]:
    """Patches that write the configuration to a pod that does not have it yet."""
    meant = next((each for each in configurations if matcher(spec_of(each).get("selector"))(labels_of(pod))), None)
    annotations = annotations_of(pod)
    if meant is None:
        if not _is_annotated(pod):
            return []
        wanted: dict[str, Any] = {NAME: None, CONFIG: "{}"}
    else:
        given = spec_of(meant).get("memoryQos")
        config = {"memoryQos": given} if given else {}
        if annotations.get(NAME) == name_of(meant) and _read(annotations.get(CONFIG, "")) == config:
            return []
        wanted = {NAME: name_of(meant), CONFIG: json.dumps(config, separators=(",", ":"))}
    return [Patch(PODS, key_of(pod), {"metadata": {"annotations": wanted}})]


def _read(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None
