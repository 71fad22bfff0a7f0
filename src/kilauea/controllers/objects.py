"""Helpers that all controllers share: owners, labels, selectors, and small patches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from kilauea.api.meta import LabelSelector
from kilauea.api.ports import Aggregation, Interest, Key, Obj, Outcome, Patch, Resource, View, key_of
from kilauea.api.remembered import remembered
from kilauea.api.selectors import Selector, selector_of
from kilauea.api.times import SECOND, parse_time

NOTHING = Outcome()
"""Nothing to do."""
_NONE: Mapping[str, Any] = {}
_Labels = tuple[tuple[str, str], ...]
Matcher = Callable[[Mapping[str, str]], bool]
"""Returns True if labels match a selector."""


def labels_of(obj: Obj) -> Mapping[str, str]:
    """Return the labels, never None."""
    return obj["metadata"].get("labels") or _NONE


def annotations_of(obj: Obj) -> Mapping[str, str]:
    """Return the annotations, never None."""
    return obj["metadata"].get("annotations") or _NONE


def spec_of(obj: Obj) -> Mapping[str, Any]:
    """Return the specification; empty if missing."""
    return obj.get("spec") or _NONE


def status_of(obj: Obj) -> Mapping[str, Any]:
    """Return the status; empty if missing."""
    return obj.get("status") or _NONE


def uid_of(obj: Obj) -> str:
    """The uid."""
    return str(obj["metadata"]["uid"])


def name_of(obj: Obj) -> str:
    """The name."""
    return str(obj["metadata"]["name"])


def is_going(obj: Obj) -> bool:
    """Return True if an object is being deleted."""
    return bool(obj["metadata"].get("deletionTimestamp"))


def condition_of(obj: Obj, type: str) -> Mapping[str, Any] | None:
    """A condition of the status."""
    for each in (obj.get("status") or _NONE).get("conditions") or ():
        if each["type"] == type:
            found: Mapping[str, Any] = each
            return found
    return None


def is_true(obj: Obj, type: str) -> bool:
    """Return True if a condition of the status is true."""
    condition = condition_of(obj, type)
    return condition is not None and condition.get("status") == "True"


LONGEST_RETRY_DELAY = 60.0
"""Maximum number of seconds until the next reconciliation of an object with a problem."""


def retry_delay(obj: Obj, now: int, least: float) -> float:
    """Seconds until the next reconciliation of an object with a problem: the older the object, the longer.

    Args:
        obj: the object.
        now: the time, in microseconds since 1970.
        least: minimum number of seconds.
    """
    created = obj["metadata"].get("creationTimestamp")
    age = (now - parse_time(created)) / SECOND if created else 0.0
    return max(least, min(LONGEST_RETRY_DELAY, age / 2))


# --- owners


def controller_of(obj: Obj) -> Mapping[str, Any] | None:
    """The reference to the controller of an object."""
    for each in obj["metadata"].get("ownerReferences") or ():
        if each.get("controller"):
            found: Mapping[str, Any] = each
            return found
    return None


def owned_by(view: View, resource: Resource, owner: Obj) -> Sequence[Obj]:
    """The objects of a kind that an object owns, in the order of their keys; only those of its namespace count."""
    return view.owned(resource, uid_of(owner), owner["metadata"].get("namespace", ""))


def object_reference(resource: Resource, obj: Obj) -> dict[str, str]:
    """A reference to an object for a status."""
    metadata = obj["metadata"]
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        **{name: metadata[name] for name in ("name", "namespace", "resourceVersion", "uid")},
    }


def owner_reference(resource: Resource, owner: Obj) -> dict[str, Any]:
    """The reference to a controlling owner."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": name_of(owner),
        "uid": uid_of(owner),
        "controller": True,
        "blockOwnerDeletion": True,
    }


def own_key(obj: Obj) -> Iterable[Key]:
    """Yield the key of the object itself."""
    return (key_of(obj),)


class ItsController:
    """`Interest.keys` that yields the key of an object's controller, if it has the given kind.

    Attributes:
        kind: apiVersion and kind of the controller.
    """

    def __init__(self, resource: Resource) -> None:
        self.kind = (resource.api_version, resource.kind)

    def __call__(self, obj: Obj) -> Iterable[Key]:
        """Return the key of the controller."""
        owner = controller_of(obj)
        if owner is None or (owner["apiVersion"], owner["kind"]) != self.kind:
            return ()
        return (Key(obj["metadata"]["namespace"], owner["name"]),)


_OVER = frozenset({"Succeeded", "Failed"})
MOST_LABELS = 64
"""Maximum number of labels of an object without a controller for it to be adopted."""


def _namespace_of_orphan(obj: Obj) -> str:
    metadata = obj["metadata"]
    if controller_of(obj) or metadata.get("deletionTimestamp") or status_of(obj).get("phase") in _OVER:
        return ""
    return str(metadata.get("namespace", "")) if len(labels_of(obj)) <= MOST_LABELS else ""


class Orphans:
    """Objects of a namespace that may be adopted, by their labels.

    Every owner with a selector checks all of them. There can be thousands of both, so objects are not decoded.
    """

    def __init__(self) -> None:
        self._labels: dict[Key, _Labels] = {}
        self._keys: dict[_Labels, set[Key]] = {}

    def __len__(self) -> int:
        return len(self._labels)

    def put(self, key: Key, obj: Obj) -> None:
        """Add or update an object."""
        labels = tuple(sorted(labels_of(obj).items()))
        if labels != self._labels.get(key):
            self.drop(key)
            self._labels[key] = labels
            self._keys.setdefault(labels, set()).add(key)

    def drop(self, key: Key) -> None:
        """Remove an object that was deleted, or can no longer be adopted."""
        labels = self._labels.pop(key, None)
        if labels is not None:
            keys = self._keys[labels]
            keys.discard(key)
            if not keys:
                del self._keys[labels]

    def selected(self, matches: Matcher) -> Sequence[Key]:
        """Keys of the objects with matching labels, in order."""
        return sorted(key for labels, keys in self._keys.items() if matches(dict(labels)) for key in keys)


