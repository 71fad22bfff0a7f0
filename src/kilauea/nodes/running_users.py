"""Users of containers, according to their security contexts and those of their pods."""

from __future__ import annotations

from kilauea.api.ports import Obj


def security_context(pod: Obj, container: Obj) -> Obj:
    """Return the security context of a container, with what its pod says for all."""
    return {**(pod["spec"].get("securityContext") or {}), **(container.get("securityContext") or {})}


def root_refusal(pod: Obj, container: Obj) -> str:
    """Return why a container must not start: it says that it is root and that it is not; empty if it may."""
    context = security_context(pod, container)
    if context.get("runAsNonRoot") and context.get("runAsUser") == 0:
        return f"container's runAsUser breaks non-root policy {container_name(pod, container)}"
    return ""


def container_name(pod: Obj, container: Obj) -> str:
    """Return the name of a container and its pod as messages of kubelets have it."""
    metadata = pod["metadata"]
    name = f"{metadata['name']}_{metadata.get('namespace', '')}({metadata['uid']})"
    return f'(pod: "{name}", container: {container["name"]})'
