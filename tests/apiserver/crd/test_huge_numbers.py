"""Integers that no float can hold: clients in Go could not read an object with one, nor any list with it."""

from __future__ import annotations

from typing import Any

import pytest

from kilauea.apiserver.huge_numbers import huge_number
from support.api_core import Api
from support.definitions import TREE, TREES, serve, trees

HUGE = 10**308 * 9
LARGEST = int(1.7e308)
UNKNOWN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def tree(**fields: Any) -> dict[str, Any]:
    return {**TREE, "metadata": {"name": "t"}, **fields}


@pytest.fixture
def served(api: Api) -> Api:
    """A server with an object of any fields."""
    serve(api, trees({**UNKNOWN, "properties": {"height": {"type": "number"}}}))
    api.good("POST", TREES, tree(digits=str(HUGE), height=LARGEST))
    return api


WRITES = {
    "a new object": ("POST", "", tree(a={"b": [1, HUGE]}), "json"),
    "a number of the schema": ("POST", "", tree(height=HUGE), "json"),
    "an update": ("PUT", "/t", tree(a=-HUGE), "json"),
    "a merge patch": ("PATCH", "/t", {"a": HUGE}, "merge-patch+json"),
    "a JSON patch": ("PATCH", "/t", [{"op": "add", "path": "/a", "value": HUGE}], "json-patch+json"),
    "a server-side apply": ("PATCH", "/t?fieldManager=m", tree(a=HUGE), "apply-patch+yaml"),
}


@pytest.mark.parametrize("case", WRITES)
def test_they_are_rejected_with_the_number(case: str, served: Api) -> None:
    method, place, body, form = WRITES[case]
    answer = served.ask(method, TREES + place, body, content_type=f"application/{form}")
    assert answer.code == 400
    assert f"{HUGE} into Go value of type float64" in answer.body["message"]
    found = served.good("GET", f"{TREES}/t")
    assert (found["digits"], found["height"], found.get("a")) == (str(HUGE), LARGEST, None)


@pytest.mark.parametrize("value", [LARGEST, -LARGEST, 1.7e308, True, None, "x", str(HUGE), [[LARGEST]], {"a": {}}, []])
def test_other_values_can_be_read(value: object) -> None:
    assert huge_number(value) == ""


def test_integers_of_more_than_64_bits_keep_their_digits(served: Api) -> None:
    large = 123_456_789_012_345_678_901_234_567_890
    served.good("PATCH", f"{TREES}/t", {"height": large}, content_type="application/merge-patch+json")
    assert served.good("GET", f"{TREES}/t")["height"] == large
