"""Rules for CustomResourceDefinitions: names get defaults, and instances are deleted first."""

from __future__ import annotations

from kilauea.apiserver.crd.columns import column_warnings
from kilauea.apiserver.crd.definition_checks import check_change, check_definition, weight_of
from kilauea.apiserver.crd.formats import format_warnings
from kilauea.apiserver.crd.names import TERMINATING, condition, set_conditions
from kilauea.apiserver.deferred import causes_of
from kilauea.apiserver.status import Cause
from kilauea.apiserver.strategies.base import Object, Strategy

CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
"""Finalizer that keeps a definition until its instances are deleted."""
_GOING = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"


class DefinitionStrategy(Strategy):
    """The rules of CustomResourceDefinition."""

    unconditional_update = False
    deletes_plainly = True

    def default(self, obj: Object) -> None:
        """Set the names that derive from the kind."""
        names = obj.get("spec", {}).get("names")
        if not isinstance(names, dict):
            return
        kind = names.get("kind") or ""
        if kind and not names.get("singular"):
            names["singular"] = kind.lower()
        if kind and not names.get("listKind"):
            names["listKind"] = f"{kind}List"

    def prepare_create(self, obj: Object) -> None:
        """Initialize the status of a definition that is not served yet."""
        super().prepare_create(obj)
        obj["status"] = {
            "conditions": None,
            "acceptedNames": {"plural": "", "kind": ""},
            "storedVersions": _stored(obj),
        }

    def prepare_update(self, obj: Object, old: Object) -> None:
        """Keep the status, except the versions in which objects may be stored."""
        super().prepare_update(obj, old)
        known = (obj.get("status") or {}).get("storedVersions") or []
        new = [each for each in _stored(obj) if each not in known]
        if new:
            obj["status"] = {**(obj.get("status") or {}), "storedVersions": [*known, *new]}

    def prepare_delete(self, obj: Object) -> None:
        """Mark the definition as terminating, so that instances are deleted first."""
        finalizers = obj["metadata"].setdefault("finalizers", [])
        if CLEANUP not in finalizers:
            finalizers.append(CLEANUP)
        going = condition(TERMINATING, True, "InstanceDeletionPending", _GOING)
        set_conditions(obj["status"], [going], obj["metadata"]["deletionTimestamp"])

    def validate(self, obj: Object) -> list[Cause]:
        """Return the errors in a definition."""
        return _checked(obj)

    def validate_change(self, obj: Object, old: Object) -> list[Cause]:
        """Return the errors in an updated definition."""
        return _checked(obj, old)

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        """Return the errors in a change."""
        return check_change(obj, old)

    def warnings(self, obj: Object) -> list[str]:
        """Return warnings about invalid printer columns and unknown formats."""
        return [*column_warnings(obj), *format_warnings(obj)]

    def warnings_of_change(self, obj: Object, old: Object) -> list[str]:
        """Return the same warnings for an update, but only for new formats."""
        if obj["spec"] == old["spec"]:
            return []
        return [*column_warnings(obj), *format_warnings(obj, old)]


def _checked(obj: Object, old: Object | None = None) -> list[Cause]:
    """Return the errors in a definition; a large one is checked in another process, once for all attempts to write."""
    parts = [None if each is None else _part(each) for each in (obj, old)]
    return causes_of("definition", check_definition, *parts, weight=weight_of(obj))


def _part(obj: Object) -> Object:
    """Return the checked part of a definition."""
    metadata = {key: value for key, value in obj["metadata"].items() if key in ("name", "annotations")}
    return {"metadata": metadata, "spec": obj["spec"]}


def _stored(obj: Object) -> list[str]:
    """Return the storage version, in a list."""
    return [each["name"] for each in obj["spec"].get("versions") or [] if each.get("storage")]
