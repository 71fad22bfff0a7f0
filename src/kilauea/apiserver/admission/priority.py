"""Priority classes: names in pods are resolved to values, and at most one class is the default."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kilauea.apiserver import status
from kilauea.apiserver.admission import AdmissionStep, forbidden
from kilauea.apiserver.admission.attributes import Attributes
from kilauea.apiserver.admission.view import Derived, Metadata, Record, reader

_GROUP = "scheduling.k8s.io"
_ROOT = f"/{_GROUP}/priorityclasses/"
SYSTEM_CLASSES = ("system-cluster-critical", "system-node-critical")


class PriorityClass(Record, frozen=True):
    """A priority class."""

    metadata: Metadata
    value: int = 0
    global_default: bool = False
    preemption_policy: str | None = None


_read = reader(PriorityClass)
_NO_CLASS = PriorityClass(Metadata(), preemption_policy="PreemptLowerPriority")


class Priority(AdmissionStep):
    """Resolves the priority of pods and pod groups, and rejects a second default class."""

    name = "Priority"
    kinds = frozenset({("", "pods"), *((_GROUP, plural) for plural in ("priorityclasses", "podgroups", "workloads"))})

    def __init__(self) -> None:
        self._default = Derived(_default_class)

    def mutate(self, attributes: Attributes) -> None:
        """Set the priority of a pod; an existing one must match the class."""
        resource = attributes.resource
        if resource.group == _GROUP and attributes.operation == "CREATE" and not attributes.subresource:
            self._resolve_groups(attributes)
        if resource.plural != "pods" or resource.group or attributes.subresource or attributes.obj is None:
            return
        spec = attributes.obj.setdefault("spec", {})
        if attributes.old is None:
            self._resolve(attributes, spec)
            return
        before = attributes.old.get("spec") or {}
        for field in ("priority", "preemptionPolicy"):
            if spec.get(field) is None and before.get(field) is not None:
                spec[field] = before[field]

    def validate(self, attributes: Attributes) -> None:
        """Reject a second default class, and the deletion of system classes."""
        resource, obj = attributes.resource, attributes.obj
        if resource.plural != "priorityclasses" or resource.group != "scheduling.k8s.io":
            return
        if attributes.verb == "delete" and attributes.name in SYSTEM_CLASSES:
            message = "this is a system priority class and cannot be deleted"
            raise status.forbidden(resource.plural, resource.group, attributes.name, message)
        if obj is None:
            return
        if not obj.get("globalDefault"):
            return
        default = self._default.of(attributes.backend.store, _ROOT)
        if default is None or (attributes.old is not None and default.metadata.name == attributes.name):
            return
        name = default.metadata.name
        raise forbidden(attributes, f"PriorityClass {name} is already marked as default. Only one default can exist")

    def _class_of(self, attributes: Attributes, spec: dict[str, Any]) -> PriorityClass:
        """Return the named class; without a name, the default class, whose name is set."""
        name = spec.get("priorityClassName")
        if name:
            stored = attributes.backend.store.get(_ROOT + name)
            if stored is None:
                raise forbidden(attributes, f"no PriorityClass with name {name} was found")
            return _read(stored.value)
        found = self._default.of(attributes.backend.store, _ROOT) or _NO_CLASS
        if found.metadata.name:
            spec["priorityClassName"] = found.metadata.name
        return found

    def _resolve_groups(self, attributes: Attributes) -> None:
        """Set the priority of a new pod group."""
        spec = (attributes.obj or {}).get("spec")
        if attributes.resource.plural != "podgroups" or not isinstance(spec, dict):
            return
        value = self._class_of(attributes, spec).value
        given = spec.get("priority")
        if given is not None and given != value:
            why = f"priority set in the pod group ({given}) must match the priority computed ({value})"
            raise forbidden(attributes, f"{why} based on the priority class set in the spec")
        spec["priority"] = value

    def _resolve(self, attributes: Attributes, spec: dict[str, Any]) -> None:
        """Set class, priority and preemption policy of a new pod."""
        found = self._class_of(attributes, spec)
        given = spec.get("priority")
        if given is not None and given != found.value:
            raise forbidden(
                attributes,
                f"the integer value of priority ({given}) must not be provided in pod spec; priority admission "
                f"controller computed {found.value} from the given PriorityClass name",
            )
        spec["priority"] = found.value
        policy, asked = found.preemption_policy, spec.get("preemptionPolicy")
        if policy is None:
            return
        if asked is not None and asked != policy:
            raise forbidden(
                attributes,
                f"the string value of PreemptionPolicy ({asked}) must not be provided in pod spec; priority admission "
                f"controller computed {policy} from the given PriorityClass name",
            )
        spec["preemptionPolicy"] = policy


def _default_class(values: Sequence[bytes]) -> PriorityClass | None:
    """Return the class for pods without one; the lowest if there are several."""
    defaults = (each for each in map(_read, values) if each.global_default)
    return min(defaults, key=lambda each: each.value, default=None)
