"""Additions of plugins to pods: variables, ports, volumes. Lists are replaced: pods share them with their template."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Container = dict[str, Any]


def containers(pod: Mapping[str, Any]) -> list[Container]:
    """The main containers."""
    found: list[Container] = pod["spec"].get("containers") or []
    return found


def all_containers(pod: Mapping[str, Any]) -> list[Container]:
    """The init containers and the main containers."""
    return [*containers(pod), *(pod["spec"].get("initContainers") or ())]


def variable(name: str, value: object) -> dict[str, str]:
    """An environment variable."""
    return {"name": name, "value": str(value)}


def add_variables(into: Iterable[Container], variables: Iterable[Mapping[str, Any]]) -> None:
    """Add environment variables to containers, after existing ones."""
    for container in into:
        container["env"] = [*(container.get("env") or ()), *variables]


def add_port(into: Iterable[Container], name: str, port: int) -> None:
    """Add a named port to containers, unless they have this port number."""
    for container in into:
        ports = container.get("ports") or ()
        if all(each.get("containerPort") != port for each in ports):
            container["ports"] = [*ports, {"name": name, "containerPort": port}]


def add_volume(pod: dict[str, Any], volume: Mapping[str, Any], mount: Mapping[str, str]) -> None:
    """Add a volume to a pod, mounted in all containers."""
    spec = pod["spec"]
    spec["volumes"] = [*(spec.get("volumes") or ()), volume]
    for container in all_containers(pod):
        container["volumeMounts"] = [*(container.get("volumeMounts") or ()), {"name": volume["name"], **mount}]
