"""Runtime classes: the overhead of a pod's class (`overhead`), and the nodes where it can run (`scheduling`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from kilauea.apiserver.admission import AdmissionStep, forbidden
from kilauea.apiserver.admission.amounts import parse_all
from kilauea.apiserver.admission.attributes import Attributes

_ROOT = "/node.k8s.io/runtimeclasses/"
_DIFFERS = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
_NO_CLASS = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"


class RuntimeClasses(AdmissionStep):
    """Applies the class of a new pod, and rejects a pod whose class does not exist."""

    name = "RuntimeClass"
    kinds = frozenset({("", "pods")})

    def mutate(self, attributes: Attributes) -> None:
        """Set overhead, node selector and tolerations."""
        spec = _new_pod(attributes)
        if spec is None or not spec.get("runtimeClassName"):
            return
        found = _class_of(attributes, spec)
        if found is None:
            return
        overhead = _overhead_of(found)
        if overhead:
            if spec.get("overhead") and parse_all(spec["overhead"]) != parse_all(overhead):
                raise forbidden(attributes, _DIFFERS)
            spec["overhead"] = dict(overhead)
        _place(attributes, spec, found.get("scheduling") or {})

    def validate(self, attributes: Attributes) -> None:
        """Check that the overhead is that of the class."""
        spec = _new_pod(attributes)
        if spec is None or not (spec.get("runtimeClassName") or spec.get("overhead")):
            return
        found = _class_of(attributes, spec)
        overhead = _overhead_of(found) if found is not None else {}
        if overhead and parse_all(spec.get("overhead")) != parse_all(overhead):
            raise forbidden(attributes, _DIFFERS)
        if spec.get("overhead") and not overhead:
            raise forbidden(attributes, _NO_CLASS)


def _new_pod(attributes: Attributes) -> dict[str, Any] | None:
    """Return the specification of a new pod."""
    resource, obj = attributes.resource, attributes.obj
    if (
        resource.plural != "pods"
        or resource.group
        or attributes.subresource
        or obj is None
        or attributes.old is not None
    ):
        return None
    spec: dict[str, Any] = obj.setdefault("spec", {})
    return spec


def _class_of(attributes: Attributes, spec: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the class of a pod; None if it does not name one."""
    name = spec.get("runtimeClassName")
    if not name:
        return None
    stored = attributes.backend.store.get(f"{_ROOT}{name}")
    if stored is None:
        raise forbidden(attributes, f'pod rejected: RuntimeClass "{name}" not found')
    found: dict[str, Any] = msgspec.json.decode(stored.value)
    return found


def _overhead_of(found: Mapping[str, Any]) -> Mapping[str, str]:
    return (found.get("overhead") or {}).get("podFixed") or {}


def _place(attributes: Attributes, spec: dict[str, Any], scheduling: Mapping[str, Any]) -> None:
    """Add the node selector and tolerations of a class."""
    given = spec.get("nodeSelector") or {}
    for key, value in (scheduling.get("nodeSelector") or {}).items():
        if given.get(key, value) != value:
            message = f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; "
            raise forbidden(attributes, f"{message}pod.spec.nodeSelector[{key}] = {given[key]}")
    selector = {**given, **(scheduling.get("nodeSelector") or {})}
    if selector:
        spec["nodeSelector"] = selector
    before = spec.get("tolerations") or []
    more = [each for each in scheduling.get("tolerations") or () if each not in before]
    if more:
        spec["tolerations"] = [*before, *more]
