"""The fields of new objects, which are remembered by form, are those that a comparison with nothing finds."""

from __future__ import annotations

import copy
import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
import yaml

from kilauea.apiserver.patch.compare import compare
from kilauea.apiserver.patch.fieldset import difference, fields, ordered, without
from kilauea.apiserver.patch.fresh import fresh_fields
from kilauea.apiserver.patch.managed import NEVER_OWNED
from kilauea.apiserver.patch.shape import shape_of
from kilauea.apiserver.patch.whole import whole
from kilauea.apiserver.schema import DecodeError, apply_defaults, builtin_schema, read_builtin

REQUESTS = Path(__file__).parents[2] / "kubernetes" / "requests"
TWICE = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "a"},
    "spec": {"containers": [{"name": "a", "env": [{"name": "X"}, {"name": "X"}]}, {"name": "a"}]},
}


def bodies() -> list[dict[str, Any]]:
    """Objects of built-in kinds in the requests that both servers get, and what they leave out."""
    found = [TWICE]
    for path in sorted(REQUESTS.glob("*.yaml")):
        for request in yaml.safe_load(path.read_text()):
            body = request.get("body")
            if isinstance(body, dict) and isinstance(body.get("kind"), str) and body.get("metadata"):
                found.append(body)
    return found


def outcome(make: Any) -> Any:
    """The JSON of a set, so that the order counts, or the words of a refusal."""
    try:
        return json.dumps(make())
    except ValueError as error:
        return str(error)


@pytest.mark.slow
@pytest.mark.parametrize("reset", [fields(), fields("status")])
def test_remembered_sets_are_those_of_a_comparison(reset: Any) -> None:
    compared = 0
    for body in bodies() * 2:  # the second time from memory
        group, _, version = str(body.get("apiVersion")).rpartition("/")
        try:
            schema = builtin_schema(group, version, body["kind"])
            obj = copy.deepcopy(body)
            read_builtin(schema, obj)
        except (LookupError, DecodeError):
            continue
        apply_defaults(schema, obj)
        shape = shape_of(schema)
        for each in (obj, {**obj, "spec": {}}, {**obj, "spec": None}):
            expected = outcome(
                lambda: ordered(difference(without(compare(shape, {}, each).changed, reset), NEVER_OWNED))  # noqa: B023
            )
            assert outcome(lambda: fresh_fields(shape, each, reset, NEVER_OWNED)) == expected  # noqa: B023
            compared += 1
    assert compared > 500


def test_objects_of_the_same_keys_are_not_taken_for_one_another() -> None:
    """Fields that are not leaves tell them apart, also when the first of them is empty."""
    below = shape_of(builtin_schema("", "v1", "Pod")).field("spec")[1].field("containers")[1].items
    empty = whole(below, {"name": "a", "resources": {}})
    assert empty == whole(below, {"name": "b", "resources": {}}) == {".": {}, "f:name": {}, "f:resources": {}}
    filled = whole(below, {"name": "a", "resources": {"limits": {"cpu": "1"}}})
    assert filled["f:resources"] == {".": {}, "f:limits": {".": {}, "f:cpu": {}}}


@pytest.mark.slow
def test_objects_of_ever_new_owners_take_a_bounded_amount_of_memory() -> None:
    shape = shape_of(builtin_schema("", "v1", "Pod"))
    fresh_fields(shape, pod_of("first"), fields(), NEVER_OWNED)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for number in range(3000):
        fresh_fields(shape, pod_of(f"00000000-0000-0000-0000-{number:012}"), fields(), NEVER_OWNED)
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < 2_000_000


@pytest.mark.slow
@pytest.mark.parametrize("form", ["many containers", "many variables in few", "long names", "long keys"])
def test_large_objects_of_ever_new_forms_take_a_bounded_amount_of_memory(form: str) -> None:
    """Clients may send a thousand of them, which need not even be valid."""
    shape = shape_of(builtin_schema("", "v1", "Pod"))

    def spec_of(number: int) -> dict[str, Any]:
        if form == "many containers":
            return {"containers": [{"name": f"c-{number}-{each}"} for each in range(3000)]}
        if form == "many variables in few":
            variables = [{"name": f"v-{number}-{each}", "value": ""} for each in range(1500)]
            return {"containers": [{"name": name, "env": variables} for name in "ab"]}
        if form == "long names":
            return {"containers": [{"name": f"c-{number}{'x' * 100_000}"}]}
        return {"nodeSelector": {f"k-{number}{'x' * 100_000}": ""}, "containers": [{"name": "a"}]}

    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for number in range(20):
        made = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec_of(number)}
        fresh_fields(shape, made, fields(), NEVER_OWNED)
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < 3_000_000, "names of items are remembered, 4096 of them"


def test_all_shapes_begin_again_where_they_remember_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kilauea.apiserver.patch.whole.LARGEST_OF_ALL", 20_000)
    shapes = [shape_of(builtin_schema("", "v1", kind)) for kind in ("Pod", "ConfigMap", "Secret", "Service")]
    for number in range(500):
        for shape in shapes:
            made = {"metadata": {"name": "a", "labels": {f"k-{number}": "v"}}}
            assert fresh_fields(shape, made, fields(), NEVER_OWNED) == {
                "f:metadata": {"f:labels": {".": {}, f"f:k-{number}": {}}}
            }
    assert sum(len(known) for shape in shapes for known in (shape.made, shape.flat, shape.reduced)) < 200


def pod_of(uid: str) -> dict[str, Any]:
    """A pod with an owner."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "a", "uid": uid, "controller": True}
    metadata = {"name": "a", "ownerReferences": [owner]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [{"name": "a"}]}}
