"""Validation of a CustomResourceDefinition, except its schemas."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from kilauea.api.names import service_name_problems, subdomain_problems
from kilauea.apiserver.crd.rule_checks import check_rules
from kilauea.apiserver.crd.structural import check_structural
from kilauea.apiserver.deferred import LIGHT_CHECK
from kilauea.apiserver.fields import forbidden_field, invalid_value, not_supported, required
from kilauea.apiserver.status import Cause
from kilauea.apiserver.strategies.webhook_clients import check_client, check_versions

Object = dict[str, Any]
Raw = Mapping[str, Any]

COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
APPROVAL = "api-approved.kubernetes.io"
_SCHEMA = 40
"""Bytes of a schema that take as long as a character of a rule."""
_RULE = 10
"""Characters that take as long as the overhead of each rule."""
_PROTECTED = (".k8s.io", ".kubernetes.io")


def check_definition(definition: Object, old: Object | None = None) -> list[Cause]:
    """Return the errors in a definition; its metadata is checked elsewhere.

    Rules of a version whose schema is unchanged from `old` are not checked again.
    """
    spec = definition["spec"]
    names = spec.get("names") or {}
    causes = []
    if definition["metadata"].get("name") != f"{names.get('plural', '')}.{spec.get('group', '')}":
        message = 'must be spec.names.plural+"."+spec.group'
        causes.append(invalid_value("metadata.name", definition["metadata"].get("name", ""), message))
    causes += _group(spec.get("group") or "")
    if not spec.get("scope"):
        causes.append(required("spec.scope"))
    elif spec["scope"] not in ("Cluster", "Namespaced"):
        causes.append(not_supported("spec.scope", spec.get("scope", ""), ("Cluster", "Namespaced")))
    causes += _versions(spec, _schemas(old))
    causes += _names(names)
    causes += _shared(spec, _schemas(old))
    causes += _conversion(spec)
    causes += _approval(definition)
    return causes


def weight_of(definition: Object) -> int:
    """Return the work of checking a definition, in characters of expressions; a schema counts for part of its size."""
    versions = definition["spec"].get("versions") or ()
    size = len(msgspec.json.encode(versions)) // _SCHEMA
    return size if size > LIGHT_CHECK else size + sum(_rules_weight(_schema_of(each))[0] for each in versions)


def _schema_of(version: Object) -> Raw:
    found = (version.get("schema") or {}).get("openAPIV3Schema")
    return found if isinstance(found, dict) else {}


def _rules_weight(schema: Raw) -> tuple[int, int]:
    """Return the characters of the rules of a schema, with a part for the accessed schemas, and their number."""
    weight, count = 0, 1
    properties = schema.get("properties")
    inner = properties.values() if isinstance(properties, dict) else ()
    for each in (*inner, schema.get("items"), schema.get("additionalProperties")):
        if isinstance(each, dict):
            below, within = _rules_weight(each)
            weight, count = weight + below, count + within
    rules = schema.get("x-kubernetes-validations")
    if isinstance(rules, list) and rules:
        weight += count + sum(_RULE + len(text) for each in rules for text in _texts(each))
    return weight, count


def _texts(rule: Any) -> Iterator[str]:
    """Yield the expressions of a rule."""
    for key in ("rule", "messageExpression"):
        text = rule.get(key) if isinstance(rule, dict) else None
        if isinstance(text, str):
            yield text


def check_change(definition: Object, old: Object) -> list[Cause]:
    """Check that the scope and the kind do not change once objects may exist."""
    conditions = {each["type"]: each["status"] for each in (old.get("status") or {}).get("conditions") or []}
    if conditions.get("Established") != "True":
        return []
    new, before = definition["spec"], old["spec"]
    causes = []
    for path, value, former in (
        ("spec.scope", new.get("scope"), before["scope"]),
        ("spec.names.kind", new["names"].get("kind"), before["names"]["kind"]),
    ):
        if value != former:
            causes.append(invalid_value(path, value, "field is immutable"))
    return causes


def _group(group: str) -> Iterator[Cause]:
    if not group:
        yield required("spec.group")
        return
    problems = subdomain_problems(group)
    yield from (invalid_value("spec.group", group, each) for each in problems)
    if not problems and "." not in group:
        yield invalid_value("spec.group", group, "should be a domain with at least one dot")


def _approval(definition: Object) -> Iterator[Cause]:
    """Check that a definition in a group of Kubernetes has the approval annotation."""
    group = f".{definition['spec'].get('group', '')}"
    annotations = definition["metadata"].get("annotations") or {}
    if group.endswith(_PROTECTED) and not annotations.get(APPROVAL):
        message = (
            f'protected groups must have approval annotation "{APPROVAL}", see '
            "https://github.com/kubernetes/enhancements/pull/1111"
        )
        yield required(f"metadata.annotations[{APPROVAL}]", message)


# --- names


def _names(names: Object) -> Iterator[Cause]:
    for field in ("plural", "singular"):
        value = names.get(field) or ""
        if not value:
            yield required(f"spec.names.{field}")
        else:
            yield from (invalid_value(f"spec.names.{field}", value, each) for each in service_name_problems(value))
    for field in ("kind", "listKind"):
        value = names.get(field) or ""
        if not value:
            yield required(f"spec.names.{field}")
        for each in service_name_problems(value.lower()) if value else ():
            yield invalid_value(
                f"spec.names.{field}", value, f"may have mixed case, but should otherwise match: {each}"
            )
    if names.get("kind") and names.get("kind") == names.get("listKind"):
        yield invalid_value("spec.names.listKind", names["listKind"], "kind and listKind may not be the same")
    for field in ("shortNames", "categories"):
        for number, value in enumerate(names.get(field) or ()):
            place = f"spec.names.{field}[{number}]"
            yield from (invalid_value(place, value, each) for each in service_name_problems(value))


# --- versions


def _schemas(definition: Object | None) -> dict[str, Any]:
    """Return the schemas of the versions of a definition."""
    versions = (definition or {}).get("spec", {}).get("versions") or []
    return {each.get("name", ""): (each.get("schema") or {}).get("openAPIV3Schema") for each in versions}


def _versions(spec: Object, accepted: Raw) -> Iterator[Cause]:
    versions = spec.get("versions") or []
    names = [each.get("name", "") for each in versions]
    for number, name in enumerate(names):
        for each in service_name_problems(name):
            yield invalid_value(f"spec.versions[{number}].name", name, each)
    if len(set(names)) < len(names):
        yield invalid_value("spec.versions", names, "must contain unique version names")
    if sum(bool(each.get("storage")) for each in versions) != 1:
        yield invalid_value("spec.versions", names, "must have exactly one version marked as storage version")
    own = _PARTS - _shared_parts(versions)
    for number, version in enumerate(versions):
        path = f"spec.versions[{number}]"
        if version.get("deprecationWarning") is not None:
            text = version["deprecationWarning"]
            for problem in _warning_problems(text) if version.get("deprecated") else (_NOT_DEPRECATED,):
                yield invalid_value(f"{path}.deprecationWarning", text, problem)
        yield from _parts(version, path, own, accepted)


def _shared(spec: Object, accepted: Raw) -> Iterator[Cause]:
    """Check the parts that all versions share, whose errors have the path of the specification."""
    versions = spec.get("versions") or []
    if versions:
        yield from _parts(versions[0], "spec", _shared_parts(versions), accepted)


def _shared_parts(versions: list[Object]) -> frozenset[str]:
    return frozenset(part for part in _PARTS if len({repr(each.get(part)) for each in versions}) == 1)


LONGEST_WARNING = 256
_NOT_DEPRECATED = "can only be set for deprecated versions"
_NOT_A_PATH = "must be a simple json path starting with ."
_PARTS = frozenset(("schema", "subresources", "additionalPrinterColumns", "selectableFields"))


def _parts(version: Object, path: str, parts: frozenset[str], accepted: Raw) -> Iterator[Cause]:
    """Check some parts of a version, at the path of the version or of the specification."""
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    if "schema" in parts:
        if schema is None:
            yield required(f"{'spec.versions[0]' if path == 'spec' else path}.schema.openAPIV3Schema")
        else:
            place = f"{path}.{'validation' if path == 'spec' else 'schema'}.openAPIV3Schema"
            found = check_structural(schema, place)
            yield from found
            if not found and schema != accepted.get(version.get("name", "")):
                yield from check_rules(schema, place)
    if "subresources" in parts:
        yield from _subresources(version.get("subresources") or {}, f"{path}.subresources")
    if "additionalPrinterColumns" in parts:
        for index, column in enumerate(version.get("additionalPrinterColumns") or ()):
            yield from _column(column, f"{path}.additionalPrinterColumns[{index}]")
    if "selectableFields" in parts:
        for index, field in enumerate(version.get("selectableFields") or ()):
            yield from _selectable(field, schema or {}, f"{path}.selectableFields[{index}].jsonPath")


def _warning_problems(text: str) -> Iterator[str]:
    """Yield the errors in the warning that requests to a deprecated version get."""
    if len(text) > LONGEST_WARNING:
        yield f"must be <= {LONGEST_WARNING} characters long"
    if not text:
        yield "must not be an empty string"
    for number, character in enumerate(text):
        if not character.isprintable():
            at = len(text[:number].encode())
            yield f"must only contain printable UTF-8 characters; non-printable character found at index {at}"
            return


def _subresources(parts: Raw, path: str) -> Iterator[Cause]:
    scale = parts.get("scale")
    if scale is None:
        return
    for field, root in (("specReplicasPath", ".spec"), ("statusReplicasPath", ".status")):
        value = scale.get(field) or ""
        if not value:
            yield required(f"{path}.scale.{field}")
        elif not value.startswith("."):
            yield invalid_value(f"{path}.scale.{field}", value, _NOT_A_PATH)
        elif not value.startswith(f"{root}."):
            yield invalid_value(f"{path}.scale.{field}", value, f"should be a json path under {root}")
    selector = scale.get("labelSelectorPath") or ""
    if selector and not selector.startswith((".spec.", ".status.")):
        message = "should be a json path under either .spec or .status" if selector[0] == "." else _NOT_A_PATH
        yield invalid_value(f"{path}.scale.labelSelectorPath", selector, message)


def _column(column: Raw, path: str) -> Iterator[Cause]:
    if not column.get("name"):
        yield required(f"{path}.name")
    kind, form = column.get("type") or "", column.get("format") or ""
    message = f"must be one of {','.join(COLUMN_TYPES)}"
    if not kind:
        yield required(f"{path}.type", message)
    elif kind not in COLUMN_TYPES:
        yield invalid_value(f"{path}.type", kind, message)
    if form and form not in _FORMATS:
        yield invalid_value(f"{path}.format", form, f"must be one of {','.join(_FORMATS)}")
    text = column.get("jsonPath") or ""
    if not text:
        yield required(f"{path}.JSONPath")
    elif not text.startswith("."):
        yield invalid_value(f"{path}.JSONPath", text, "must be a simple json path starting with .")


def _selectable(field: Raw, schema: Raw, path: str) -> Iterator[Cause]:
    text = field.get("jsonPath") or ""
    if not text:
        yield required(path)
        return
    node: Raw | None = schema
    for step in text.lstrip(".").split("."):
        node = (node or {}).get("properties", {}).get(step)
    if node is None:
        yield invalid_value(path, text, "is an invalid path: does not refer to a valid field")
    elif not re.fullmatch("string|integer|boolean", node.get("type", "")):
        yield invalid_value(path, text, "must point to a field of type string, boolean or integer")


# --- conversion


def _conversion(spec: Object) -> Iterator[Cause]:
    """Check the conversion strategy, and the address and review versions of a webhook."""
    conversion = spec.get("conversion") or {}
    strategy, webhook = conversion.get("strategy", "None"), conversion.get("webhook") or {}
    if strategy not in ("None", "Webhook"):
        yield not_supported("spec.conversion.strategy", strategy, ("None", "Webhook"))
    elif strategy == "None":
        message = "should not be set when strategy is not set to Webhook"
        for field, told in (("clientConfig", "webhookClientConfig"), ("conversionReviewVersions",) * 2):
            if webhook.get(field):
                yield forbidden_field(f"spec.conversion.{told}", message)
    elif strategy == "Webhook":
        config = webhook.get("clientConfig")
        if not config:
            yield required("spec.conversion.webhookClientConfig", "required when strategy is set to Webhook")
        else:
            yield from check_client(config, "spec.conversion.webhookClientConfig")
        versions = webhook.get("conversionReviewVersions") or []
        yield from check_versions(versions, "spec.conversion.conversionReviewVersions")
    if spec.get("preserveUnknownFields"):
        message = (
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        )
        yield invalid_value("spec.preserveUnknownFields", True, message)
