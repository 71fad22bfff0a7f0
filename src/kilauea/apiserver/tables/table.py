"""The `meta.k8s.io/v1` Table of objects of a kind."""

from __future__ import annotations

from typing import Any

from kilauea.apiserver.tables.columns import TableForm


def table_of(form: TableForm, objects: list[dict[str, Any]], now: int) -> dict[str, Any]:
    """Return a `meta.k8s.io/v1` Table of objects of one kind.

    Args:
        form: the table form of the kind.
        objects: decoded objects; each becomes a row whose `object` the caller adds.
        now: microseconds since 1970, for ages.
    """
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