ORPHANS = "orphans"
"""Name of the aggregate of `Orphans`."""
OF_ORPHANS: Mapping[str, Aggregation] = {ORPHANS: Aggregation(_namespace_of_orphan, Orphans)}


def orphans(view: View, resource: Resource, owner: Obj, matches: Matcher) -> Sequence[Obj]:
    """The objects of a kind that an owner may adopt: matched by its selector, unfinished and without a controller."""
    found = view.aggregate(resource, ORPHANS, owner["metadata"]["namespace"])
    keys = found.selected(matches) if isinstance(found, Orphans) else ()
    return [obj for key in keys if (obj := view.get(resource, key)) is not None]


DEBOUNCE_SECONDS = 0.2
"""Seconds for which changes of pods are collected before their owner counts them."""


def dependents(resource: Resource, of: Resource, delay: float = DEBOUNCE_SECONDS) -> Interest:
    """The interest in a kind whose objects belong to those of another, which may adopt objects without a controller."""
    return Interest(resource, ItsController(of), aggregates=OF_ORPHANS, delay=delay)


# --- selectors


class _Requirements:
    """The requirements of a selector by label: matching takes time by the number of labels, not of requirements."""

    def __init__(self, selector: Selector) -> None:
        self._needed: set[str] = set()
        self._absent: set[str] = set()
        self._allowed: dict[str, frozenset[str]] = {}
        self._refused: dict[str, set[str]] = {}
        self._impossible = False
        for key, operator, values in selector:
            if operator == "In":
                self._needed.add(key)
                self._allowed[key] = self._allowed.get(key, frozenset(values)).intersection(values)
            elif operator == "NotIn":
                self._refused.setdefault(key, set()).update(values)
            elif operator == "Exists":
                self._needed.add(key)
            elif operator == "DoesNotExist":
                self._absent.add(key)
            else:
                self._impossible = True

    def __call__(self, labels: Mapping[str, str]) -> bool:
        if self._impossible or not self._needed <= labels.keys():
            return False
        return all(self._allows(key, value) for key, value in labels.items())

    def _allows(self, key: str, value: str) -> bool:
        if key in self._absent or value in self._refused.get(key, ()):
            return False
        allowed = self._allowed.get(key)
        return allowed is None or value in allowed


@remembered(4096)
def _matcher(text: bytes) -> Matcher:
    given = msgspec.json.decode(text, type=LabelSelector | None)
    if given is not None and not given.match_expressions:  # as in nearly all; this is several times as fast
        wanted = (given.match_labels or {}).items()
        return lambda labels: wanted <= labels.items()
    selector = selector_of(given)
    return _Requirements(selector) if selector is not None else lambda labels: False


def matcher(selector: Mapping[str, Any] | None) -> Matcher:
    """Return a function that matches labels with a label selector; None matches nothing, an empty one everything."""
    return _matcher(msgspec.json.encode(selector))


# --- patches


def status_patch(resource: Resource, obj: Obj, wanted: Mapping[str, Any], *, safe: bool = False) -> list[Patch]:
    """The patch that sets fields of the status, if they differ; None removes a field.

    Args:
        resource: the kind.
        obj: the current object.
        wanted: fields of the status.
        safe: write only if the object still has the version that was read.
    """
    status = status_of(obj)
    changed = {name: value for name, value in wanted.items() if status.get(name) != value}
    if not changed:
        return []
    version = obj["metadata"]["resourceVersion"] if safe else ""
    return [Patch(resource, key_of(obj), {"status": changed}, subresource="status", version=version)]


def merge_patch(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """The merge patch that changes one mapping into another, recursively; missing fields are removed."""
    patch: dict[str, Any] = {name: None for name in old if name not in new}
    for name, wanted in new.items():
        found = old.get(name)
        if isinstance(found, Mapping) and isinstance(wanted, Mapping):
            if inner := merge_patch(found, wanted):
                patch[name] = inner
        elif found != wanted or name not in old:
            patch[name] = wanted
    return patch


def adoption(resource: Resource, obj: Obj, by: Resource, owner: Obj) -> Patch:
    """Make an owner control an object, if it is unchanged."""
    metadata = {"ownerReferences": [owner_reference(by, owner)], "uid": uid_of(obj)}
    return Patch(resource, key_of(obj), {"metadata": metadata}, "strategic")


def release(resource: Resource, obj: Obj, owner: Obj) -> Patch:
    """Release an object that is no longer selected."""
    gone = {"$patch": "delete", "uid": uid_of(owner)}
    return Patch(resource, key_of(obj), {"metadata": {"ownerReferences": [gone], "uid": uid_of(obj)}}, "strategic")


def without_finalizer(resource: Resource, obj: Obj, finalizer: str) -> list[Patch]:
    """The patch that removes a finalizer from an object, if it has it and is unchanged."""
    finalizers = obj["metadata"].get("finalizers") or []
    if finalizer not in finalizers:
        return []
    kept = [each for each in finalizers if each != finalizer]
    version = obj["metadata"]["resourceVersion"]
    return [Patch(resource, key_of(obj), {"metadata": {"finalizers": kept or None}}, version=version)]
