"""Updates are not refused for what was wrong before and stays as it is."""

from __future__ import annotations

from typing import Any

import pytest

from kilauea.apiserver.crd import ratcheting
from kilauea.apiserver.crd.ratcheting import new_causes
from kilauea.apiserver.schema import from_openapi, validate, violations
from kilauea.apiserver.status import MOST_CAUSES
from support.api_core import Api
from support.definitions import TREE, TREES, serve, trees

SCHEMA = from_openapi(
    {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "required": ["zz"],
                "properties": {
                    "zz": {"type": "string"},
                    "a": {"type": "integer", "maximum": 1},
                    "s": {
                        "type": "array",
                        "x-kubernetes-list-type": "set",
                        "items": {"type": "string", "maxLength": 1},
                    },
                    "m": {
                        "type": "array",
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["k"],
                        "items": {
                            "type": "object",
                            "properties": {"k": {"type": "string"}, "v": {"type": "integer", "maximum": 5}},
                        },
                    },
                },
            }
        },
    }
)

OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


@pytest.mark.parametrize(
    ("old", "new", "fields"),
    [
        ({"a": 2}, {"a": 2}, []),
        ({"a": 2}, {"a": 3}, ["spec.zz", "spec.a"]),
        ({"a": 2}, {"a": 2, "zz": "x"}, []),
        ({"zz": "x", "a": 2}, {"zz": "y", "a": 2}, []),
        ({"zz": "x"}, {"zz": "x", "a": 2}, ["spec.a"]),
        ({"zz": "x", "s": ["ab", "c"]}, {"zz": "y", "s": ["ab", "c"]}, []),
        ({"zz": "x", "s": ["ab"]}, {"zz": "x", "s": ["ab", "c"]}, ["spec.s[0]"]),
        (
            {"zz": "x", "m": [{"k": "a", "v": 9}]},
            {"zz": "x", "m": [{"k": "b", "v": 9}, {"k": "a", "v": 9}]},
            ["spec.m[0].v"],
        ),
        ({"zz": "x", "a": 1}, {"zz": "x", "a": True}, ["spec.a"]),
        ({"zz": "x", "m": [{"k": "a"}]}, {"zz": "x", "m": [{"k": "a"}, {"k": "a"}]}, ["spec.m[1]"]),
        ({"zz": "x", "m": [{"k": "a"}, {"k": "a"}]}, {"zz": "y", "m": [{"k": "a"}, {"k": "a"}]}, []),
    ],
)
def test_only_what_changed_is_held_against_an_update(
    old: dict[str, Any], new: dict[str, Any], fields: list[str]
) -> None:
    obj, before = {"spec": new}, {"spec": old}
    assert [each.field for each in new_causes(SCHEMA.raw, validate(SCHEMA, obj), obj, before)] == fields


def test_old_items_are_read_once_for_all_errors_of_a_list(monkeypatch: pytest.MonkeyPatch) -> None:
    keys, read = 0, ratcheting._key

    def counted(item: Any, names: list[str]) -> bytes:
        nonlocal keys
        keys += 1
        return read(item, names)

    monkeypatch.setattr(ratcheting, "_key", counted)
    count = 3_000
    before = {"spec": {"zz": "x", "m": [{"k": str(number), "v": 1} for number in range(count)]}}
    obj = {"spec": {"zz": "x", "m": [{"k": str(number), "v": 9} for number in range(count)]}}
    found = new_causes(SCHEMA.raw, violations(SCHEMA, obj), obj, before)
    assert (found[0].field, len(found)) == ("spec.m[0].v", MOST_CAUSES + 1)
    assert keys <= 2 * count


def test_a_number_that_becomes_a_truth_value_is_a_change(api: Api) -> None:
    """In Python, 1 == True."""
    serve(api, trees({"type": "object", "properties": {"spec": OPEN}}))
    api.good("POST", TREES, TREE | {"metadata": {"name": "a"}, "spec": {"on": 1}})
    merge = "application/merge-patch+json"
    changed = api.good("PATCH", f"{TREES}/a", {"spec": {"on": True}}, content_type=merge)
    assert changed["spec"]["on"] is True
    assert changed["metadata"]["generation"] == 2
    again = api.good("PATCH", f"{TREES}/a", {"spec": {"on": True}}, content_type=merge)
    assert again["metadata"]["resourceVersion"] == changed["metadata"]["resourceVersion"]


@pytest.mark.parametrize("kind", [{"type": "integer"}, {"type": "integer", "format": "int32"}], ids=str)
def test_an_integer_that_no_float_can_hold_is_rejected(kind: dict[str, Any]) -> None:
    assert [
        each.field for each in validate(from_openapi({"type": "object", "properties": {"i": kind}}), {"i": 10**400})
    ]
