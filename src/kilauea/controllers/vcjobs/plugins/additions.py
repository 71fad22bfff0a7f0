"""Additions of plugins to pods: variables, ports, volumes. Lists are replaced: pods share them with their template."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Container = dict[str, Any]


def containers(pod: Mapping[str, Any]) -> list[Container]:
    """The containers that do the work."""
    found: list[Container] = pod["spec"].get("containers") or []
    return found


def all_containers(pod: Mapping[str, Any]) -> list[Container]:
    """The containers and those that run before them."""
    return [*containers(pod), *(pod["spec"].get("initContainers") or ())]


def variable(name: str, value: object) -> dict[str, str]:
    """An environment variable."""
    return {"name": name, "value": str(value)}


def add_variables(into: Iterable[Container], variables: Iterable[Mapping[str, Any]]) -> None:
    """Give containers environment variables, after those that they have."""
    for container in into:
        container["env"] = [*(container.get("env") or ()), *variables]


def add_port(into: Iterable[Container], name: str, port: int) -> None:
    """Give containers a named port unless they have one of this number."""
    for container in into:
        ports = container.get("ports") or ()
        if all(each.get("containerPort") != port for each in ports):
            container["ports"] = [*ports, {"name": name, "containerPort": port}]


def add_volume(pod: dict[str, Any], volume: Mapping[str, Any], mount: Mapping[str, str]) -> None:
    """Give a pod a volume, mounted in all containers."""
    spec = pod["spec"]
    spec["volumes"] = [*(spec.get("volumes") or ()), volume]
    for container in all_containers(pod):
        container["volumeMounts"] = [*(container.get("volumeMounts") or ()), {"name": volume["name"], **mount}]
