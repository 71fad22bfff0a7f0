"""Discovery: the served groups, versions and kinds; unaggregated, and aggregated in a single response."""

from __future__ import annotations

from typing import Any

from kilauea.api.kinds import KUBERNETES_POD_GROUPS
from kilauea.apiserver.resources.registry import Registry
from kilauea.apiserver.resources.types import ResourceType, Subresource

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
_VERSIONS = ("v2", "v2beta1")


def aggregated_version(accept: str) -> str:
    """Return the version of aggregated discovery that an Accept header prefers; empty for unaggregated discovery."""
    for clause in accept.split(","):
        media, *parameters = [part.strip() for part in clause.split(";")]
        given = dict(part.partition("=")[::2] for part in parameters)
        if media not in ("application/json", "*/*"):
            continue
        if given.get("as") == "APIGroupDiscoveryList" and given.get("v") in _VERSIONS:
            return given["v"]
        if "as" not in given:
            return ""
    return ""


# --- plain


def core_versions(address: str) -> dict[str, Any]:
    """Return `APIVersions`, the response at `/api`."""
    where = [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": where}


def group_list(registry: Registry) -> dict[str, Any]:
    """Return `APIGroupList`, the response at `/apis`."""
    groups = [_group(registry, name) for name in _listed(registry) if name]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def _listed(registry: Registry) -> list[str]:
    """Return all groups in order.

    If two groups have a kind with the same name, clients use the first: `kubectl get podgroups` must show Volcano's.
    """
    return sorted(registry.groups(), key=lambda name: name == KUBERNETES_POD_GROUPS.group)


def group(registry: Registry, name: str) -> dict[str, Any] | None:
    """Return `APIGroup`, the response at `/apis/GROUP`."""
    if not name or not registry.versions(name):
        return None
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(registry, name)}


def _group(registry: Registry, name: str) -> dict[str, Any]:
    versions = [{"groupVersion": f"{name}/{version}", "version": version} for version in registry.versions(name)]
    return {"name": name, "versions": versions, "preferredVersion": versions[0]}


def resource_list(registry: Registry, name: str, version: str) -> dict[str, Any] | None:
    """Return `APIResourceList`, the response at `/apis/GROUP/VERSION` and `/api/v1`."""
    types = registry.of_version(name, version)
    if not types:
        return None
    resources = [entry for each in types for entry in _plain(each)]
    version_of_list = {"apiVersion": "v1"} if name else {}  # as in the real server
    return {
        "kind": "APIResourceList",
        **version_of_list,
        "groupVersion": types[0].api_version,
        "resources": resources,
    }


def _plain(resource: ResourceType) -> list[dict[str, Any]]:
    """Return a kind and its subresources as entries of an `APIResourceList`."""
    entry: dict[str, Any] = {
        "name": resource.plural,
        "singularName": resource.singular_name,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(resource.verbs),
        **_names(resource),
    }
    if resource.storage_version_hash:
        entry["storageVersionHash"] = resource.storage_version_hash
    return [entry, *(_plain_subresource(resource, each) for each in resource.subresources)]


def _names(resource: ResourceType) -> dict[str, list[str]]:
    """Return short names and categories, if any."""
    names = {"shortNames": list(resource.short_names), "categories": list(resource.categories)}
    return {key: value for key, value in names.items() if value}


def _plain_subresource(resource: ResourceType, part: Subresource) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "name": f"{resource.plural}/{part.name}",
        "singularName": "",
        "namespaced": resource.namespaced,
    }
    if (part.group, part.version) != (resource.group, resource.version):
        entry |= {"group": part.group, "version": part.version}
    return {**entry, "kind": part.kind, "verbs": list(part.verbs)}


# --- aggregated


def aggregated(registry: Registry, version: str, *, core: bool) -> dict[str, Any]:
    """Return `APIGroupDiscoveryList`: the core group (at `/api`), or all others (at `/apis`)."""
    groups = [name for name in _listed(registry) if (not name) is core]
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"apidiscovery.k8s.io/{version}",
        "metadata": {},
        "items": [_aggregated_group(registry, name) for name in groups],
    }


def _aggregated_group(registry: Registry, name: str) -> dict[str, Any]:
    versions = [
        {
            "version": version,
            "resources": [_aggregated(each) for each in registry.of_version(name, version)],
            "freshness": "Current",
        }
        for version in registry.versions(name)
    ]
    metadata = {"name": name, "creationTimestamp": None} if name else {"creationTimestamp": None}
    return {"metadata": metadata, "versions": versions}


def _aggregated(resource: ResourceType) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "resource": resource.plural,
        "responseKind": _response_kind(resource.group, resource.version, resource.kind),
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular_name,
        "verbs": list(resource.verbs),
        **_names(resource),
    }
    if resource.subresources:
        entry["subresources"] = [
            {
                "subresource": part.name,
                "responseKind": _response_kind(part.group, part.version, part.kind),
                "verbs": list(part.verbs),
            }
            for part in resource.subresources
        ]
    return entry


def _response_kind(group_name: str, version: str, kind: str) -> dict[str, str]:
    return {"group": group_name, "version": version, "kind": kind}
