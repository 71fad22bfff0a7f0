"""Warnings about objects that are stored but have no effect in a cluster of `kilauea up`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kilauea.apiserver.admission import AdmissionStep
from kilauea.apiserver.admission.attributes import Attributes

Raw = Mapping[str, Any]
_TOKENS = "kubernetes.io/service-account-token"
_AUDIT = "pod-security.kubernetes.io/audit"


def _network_policy(_: Raw) -> str:
    return "network policies are not enforced in this cluster: every pod reaches every other"


def _ingress(_: Raw) -> str:
    return "nothing in this cluster serves ingresses, unless you run a controller for them"


def _runtime_class(_: Raw) -> str:
    return "the handler of a RuntimeClass has no effect in this cluster; its overhead and scheduling do"


def _attributes_class(_: Raw) -> str:
    return "no volume of this cluster is changed by a VolumeAttributesClass"


def _secret(obj: Raw) -> str:
    if obj.get("type") != _TOKENS or (obj.get("data") or {}).get("token"):
        return ""
    return f"no controller of this cluster writes tokens into Secrets of the type {_TOKENS}: use `kubectl create token`"


def _namespace(obj: Raw) -> str:
    labels = (obj.get("metadata") or {}).get("labels") or {}
    if labels.get(_AUDIT, "privileged") == "privileged":
        return ""
    return f"the label {_AUDIT} has no effect, as this server writes no audit log; use enforce or warn"


_WARNINGS: Mapping[tuple[str, str], Callable[[Raw], str]] = {
    ("", "namespaces"): _namespace,
    ("", "secrets"): _secret,
    ("networking.k8s.io", "ingresses"): _ingress,
    ("networking.k8s.io", "networkpolicies"): _network_policy,
    ("node.k8s.io", "runtimeclasses"): _runtime_class,
    ("storage.k8s.io", "volumeattributesclasses"): _attributes_class,
}


class WithoutEffect(AdmissionStep):
    """Warns about objects that have no effect in this cluster."""

    name = "WithoutEffect"
    kinds = frozenset(_WARNINGS)

    def validate(self, attributes: Attributes) -> None:
        """Check a new object, or one whose specification changes."""
        obj, old = attributes.obj, attributes.old
        if obj is None or attributes.subresource or attributes.operation not in ("CREATE", "UPDATE"):
            return
        warning = _WARNINGS[attributes.resource.group, attributes.resource.plural]
        words = warning(obj)
        if words and (old is None or not warning(old)):
            attributes.warnings.append(words)
