"""The CustomResourceDefinition objects themselves, and their text as files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from kilauea.api.crds.kinds import KINDS, CustomKind, PrinterColumn
from kilauea.api.crds.kubernetes_types import Definitions
from kilauea.api.crds.schema import Schemas

_HEAD = "# Made from the types in kilauea.api by deploy/generate_crds.py; do not edit.\n"


def definitions(kubernetes: Definitions) -> list[dict[str, Any]]:
    """All definitions, in the order of `KINDS`.

    Args:
        kubernetes: OpenAPI v3 definitions of Kubernetes' own types, which templates in jobs are made of.
    """
    schemas = Schemas(kubernetes)
    return [_definition(each, schemas) for each in KINDS]


def _definition(kind: CustomKind, schemas: Schemas) -> dict[str, Any]:
    names: dict[str, Any] = {
        "kind": kind.resource.kind,
        "listKind": f"{kind.resource.kind}List",
        "plural": kind.resource.plural,
        "singular": kind.resource.kind.lower(),
    }
    if kind.short_names:
        names["shortNames"] = list(kind.short_names)
    version: dict[str, Any] = {"name": kind.resource.version, "served": True, "storage": True}
    if kind.columns:
        version["additionalPrinterColumns"] = [_column(each) for each in kind.columns]
    version["schema"] = {"openAPIV3Schema": schemas.of_object(kind.type)}
    version["subresources"] = {"status": {}} if kind.status else {}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        # Helm leaves the definition, and so all objects of the kind, when the chart is uninstalled.
        "metadata": {"name": kind.name, "annotations": {"helm.sh/resource-policy": "keep"}},
        "spec": {
            "group": kind.resource.group,
            "names": names,
            "scope": "Namespaced" if kind.resource.namespaced else "Cluster",
            "versions": [version],
        },
    }


def _column(column: PrinterColumn) -> dict[str, Any]:
    out: dict[str, Any] = {"name": column.name, "type": column.type, "jsonPath": column.path}
    return {**out, "priority": column.priority} if column.priority else out


class _Plain(yaml.SafeDumper):
    """Writes shared parts in full, each time."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def definition_text(definition: Mapping[str, Any]) -> str:
    """A definition as the text of its file."""
    return _HEAD + yaml.dump(dict(definition), Dumper=_Plain, sort_keys=False, width=120, allow_unicode=True)
