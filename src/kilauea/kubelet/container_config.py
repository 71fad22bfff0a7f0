"""Converts a container of a pod into a request to the runtime."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from kilauea.api.ports import Obj
from kilauea.api.quantity import parse_milli, parse_units
from kilauea.api.wellknown import SYSTEM_CLASSES
from kilauea.kubelet.container_runtime import Container, Limits, Mount
from kilauea.kubelet.gpus import NoDevice
from kilauea.kubelet.host import Host, Image
from kilauea.kubelet.members import Member
from kilauea.kubelet.names import container_id, container_log, pod_logs
from kilauea.kubelet.volumes.manager import COVER_SIZE, Prepared
from kilauea.nodes.environment import (
    DEFAULTS,
    ConfigError,
    Lookup,
    PodFacts,
    command_of,
    container_environment,
    hostname_of,
)
from kilauea.nodes.running_users import container_name, root_refusal, security_context
from kilauea.nodes.script import FALLBACK_LINES, LONGEST_FALLBACK, LONGEST_MESSAGE

ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
TERMINATION_LOG = "/dev/termination-log"
LEAST_OOM_SCORE = 2
"""The least score of a container above that of this process: the kernel ends the kubelet and the API server last."""
_HOSTS = "/etc/hosts"
_UNENFORCED = ("capabilities", "seccompProfile", "seLinuxOptions", "appArmorProfile", "procMount", "windowsOptions")
_NEED_ROOT = ("fsGroup", "supplementalGroups")
_UNENFORCED_OF_POD = ("dnsConfig", "hostIPC", "hostPID", "runtimeClassName", "shareProcessNamespace")


def logs_of(data: Path, pod: Obj) -> Path:
    """Return the folder with the logs of a pod."""
    metadata = pod["metadata"]
    return pod_logs(data, metadata.get("namespace", ""), metadata["name"], metadata["uid"])


def facts_of(pod: Obj, host: Host) -> PodFacts:
    """Return the facts about a pod that its containers and volumes can refer to."""
    allocatable = (host.node(pod).get("status") or {}).get("allocatable")
    return PodFacts(pod, (host.node_address(pod),), (host.pod_address(pod),), allocatable)


def configured(pod: Obj, member: Member, image: Image, volumes: Mapping[str, Prepared], host: Host) -> Container:
    """Return a container for the runtime.

    Args:
        pod: the pod.
        member: one of its containers.
        image: its image.
        volumes: the prepared volumes of the pod.
        host: the machine.

    Raises:
        ConfigError: it refers to missing objects, or requests something impossible.
    """
    spec, attempt, uid = member.spec, member.next_attempt(), member.uid
    name = hostname_of(pod, host.hostname)
    facts = replace(facts_of(pod, host), volumes={key: each.path for key, each in volumes.items()})
    given = container_environment(spec, facts, _lookup(host), host.services(pod))
    _assign(pod, spec, host)
    devices = host.gpus.variables(pod, spec)
    variables = {**DEFAULTS, **image.environment, "HOSTNAME": name, **given, **devices}
    command, arguments = command_of(spec, given)
    argv = [*command, *arguments] if command else [*image.command, *(arguments or image.arguments)]
    if not argv:
        message = f"Error: no command specified: container {member.name} needs a command, because its image has none"
        raise ConfigError(message)
    security = security_of(pod, spec, image)
    mounts = host.volumes.mounts(pod, spec, volumes, variables)
    return Container(
        id=container_id(uid, member.name, attempt),
        pod=uid,
        name=member.name,
        attempt=attempt,
        argv=argv,
        log=container_log(logs_of(host.data, pod), member.name, attempt),
        root=image.root,
        image=image.name,
        image_user=image.user,
        environment=variables,
        working_dir=spec.get("workingDir") or image.working_dir,
        mounts=[
            *_hidden_part(image),
            *_own_mounts(pod, spec, attempt, mounts, host),
            *map(_optional, mounts),
            *_covers(image, host),
        ],
        limits=limits_of(spec),
        hostname=name,
        user=security.get("runAsUser"),
        group=security.get("runAsGroup"),
        groups=_groups(security) if os.getuid() == 0 else (),
        read_only=bool(security.get("readOnlyRootFilesystem")),
        no_new_privileges=security.get("allowPrivilegeEscalation") is False,
        stdin=bool(spec.get("stdin")),
        stdin_once=bool(spec.get("stdinOnce")),
        tty=bool(spec.get("tty")),
        oom_score=oom_score_of(pod, spec, host.node(pod), own_oom_score()),
    )


def own_oom_score() -> int:
    """Return the score of this process, usually 0; user sessions of some systems have more."""
    try:
        return int(Path("/proc/self/oom_score_adj").read_text())
    except OSError:
        return 0


def oom_score_of(pod: Obj, container: Obj, node: Obj, own: int) -> int:
    """Return how early the kernel ends a container when the machine has no memory left, as kubelets do.

    1000 for pods of the class BestEffort; the less, the more memory a container of a Burstable pod requests. Those of
    Guaranteed and critical pods have the least, but more than this process, so that the API server is ended last.

    Args:
        pod: the pod.
        container: the container in the pod's specification.
        node: the node, whose capacity counts.
        own: the score of this process.
    """
    least = min(max(own, 0) + LEAST_OOM_SCORE, 1000)
    quality = (pod.get("status") or {}).get("qosClass")
    if quality == "Guaranteed" or int(pod["spec"].get("priority") or 0) >= SYSTEM_CLASSES["system-cluster-critical"]:
        return least
    capacity = parse_units(((node.get("status") or {}).get("capacity") or {}).get("memory") or "0")
    request = parse_units(((container.get("resources") or {}).get("requests") or {}).get("memory") or "0")
    if quality == "BestEffort" or not capacity:
        return 1000
    return min(max(1000 - 1000 * request // capacity, least + 1), 999)


def _groups(security: Obj) -> list[int]:
    """The supplementary groups of a container, including that of its volumes."""
    group = security.get("fsGroup")
    return list(dict.fromkeys([*(security.get("supplementalGroups") or ()), *(() if group is None else (group,))]))


def _lookup(host: Host) -> Lookup:
    return host.view.get


def _assign(pod: Obj, container: Obj, host: Host) -> None:
    try:
        host.gpus.assign(pod, container)
    except NoDevice as error:
        raise ConfigError(str(error)) from error


def limits_of(container: Obj) -> Limits:
    """Return the limits of a container."""
    limits = (container.get("resources") or {}).get("limits") or {}
    return Limits(
        cpu=parse_milli(limits["cpu"]) if "cpu" in limits else None,
        memory=parse_units(limits["memory"]) if "memory" in limits else None,
    )


def security_of(pod: Obj, container: Obj, image: Image) -> Obj:
    """Return the security context of a container, with the defaults of its pod.

    Args:
        pod: the pod.
        container: the container in the pod's specification.
        image: its image.

    Raises:
        ConfigError: it would run as a forbidden user.
    """
    found, about = security_context(pod, container), container_name(pod, container)
    user, own = found.get("runAsUser"), os.getuid()
    if message := root_refusal(pod, container):
        raise ConfigError(message)
    if found.get("runAsNonRoot"):
        theirs = image.user or "0" if image.name else str(own)
        if user is None and not theirs.isdigit():
            words = f"image has non-numeric user ({theirs}), cannot verify user is non-root"
            raise ConfigError(f"container has runAsNonRoot and {words} {about}")
        if user is None and int(theirs) == 0:
            raise ConfigError(f"container has runAsNonRoot and image will run as root {about}")
    for field, wanted, mine in (("runAsUser", user, own), ("runAsGroup", found.get("runAsGroup"), os.getgid())):
        if wanted is not None and wanted != mine and own != 0:
            raise ConfigError(
                f"{field} is {wanted}, but kilauea runs as {mine} and only root may run pods as others: remove the "
                f"field, set it to {mine}, or run kilauea up as root {about}"
            )
    return found


def unenforced(pod: Obj) -> list[str]:
    """Return the fields of a pod that are not enforced for processes on this machine."""
    found = set()
    contexts = [("", pod["spec"].get("securityContext") or {})]
    every = (*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"])
    contexts += [("", each.get("securityContext") or {}) for each in every]
    for _, context in contexts:
        found |= {field for field in _UNENFORCED if context.get(field)}
        found |= {field for field in ("privileged", "sysctls") if context.get(field)}
        found |= {field for field in _NEED_ROOT if context.get(field)} if os.getuid() != 0 else set()
    found |= {field for field in _UNENFORCED_OF_POD if pod["spec"].get(field)}
    found |= {"hostUsers"} if pod["spec"].get("hostUsers") is False else set()
    found |= {"volumeDevices" for each in every if each.get("volumeDevices")}
    found |= {"hostPort" for each in every if any(port.get("hostPort") for port in each.get("ports") or ())}
    return sorted(found)


def _optional(mount: Mount) -> Mount:
    """Make a mount that every pod has optional, for machines where nothing can be mounted."""
    return replace(mount, optional=True) if mount.target == ACCOUNT else mount


def _own_mounts(pod: Obj, container: Obj, attempt: int, mounts: Sequence[Mount], host: Host) -> list[Mount]:
    """Mounts of a container other than its volumes: the file for its termination message, and the hosts file."""
    taken = {each.target for each in mounts}
    path = container.get("terminationMessagePath") or TERMINATION_LOG
    found = []
    if path not in taken:
        file = host.terminations.make(pod["metadata"]["uid"], container["name"], attempt)
        found.append(Mount(path, str(file), optional=True))
    if host.network is not None and _HOSTS not in taken:
        found.append(Mount(_HOSTS, str(host.network.hosts_file(pod)), True, optional=True))
    return found


def _hidden_part(image: Image) -> list[Mount]:
    """Mount a Python environment or program in /tmp, which is otherwise replaced in containers."""
    if image.part is None or not image.part.is_relative_to("/tmp"):
        return []
    return [Mount(str(image.part), str(image.part), read_only=True)]


def _covers(image: Image, host: Host) -> list[Mount]:
    """An empty folder over that of the cluster, whose credentials are only for its administrator.

    It comes last, as a volume may contain the folder.
    """
    if image.root is not None or image.name:
        return []
    return [Mount(str(host.data), read_only=True, size=COVER_SIZE, optional=True)]


def termination_message(host: Host, pod: Obj, container: Obj, attempt: int, failed: bool) -> str:
    """Return the termination message of a container: from its file, or from the end of its log if requested."""
    file = host.terminations.path(pod["metadata"]["uid"], container["name"], attempt)
    text = _read_end(file, LONGEST_MESSAGE, first=True)
    if not text and failed and container.get("terminationMessagePolicy") == "FallbackToLogsOnError":
        log = container_log(logs_of(host.data, pod), container["name"], attempt)
        lines = _read_end(log, 2 * LONGEST_FALLBACK).splitlines()[-FALLBACK_LINES:]
        text = "\n".join(line.split(" ", 3)[-1] for line in lines)[-LONGEST_FALLBACK:]
    return text


def _read_end(path: Path, size: int, first: bool = False) -> str:
    """The beginning or the end of a file; empty if it cannot be read."""
    try:
        with path.open("rb") as file:
            if not first:
                file.seek(max(path.stat().st_size - size, 0))
            return file.read(size).decode(errors="replace")
    except OSError:
        return ""
