"""Applied objects are YAML; most clients send JSON, which is read as what it is."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kilauea.apiserver.parsing import read_yaml
from support.api_core import MAPS, Api

APPLY = "application/apply-patch+yaml"
TEXTS = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufeff\ufffe\uffff\u2028\u2029"), max_size=12
) | st.sampled_from(["yes", "null", "1e3", "0x1f", "# no", "a: b", "\n\t\x01", "<<", "\\/", "2026-01-01"])
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(TEXTS, VALUES, max_size=5) | st.lists(VALUES, max_size=3), st.booleans())
def test_json_is_the_same_as_json_and_as_yaml(value: Any, is_escaped: bool) -> None:
    """A line of its own before the text makes it YAML that is not JSON."""
    text = json.dumps(value, ensure_ascii=is_escaped, indent=1).encode()
    assume(r"\ud" not in text.decode().lower())
    as_json, as_yaml = read_yaml(text), read_yaml(b"--- # YAML\n" + text)
    assert as_json == (value, [])
    assert as_yaml == (value, [])


@pytest.mark.parametrize("character", ["\u0085", "\u2028", "\u2029"])
def test_lines_end_in_json_where_they_end_in_yaml(character: str) -> None:
    text = json.dumps({"a": f"b{character}c"}, ensure_ascii=False).encode()
    assert read_yaml(text) == read_yaml(b"--- # YAML\n" + text)
    assert read_yaml(json.dumps({"a": f"b{character}c"}).encode()) == ({"a": f"b{character}c"}, [])


@pytest.mark.parametrize("text", ["\x7f", r"\ud83d\ude00"])
def test_what_yaml_does_not_have_is_refused_in_json_too(api: Api, text: str) -> None:
    body = b'{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"a": "%b"}}'
    assert api.ask("PATCH", f"{MAPS}/m?fieldManager=me", body % text.encode(), content_type=APPLY).code == 400


@pytest.mark.parametrize("size", [10, 20_000, 100_000])
@pytest.mark.parametrize("mode", ["Strict", "Warn", "Ignore"])
def test_a_key_given_twice_in_json_is_told_of_as_in_yaml(api: Api, size: int, mode: str) -> None:
    text = b'{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"},\n"data": {"a": "%b",\n"a": "y"}}'
    answer = api.ask(
        "PATCH", f"{MAPS}/m?fieldManager=me&fieldValidation={mode}", text % (b"x" * size), content_type=APPLY
    )
    told = 'line 3: key "a" already set in map'
    assert answer.code == (400 if mode == "Strict" else 201)
    if mode == "Strict":
        assert told in answer.body["message"]
    else:
        assert answer.body["data"] == {"a": "y"}
        assert (told.replace('"', '\\"') in answer.headers.get("Warning", "")) is (mode == "Warn")
