"""Pods stay for five minutes on a node that is not ready or unreachable, unless they specify otherwise."""

from __future__ import annotations

from typing import Any

from kilauea.apiserver.admission import AdmissionStep
from kilauea.apiserver.admission.attributes import Attributes

SECONDS = 300
_KEYS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


class DefaultTolerationSeconds(AdmissionStep):
    """Adds the tolerations that every pod has."""

    name = "DefaultTolerationSeconds"
    kinds = frozenset({("", "pods")})

    def mutate(self, attributes: Attributes) -> None:
        """Add missing tolerations to a pod."""
        resource = attributes.resource
        if resource.plural != "pods" or resource.group or attributes.subresource or attributes.obj is None:
            return
        spec = attributes.obj.setdefault("spec", {})
        given: list[dict[str, Any]] = spec.get("tolerations") or []
        missing = [key for key in _KEYS if not any(_covers(each, key) for each in given)]
        if missing:
            spec["tolerations"] = [*given, *(_toleration(key) for key in missing)]


def _covers(toleration: dict[str, Any], key: str) -> bool:
    return toleration.get("key", "") in ("", key) and toleration.get("effect", "") in ("", "NoExecute")


def _toleration(key: str) -> dict[str, Any]:
    return {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": SECONDS}
