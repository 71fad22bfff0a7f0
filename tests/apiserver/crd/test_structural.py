"""Which schemas are structural; the causes are those that the real server gave for the same definitions."""

from __future__ import annotations

from typing import Any

import pytest

from kilauea.apiserver.crd.structural import check_structural

P = "spec.validation.openAPIV3Schema"
SPEC = f"{P}.properties[spec]"


def spec(**keywords: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"spec": keywords}}


NAMED = {"type": "object", "properties": {"n": {"type": "string"}}}


@pytest.mark.parametrize(
    ("schema", "causes"),
    [
        (spec(type="string"), []),
        (spec(**{"x-kubernetes-int-or-string": True}), []),
        (spec(**{"x-kubernetes-preserve-unknown-fields": True}), []),
        (
            spec(**{"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}),
            [],
        ),
        ({"properties": {}}, [f"{P}.type: Required value: must not be empty at the root"]),
        ({"type": "string"}, [f'{P}.type: Invalid value: "string": must be object at the root']),
        (spec(), [f"{SPEC}.type: Required value: must not be empty for specified object fields"]),
        (spec(type="array"), [f"{SPEC}.items: Required value: must be specified"]),
        (
            spec(type="array", items={}),
            [f"{SPEC}.items.type: Required value: must not be empty for specified array items"],
        ),
        (
            spec(type="foo"),
            [
                f'{SPEC}.type: Unsupported value: "foo": supported values: "array", "boolean", "integer", "number", '
                '"object", "string"'
            ],
        ),
        (spec(**{"$ref": "#/x"}), [f"{SPEC}.$ref: Forbidden: $ref is not supported"]),
        (
            spec(type="integer", anyOf=[{"type": "integer", "default": 2}]),
            [
                f"{SPEC}.anyOf[0].default: Forbidden: must be undefined to be structural",
                f"{SPEC}.anyOf[0].type: Forbidden: must be empty to be structural",
            ],
        ),
        (
            {"type": "object", "anyOf": [{"properties": {"zzz": {"minLength": 1}}}]},
            [f"{P}.properties[zzz]: Required value: because it is defined in {P}.anyOf[0].properties[zzz]"],
        ),
        (
            spec(type="integer", default="x"),
            [f'{SPEC}.default: Invalid value: "string":  in body must be of type integer: "string"'],
        ),
        (
            spec(type="object", default={"a": 1}),
            [f'{SPEC}.default: Invalid value: {{"a":1}}: must not have unknown fields'],
        ),
        (
            spec(type="array", items=NAMED, **{"x-kubernetes-list-type": "map"}),
            [f"{SPEC}.x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map"],
        ),
        (
            spec(type="array", items=NAMED, **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["n"]}),
            [
                f"{SPEC}.items.properties[n].default: Required value: this property is in x-kubernetes-list-map-keys, "
                "so it must have a default or be a required property"
            ],
        ),
        (
            spec(type="object", properties={"a": {"type": "string"}}, additionalProperties={"type": "string"}),
            [f"{SPEC}.additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive"],
        ),
        (
            spec(type="array", items={"type": "string"}, uniqueItems=True),
            [
                f"{SPEC}.uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity "
                "becomes quadratic"
            ],
        ),
        (
            {
                "type": "object",
                "properties": {"metadata": {"type": "object", "properties": {"foo": {"type": "string"}}}},
            },
            [
                f"{P}.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but "
                "metadata is implicitly specified"
            ],
        ),
        (
            spec(type="object", **{"x-kubernetes-embedded-resource": True}),
            [
                f"{SPEC}.properties: Required value: must not be empty if x-kubernetes-embedded-resource is true "
                "without x-kubernetes-preserve-unknown-fields"
            ],
        ),
    ],
)
def test_a_schema_is_structural_or_is_refused_for_a_reason(schema: dict[str, Any], causes: list[str]) -> None:
    assert [str(each) for each in check_structural(schema, P)] == causes


def test_a_pattern_that_is_none_is_refused() -> None:
    (cause,) = check_structural(spec(type="string", pattern="(a"), P)
    assert cause.field == f"{SPEC}.pattern"
    assert "must be a valid regular expression" in cause.message
