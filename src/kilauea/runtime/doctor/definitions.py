"""The check of the CustomResourceDefinitions: they exist, are served, and have the fields that Kilauea uses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kilauea.api.crds import definitions
from kilauea.api.kinds import DEFINITIONS
from kilauea.api.numbers import plural
from kilauea.api.ports import Obj
from kilauea.apiserver.schema import openapi_definitions
from kilauea.runtime.doctor.facts import Facts
from kilauea.runtime.doctor.findings import ERROR, WARNING, Check, Finding, check_of, unread

INSTALL = "kubectl apply --server-side --force-conflicts -f deploy/crds/"
SHOWN = 5
"""Maximum number of missing fields in a message."""
NEEDED = ("podgroups", "queues", "jobs", "commands")
"""Kinds required for scheduling; the others are for parts that may be unused."""


def check_definitions(facts: Facts) -> Check:
    """Check the definitions of Volcano's kinds."""
    error = facts.refused.get(DEFINITIONS)
    wanted = definitions(openapi_definitions())
    if error is not None:
        fix = "grant your user list on customresourcedefinitions.apiextensions.k8s.io"
        return check_of("definitions", "", [unread("CustomResourceDefinitions", error, fix)])
    there = {each["metadata"]["name"]: each for each in facts.all(DEFINITIONS)}
    found = [finding for each in wanted for finding in _findings(each, there.get(each["metadata"]["name"]))]
    return check_of("definitions", f"{plural(len(wanted), 'definition')} of this version", found)


def _findings(wanted: Mapping[str, Any], there: Obj | None) -> Iterator[Finding]:
    name = wanted["metadata"]["name"]
    where, fix = f"CustomResourceDefinition {name}", f"{INSTALL}{name}.yaml"
    plural = wanted["spec"]["names"]["plural"]
    severity = ERROR if plural in NEEDED else WARNING
    if there is None:
        yield Finding(severity, where, "", "", f"the definition of {name} is missing", fix)
        return
    if there["metadata"].get("deletionTimestamp"):
        message = f"{name} is being deleted, with all its objects"
        yield Finding(severity, where, "metadata.deletionTimestamp", "", message, f"when it is gone: {fix}")
        return
    faulty = _unestablished(there)
    if faulty:
        message = f"{name} is not served: {faulty}"
        yield Finding(severity, where, "status.conditions", "Established=False", message, fix)
        return
    yield from _versions(wanted, there, where, severity, fix)


def _unestablished(there: Obj) -> str:
    """Return the reason why a definition is not established; empty if it is."""
    conditions = {each["type"]: each for each in (there.get("status") or {}).get("conditions") or ()}
    if conditions.get("Established", {}).get("status") == "True":
        return ""
    names = conditions.get("NamesAccepted", {})
    return str(names.get("message") or "it is not established yet")


def _versions(wanted: Mapping[str, Any], there: Obj, where: str, severity: str, fix: str) -> Iterator[Finding]:
    ours = wanted["spec"]["versions"][0]
    theirs = {each["name"]: each for each in there["spec"]["versions"]}
    version = theirs.get(ours["name"])
    if version is None or not version.get("served"):
        served = ", ".join(name for name, each in theirs.items() if each.get("served")) or "none"
        message = f"version {ours['name']} is not served"
        yield Finding(severity, where, "spec.versions", served, message, fix)
        return
    if there["spec"].get("scope") != wanted["spec"]["scope"]:
        message = f"its objects must be {wanted['spec']['scope']}"
        fix = f"delete the definition, with all objects of the kind, then {fix}"
        yield Finding(severity, where, "spec.scope", str(there["spec"].get("scope")), message, fix)
        return
    missing = sorted(_missing(_schema(ours), _schema(version)))
    if missing:
        shown = ", ".join(missing[:SHOWN]) + (f" and {len(missing) - SHOWN} more" if len(missing) > SHOWN else "")
        message = f"the server drops fields from objects, because the definition is from another version: {shown}"
        yield Finding(WARNING, where, f"spec.versions[{ours['name']}].schema", "", message, fix)
    status = "status" in (ours.get("subresources") or {})
    if status and "status" not in (version.get("subresources") or {}):
        message = "statuses cannot be written, because it has no status subresource"
        yield Finding(severity, where, f"spec.versions[{ours['name']}].subresources", "", message, fix)


def _schema(version: Mapping[str, Any]) -> Mapping[str, Any]:
    schema: Mapping[str, Any] = (version.get("schema") or {}).get("openAPIV3Schema") or {}
    return schema


def _missing(ours: Mapping[str, Any], theirs: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Yield paths of fields that one schema has and the other drops."""
    if theirs.get("x-kubernetes-preserve-unknown-fields"):
        return
    if "items" in ours:
        yield from _missing(ours["items"], theirs.get("items") or {}, f"{path}[]")
    values, their_values = ours.get("additionalProperties"), theirs.get("additionalProperties")
    if isinstance(values, Mapping) and isinstance(their_values, Mapping):
        yield from _missing(values, their_values, f"{path}.*")
    known = theirs.get("properties") or {}
    if not known and isinstance(their_values, Mapping):
        return
    for name, schema in (ours.get("properties") or {}).items():
        below = f"{path}.{name}" if path else name
        if name not in known:
            if below not in ("apiVersion", "kind", "metadata"):
                yield below
        else:
            yield from _missing(schema, known[name], below)
