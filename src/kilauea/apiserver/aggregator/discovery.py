"""Discovery of other API servers, merged into the documents of this server by priority."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kilauea.apiserver.aggregator.priorities import group_priority, version_priority
from kilauea.apiserver.aggregator.services import Aggregator, RemoteService

Object = dict[str, Any]


def with_group_list(document: Object, aggregator: Aggregator) -> Object:
    """Return an `APIGroupList` with the groups of other servers."""
    own = {each["name"]: each for each in document["groups"]}
    groups = [
        own[name] if not services else _group(name, own.get(name), services)
        for name, services in _ordered(list(own), aggregator)
    ]
    return {**document, "groups": groups}


def with_group(document: Object | None, name: str, aggregator: Aggregator) -> Object | None:
    """Return an `APIGroup` with the versions of other servers; None if the group does not exist."""
    services = [each for each in aggregator.services.values() if each.group == name]
    if not services:
        return document
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(name, document, services)}


def _group(name: str, own: Object | None, services: Sequence[RemoteService]) -> Object:
    versions = [{"groupVersion": f"{name}/{each}", "version": each} for each in _versions(name, own, services)]
    return {"name": name, "versions": versions, "preferredVersion": versions[0]}


def with_aggregated(document: Object, aggregator: Aggregator) -> Object:
    """Return an `APIGroupDiscoveryList` of groups with those of other servers."""
    own = {each["metadata"]["name"]: each for each in document["items"]}
    items = [
        own[name] if not services else _aggregated(name, own.get(name), services, aggregator)
        for name, services in _ordered(list(own), aggregator)
    ]
    return {**document, "items": items}


def _aggregated(name: str, own: Object | None, services: Sequence[RemoteService], aggregator: Aggregator) -> Object:
    entries = {each["version"]: each for each in (own or {"versions": ()})["versions"]}
    for service in services:
        found = aggregator.found.get(service.key)
        is_current = service.is_available and found is not None and found.resources is not None
        entry: Object = {"version": service.version, "freshness": "Current" if is_current else "Stale"}
        resources = _resources(service, found.resources) if found is not None and found.resources else []
        if resources:
            entry["resources"] = resources
        entries[service.version] = entry
    metadata = {"name": name, "creationTimestamp": None}
    return {"metadata": metadata, "versions": [entries[each] for each in _versions(name, own, services)]}


def _resources(service: RemoteService, listed: Iterable[Mapping[str, Any]]) -> list[Object]:
    """Return the entries of an `APIResourceList` in the aggregated format."""
    found: dict[str, Object] = {}
    for each in sorted(listed, key=lambda each: "/" in each["name"]):
        plural, _, part = each["name"].partition("/")
        kind = {
            "group": each.get("group") or service.group,
            "version": each.get("version") or service.version,
            "kind": each["kind"],
        }
        if not part:
            found[plural] = _resource(plural, kind, each)
        elif plural in found:
            entry = {"subresource": part, "responseKind": kind, "verbs": each["verbs"]}
            found[plural].setdefault("subresources", []).append(entry)
    return list(found.values())


def _resource(plural: str, kind: Object, each: Mapping[str, Any]) -> Object:
    entry = {
        "resource": plural,
        "responseKind": kind,
        "scope": "Namespaced" if each["namespaced"] else "Cluster",
        "singularResource": each.get("singularName") or "",
        "verbs": each["verbs"],
    }
    return entry | {name: each[name] for name in ("shortNames", "categories") if each.get(name)}


def _versions(name: str, own: Object | None, services: Sequence[RemoteService]) -> list[str]:
    """Return the versions of a group, the preferred one first."""
    listed = [each["version"] for each in own["versions"]] if own is not None else []
    priorities = {each: version_priority(name, each) for each in listed}
    priorities |= {each.version: each.version_priority for each in services}
    return sorted(priorities, key=lambda each: -priorities[each])


def _ordered(own: Sequence[str], aggregator: Aggregator) -> list[tuple[str, list[RemoteService]]]:
    """Return the groups in order with their remote services; groups of this server keep their order."""
    services: dict[str, list[RemoteService]] = {}
    for each in sorted(aggregator.services.values(), key=lambda each: each.name):
        services.setdefault(each.group, []).append(each)
    names = list(own)
    added = {name: max(each.group_priority for each in found) for name, found in services.items() if name not in own}
    for name in sorted(added, key=lambda name: (-added[name], name)):
        before = [at for at, each in enumerate(names) if added.get(each, group_priority(each)) < added[name]]
        names.insert(before[0] if before else len(names), name)
    return [(name, services.get(name, [])) for name in names]
