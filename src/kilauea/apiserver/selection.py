"""Label and field selectors of lists and watches, from query text to matching of stored bytes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary, WeakValueDictionary

import msgspec

from kilauea.api.remembered import remembered
from kilauea.apiserver import status
from kilauea.apiserver.conditions import Conditions, conditions_of
from kilauea.apiserver.label_text import parse_labels
from kilauea.apiserver.resources.types import ResourceType
from kilauea.apiserver.storage import Stored

MOST_MATCHES = 8192
"""Cached results after which the cache is cleared."""
NEWEST = 4
"""Number of newest objects whose labels and fields are kept for further selections."""
_NAME, _NAMESPACE = "metadata.name", "metadata.namespace"
_PLAIN = re.compile(r"[A-Za-z0-9._/-]+")
"""Values that JSON does not escape."""
_UNQUOTED = re.compile(r"[0-9.eE-]+|true|false")
"""Values that may be numbers or booleans, which JSON does not quote."""
_FIELD = re.compile(r"((?:[^\\=!,]|\\.)+)(==|=|!=)((?:[^\\,=]|\\.)*)")


class FieldTerm(NamedTuple):
    """One condition on a field."""

    path: str
    equal: bool
    value: str


@remembered(1024)
def parse_fields(text: str) -> tuple[FieldTerm, ...]:
    """Parse a field selector such as `spec.nodeName=a,status.phase!=Failed`.

    Raises:
        ApiFault: it cannot be parsed (400).
    """
    terms = []
    for part in re.split(r"(?<!\\),", text):
        if not part:
            continue
        found = _FIELD.fullmatch(part)
        if found is None:
            raise status.bad_request(f"invalid selector: '{text}'; can't understand '{part}'")
        path, operator, value = found.groups()
        terms.append(FieldTerm(path, operator != "!=", re.sub(r"\\(.)", r"\1", value)))
    return tuple(terms)


class _Labels(msgspec.Struct):
    labels: dict[str, str] | None = None


class _Labelled(msgspec.Struct):
    metadata: _Labels


_labels_of = msgspec.json.Decoder(_Labelled).decode


class Traits:
    """The parts of an object that selectors use, read on first use.

    Attributes:
        value: the stored object.
    """

    def __init__(self, resource: ResourceType, key: str, value: bytes) -> None:
        self.value = value
        self._resource = resource
        self._key = key

    @cached_property
    def labels(self) -> Mapping[str, str]:
        """The labels."""
        return _labels_of(self.value).metadata.labels or {}

    @cached_property
    def _fields(self) -> Mapping[str, Any]:
        """The selectable fields of the object."""
        return self._resource.strategy.read_fields(self.value)

    def field(self, path: str) -> str:
        """Return a field; empty if missing."""
        if path == _NAME:
            return self._key.rpartition("/")[2]
        if path == _NAMESPACE:
            return self._key.rsplit("/", 2)[1] if self._resource.namespaced else ""
        return self._resource.strategy.field(self._fields, path)


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Selection:
    """The objects of a kind that a list or watch selects.

    Attributes:
        resource: the kind.
        text: the selectors as the client sent them.
        labels: conditions on labels.
        equal: required values by field, all of which must match.
        unequal: excluded values by field.
        parts: bytes that occur in every object with these values. Most objects lack one, and need not be decoded.
    """

    resource: ResourceType
    text: tuple[str, str]
    labels: Conditions | None
    equal: Mapping[str, frozenset[str]]
    unequal: Mapping[str, frozenset[str]]
    parts: tuple[bytes, ...] = ()

    @property
    def is_everything(self) -> bool:
        """True without any conditions."""
        return self.labels is None and not self.has_fields

    @property
    def has_fields(self) -> bool:
        """True if it has conditions on fields."""
        return bool(self.equal or self.unequal)

    def only_name(self) -> str:
        """The only name that can match; empty if several can."""
        return next(iter(self.equal.get(_NAME, ())), "")

    def matches(self, key: str, value: bytes) -> bool:
        """Return True if an object is selected, by its key and bytes."""
        if self.has_fields:
            return self.match(Traits(self.resource, key, value))
        for part in self.parts:
            if part not in value:
                return False
        return self.labels is None or self.labels.match(_labels_of(value).metadata.labels or {})

    def match(self, traits: Traits) -> bool:
        """Return True if an object is selected."""
        for part in self.parts:
            if part not in traits.value:
                return False
        if self.labels is not None and not self.labels.match(traits.labels):
            return False
        return all(wanted == {traits.field(path)} for path, wanted in self.equal.items()) and not any(
            traits.field(path) in refused for path, refused in self.unequal.items()
        )


def selection_of(resource: ResourceType, labels: str, fields: str) -> Selection:
    """Return the selection of two query parameters.

    Raises:
        ApiFault: one of them cannot be parsed, or has a field that is not selectable (400).
    """
    equal: dict[str, set[str]] = {}
    unequal: dict[str, set[str]] = {}
    selectable = {_NAME, _NAMESPACE, *resource.strategy.selectable}
    for term in parse_fields(fields):
        if term.path not in selectable:
            raise status.bad_request(_not_selectable(resource, term.path))
        (equal if term.equal else unequal).setdefault(term.path, set()).add(term.value)
    requirements = parse_labels(labels)
    conditions = conditions_of(requirements) if requirements else None
    having, lacking = ({path: frozenset(values) for path, values in found.items()} for found in (equal, unequal))
    parts = (*_parts_of_fields(resource, having), *(_parts_of_labels(conditions) if conditions else ()))
    return Selection(resource, (labels, fields), conditions, having, lacking, parts)


def _parts_of_labels(conditions: Conditions) -> Iterator[bytes]:
    """Yield bytes that occur in every stored object with these labels."""
    for name, values in conditions.wanted.items():
        if not _PLAIN.fullmatch(name):
            continue
        value = next(iter(values)) if values is not None and len(values) == 1 else ""
        yield (f'"{name}":"{value}"' if _PLAIN.fullmatch(value) else f'"{name}":').encode()


def _parts_of_fields(resource: ResourceType, equal: Mapping[str, frozenset[str]]) -> Iterator[bytes]:
    """Yield bytes that occur in every stored object of a kind with these field values."""
    for path, values in equal.items():
        if path not in (_NAME, _NAMESPACE):  # these are in the key
            absent = resource.strategy.zero_values.get(path, "")
            for value in sorted(values):
                if value != absent and _PLAIN.fullmatch(value):
                    yield (value if _UNQUOTED.fullmatch(value) else f'"{value}"').encode()


def _not_selectable(resource: ResourceType, path: str) -> str:
    """Return the error for a field that is not selectable; its wording differs for kinds with selectable fields."""
    if resource.is_custom or resource.strategy.selectable or not resource.namespaced:
        return f"field label not supported: {path}"
    return f'"{path}" is not a known field selector: only "{_NAME}", "{_NAMESPACE}"'


class Matches:
    """A cache of `Selection.match`: many watchers see the same events, with equal or different selections.

    An object at a revision never changes, so the revision identifies the object. Only the newest few are kept, and
    selections as long as watchers use them. Kept entries refer to their kind, so the kind's id is unique.
    """

    def __init__(self) -> None:
        self._selections: WeakValueDictionary[tuple[int, str, str], Selection] = WeakValueDictionary()
        self._known: WeakKeyDictionary[Selection, dict[tuple[str, int], bool]] = WeakKeyDictionary()
        self._answers = 0
        self._newest: dict[tuple[int, str, int], Traits] = {}

    def shared(self, selection: Selection) -> Selection:
        """Return an equal selection of other watchers, or share this one."""
        return self._selections.setdefault((id(selection.resource), *selection.text), selection)

    def matches(self, selection: Selection, stored: Stored) -> bool:
        """Return True if an object is selected."""
        answers = self._known.get(selection)
        if answers is None:
            answers = self._known[selection] = {}
        question = stored.key, stored.revision
        known = answers.get(question)
        if known is None:
            if self._answers >= MOST_MATCHES:
                self._known.clear()
                self._answers = 0
                answers = self._known[selection] = {}
            self._answers += 1
            known = answers[question] = selection.match(self._traits(selection.resource, stored))
        return known

    def _traits(self, resource: ResourceType, stored: Stored) -> Traits:
        which = id(resource), stored.key, stored.revision
        found = self._newest.get(which)
        if found is None:
            if len(self._newest) >= NEWEST:
                del self._newest[next(iter(self._newest))]
            found = self._newest[which] = Traits(resource, stored.key, stored.value)
        return found
