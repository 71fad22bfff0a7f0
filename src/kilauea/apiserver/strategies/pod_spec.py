"""Validation of the specification of a pod, alone or in a template."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from kilauea.api.names import label_problems, qualified_name_problems, subdomain_problems
from kilauea.apiserver.fields import (
    check_label_selector,
    check_labels,
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
from kilauea.apiserver.strategies.placement import check_affinity
from kilauea.apiserver.strategies.pod_volumes import CHECKED, check_pod_source
from kilauea.apiserver.strategies.quantities import check_resources

Object = dict[str, Any]

RESTART_POLICIES = ("Always", "OnFailure", "Never")
_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_ENVIRONMENT = re.compile(r"[ -<>-~]+")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute", "")
_SPREAD = ("DoNotSchedule", "ScheduleAnyway")
_PORT_MARKS, _LETTER = re.compile(r"[-a-z0-9]+"), re.compile(r"[a-z]")
_PORT_NAME = re.compile(r"(?=.{1,15}\Z)(?=.*[a-z])[a-z0-9](-?[a-z0-9])*")


def check_pod_spec(
    path: str, spec: Object, *, restart: Sequence[str] = RESTART_POLICIES, claims: Sequence[str] = ()
) -> list[Cause]:
    """The specification of a pod.

    Args:
        path: where it stands.
        spec: with defaults filled in.
        restart: the restart policies that are allowed here.
        claims: volumes that containers can mount beside those of the specification.
    """
    causes, volumes = _check_volumes(f"{path}.volumes", spec.get("volumes") or [])
    volumes.update(claims)
    containers = spec.get("containers") or []
    if not containers:
        causes.append(required(f"{path}.containers"))
    names: set[str] = set()
    for part, group in (("containers", containers), ("initContainers", spec.get("initContainers") or [])):
        for number, container in enumerate(group):
            causes += _check_container(f"{path}.{part}[{number}]", container, names, volumes)
    policy = spec.get("restartPolicy", "")
    if policy not in restart:
        causes.append(not_supported(f"{path}.restartPolicy", policy, restart))
    if spec.get("dnsPolicy", "ClusterFirst") not in _DNS_POLICIES:
        causes.append(not_supported(f"{path}.dnsPolicy", spec["dnsPolicy"], _DNS_POLICIES))
    causes += check_labels(f"{path}.nodeSelector", spec.get("nodeSelector") or {})
    for field, low in (("activeDeadlineSeconds", 1),):
        causes += check_range(f"{path}.{field}", spec.get(field), low, 2**31 - 1)
    if spec.get("nodeName"):
        causes += check_name(f"{path}.nodeName", spec["nodeName"], subdomain_problems(spec["nodeName"]))
    return causes + _check_placing(path, spec)


def _check_placing(path: str, spec: Object) -> list[Cause]:
    """Check the fields that limit where a pod can run."""
    causes = check_affinity(f"{path}.affinity", spec["affinity"]) if spec.get("affinity") else []
    for number, toleration in enumerate(spec.get("tolerations") or []):
        causes += check_toleration(f"{path}.tolerations[{number}]", toleration)
    for number, constraint in enumerate(spec.get("topologySpreadConstraints") or []):
        causes += _check_spread(f"{path}.topologySpreadConstraints[{number}]", constraint)
    if spec.get("schedulingGroup") is not None:
        causes += _check_group(f"{path}.schedulingGroup.podGroupName", spec["schedulingGroup"].get("podGroupName"))
    if spec.get("schedulingGates") and spec.get("nodeName"):
        causes.append(forbidden_field(f"{path}.nodeName", "cannot be set until all schedulingGates have been cleared"))
    for number, gate in enumerate(spec.get("schedulingGates") or []):
        name = gate.get("name", "")
        causes += check_name(f"{path}.schedulingGates[{number}]", name, qualified_name_problems(name))
    return causes


def _check_group(path: str, name: str | None) -> list[Cause]:
    """The pod group of Kubernetes that a pod names."""
    if name is None:
        return [invalid_value(path, None, "must specify one of: `podGroupName`")]
    return check_name(path, name, subdomain_problems(name))


def _check_volumes(path: str, volumes: list[Object]) -> tuple[list[Cause], set[str]]:
    """Volumes, and their names."""
    found: list[Cause] = []
    names: set[str] = set()
    for number, volume in enumerate(volumes):
        name, where = volume.get("name", ""), f"{path}[{number}]"
        if not name:
            found.append(required(f"{where}.name"))
        elif name in names:
            found.append(duplicate(f"{where}.name", name))
        else:
            found += check_name(f"{where}.name", name, label_problems(name))
        names.add(name)
        kinds = [key for key in volume if key != "name"]
        if not kinds:
            found.append(required(where, "must specify a volume type"))
        elif kinds[0] in CHECKED:
            found += check_pod_source(f"{where}.{kinds[0]}", kinds[0], volume[kinds[0]])
        found += [forbidden_field(f"{where}.{key}", "may not specify more than 1 volume type") for key in kinds[1:]]
    return found, names


def _check_container(path: str, container: Object, names: set[str], volumes: set[str]) -> list[Cause]:
    """One container; its name is added to those seen."""
    causes: list[Cause] = []
    name = container.get("name", "")
    if not name:
        causes.append(required(f"{path}.name"))
    else:
        causes += check_name(f"{path}.name", name, label_problems(name))
    image = container.get("image", "")
    if not image:
        causes.append(required(f"{path}.image"))
    elif image != image.strip():
        causes.append(invalid_value(f"{path}.image", image, "must not have leading or trailing whitespace"))
    if container.get("imagePullPolicy", "Always") not in _PULL_POLICIES:
        causes.append(not_supported(f"{path}.imagePullPolicy", container["imagePullPolicy"], _PULL_POLICIES))
    causes += _check_ports(f"{path}.ports", container.get("ports") or [])
    causes += _check_environment(f"{path}.env", container.get("env") or [])
    causes += _check_mounts(f"{path}.volumeMounts", container.get("volumeMounts") or [], volumes)
    causes += check_resources(f"{path}.resources", container.get("resources") or {})
    if name and name in names:
        causes.append(duplicate(f"{path}.name", name))
    names.add(name)
    return causes


def port_name_problems(name: str) -> tuple[str, ...]:
    """Return the errors in the name of a port."""
    if _PORT_NAME.fullmatch(name):
        return ()
    found = []
    if len(name) > 15:
        found.append("must be no more than 15 characters")
    if not _PORT_MARKS.fullmatch(name):
        found.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not _LETTER.search(name):
        found.append("must contain at least one letter (a-z)")
    if "--" in name:
        found.append("must not contain consecutive hyphens")
    if name.startswith("-") or name.endswith("-"):
        found.append("must not begin or end with a hyphen")
    return tuple(found)


def _check_ports(path: str, ports: list[Object]) -> list[Cause]:
    """Ports of a container."""
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


def _check_environment(path: str, variables: list[Object]) -> list[Cause]:
    """Variables of a container."""
    causes: list[Cause] = []
    for number, variable in enumerate(variables):
        name = variable.get("name", "")
        if not name:
            causes.append(required(f"{path}[{number}].name"))
        elif not _ENVIRONMENT.fullmatch(name):
            message = "a valid environment variable name must consist only of printable ASCII characters other than '='"
            causes.append(invalid_value(f"{path}[{number}].name", name, message))
        if variable.get("value") and variable.get("valueFrom"):
            message = "may not be specified when `value` is not empty"
            causes.append(invalid_value(f"{path}[{number}].valueFrom", "", message))
    return causes


def _check_mounts(path: str, mounts: list[Object], volumes: set[str]) -> list[Cause]:
    """Mounts of volumes that the pod has, each at a path of its own."""
    causes: list[Cause] = []
    places: set[str] = set()
    for number, mount in enumerate(mounts):
        where, name, place = f"{path}[{number}]", mount.get("name", ""), mount.get("mountPath", "")
        if not name:
            causes.append(required(f"{where}.name"))
        elif name not in volumes:
            causes.append(missing_reference(f"{where}.name", name))
        if not place:
            causes.append(required(f"{where}.mountPath"))
        elif place in places:
            causes.append(invalid_value(f"{where}.mountPath", place, "must be unique"))
        places.add(place)
    return causes


def check_toleration(path: str, toleration: Object) -> list[Cause]:
    """One toleration."""
    causes: list[Cause] = []
    key, operator = toleration.get("key") or "", toleration.get("operator") or "Equal"
    if key:
        causes += check_name(f"{path}.key", key, qualified_name_problems(key))
    elif operator != "Exists":
        message = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        causes.append(invalid_value(f"{path}.operator", toleration.get("operator") or "", message))
    if operator not in ("Equal", "Exists"):
        causes.append(not_supported(f"{path}.operator", operator, ("Equal", "Exists")))
    if operator == "Exists" and toleration.get("value"):
        causes.append(
            invalid_value(f"{path}.operator", toleration["value"], "value must be empty when `operator` is 'Exists'")
        )
    effect = toleration.get("effect") or ""
    if effect not in _EFFECTS:
        causes.append(not_supported(f"{path}.effect", effect, _EFFECTS[:3]))
    if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
        causes.append(
            invalid_value(f"{path}.effect", effect, "effect must be 'NoExecute' when `tolerationSeconds` is set")
        )
    return causes


def _check_spread(path: str, constraint: Object) -> list[Cause]:
    """One topology spread constraint."""
    causes: list[Cause] = []
    skew = constraint.get("maxSkew", 0)
    if skew <= 0:
        causes.append(invalid_value(f"{path}.maxSkew", skew, "must be greater than zero"))
    if not constraint.get("topologyKey"):
        causes.append(required(f"{path}.topologyKey", "can not be empty"))
    when = constraint.get("whenUnsatisfiable", "")
    if when not in _SPREAD:
        causes.append(not_supported(f"{path}.whenUnsatisfiable", when, _SPREAD))
    return causes + check_label_selector(f"{path}.labelSelector", constraint.get("labelSelector") or {})
