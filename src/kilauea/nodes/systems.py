"""Pods for another operating system, which their node rejects."""

from __future__ import annotations

from kilauea.api.ports import Obj

REFUSED = "PodOSNotSupported"
MESSAGE = "Failed to admit pod as the OS field doesn't match node OS"
_LABEL, _USUAL = "kubernetes.io/os", "linux"


def is_for_another_system(pod: Obj, node: Obj) -> bool:
    """Return True if a pod names an operating system that its node does not have."""
    wanted = (pod["spec"].get("os") or {}).get("name")
    if not wanted:
        return False
    info = (node.get("status") or {}).get("nodeInfo") or {}
    labels = (node.get("metadata") or {}).get("labels") or {}
    return bool(wanted != (info.get("operatingSystem") or labels.get(_LABEL) or _USUAL))
