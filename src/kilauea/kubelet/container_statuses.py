"""Runs of a container in the status of its pod, to which logs and connections refer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kilauea.api.ports import Obj
from kilauea.kubelet.names import container_id, runtime_id

_FIELDS = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
_NONE: Mapping[str, Any] = {}


def status_of(pod: Obj, container: str) -> Mapping[str, Any]:
    """Return the status of a container; empty if there is none yet."""
    every = (each for name in _FIELDS for each in (pod.get("status") or _NONE).get(name) or ())
    return next((each for each in every if each.get("name") == container), _NONE)


def running_id(pod: Obj, container: str) -> str:
    """Return the runtime's id of a running container; empty if it does not run."""
    found = status_of(pod, container)
    is_running = (found.get("state") or _NONE).get("running") is not None
    return runtime_id(found.get("containerID") or "") if is_running else ""


def attempt_of(pod: Obj, container: str, id: str) -> int | None:
    """Return the number of previous restarts of the run with an id; None if the id belongs to another container."""
    uid, restarts = pod["metadata"]["uid"], status_of(pod, container).get("restartCount") or 0
    tried = range(restarts + 1, max(restarts - 3, -1), -1)
    return next((attempt for attempt in tried if container_id(uid, container, attempt) == id), None)
