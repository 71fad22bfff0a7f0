"""The work of telling what is wrong with a custom resource."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kilauea.apiserver.schema import validation
from kilauea.apiserver.schema.custom import from_openapi
from kilauea.apiserver.status import Cause


def test_values_of_their_type_are_not_walked_through_where_another_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[str] = []

    def look(raw: validation.Raw, value: Any, path: str) -> Iterator[Cause]:
        looks.append(path)
        return check(raw, value, path)

    check = validation._check
    monkeypatch.setattr(validation, "_check", look)
    texts = {"type": "array", "items": {"type": "string", "description": "a text"}}
    schema = from_openapi({"type": "object", "properties": {"texts": texts, "n": {"type": "integer"}}})
    assert [each.field for each in validation.causes(schema, {"texts": ["x"] * 1000, "n": "wrong"})] == ["n"]
    assert looks == ["", "texts", "n"]
