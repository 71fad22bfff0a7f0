"""Checks of the containers, init containers and ephemeral containers of a pod."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from kilauea.api.names import label_problems
from kilauea.apiserver.fields import (
    check_name,
    check_range,
    duplicate,
    forbidden_field,
    invalid_value,
    missing_reference,
    not_supported,
    required,
)
from kilauea.apiserver.status import Cause
from kilauea.apiserver.strategies.base import Object
from kilauea.apiserver.strategies.pods.environment import check_variable_sources, check_variables
from kilauea.apiserver.strategies.pods.handlers import PROBES, check_lifecycle, check_probes, port_name_problems
from kilauea.apiserver.strategies.pods.mounts import check_devices, check_mounts
from kilauea.apiserver.strategies.pods.resources import check_resizes, check_resources
from kilauea.apiserver.strategies.pods.security import check_security

PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_RESTARTS = ("Always", "Never", "OnFailure")
_ACTIONS, _RULE_OPERATORS = ("Restart", "RestartAllContainers"), ("In", "NotIn")
_MOST_RULES, _MOST_CODES = 20, 255
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_MESSAGES = ("File", "FallbackToLogsOnError")
_HANDLED = frozenset((*PROBES, "lifecycle"))
_NOT_BEFORE = "may not be set for init containers without restartPolicy=Always"
_NOT_EPHEMERAL = (
    "ports", "resources", "resizePolicy", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle",
    "restartPolicy",
)  # fmt: skip
_ALWAYS_THERE = frozenset(("resources",))


class Surroundings(NamedTuple):
    """The parts of a pod that affect its containers."""

    volumes: Mapping[str, str]
    """Kinds of the valid volumes, by name."""
    claims: Collection[str]
    """Names of the claims."""
    grace: int
    """The termination grace period in seconds."""
    restart: Any
    """The restart policy."""
    own_users: bool
    """True if the pod has a user namespace."""


def check_containers(path: str, containers: list[Object], pod: Surroundings, names: set[str]) -> list[Cause]:
    """Check the containers; add their names to `names`."""
    if not containers:
        return [required(path)]
    causes: list[Cause] = []
    for number, container in enumerate(containers):
        where = f"{path}[{number}]"
        causes += _check_container(where, container, pod)
        name = container.get("name", "")
        if name in names:
            causes.append(duplicate(f"{where}.name", name))
        names.add(name)
        if not _HANDLED.isdisjoint(container):
            causes += _check_handled(where, container, pod.grace)
        if "restartPolicy" in container or "restartPolicyRules" in container:
            causes += _check_restarts(where, container)
    return causes + _check_host_ports(path, containers)


def check_init_containers(path: str, containers: list[Object], pod: Surroundings, names: set[str]) -> list[Cause]:
    """Check the init containers, including sidecars."""
    causes: list[Cause] = []
    for number, container in enumerate(containers):
        where = f"{path}[{number}]"
        causes += _check_container(where, container, pod)
        if "restartPolicy" in container or "restartPolicyRules" in container:
            causes += _check_restarts(where, container)
        name = container.get("name", "")
        if name in names:
            causes.append(duplicate(f"{where}.name", name))
        elif name:
            names.add(name)
        causes += _check_host_ports(path, [container])
        if container.get("restartPolicy") == "Always":
            causes += _check_handled(where, container, pod.grace)
        else:
            causes += [
                forbidden_field(f"{where}.{field}", _NOT_BEFORE)
                for field in ("lifecycle", *PROBES)
                if container.get(field) is not None
            ]
    return causes


def check_ephemeral_containers(
    path: str, containers: list[Object], pod: Surroundings, names: set[str], targets: Collection[str]
) -> list[Cause]:
    """Check the ephemeral containers, each for one of `targets`; they cannot request resources."""
    causes: list[Cause] = []
    for number, container in enumerate(containers):
        where, name = f"{path}[{number}]", container.get("name", "")
        causes += _check_container(where, container, pod)
        if name in names:
            causes.append(duplicate(f"{where}.name", name))
        elif name:
            names.add(name)
        target = container.get("targetContainerName")
        if target and target not in targets:
            causes.append(missing_reference(f"{where}.targetContainerName", target))
        message = "cannot be set for an Ephemeral Container"
        for field in _NOT_EPHEMERAL:
            if container.get(field) or (container.get(field) == {} and field not in _ALWAYS_THERE):
                causes.append(forbidden_field(f"{where}.{field}", message))
        for place, mount in enumerate(container.get("volumeMounts") or ()):
            causes += [
                forbidden_field(f"{where}.volumeMounts[{place}].{field}", message)
                for field in ("subPath", "subPathExpr")
                if mount.get(field)
            ]
    return causes


def _check_handled(path: str, container: Object, grace: int) -> Iterator[Cause]:
    """Check the lifecycle handlers and the probes."""
    if container.get("lifecycle") is not None:
        yield from check_lifecycle(f"{path}.lifecycle", container["lifecycle"], grace)
    yield from check_probes(path, container, grace)


def _check_container(path: str, container: Object, pod: Surroundings) -> list[Cause]:
    """Return the errors in fields common to all kinds of containers."""
    causes: list[Cause] = []
    name = container.get("name", "")
    if not name:
        causes.append(required(f"{path}.name"))
    else:
        causes += check_name(f"{path}.name", name, label_problems(name))
    if not container.get("image"):
        causes.append(required(f"{path}.image"))
    if container.get("terminationMessagePolicy", "File") not in _MESSAGES:
        where = f"{path}.terminationMessagePolicy"
        causes.append(not_supported(where, container["terminationMessagePolicy"], _MESSAGES))
    if container.get("ports"):
        causes += _check_ports(f"{path}.ports", container["ports"])
    if container.get("env"):
        causes += check_variables(f"{path}.env", container["env"], pod.volumes)
    if container.get("envFrom"):
        causes += check_variable_sources(f"{path}.envFrom", container["envFrom"])
    if container.get("volumeMounts"):
        causes += check_mounts(f"{path}.volumeMounts", container, pod.volumes)
    if container.get("volumeDevices"):
        causes += check_devices(f"{path}.volumeDevices", container, pod.volumes)
    if container.get("imagePullPolicy", "Always") not in PULL_POLICIES:
        causes.append(not_supported(f"{path}.imagePullPolicy", container["imagePullPolicy"], PULL_POLICIES))
    if container.get("resources"):
        causes += check_resources(f"{path}.resources", container["resources"], pod.claims)
    if container.get("resizePolicy"):
        causes += check_resizes(f"{path}.resizePolicy", container["resizePolicy"], pod.restart)
    if container.get("securityContext"):
        causes += check_security(f"{path}.securityContext", container["securityContext"], own_users=pod.own_users)
    return causes


def _check_ports(path: str, ports: list[Object]) -> list[Cause]:
    """Check the ports of a container."""
    causes: list[Cause] = []
    names: set[str] = set()
    for number, port in enumerate(ports):
        where, name = f"{path}[{number}]", port.get("name")
        if name:
            problems = port_name_problems(name)
            if problems:
                causes += check_name(f"{where}.name", name, problems)
            elif name in names:
                causes.append(duplicate(f"{where}.name", name))
            names.add(name)
        if not port.get("containerPort"):
            causes.append(required(f"{where}.containerPort"))
        else:
            causes += check_range(f"{where}.containerPort", port["containerPort"], 1, 65535)
        if port.get("hostPort"):
            causes += check_range(f"{where}.hostPort", port["hostPort"], 1, 65535)
        if port.get("protocol", "TCP") not in _PROTOCOLS:
            causes.append(not_supported(f"{where}.protocol", port["protocol"], _PROTOCOLS))
    return causes


def _check_host_ports(path: str, containers: list[Object]) -> list[Cause]:
    """Check that host ports are unique."""
    causes: list[Cause] = []
    seen: set[str] = set()
    for number, container in enumerate(containers):
        for place, port in enumerate(container.get("ports") or ()):
            taken = port.get("hostPort")
            if not taken:
                continue
            told = f"{port.get('protocol', 'TCP')}/{port.get('hostIP', '')}/{taken}"
            if told in seen:
                causes.append(duplicate(f"{path}[{number}].ports[{place}].hostPort", told))
            seen.add(told)
    return causes


def check_images(path: str, containers: list[Object]) -> list[Cause]:
    """Check that image names have no surrounding whitespace, which only pods require, not templates."""
    return [
        invalid_value(f"{path}[{number}].image", container["image"], "must not have leading or trailing whitespace")
        for number, container in enumerate(containers)
        if container.get("image") and container["image"] != container["image"].strip()
    ]


def check_ports_of_host(path: str, containers: list[Object]) -> Iterator[Cause]:
    """Check that container ports equal host ports in a pod with the host network."""
    for number, container in enumerate(containers):
        for place, port in enumerate(container.get("ports") or ()):
            taken = port.get("hostPort") or 0
            if taken and taken != port.get("containerPort", 0):
                message = "must match `containerPort` when `hostNetwork` is true"
                yield invalid_value(f"{path}[{number}].ports[{place}].hostPort", taken, message)


def _check_restarts(path: str, container: Object) -> Iterator[Cause]:
    """Check the restart policy of one container, and its rules by exit code."""
    policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules") or []
    if policy is None:
        if rules:
            yield required(f"{path}.restartPolicy", "must specify restartPolicy when restart rules are used")
    elif policy not in _RESTARTS:
        yield not_supported(f"{path}.restartPolicy", policy, _RESTARTS)
    if len(rules) > _MOST_RULES:
        yield Cause(
            f"{path}.restartPolicyRules", "FieldValueTooLong", f"Too long: may not be more than {_MOST_RULES} bytes"
        )
    for number, rule in enumerate(rules):
        where, codes = f"{path}.restartPolicyRules[{number}]", rule.get("exitCodes")
        if rule.get("action", "") not in _ACTIONS:
            yield not_supported(f"{where}.action", rule.get("action", ""), _ACTIONS)
        if codes is None:
            yield required(f"{where}.exitCodes", "must be specified")
        else:
            if codes.get("operator", "") not in _RULE_OPERATORS:
                yield not_supported(f"{where}.exitCodes.operator", codes.get("operator", ""), _RULE_OPERATORS)
            if len(codes.get("values") or ()) > _MOST_CODES:
                message = f"Too long: may not be more than {_MOST_CODES} bytes"
                yield Cause(f"{where}.exitCodes.values", "FieldValueTooLong", message)
