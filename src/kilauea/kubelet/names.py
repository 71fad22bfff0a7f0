"""Names that a kubelet assigns to pods and their containers: ids, and files in its folder."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

PROCESSES = "processes"
"""The name of the runtime that runs processes."""


def container_id(uid: str, container: str, attempt: int) -> str:
    """Return the id of a container: unique on this machine, and another one for each restart.

    Args:
        uid: of its pod.
        container: its name in the pod.
        attempt: number of previous restarts.
    """
    return sha256(f"{uid}/{container}/{attempt}".encode()).hexdigest()


def status_id(id: str, runtime: str = PROCESSES) -> str:
    """Return the id of a container in the status of its pod, prefixed with the name of the runtime."""
    return f"{runtime}://{id}"


def runtime_id(text: str) -> str:
    """Return the runtime's id of a container, from that in the status of its pod; empty if there is none."""
    return text.partition("://")[2]


def pod_logs(data: Path, namespace: str, name: str, uid: str) -> Path:
    """Return the folder with the logs of a pod.

    Args:
        data: folder of the cluster.
        namespace: of the pod.
        name: of the pod.
        uid: of the pod.
    """
    return data / "pods" / f"{namespace}_{name}_{uid}"


def container_log(pod: Path, container: str, attempt: int) -> Path:
    """Return the log file of a container.

    Args:
        pod: folder with the logs of its pod.
        container: its name in the pod.
        attempt: number of previous restarts.
    """
    return pod / container / f"{attempt}.log"


def pod_folder(data: Path, uid: str) -> Path:
    """Return the folder with the volumes and other files of a pod, which is removed with the pod."""
    return data / "kubelet" / "pods" / uid
