"""Controllers of CustomResourceDefinitions: names and conditions, and the cleanup on deletion.

As in Kubernetes, these run in the API server: without them it would serve no custom resource. They have the same form
as all other controllers, and the same driver runs them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kilauea.api.kinds import DEFINITIONS, defined_kind
from kilauea.api.ports import Controller, Empty, Interest, Key, Obj, Operation, Outcome, Patch, View, key_of
from kilauea.api.times import SECOND, format_time
from kilauea.apiserver.crd.definition_strategy import CLEANUP
from kilauea.apiserver.crd.names import TERMINATING, Names, accept_names, condition, conditions_of, set_conditions

_FIELDS = (
    "metadata.finalizers",
    "spec.group",
    "spec.names",
    "spec.scope",
    "spec.versions[].name",
    "spec.versions[].served",
    "spec.versions[].storage",
    "status",
)
"""Fields that the controllers read; schemas may have a megabyte, and a change lets a whole group be read."""


def definition_controllers() -> list[Controller]:
    """Return all controllers of definitions."""
    return [NamingController(), CleanupController()]


def _group(definition: Obj) -> Iterable[Key]:
    return (Key("", definition["spec"]["group"]),)


def _itself(definition: Obj) -> Iterable[Key]:
    return (key_of(definition),)


def _is_being_deleted(definition: Obj) -> bool:
    return bool(definition["metadata"].get("deletionTimestamp"))


class NamingController:
    """Accepts the names of definitions, and establishes those whose names are accepted.

    Its keys are groups, since another definition of the group may wait for a name that one releases.
    """

    name = "crd-naming-controller"
    interests = (Interest(DEFINITIONS, _group, fields=_FIELDS),)

    def reconcile(self, key: Key, view: View, now: int) -> Outcome:
        """Update the status of all definitions of a group."""
        group = [dict(each) for each in view.list(DEFINITIONS) if each["spec"]["group"] == key.name]
        taken = Names(group)
        operations: list[Operation] = []
        for definition in group:
            if _is_being_deleted(definition):
                continue
            verdict = accept_names(definition, taken.by_others(definition))
            before = definition.get("status") or {}
            status = definition["status"] = {**before, "acceptedNames": verdict.names}
            changed = set_conditions(status, conditions_of(definition, verdict), _stamp(now))
            if changed or before.get("acceptedNames") != verdict.names:
                operations.append(_status_patch(definition, before, status))
        return Outcome(operations)


class CleanupController:
    """Deletes the instances of definitions that are being deleted, then removes the finalizer."""

    name = "crd-cleanup-controller"
    interests = (Interest(DEFINITIONS, _itself, fields=_FIELDS),)

    def reconcile(self, key: Key, view: View, now: int) -> Outcome:
        """Take the next step for a definition that is being deleted."""
        definition = view.get(DEFINITIONS, key)
        if definition is None or not _is_being_deleted(definition):
            return Outcome()
        finalizers = definition["metadata"].get("finalizers") or []
        if CLEANUP not in finalizers:
            return Outcome()
        before = definition.get("status") or {}
        status = dict(before)
        going = condition(TERMINATING, True, "InstanceDeletionInProgress", "CustomResource deletion is in progress")
        if set_conditions(status, [going], _stamp(now)):
            return Outcome([_status_patch(definition, before, status)])
        resource = defined_kind(definition)
        emptied: list[Operation] = [Empty([resource])] if resource is not None else []
        kept = [each for each in finalizers if each != CLEANUP]
        released = {"metadata": {"finalizers": kept or None}}
        version = definition["metadata"]["resourceVersion"]
        return Outcome([*emptied, Patch(DEFINITIONS, key, released, version=version)])


def _stamp(now: int) -> str:
    return format_time(now - now % SECOND)


def _status_patch(definition: Obj, before: Mapping[str, Any], status: Mapping[str, Any]) -> Patch:
    """Return the patch of the status fields that the server sets: conditions and accepted names."""
    names = status.get("acceptedNames") or {}
    dropped = {name: None for name in before.get("acceptedNames") or {} if name not in names}
    patch = {"status": {"conditions": status["conditions"], "acceptedNames": {**dropped, **names}}}
    version = definition["metadata"]["resourceVersion"]
    return Patch(DEFINITIONS, key_of(definition), patch, subresource="status", version=version)
