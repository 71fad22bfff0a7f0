"""Label and field selectors of lists and watches: from the text in a query to a test of stored bytes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from kilauea.api.remembered import remembered
from kilauea.api.selectors import Selector, matches
from kilauea.apiserver import status
from kilauea.apiserver.label_text import parse_labels
from kilauea.apiserver.resources.types import ResourceType
from kilauea.apiserver.storage import Stored

MOST_MATCHES = 8192
"""Answers that are remembered; then it begins again."""
_NAME, _NAMESPACE = "metadata.name", "metadata.namespace"
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


@dataclass(frozen=True, slots=True)
class Selection:
    """The objects of a kind that a list or watch selects."""

    resource: ResourceType
    labels: Selector
    fields: tuple[FieldTerm, ...]

    @property
    def is_everything(self) -> bool:
        """True if there is no condition at all."""
        return not self.labels and not self.fields

    def only_name(self) -> str:
        """The one name that can be meant; empty if several can."""
        return next((term.value for term in self.fields if term.path == _NAME and term.equal), "")

    def matches(self, key: str, value: bytes) -> bool:
        """Return True if an object is selected, by its key and bytes."""
        if self.labels and not matches(self.labels, _labels_of(value).metadata.labels or {}):
            return False
        return not self.fields or self._fields_match(key, value)

    def _fields_match(self, key: str, value: bytes) -> bool:
        known: Mapping[str, str] | None = None
        for path, equal, wanted in self.fields:
            if path == _NAME:
                actual = key.rpartition("/")[2]
            elif path == _NAMESPACE:
                actual = key.rsplit("/", 2)[1] if self.resource.namespaced else ""
            else:
                known = known or self.resource.strategy.fields(msgspec.json.decode(value))
                actual = known.get(path, "")
            if (actual == wanted) is not equal:
                return False
        return True


def selection_of(resource: ResourceType, labels: str, fields: str) -> Selection:
    """The selection that two query parameters make.

    Raises:
        ApiFault: one of them cannot be parsed, or asks for a field that is not selectable (400).
    """
    terms = parse_fields(fields)
    for term in terms:
        if term.path not in (_NAME, _NAMESPACE, *resource.strategy.selectable):
            raise status.bad_request(_not_selectable(resource, term.path))
    return Selection(resource, parse_labels(labels), terms)


def _not_selectable(resource: ResourceType, path: str) -> str:
    """The error for a field that cannot be selected; kinds with selectable fields of their own word it differently."""
    if resource.strategy.selectable or not resource.namespaced:
        return f"field label not supported: {path}"
    return f'"{path}" is not a known field selector: only "{_NAME}", "{_NAMESPACE}"'


class Matches:
    """`Selection.matches`, remembered: many watchers with equal selections see the same events.

    An object at a revision is always the same, so the revision stands for the object, which is not held on to.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[Selection, str, int], bool] = {}

    def matches(self, selection: Selection, stored: Stored) -> bool:
        """Return True if an object is selected."""
        question = selection, stored.key, stored.revision
        known = self._known.get(question)
        if known is None:
            if len(self._known) >= MOST_MATCHES:
                self._known.clear()
            known = self._known[question] = selection.matches(stored.key, stored.value)
        return known
