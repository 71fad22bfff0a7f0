"""Rules and selectors that determine the writes to which webhooks and policies apply."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from kilauea.api.meta import LabelSelector
from kilauea.api.selectors import Selector, matches, selector_of
from kilauea.apiserver.admission.attributes import Attributes, subject_of
from kilauea.apiserver.decoding import decode
from kilauea.apiserver.resources.registry import Registry
from kilauea.apiserver.resources.types import ResourceType

Raw = Mapping[str, Any]

GROUP = "admissionregistration.k8s.io"
EXEMPT = frozenset(
    {
        "mutatingadmissionpolicies",
        "mutatingadmissionpolicybindings",
        "mutatingwebhookconfigurations",
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
        "validatingwebhookconfigurations",
    }
)
"""Kinds of the group that are exempt from webhooks and policies, so that a wrong one can be removed."""


class Place(NamedTuple):
    """The properties of a write that rules match."""

    operation: str
    group: str
    version: str
    plural: str
    subresource: str
    in_namespace: bool
    name: str


def place_of(attributes: Attributes, resource: ResourceType | None = None) -> Place:
    """Return the place of a write, as one of the given kind or of its own."""
    resource = resource or attributes.resource
    return Place(
        attributes.operation, resource.group, resource.version, resource.plural, attributes.subresource,
        attributes.resource.namespaced, attributes.name,
    )  # fmt: skip


def is_exempt(attributes: Attributes) -> bool:
    """Return True for writes of the configurations themselves."""
    return attributes.resource.group == GROUP and attributes.resource.plural in EXEMPT


def rule_matches(rule: Raw, place: Place) -> bool:
    """Return True if a rule matches a write."""
    return (
        _scope_matches(rule.get("scope") or "*", place)
        and _has(rule.get("operations"), place.operation)
        and _has(rule.get("apiGroups"), place.group)
        and _has(rule.get("apiVersions"), place.version)
        and any(_resource_matches(each, place) for each in rule.get("resources") or ())
        and _has(rule.get("resourceNames") or ("*",), place.name)
    )


def _has(wanted: Sequence[str] | None, value: str) -> bool:
    return any(each in ("*", value) for each in wanted or ())


def _scope_matches(scope: str, place: Place) -> bool:
    return scope == "*" or (scope == "Namespaced") is place.in_namespace


def _resource_matches(text: str, place: Place) -> bool:
    """Match `pods`, `pods/status`, `*`, `*/*`, `pods/*` or `*/scale`; subresources match only rules with a slash."""
    plural, _, subresource = text.partition("/")
    return plural in ("*", place.plural) and subresource in ("*", place.subresource)


def equivalents(registry: Registry, resource: ResourceType) -> list[ResourceType]:
    """Return other served kinds of the same stored objects: other versions, or another group."""
    return [each for each in registry if each.root == resource.root and each is not resource]


@dataclass(frozen=True)
class Selectors:
    """The selectors of a webhook or policy."""

    namespaces: Selector | None
    objects: Selector | None

    @classmethod
    def of(cls, raw: Raw) -> Selectors:
        """Return the selectors of a specification; a missing one selects everything."""
        return cls(parse_selector(raw.get("namespaceSelector")), parse_selector(raw.get("objectSelector")))

    def match(self, attributes: Attributes) -> bool:
        """Return True if the object and the namespace of the write are selected."""
        return self._namespace_matches(attributes) and self._object_matches(attributes)

    def _namespace_matches(self, attributes: Attributes) -> bool:
        if not self.namespaces:
            return self.namespaces is not None
        resource = attributes.resource
        if (resource.group, resource.plural) == ("", "namespaces"):
            obj = attributes.obj or attributes.old or {}
            return matches(self.namespaces, _labels(obj))
        if not attributes.namespace:
            return True
        return matches(self.namespaces, _labels(namespace_of(attributes) or {}))

    def _object_matches(self, attributes: Attributes) -> bool:
        if not self.objects:
            return self.objects is not None
        found = (attributes.obj, attributes.old)
        return any(each is not None and matches(self.objects, _labels(each)) for each in found)


def parse_selector(raw: Raw | None) -> Selector | None:
    """Parse a LabelSelector; a missing one selects everything."""
    return selector_of(msgspec.convert(raw or {}, LabelSelector))


def _labels(obj: Raw) -> Mapping[str, str]:
    return (obj.get("metadata") or {}).get("labels") or {}


def namespace_of(attributes: Attributes) -> dict[str, Any] | None:
    """Return the namespace object of a write, which is read once; None if it has none."""
    if not attributes.namespace:
        return None
    known = subject_of(attributes).namespace
    if not known:
        stored = attributes.backend.store.get(f"/core/namespaces/{attributes.namespace}")
        known.append(None if stored is None else decode(stored.value))
    return known[0]


def _others(attributes: Attributes) -> list[ResourceType]:
    subject = subject_of(attributes)
    if subject.others is None:
        subject.others = equivalents(attributes.backend.registry, attributes.resource)
    return subject.others


def find_match(
    rules: Sequence[Raw], match_policy: str, attributes: Attributes, excluded: Sequence[Raw] = ()
) -> ResourceType | None:
    """Return the kind with which a write matches rules: its own, or an equivalent one if the policy allows that."""
    resource = attributes.resource
    own = place_of(attributes)
    others = _others(attributes) if match_policy != "Exact" else []
    if any(rule_matches(rule, own) for rule in excluded):
        return None
    if any(rule_matches(rule, place_of(attributes, each)) for rule in excluded for each in others):
        return None
    if any(rule_matches(rule, own) for rule in rules):
        return resource
    for rule in rules:
        for each in others:
            if rule_matches(rule, place_of(attributes, each)):
                return each
    return None
