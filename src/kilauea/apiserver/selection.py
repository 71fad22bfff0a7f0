"""Label and field selectors of lists and watches: from the text in a query to a test of stored bytes."""

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
"""Answers that are remembered; then it begins again."""
NEWEST = 4
"""Objects whose labels and fields are kept for further selections."""
_NAME, _NAMESPACE = "metadata.name", "metadata.namespace"
_PLAIN = re.compile(r"[A-Za-z0-9._/-]+")
"""Values that JSON holds as they are."""
_UNQUOTED = re.compile(r"[0-9.eE-]+|true|false")
"""Values that may be numbers or truth values, which have no quotes around them."""
_FIELD = re.compile(r"((?:[^\\=!,]|\\.)+)(==|=|!=)((?:[^\\,=]|\\.)*)")


class FieldTerm(NamedTuple):
    """One condition on a field."""

    path: str
    equal: bool
    value: str


@remembered(1024)
def parse_fields(text: str) -> tuple[FieldTerm, ...]:
    """A field selector such as `spec.nodeName=a,status.phase!=Failed`.

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
    """The parts of an object that selectors look at, read when the first of them asks.

    Attributes:
        value: the object as it is stored.
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
        """The object, as far as its selectable fields need it."""
        return self._resource.strategy.read_fields(self.value)

    def field(self, path: str) -> str:
        """A field; empty if it is missing."""
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
        equal: by field, the values of which it must have all.
        unequal: by field, the values that it must not have.
        parts: bytes that are in every object with these values. Most objects lack one, and need not be decoded.
    """

    resource: ResourceType
    text: tuple[str, str]
    labels: Conditions | None
    equal: Mapping[str, frozenset[str]]
    unequal: Mapping[str, frozenset[str]]
    parts: tuple[bytes, ...] = ()

    @property
    def is_everything(self) -> bool:
        """True if there is no condition at all."""
        return self.labels is None and not self.has_fields

    @property
    def has_fields(self) -> bool:
        """True if there are conditions on fields."""
        return bool(self.equal or self.unequal)

    def only_name(self) -> str:
        """The one name that can be meant; empty if several can."""
        return next(iter(self.equal.get(_NAME, ())), "")

    def matches(self, key: str, value: bytes) -> bool:
        """Return True if an object is selected, by its key and bytes."""
        return self.match(Traits(self.resource, key, value))

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
    """The selection that two query parameters make.

    Raises:
        ApiFault: one of them cannot be parsed, or asks for a field that is not selectable (400).
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
    return Selection(resource, (labels, fields), conditions, having, lacking, tuple(_parts(resource, having)))


def _parts(resource: ResourceType, equal: Mapping[str, frozenset[str]]) -> Iterator[bytes]:
    """Bytes that are in every stored object of a kind whose fields have these values."""
    for path, values in equal.items():
        if path not in (_NAME, _NAMESPACE):  # which are looked up in the key
            absent = resource.strategy.zero_values.get(path, "")
            for value in sorted(values):
                if value != absent and _PLAIN.fullmatch(value):
                    yield (value if _UNQUOTED.fullmatch(value) else f'"{value}"').encode()


def _not_selectable(resource: ResourceType, path: str) -> str:
    """The error for a field that cannot be selected; kinds with selectable fields of their own word it differently."""
    if resource.strategy.selectable or not resource.namespaced:
        return f"field label not supported: {path}"
    return f'"{path}" is not a known field selector: only "{_NAME}", "{_NAMESPACE}"'


class Matches:
    """Recent answers of `Selection.match`: many watchers see the same events, with equal selections or others.

    An object at a revision is always the same, so the revision stands for the object. Only the newest few are held on
    to, and selections as long as there are watchers with them. What is held keeps its kind, so the kind's id is unique.
    """

    def __init__(self) -> None:
        self._selections: WeakValueDictionary[tuple[int, str, str], Selection] = WeakValueDictionary()
        self._known: WeakKeyDictionary[Selection, dict[tuple[str, int], bool]] = WeakKeyDictionary()
        self._answers = 0
        self._newest: dict[tuple[int, str, int], Traits] = {}

    def shared(self, selection: Selection) -> Selection:
        """The selection of other watchers if it is equal to this one, which becomes theirs otherwise."""
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
