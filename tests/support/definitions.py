"""Definitions of custom resources, and a server in memory that serves them at once."""

from __future__ import annotations

from typing import Any

from kilauea.apiserver.custom_resources.serving import ServedDefinitions
from support.api_core import Api

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
TREES = "/apis/example.com/v1/trees"
TREE = {"apiVersion": "example.com/v1", "kind": "Tree"}


def trees(schema: dict[str, Any]) -> dict[str, Any]:
    """The definition of trees, a kind of the cluster with one version."""
    names = {"plural": "trees", "singular": "tree", "kind": "Tree", "listKind": "TreeList"}
    versions = [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}]
    spec = {"group": "example.com", "scope": "Cluster", "names": names, "versions": versions}
    return {"metadata": {"name": "trees.example.com"}, "spec": spec}


def serve(api: Api, definition: dict[str, Any]) -> None:
    """Write a definition and serve it, as its controllers do."""
    path, merge = f"{DEFINITIONS}/{definition['metadata']['name']}", "application/merge-patch+json"
    if api.ask("GET", path).code == 404:
        api.good("POST", DEFINITIONS, definition)
    else:
        api.good("PATCH", path, {"spec": definition["spec"]}, content_type=merge)
    establish(api, definition)


def establish(api: Api, definition: dict[str, Any]) -> None:
    """Serve a definition that is written already, as its controllers do."""
    path, merge = f"{DEFINITIONS}/{definition['metadata']['name']}", "application/merge-patch+json"
    given = {"status": "True", "reason": "r", "message": "m", "lastTransitionTime": "2024-01-01T00:00:00Z"}
    conditions = [{"type": kind, **given} for kind in ("NamesAccepted", "Established")]
    state = {"conditions": conditions, "acceptedNames": definition["spec"]["names"]}
    api.good("PATCH", f"{path}/status", {"status": state}, content_type=merge)
    ServedDefinitions(api.backend).sync()
