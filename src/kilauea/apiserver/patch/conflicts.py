"""Fields that an apply would take from other managers, and the messages about them."""

from __future__ import annotations

from collections.abc import Iterator

from kilauea.apiserver.patch.fieldset import EMPTY, FieldSet, difference, intersection, path_text, paths, union
from kilauea.apiserver.patch.managed import UPDATE, Managed, Manager
from kilauea.apiserver.status import MOST_CHARACTERS, ApiFault, Cause, cause_dict

Conflicts = dict[Manager, FieldSet]
"""The changed fields that each manager owns."""


def conflicts_of(managed: Managed, changed: FieldSet, applying: Manager) -> Conflicts:
    """Return the changed fields that other managers own."""
    found = {manager: intersection(owned.fields, changed) for manager, owned in managed.items() if manager != applying}
    return {manager: fields for manager, fields in found.items() if fields}


def all_fields(conflicts: Conflicts) -> FieldSet:
    """Return all conflicting fields of all owners."""
    total = EMPTY
    for fields in conflicts.values():
        total = union(total, fields)
    return total


def remaining(conflicts: Conflicts, allowed: FieldSet) -> Conflicts:
    """Return the conflicts without the fields that may be taken."""
    found = {manager: difference(fields, allowed) for manager, fields in conflicts.items()}
    return {manager: fields for manager, fields in found.items() if fields}


class ApplyConflict(ApiFault):
    """An apply would change fields of other managers; `causes` names them."""

    def __init__(self, conflicts: Conflicts) -> None:
        listed = list(_first(_listed(conflicts)))
        count = sum(1 for owned in conflicts.values() for _ in paths(owned))
        self.causes = [Cause(field, "FieldManagerConflict", f"conflict with {words(owner)}") for owner, field in listed]
        super().__init__(
            409, "Conflict", _message(listed, count), {"causes": [cause_dict(each) for each in self.causes]}
        )


def _listed(conflicts: Conflicts) -> Iterator[tuple[Manager, str]]:
    """Yield managers in order, each with its fields."""
    for manager in sorted(conflicts):
        for path in paths(conflicts[manager]):
            yield manager, path_text(path)


def _first(listed: Iterator[tuple[Manager, str]]) -> Iterator[tuple[Manager, str]]:
    """Yield the fields that the answer names: paths may be as long as the object, and many have the same beginning."""
    size = 0
    for manager, field in listed:
        yield manager, field
        size += len(field)
        if size > MOST_CHARACTERS:
            return


def _message(listed: list[tuple[Manager, str]], count: int) -> str:
    if count == 1:
        manager, field = listed[0]
        return f"Apply failed with 1 conflict: conflict with {words(manager)}: {field}"
    lines = []
    previous = None
    for manager, field in listed:
        if manager != previous:
            lines.append(f"conflicts with {words(manager)}:")
        lines.append(f"- {field}")
        previous = manager
    if count > len(listed):
        lines.append("...")
    text = "\n".join(lines)
    return f"Apply failed with {count} conflicts: {text}"


def words(manager: Manager) -> str:
    """Describe a manager: `"kubectl-create" using apps/v1`."""
    text = f'"{manager.name}"'
    if manager.subresource:
        text += f' with subresource "{manager.subresource}"'
    return f"{text} using {manager.api_version}" if manager.operation == UPDATE else text
