"""The kinds of a definition: their resource types, and the rules for their objects."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from typing import Any

from kilauea.apiserver import status
from kilauea.apiserver.backend import Backend
from kilauea.apiserver.crd.columns import table_form
from kilauea.apiserver.crd.names import TERMINATING, holds
from kilauea.apiserver.crd.ratcheting import new_causes
from kilauea.apiserver.crd.rules import apply_rules, rules_of
from kilauea.apiserver.crd.scale_checks import check_scale_spec, check_scale_status
from kilauea.apiserver.custom_resources.conversion import VersionConversion
from kilauea.apiserver.custom_resources.stored_defaults import StoredDefaults, stored_defaults
from kilauea.apiserver.patch.values import same
from kilauea.apiserver.resources.types import STATUS_VERBS, ResourceType, Subresource
from kilauea.apiserver.schema import Schema, from_openapi, validate, violations
from kilauea.apiserver.status import MORE_ERRORS, Cause
from kilauea.apiserver.strategies.base import Object, ScalePaths, Strategy, keep

VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
_BLOCKING = frozenset(f"FieldValue{each}" for each in ("NotSupported", "Required", "TooLong", "TooMany", "TypeInvalid"))
_NAMES = ("name", "generateName")
_RULES_SKIPPED = Cause(
    "<nil>",
    "FieldValueInvalid",
    "Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing "
    "errors to complete validation",
)


def custom_types(definition: Object, backend: Backend) -> list[ResourceType]:
    """Return the resource types of an established definition, one for each served version."""
    versions = definition["spec"]["versions"]
    schemas = {each["name"]: from_openapi(each["schema"]["openAPIV3Schema"]) for each in versions}
    conversion = VersionConversion(backend, definition, schemas) if len(versions) > 1 else None
    prefix, revision = _prefix(definition), int(definition["metadata"].get("resourceVersion") or 0)
    served = [(each, schemas[each["name"]]) for each in versions if each.get("served")]
    return [
        _type(definition, version, schema, conversion, stored_defaults(backend.store, prefix, schema, revision))
        for version, schema in served
    ]


def _prefix(definition: Object) -> str:
    """Return the prefix of the keys of the objects of a definition."""
    return f"/{definition['spec']['group']}/{definition['status']['acceptedNames']['plural']}/"


def _type(
    definition: Object,
    version: Mapping[str, Any],
    schema: Schema,
    conversion: VersionConversion | None,
    late_defaults: StoredDefaults | None,
) -> ResourceType:
    spec, names = definition["spec"], definition["status"]["acceptedNames"]
    parts = version.get("subresources") or {}
    terminating = holds(definition, TERMINATING)
    stored = next(each["name"] for each in spec["versions"] if each.get("storage"))
    return ResourceType(
        group=spec["group"],
        version=version["name"],
        plural=names["plural"],
        kind=names["kind"],
        namespaced=spec["scope"] == "Namespaced",
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        singular=names.get("singular", ""),
        list_kind=names.get("listKind", ""),
        verbs=VERBS,
        subresources=tuple(_subresources(parts, spec["group"], version["name"], names["kind"])),
        strategy=CustomStrategy(definition, version, schema, terminating),
        custom_schema=schema,
        storage_version_hash=_storage_hash(f"{spec['group']}/{stored}/{names['kind']}"),
        table=table_form(version.get("additionalPrinterColumns") or ()),
        conversion=conversion,
        late_defaults=late_defaults,
    )


def _storage_hash(identity: str) -> str:
    """Return a hash that changes with the storage version."""
    return base64.b64encode(hashlib.sha256(identity.encode()).digest()[:8]).decode()


def _subresources(parts: Mapping[str, Any], group: str, version: str, kind: str) -> list[Subresource]:
    found = []
    if "status" in parts:
        found.append(Subresource("status", kind, STATUS_VERBS, group, version))
    if "scale" in parts:
        found.append(Subresource("scale", "Scale", STATUS_VERBS, "autoscaling", "v1"))
    return found


class CustomStrategy(Strategy):
    """The rules of a custom kind."""

    unconditional_update = False

    def __init__(self, definition: Object, version: Mapping[str, Any], schema: Schema, terminating: bool) -> None:
        parts = version.get("subresources") or {}
        self._resource = f"{definition['spec']['names']['plural']}.{definition['spec']['group']}"
        self._group = definition["spec"]["group"]
        self._plural = definition["spec"]["names"]["plural"]
        self._schema = schema
        self._rules = rules_of(schema.raw, self._resource)
        self._terminating = terminating
        self.has_status = "status" in parts
        self.selectable = tuple(each["jsonPath"].lstrip(".") for each in version.get("selectableFields") or ())
        self._has_scale = "scale" in parts
        if self._has_scale:
            self.scale = _scale_paths(parts["scale"])

    def prepare_create(self, obj: Object) -> None:
        """Reject new instances while the definition is being deleted."""
        if self._terminating:
            message = "create not allowed while custom resource definition is terminating"
            raise status.forbidden(self._plural, self._group, obj["metadata"].get("name", ""), message)
        super().prepare_create(obj)

    def prepare_update(self, obj: Object, old: Object) -> None:
        """Keep the status if it is a subresource, and count changes of anything else."""
        if self.has_status:
            keep(obj, old, "status")
        generation = old["metadata"].get("generation", 1)
        parts = {**old, **obj}.keys() - {"metadata"}
        changed = any(not same(obj.get(part), old.get(part)) for part in parts)
        obj["metadata"]["generation"] = generation + 1 if changed else generation

    def prepare_status(self, obj: Object, old: Object) -> None:
        """Restore everything but the status and managedFields."""
        managers = obj["metadata"].get("managedFields")
        for field in [name for name in {**old, **obj} if name != "status"]:
            keep(obj, old, field)
        obj["metadata"] = {**old["metadata"], "managedFields": managers}

    def validate(self, obj: Object) -> list[Cause]:
        """Return the violations of the schema and its rules by a new object."""
        causes = validate(self._schema, obj) + self._check_scale(obj)
        if self._rules is None:
            return causes
        if _blocks(causes):
            return [*causes, _RULES_SKIPPED]
        return causes + apply_rules(self._rules, _as_rules_see_it(obj))

    def _check_scale(self, obj: Object) -> list[Cause]:
        """Return the errors in the values of the scale."""
        if not self._has_scale:
            return []
        return [*check_scale_spec(self.scale, obj), *check_scale_status(self.scale, obj)]

    def validate_change(self, obj: Object, old: Object) -> list[Cause]:
        """Return the violations by an updated object, ignoring errors in unchanged values."""
        causes = new_causes(self._schema.raw, violations(self._schema, obj), obj, old) + self._check_scale(obj)
        if self._rules is None:
            return causes
        if _blocks(causes):
            return [*causes, _RULES_SKIPPED]
        return causes + apply_rules(self._rules, _as_rules_see_it(obj), _as_rules_see_it(old), has_old=True)

    def validate_status(self, obj: Object, old: Object) -> list[Cause]:
        """Return the errors in a new status; rules see the whole object."""
        described = self._schema.properties.get("status")
        if described is None or "status" not in obj:
            return []
        found = violations(described, obj["status"])
        inside = (each._replace(field=_in_status(each.field)) for each in found)
        causes = new_causes(self._schema.raw, inside, obj, old)
        causes += check_scale_status(self.scale, obj) if self._has_scale else ()
        if self._rules is None:
            return causes
        if _blocks(causes):
            return [*causes, _RULES_SKIPPED]
        return causes + apply_rules(self._rules, _as_rules_see_it(obj), _as_rules_see_it(old), has_old=True)


def _as_rules_see_it(obj: Object) -> Object:
    """Return an object with only the names in its metadata, as in Kubernetes.

    So the object is also the same when the request is repeated after its rules were evaluated in another process,
    although its UID and its times differ.
    """
    return {**obj, "metadata": {key: obj["metadata"][key] for key in _NAMES if key in obj["metadata"]}}


def _blocks(causes: list[Cause]) -> bool:
    """Return True if an object is too malformed to evaluate rules."""
    return any(each.reason in _BLOCKING or each is MORE_ERRORS for each in causes)


def _in_status(field: str) -> str:
    if field == "<nil>":
        return field
    return f"status{field}" if field.startswith("[") else f"status.{field}" if field else "status"


def _scale_paths(scale: Mapping[str, Any]) -> ScalePaths:
    paths = [scale.get(key) or "" for key in ("specReplicasPath", "statusReplicasPath", "labelSelectorPath")]
    replicas, current, selector = (each.lstrip(".") for each in paths)
    return ScalePaths(replicas, current, selector)
