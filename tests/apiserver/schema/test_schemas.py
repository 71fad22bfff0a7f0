"""Tests of schema nodes: the built-in kinds, custom ones, defaults and pruning."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilauea.apiserver.schema import (
    DecodeError,
    apply_defaults,
    builtin_resources,
    builtin_schema,
    from_openapi,
    kubernetes_version,
    prune,
    read_builtin,
    read_custom,
    repeated_fields,
    unknown_fields,
    validate,
)
from kilauea.apiserver.schema.scalars import micro_time, quantity, time
from kilauea.apiserver.schema.validation import causes


def test_every_resource_that_can_be_written_has_a_schema() -> None:
    for each in builtin_resources():
        if {"create", "update", "patch"} & set(each["verbs"]):
            schema = builtin_schema(each["group"], each["version"], each["responseKind"]["kind"])
            assert schema.type == "object"
            assert "metadata" in schema.properties
            assert schema.layout, f"the types of the fields of {each['responseKind']['kind']} are not known"


def test_a_kind_that_is_not_built_in_is_refused_by_name() -> None:
    with pytest.raises(LookupError, match=r"Widget of the core group/v1 is not built in"):
        builtin_schema("", "v1", "Widget")


def test_the_version_is_that_of_the_data() -> None:
    assert kubernetes_version().startswith("v1.36.")


def test_lists_tell_how_they_merge() -> None:
    spec = builtin_schema("", "v1", "Pod").properties["spec"]
    containers = spec.properties["containers"]
    assert (containers.patch_strategy, containers.merge_key) == ("merge", "name")
    assert (containers.list_type, containers.list_keys) == ("map", ("name",))
    assert containers.items is not None
    assert containers.items.properties["ports"].list_keys == ("containerPort", "protocol")
    assert containers.items.properties["command"].list_type == "atomic"
    assert spec.properties["nodeSelector"].map_type == "atomic"
    strategy = builtin_schema("apps", "v1", "Deployment").properties["spec"].properties["strategy"]
    assert strategy.patch_strategy == "retainKeys"


def test_a_definition_may_hold_itself() -> None:
    node = builtin_schema("apiextensions.k8s.io", "v1", "CustomResourceDefinition").properties["spec"]
    versions = node.properties["versions"].items
    assert versions is not None
    schema = versions.properties["schema"].properties["openAPIV3Schema"]
    for _ in range(5):
        below = schema.properties["properties"].additional
        assert below is not None
        assert below.name == schema.name
        schema = below


CUSTOM = from_openapi(
    {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "default": {},
                "properties": {
                    "size": {"type": "integer", "default": 3},
                    "parts": {"type": "array", "items": {"type": "object", "properties": {"kind": {"default": "x"}}}},
                    "by": {
                        "type": "object",
                        "additionalProperties": {"type": "object", "properties": {"n": {"default": 1}}},
                    },
                    "maybe": {"type": "string", "nullable": True, "default": "no"},
                    "free": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                        "properties": {"known": {"type": "object", "properties": {"a": {"type": "integer"}}}},
                    },
                },
            }
        },
    }
)


@pytest.mark.parametrize(
    ("spec", "filled"),
    [
        ({}, {"size": 3, "maybe": "no"}),
        ({"size": 0}, {"size": 0, "maybe": "no"}),
        ({"size": None}, {"size": 3, "maybe": "no"}),
        ({"maybe": None}, {"size": 3, "maybe": None}),
        ({"parts": [{}, {"kind": "y"}]}, {"size": 3, "maybe": "no", "parts": [{"kind": "x"}, {"kind": "y"}]}),
        ({"by": {"a": {}, "b": {"n": 2}}}, {"size": 3, "maybe": "no", "by": {"a": {"n": 1}, "b": {"n": 2}}}),
    ],
)
def test_defaults_of_custom_resources(spec: dict[str, Any], filled: dict[str, Any]) -> None:
    obj = {"metadata": {"name": "a"}, "spec": spec}
    read_custom(CUSTOM, obj)
    apply_defaults(CUSTOM, obj)
    assert obj == {"metadata": {"name": "a"}, "spec": filled}


def test_a_default_of_an_object_that_is_absent_brings_those_within() -> None:
    obj: dict[str, Any] = {"metadata": {}}
    apply_defaults(CUSTOM, obj)
    assert obj["spec"] == {"size": 3, "maybe": "no"}


def test_defaults_are_not_shared_between_objects() -> None:
    first: dict[str, Any] = {}
    second: dict[str, Any] = {}
    apply_defaults(CUSTOM, first)
    apply_defaults(CUSTOM, second)
    first["spec"]["size"] = 9
    assert second["spec"]["size"] == 3


def test_pruning_keeps_what_is_open_and_what_is_described_below_it_is_pruned() -> None:
    obj: dict[str, Any] = {"spec": {"x": 1, "free": {"y": 2, "known": {"a": 1, "b": 2}}}, "z": 1}
    assert unknown_fields(CUSTOM, obj) == ["spec.x", "spec.free.known.b", "z"]
    prune(CUSTOM, obj)
    assert obj == {"spec": {"free": {"y": 2, "known": {"a": 1}}}}


def test_metadata_of_a_custom_resource_is_that_of_all_objects() -> None:
    obj = {"metadata": {"name": "a", "labels": {}, "foo": 1}}
    assert read_custom(CUSTOM, obj) == ["metadata.foo"]
    assert obj["metadata"] == {"name": "a"}
    with pytest.raises(DecodeError, match=r"cannot unmarshal string into Go value of type v1\.ObjectMeta"):
        read_custom(CUSTOM, {"metadata": "a"})


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["size", "parts", "kind", "by", "free", "maybe", "n", "zz"]), inner, max_size=4
        )
    ),
    max_leaves=12,
)


@given(VALUES)
def test_what_was_pruned_has_no_unknown_fields(value: Any) -> None:
    obj = {"spec": value}
    prune(CUSTOM, obj)
    assert unknown_fields(CUSTOM, obj) == []


@given(VALUES)
def test_defaults_and_validation_survive_any_value(value: Any) -> None:
    obj = {"spec": value}
    read_custom(CUSTOM, obj)
    apply_defaults(CUSTOM, obj)
    once = copy.deepcopy(obj)
    apply_defaults(CUSTOM, obj)
    assert obj == once
    assert all(cause.message for cause in validate(CUSTOM, obj))


LISTS = from_openapi(
    {
        "properties": {
            "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"x-kubernetes-int-or-string": True}},
            "map": {
                "type": "array",
                "minItems": 1,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["k"],
                "items": {
                    "type": "object",
                    "required": ["k"],
                    "properties": {"k": {"type": "integer", "format": "int32"}},
                },
            },
            "some": {"type": "array", "maxItems": 2, "items": {"type": "string", "nullable": True}},
            "word": {"type": "string", "maxLength": 3, "pattern": "^[a-z]+$"},
            "choice": {"type": "string", "enum": ["ab", "c"], "nullable": True},
            "count": {"type": "integer", "format": "int32", "minimum": 1},
        }
    }
)
FEW: st.SearchStrategy[Any] = st.sampled_from([0, 1, 1.0, True, False, "0", "1", None, [], {}, 2**31])


@given(
    st.dictionaries(
        st.sampled_from(["set", "map", "some"]), st.lists(FEW | st.builds(lambda k: {"k": k}, FEW), max_size=3)
    )
)
def test_the_fast_test_takes_only_what_nothing_is_wrong_with(obj: dict[str, Any]) -> None:
    assert validate(LISTS, obj) == causes(LISTS, obj)


@given(
    st.dictionaries(
        st.sampled_from(["word", "choice", "count", "kind", "metadata"]),
        FEW | st.sampled_from(["ab", "c", "abcd", "aB", -1, 2, -(2**31) - 1]),
    )
)
def test_the_fast_test_of_plain_values_takes_only_what_nothing_is_wrong_with(obj: dict[str, Any]) -> None:
    assert validate(LISTS, obj) == causes(LISTS, obj)


POD_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                "containers name image ports env resources limits cpu volumes hostPath path metadata labels".split()
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(POD_VALUES)
def test_any_value_is_read_or_refused_and_reading_again_changes_nothing(value: Any) -> None:
    schema = builtin_schema("", "v1", "Pod")
    obj: dict[str, Any] = {"metadata": {"name": "a"}, "spec": value}
    try:
        read_builtin(schema, obj)
    except DecodeError:
        return
    apply_defaults(schema, obj)
    once = copy.deepcopy(obj)
    assert read_builtin(schema, obj) == []
    apply_defaults(schema, obj)
    assert obj == once


def test_empty_values_go_where_go_does_not_tell_them_from_absent_ones() -> None:
    obj: dict[str, Any] = {
        "metadata": {"name": "a", "labels": {}, "annotations": None, "creationTimestamp": None},
        "spec": {"hostNetwork": False, "nodeName": "", "priority": 0, "securityContext": {}, "tolerations": []},
    }
    read_builtin(builtin_schema("", "v1", "Pod"), obj)
    assert obj == {"metadata": {"name": "a"}, "spec": {"priority": 0, "securityContext": {}}}


@pytest.mark.parametrize(
    ("given", "canonical"),
    [
        ("1024Ki", "1Mi"),
        ("1536Mi", "1536Mi"),
        ("1000m", "1"),
        ("1.5", "1500m"),
        (1.5, "1500m"),
        (4, "4"),
        ("0.5Gi", "512Mi"),
        ("0.5Ki", "512"),
        ("1.5Ki", "1536"),
        ("1000000", "1M"),
        ("1e3", "1e3"),
        ("1E3", "1e3"),
        ("12e2", "1200"),
        ("0", "0"),
        ("-5m", "-5m"),
        ("+5", "5"),
        ("0.0000000001", "1n"),
        ("100Ei", "9223372036854775807"),
        (".5", "500m"),
    ],
)
def test_quantities_are_written_in_one_form(given: Any, canonical: str) -> None:
    assert quantity(given) == canonical


@pytest.mark.parametrize(
    ("given", "stored"),
    [("1n", "1m"), ("1500u", "2m"), (1.0001, "1001m"), ("3m", "3m"), ("0.5", "500m"), ("1Ki", "1Ki"), ("0", "0")],
)
def test_amounts_of_resources_are_rounded_up_to_thousandths(given: Any, stored: str) -> None:
    quota: dict[str, Any] = {"spec": {"hard": {"cpu": given}}}
    read_builtin(builtin_schema("", "v1", "ResourceQuota"), quota)
    assert quota["spec"]["hard"] == {"cpu": stored}


@pytest.mark.parametrize("bad", ["", "x", "1x", "1.2.3", True, [], {}, "1 Gi"])
def test_what_is_no_quantity_is_refused(bad: Any) -> None:
    with pytest.raises(ValueError, match="quantities must match the regular expression"):
        quantity(bad)


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ("2024-01-02T03:04:05Z", "2024-01-02T03:04:05Z"),
        ("2024-01-02T03:04:05.678Z", "2024-01-02T03:04:05Z"),
        ("2024-01-02T03:04:05+02:00", "2024-01-02T01:04:05Z"),
    ],
)
def test_times_are_written_in_utc_to_the_second(given: str, written: str) -> None:
    assert time(given) == written


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("x", 'cannot parse "x" as "2006"'),
        ("2024-01-02", 'cannot parse "" as "T"'),
        ("2024-01-02T03:04:05", 'cannot parse "" as "Z07:00"'),
        ("2024-13-02T03:04:05Z", "month out of range"),
        ("2024-01-02T03:04:05Zx", 'extra text: "x"'),
    ],
)
def test_what_is_no_time_is_refused_at_the_place_where_it_ends(given: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        time(given)


def test_times_of_leases_have_six_digits_of_a_second() -> None:
    assert micro_time("2024-01-02T03:04:05.678901+00:00") == "2024-01-02T03:04:05.678901Z"
    assert micro_time("2024-01-02T03:04:05.678901Z") == "2024-01-02T03:04:05.678901Z"
    assert micro_time("0001-01-01T00:00:02.000000Z") == "0001-01-01T00:00:02.000000Z"
    assert time("0001-01-01T00:00:02+00:00") == "0001-01-01T00:00:02Z"
    with pytest.raises(ValueError, match="month out of range"):
        micro_time("2024-02-30T03:04:05.678901Z")
    with pytest.raises(ValueError, match=r'cannot parse "Z" as "\.000000"'):
        micro_time("2024-01-02T03:04:05Z")


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ('{"a": 1, "b": [{"c": 1, "d": 2}, {"c": 1}]}', []),
        ('{"a": 1, "a": 2, "b": {"a": 1}}', ["a"]),
        ('{"m": {"n": 1, "n": 2}, "l": [{"x": 1}, {"x": 1, "y": {}, "x": 2, "y": {}}]}', ["m.n", "l[1].x", "l[1].y"]),
    ],
)
def test_fields_that_are_set_twice_are_told(text: str, paths: list[str]) -> None:
    assert repeated_fields(text) == paths


NAMED = from_openapi({"properties": {"metadata": {"type": "object", "properties": {"name": {"maxLength": 3}}}}})


def test_a_schema_may_limit_the_name_of_its_resources() -> None:
    assert validate(NAMED, {"metadata": {"name": "abc"}}) == []
    assert [each.field for each in validate(NAMED, {"metadata": {"name": "abcd"}})] == ["metadata.name"]
