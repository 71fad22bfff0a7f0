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
- source: ufm
  enabled: true
  interval: 10m
  credentials: {secretRef: {name: ufm, namespace: volcano-system}}
  config: {endpoint: https://ufm.example.com, insecureSkipVerify: false}
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from kilauea.api.ports import Key, Obj
from kilauea.api.times import SECOND, parse_duration
from kilauea.api.yamltext import YamlError, load_yaml
from kilauea.controllers.hypernodes.ufm import UFM

FILE = "volcano-controller.conf"
"""The key of the configuration in the ConfigMap."""
LONGEST_TYPE = 20
LABEL = "label"
INTERVAL = 3600 * SECOND
"""Default time between two queries of UFM."""


class UfmSource(NamedTuple):
    """The UFM of a fabric.

    Attributes:
        endpoint: its URL, without a slash at the end.
        insecure: True if its certificate is not verified.
        interval: microseconds between two queries.
        secret: the Secret with username and password, and optionally the authority that signed its certificate.
    """

    endpoint: str
    insecure: bool
    interval: int
    secret: Key


class Configuration(NamedTuple):
    """The parsed configuration.

    Attributes:
        types: labels of nodes for each type of network, from the node upwards; None if labels are not a source.
        errors: messages about invalid parts.
        ufm: the UFM to query; None if it is not a source.
    """

    types: Mapping[str, tuple[str, ...]] | None
    errors: tuple[str, ...]
    ufm: UfmSource | None = None


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
    ufm: UfmSource | None = None
    for number, each in enumerate(given if isinstance(given, list) else ()):
        where = f"networkTopologyDiscovery[{number}]"
        source = str(each.get("source")) if isinstance(each, Mapping) else ""
        if source == LABEL and each.get("enabled") is True:
            types = types if types is not None else {}
            for name, labels in _types(each, where, errors):
                types[name] = labels
        elif source == UFM and each.get("enabled") is True:
            if ufm is not None:
                errors.append(f"{where}: {UFM} is listed twice: enable one of them")
            ufm = ufm or _ufm(each, where, errors)
        elif source not in (UFM, LABEL):
            errors.append(f"{where}.source: unknown source {source}: use {LABEL} or {UFM}")
    return Configuration(types, tuple(errors), ufm)


def _ufm(source: Mapping[str, Any], where: str, errors: list[str]) -> UfmSource | None:
    """Read the UFM source; None if invalid, with errors."""
    config = _mapping(source.get("config"))
    before = len(errors)
    endpoint = _endpoint(config.get("endpoint"), f"{where}.config.endpoint", errors)
    insecure = config.get("insecureSkipVerify", False)
    if not isinstance(insecure, bool):
        errors.append(f"{where}.config.insecureSkipVerify: {insecure}: use true or false")
    reference = _mapping(_mapping(source.get("credentials")).get("secretRef"))
    name, namespace = reference.get("name"), reference.get("namespace")
    if not (isinstance(name, str) and name and isinstance(namespace, str) and namespace):
        errors.append(
            f"{where}.credentials.secretRef: set the name and namespace of a Secret with username and password"
        )
    interval = INTERVAL
    try:
        interval = parse_duration(str(source.get("interval") or "1h"))
    except ValueError as error:
        errors.append(f"{where}.interval: {error}")
    if 0 < interval < SECOND:
        errors.append(f"{where}.interval: {source.get('interval')} is too short: use at least 1s")
    if len(errors) > before:
        return None
    return UfmSource(endpoint, insecure, interval if interval > 0 else INTERVAL, Key(str(namespace), str(name)))


def _endpoint(given: Any, where: str, errors: list[str]) -> str:
    """An https URL without a slash at the end; empty, with an error, if invalid."""
    if not isinstance(given, str) or not given:
        errors.append(f"{where} is missing: set the URL of UFM, for example https://ufm.example.com")
        return ""
    url = (given if "://" in given else f"https://{given}").rstrip("/")
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        parts, host = urlsplit(""), None
    if "@" in parts.netloc:
        errors.append(f"{where}: has credentials: put them into the Secret of credentials.secretRef")
    elif parts.scheme != "https":
        errors.append(f"{where}: {given}: use https, so that the password cannot be read on the way")
    elif not host or parts.query or parts.fragment:
        errors.append(f"{where}: {given}: not a URL such as https://ufm.example.com")
    return url


def _mapping(given: Any) -> Mapping[str, Any]:
    return given if isinstance(given, Mapping) else {}


def _types(source: Mapping[str, Any], where: str, errors: list[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The valid types of network, with labels from the node upwards, without the node's own."""
    config = source.get("config")
    given = config.get("networkTopologyTypes") if isinstance(config, Mapping) else None
    if not isinstance(given, Mapping):
        errors.append(f"{where}.config.networkTopologyTypes is missing: list the labels of each type of network")
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
