"""Containers in requests, and failures in replies."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any


@dataclass(frozen=True, slots=True)
class Mount:
    """A mount in a container; the fields are those of `container_runtime.Mount`."""

    target: str
    source: str = ""
    read_only: bool = False
    size: int | None = None
    optional: bool = False
    real: bool = False


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a container; the fields are those of `container_runtime.Limits`."""

    cpu: int | None = None
    memory: int | None = None
    processes: int | None = None


@dataclass(frozen=True, slots=True)
class Spec:
    """A container; the fields are those of `container_runtime.Container`."""

    id: str
    pod: str
    name: str
    attempt: int
    argv: list[str]
    log: str
    root: str | None = None
    environment: dict[str, str] = field(default_factory=dict)
    working_dir: str = ""
    mounts: tuple[Mount, ...] = ()
    limits: Limits = Limits()
    hostname: str = ""
    user: int | None = None
    group: int | None = None
    groups: tuple[int, ...] = ()
    read_only: bool = False
    no_new_privileges: bool = False
    stdin: bool = False
    stdin_once: bool = False
    tty: bool = False
    oom_score: int = 0
    log_size: int = 10 * 1024 * 1024
    log_files: int = 5

    @property
    def changes_ids(self) -> bool:
        """True if its processes have another user, group or supplementary groups than this one, which requires root."""
        return self.user is not None or self.group is not None or bool(self.groups)


def spec_of(data: dict[str, Any]) -> Spec:
    """Parse the container in a request; fields of later versions are ignored."""
    known = _known(Spec, data)
    known["mounts"] = tuple(Mount(**_known(Mount, mount)) for mount in data.get("mounts") or ())
    known["groups"] = tuple(known.get("groups") or ())
    known["limits"] = limits_of(data.get("limits") or {})
    return Spec(**known)


def limits_of(data: dict[str, Any]) -> Limits:
    """Parse the limits in a request; fields of later versions are ignored."""
    return Limits(**_known(Limits, data))


def _known(kind: type[Any], data: dict[str, Any]) -> dict[str, Any]:
    return {item.name: data[item.name] for item in fields(kind) if item.name in data}


class Failure(Exception):
    """The failure of a request, as `container_runtime.ContainerError`.

    Args:
        reason: the reason, as in kubelets.
        message: the message.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason, self.message = reason, message
