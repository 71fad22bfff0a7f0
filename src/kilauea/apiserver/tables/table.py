"""Objects of a kind as one `meta.k8s.io/v1` Table."""

from __future__ import annotations

from typing import Any

from kilauea.apiserver.resources.types import ResourceType
from kilauea.apiserver.tables.columns import TableForm
from kilauea.apiserver.tables.kinds import DEFAULT, forms


def table_of(
    resource: ResourceType, objects: list[dict[str, Any]], now: int, form: TableForm | None = None
) -> dict[str, Any]:
    """A `meta.k8s.io/v1` Table of objects of one kind.

    Args:
        resource: the kind; its own form wins over the built-in one.
        objects: decoded; each becomes a row whose `object` the caller adds.
        now: microseconds since 1970, for ages.
        form: in the place of that of the kind.
    """
    form = form or resource.table or forms().get((resource.group, resource.plural), DEFAULT)
    rows = []
    for obj in objects:
        row = form.row(obj, now)
        rows.append({"cells": row.cells, **({"conditions": row.conditions} if row.conditions else {}), "object": None})
    definitions = [column.definition() for column in form.columns]
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {},
        "columnDefinitions": definitions,
        "rows": rows,
    }
