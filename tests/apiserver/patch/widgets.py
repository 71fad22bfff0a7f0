"""A kind with a field of every shape, and objects of it at random: what the laws of patches are tried on."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from kilauea.apiserver.schema import from_openapi

TEXT = {"type": "string"}
ITEM = {
    "type": "object",
    "properties": {
        "name": TEXT,
        "port": {"type": "integer"},
        "protocol": {"type": "string", "default": "TCP"},
        "labels": {"type": "object", "additionalProperties": TEXT},
    },
}
WIDGET = from_openapi(
    {
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "size": {"type": "integer"},
                    "title": TEXT,
                    "labels": {"type": "object", "additionalProperties": TEXT},
                    "selector": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": TEXT},
                    "words": {"type": "array", "items": TEXT},
                    "marks": {"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"},
                    "parts": {
                        "type": "array",
                        "items": ITEM,
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["port", "protocol"],
                    },
                    "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                },
            }
        }
    }
)
VERSION = "example.com/v1"

_WORDS = st.sampled_from("abc")
_LABELS = st.dictionaries(_WORDS, _WORDS, max_size=2)
_PARTS = st.lists(
    st.fixed_dictionaries(
        {"port": st.integers(1, 3)},
        optional={"protocol": st.sampled_from(["TCP", "UDP"]), "name": _WORDS, "labels": _LABELS},
    ),
    max_size=3,
    unique_by=lambda part: (part["port"], part.get("protocol", "TCP")),
)
_ANY = st.recursive(
    st.booleans() | st.integers(0, 1) | _WORDS,
    lambda each: st.lists(each, max_size=2) | st.dictionaries(_WORDS, each, max_size=2),
    max_leaves=5,
)
_SPECS = st.fixed_dictionaries(
    {},
    optional={
        "size": st.integers(0, 2),
        "title": _WORDS,
        "labels": _LABELS,
        "selector": _LABELS,
        "words": st.lists(_WORDS, max_size=2),
        "marks": st.lists(_WORDS, max_size=3, unique=True),
        "parts": _PARTS,
        "any": st.dictionaries(_WORDS, _ANY, max_size=2),
    },
)


def widget(spec: dict[str, Any]) -> dict[str, Any]:
    """An object with a spec."""
    return {"apiVersion": VERSION, "kind": "Widget", "metadata": {"name": "w", "namespace": "default"}, "spec": spec}


widgets = _SPECS.map(widget)
