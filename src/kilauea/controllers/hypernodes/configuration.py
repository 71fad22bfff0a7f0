"""The sources from which HyperNodes are discovered, as a ConfigMap lists them.

networkTopologyDiscovery:
- source: label
  enabled: true
  config:
    networkTopologyTypes:
      fabric:                                # from the top of the network down to the node
      - nodeLabel: example.com/spine
      - nodeLabel: example.com/leaf
      - nodeLabel: kubernetes.io/hostname
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from kilauea.api.ports import Obj
from kilauea.api.yamltext import YamlError, load_yaml

FILE = "volcano-controller.conf"
"""Under which key the ConfigMap has the text."""
LONGEST_TYPE = 20
LABEL = "label"
NOT_BUILT = frozenset({"ufm"})
"""Sources of Volcano that this build does not have."""


class Configuration(NamedTuple):
    """The parsed configuration.

    Attributes:
        types: labels of nodes for each type of network, from the node upwards; None if labels are not a source.
        errors: parts that cannot be used.
    """

    types: Mapping[str, tuple[str, ...]] | None
    errors: tuple[str, ...]


def read_configuration(config_map: Obj) -> Configuration:
    """Read a ConfigMap; invalid parts become errors and are left out."""
    text = (config_map.get("data") or {}).get(FILE) or ""
    try:
        document = load_yaml(text.encode())
    except YamlError as error:
        return Configuration(None, (f"{FILE}: {error}",))
    given = document.get("networkTopologyDiscovery") if isinstance(document, Mapping) else None
    types: dict[str, tuple[str, ...]] | None = None
    errors: list[str] = []
    for number, each in enumerate(given if isinstance(given, list) else ()):
        where = f"networkTopologyDiscovery[{number}]"
        source = str(each.get("source")) if isinstance(each, Mapping) else ""
        if source == LABEL and each.get("enabled") is True:
            types = types if types is not None else {}
            for name, labels in _types(each, where, errors):
                types[name] = labels
        elif source in NOT_BUILT and each.get("enabled") is True:
            errors.append(f"{where}.source: {source} is not built yet: label its nodes and use {LABEL}")
        elif source not in NOT_BUILT | {LABEL}:
            errors.append(f"{where}.source: unknown source {source}: use {LABEL}")
    return Configuration(types, tuple(errors))


def _types(source: Mapping[str, Any], where: str, errors: list[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The types of network that can be used, with labels from the node upwards, without the node's own."""
    config = source.get("config")
    given = config.get("networkTopologyTypes") if isinstance(config, Mapping) else None
    if not isinstance(given, Mapping):
        errors.append(f"{where}.config.networkTopologyTypes is missing: name the labels of each type of network")
        return
    for name, levels in given.items():
        listed = levels if isinstance(levels, list) else []
        labels = [str(each.get("nodeLabel") or "") if isinstance(each, Mapping) else "" for each in listed]
        place = f"{where}.config.networkTopologyTypes.{name}"
        if len(str(name)) > LONGEST_TYPE:
            errors.append(f"{place}: the name is too long: use at most {LONGEST_TYPE} letters")
        elif not all(labels):
            errors.append(f"{place}: each entry needs a nodeLabel")
        elif len(set(labels)) < len(labels):
            errors.append(f"{place}: a label is listed twice")
        elif len(labels) > 1:
            yield str(name), tuple(reversed(labels[:-1]))
        else:
            errors.append(f"{place}: name at least one label above that of the node itself, which comes last")
