"""Accepted names of a definition, which must be unique in its group, and the conditions that report them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

Object = dict[str, Any]

ESTABLISHED, NAMES_ACCEPTED, TERMINATING = "Established", "NamesAccepted", "Terminating"


class Taken(NamedTuple):
    """Names of the other definitions of a group: of resources (plural, singular, short), and of kinds."""

    resources: frozenset[str]
    kinds: frozenset[str]


class Names:
    """The accepted names of the definitions of a group."""

    def __init__(self, definitions: Iterable[Object]) -> None:
        self._resources: Counter[str] = Counter()
        self._kinds: Counter[str] = Counter()
        for each in definitions:
            resources, kinds = _accepted(each)
            self._resources.update(resources)
            self._kinds.update(kinds)

    def by_others(self, definition: Object) -> Taken:
        """Return the names that a definition wants and others of the group have."""
        resources, kinds = _accepted(definition)
        wanted = definition["spec"]["names"]
        return Taken(
            frozenset(each for each in _resource_names(wanted) if self._resources[each] > (each in resources)),
            frozenset(each for each in _kind_names(wanted) if self._kinds[each] > (each in kinds)),
        )


def _accepted(definition: Object) -> tuple[set[str], set[str]]:
    """Return the accepted names of a definition: of resources, and of kinds."""
    names = (definition.get("status") or {}).get("acceptedNames") or {}
    return _resource_names(names), _kind_names(names)


def _resource_names(names: Mapping[str, Any]) -> set[str]:
    return {*filter(None, (names.get("plural"), names.get("singular"), *(names.get("shortNames") or ())))}


def _kind_names(names: Mapping[str, Any]) -> set[str]:
    return {*filter(None, (names.get("kind"), names.get("listKind")))}


class AcceptedNames(NamedTuple):
    """The accepted names of a definition, and the reason why others are not; `reason` is empty if all are accepted."""

    names: Object
    reason: str
    message: str


def accept_names(definition: Object, taken: Taken) -> AcceptedNames:
    """Accept the names of a definition that are not taken; keep the old ones instead of the others."""
    wanted: Mapping[str, Any] = definition["spec"]["names"]
    names: Object = dict((definition.get("status") or {}).get("acceptedNames") or {"plural": "", "kind": ""})
    reason = message = ""
    for field, group, word in (
        ("plural", taken.resources, "PluralConflict"),
        ("singular", taken.resources, "SingularConflict"),
        ("shortNames", taken.resources, "ShortNamesConflict"),
        ("kind", taken.kinds, "KindConflict"),
        ("listKind", taken.kinds, "ListKindConflict"),
    ):
        value = wanted.get(field) or ([] if field == "shortNames" else "")
        used = [each for each in (value if isinstance(value, list) else [value]) if each in group]
        if used:
            reason, message = word, ", ".join(f'"{each}" is already in use' for each in used)
        elif value:
            names[field] = value
    names.pop("categories", None)
    if wanted.get("categories"):
        names["categories"] = wanted["categories"]
    return AcceptedNames(names, reason, message)


def conditions_of(definition: Object, verdict: AcceptedNames) -> list[Object]:
    """Return the conditions NamesAccepted and Established for a verdict, without times."""
    accepted = not verdict.reason
    known = {each["type"]: each for each in (definition.get("status") or {}).get("conditions") or []}
    established = known.get(ESTABLISHED)
    if established is None or established["status"] != "True":
        established = (
            condition(ESTABLISHED, True, "InitialNamesAccepted", "the initial names have been accepted")
            if accepted
            else condition(ESTABLISHED, False, "NotAccepted", "not all names are accepted")
        )
    names = (
        condition(NAMES_ACCEPTED, True, "NoConflicts", "no conflicts found")
        if accepted
        else condition(NAMES_ACCEPTED, False, verdict.reason, verdict.message)
    )
    return [names, established]


def condition(kind: str, holds: bool, reason: str, message: str) -> Object:
    """Return a condition without its time."""
    return {"type": kind, "status": "True" if holds else "False", "reason": reason, "message": message}


def set_conditions(status: Object, conditions: Iterable[Object], now: str) -> bool:
    """Set conditions in a status, replacing those of the same type; return True if anything has changed."""
    current: list[Object] = list(status.get("conditions") or [])
    changed = False
    for each in conditions:
        index = next((number for number, old in enumerate(current) if old["type"] == each["type"]), len(current))
        before = current[index] if index < len(current) else {}
        if all(before.get(key) == value for key, value in each.items()):
            continue
        same = before.get("status") == each["status"]
        since = (same and before.get("lastTransitionTime")) or now  # clients may write conditions without it
        current[index : index + 1] = [
            {
                "type": each["type"],
                "status": each["status"],
                "lastTransitionTime": since,
                "reason": each["reason"],
                "message": each["message"],
            }
        ]
        changed = True
    status["conditions"] = current
    return changed


def holds(definition: Mapping[str, Any], kind: str) -> bool:
    """Return True if a condition of a definition is true."""
    conditions = (definition.get("status") or {}).get("conditions") or []
    return any(each["type"] == kind and each["status"] == "True" for each in conditions)


def has_condition(definition: Mapping[str, Any], kind: str) -> bool:
    """Return True if a definition has a condition, with any status."""
    return any(each["type"] == kind for each in (definition.get("status") or {}).get("conditions") or [])
