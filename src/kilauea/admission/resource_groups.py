"""Resource groups: the nodes, tolerations and scheduler of pods, according to the file of `--admission-conf`.

resourceGroups:
- resourceGroup: management
  object: {key: namespace, value: [mng]}
  schedulerName: default-scheduler
  tolerations: [{key: dedicated, operator: Exists}]
  labels: {pool: management}
  affinity: '{"nodeAffinity": {}}'
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from kilauea.api.errors import explain, path_text
from kilauea.api.meta import Wire
from kilauea.api.yamltext import YamlError, load_yaml

GROUP_ANNOTATION = "volcano.sh/resource-group"
_LOWER = {"tolerationseconds": "tolerationSeconds"}
"""Volcano reads fields of tolerations in lower case."""


class Selector(Wire):
    """The pods of a group: those of namespaces, or those with annotations (`key: value`, as YAML)."""

    key: str = ""
    value: list[str] | None = None


class ResourceGroup(Wire):
    """Settings of the pods of a group."""

    resource_group: str = ""
    object: Selector = msgspec.field(default_factory=Selector)
    scheduler_name: str = ""
    tolerations: list[dict[str, Any]] | None = None
    labels: dict[str, str] | None = None
    affinity: str | None = None

    def takes(self, namespace: str, annotations: Mapping[str, str]) -> bool:
        """Return True if a pod is of this group."""
        values = self.object.value or []
        if self.object.key == "namespace":
            return namespace in values
        if self.object.key == "annotation":
            return any(annotations.get(key) == value for key, value in _pairs(tuple(values)).items())
        return not self.object.key and annotations.get(GROUP_ANNOTATION) == self.resource_group

    def affinity_of_pods(self) -> Mapping[str, Any] | None:
        """The affinity that pods without one get; ignored unless it is a JSON object."""
        try:
            found = msgspec.json.decode(self.affinity or "null")
        except msgspec.DecodeError:
            return None
        return found if isinstance(found, dict) else None

    def tolerations_of_pods(self) -> Sequence[Mapping[str, Any]]:
        """Tolerations as pods write them."""
        return [{_LOWER.get(key, key): value for key, value in each.items()} for each in self.tolerations or ()]


def read_resource_groups(data: bytes) -> tuple[Mapping[str, Any], ...]:
    """The groups of a configuration file, checked.

    Raises:
        ValueError: it is not YAML, or a group has another form; names the field and the value.
    """
    try:
        conf = load_yaml(data) or {}
    except YamlError as error:
        raise ValueError(str(error)) from None
    groups = conf.get("resourceGroups") or [] if isinstance(conf, dict) else conf
    try:
        msgspec.convert(groups, list[ResourceGroup])
    except msgspec.ValidationError as error:
        path, message = explain(error, groups)
        raise ValueError(f"{path_text(('resourceGroups', *path))}: {message}") from None
    return tuple(groups)


def group_of(groups: Iterable[Mapping[str, Any]], namespace: str, annotations: Mapping[str, str]) -> ResourceGroup:
    """The first group that takes a pod; if none does, one that gives nothing. The groups have been checked."""
    for each in groups:
        group = msgspec.convert(each, ResourceGroup)
        if group.takes(namespace, annotations):
            return group
    return ResourceGroup()


@lru_cache(maxsize=256)
def _pairs(entries: tuple[str, ...]) -> Mapping[str, str]:
    """Annotations that texts such as `"volcano.sh/resource-group: cpu"` stand for; the earlier of equal keys wins."""
    found: dict[str, str] = {}
    for entry in entries:
        try:
            pairs = load_yaml(entry.encode())
        except YamlError:
            continue
        for key, value in pairs.items() if isinstance(pairs, dict) else ():
            found.setdefault(key, value if isinstance(value, str) else msgspec.json.encode(value).decode())
    return found
