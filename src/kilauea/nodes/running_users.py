"""Users of containers, according to their security contexts and those of their pods."""

from __future__ import annotations

from kilauea.api.ports import Obj


def security_context(pod: Obj, container: Obj) -> Obj:
    """Return the security context of a container, with the defaults of its pod."""
    return {**(pod["spec"].get("securityContext") or {}), **(container.get("securityContext") or {})}


def root_refusal(pod: Obj, container: Obj) -> str:
    """Return the reason why a container must not start: it must not be root, but is; empty if it may."""
    context = security_context(pod, container)
    if context.get("runAsNonRoot") and context.get("runAsUser") == 0:
        return f"container's runAsUser breaks non-root policy {container_name(pod, container)}"
    return ""


def container_name(pod: Obj, container: Obj) -> str:
    """Return the name of a container and its pod in messages of kubelets."""
    metadata = pod["metadata"]
    name = f"{metadata['name']}_{metadata.get('namespace', '')}({metadata['uid']})"
    return f'(pod: "{name}", container: {container["name"]})'
