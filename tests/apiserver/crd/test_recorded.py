"""Objects of a real cluster with Volcano: what it took and wrote we take, what its schemas refused we refuse.

The cases are those of `shared/conformance/cluster`; they are read from there, and skipped where it is not.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kilauea.api.crds import KINDS, definitions
from kilauea.apiserver.schema import apply_defaults, from_openapi, openapi_definitions, read_custom, validate

SCHEMAS = {
    (kind.resource.api_version, kind.resource.kind): from_openapi(
        made["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    )
    for kind, made in zip(KINDS, definitions(openapi_definitions()), strict=True)
}
REFUSED = re.compile(r"The (\w+) \"[^\"]*\" is invalid: (.*)", re.DOTALL)


def volcano(tree: Any) -> Iterator[dict[str, Any]]:
    """All objects of Volcano's kinds in a tree of a case."""
    if isinstance(tree, dict):
        if (tree.get("apiVersion"), tree.get("kind")) in SCHEMAS and "metadata" in tree:
            yield tree
            return
        tree = list(tree.values())
    if isinstance(tree, list):
        for each in tree:
            yield from volcano(each)


def problems(obj: dict[str, Any]) -> list[str]:
    """What our schema says against an object, unknown fields among it."""
    obj = json.loads(json.dumps(obj).replace("<time>", "2026-01-01T00:00:00Z"))
    schema = SCHEMAS[obj["apiVersion"], obj["kind"]]
    unknown = read_custom(schema, obj)
    apply_defaults(schema, obj)
    return [f"unknown field {each}" for each in unknown] + [str(each) for each in validate(schema, obj)]


def steps(shared: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for path in sorted((shared / "conformance" / "cluster").glob("*.json")):
        for number, step in enumerate(json.loads(path.read_text())["steps"]):
            yield f"{path.stem}[{number}]", step


def test_every_object_that_the_cluster_held_fits_our_schemas(shared: Path) -> None:
    seen: set[str] = set()
    found: list[str] = []
    for name, step in steps(shared):
        for obj in volcano(step.get("observed")):
            seen.add(obj["kind"])
            found += [f"{name}: {obj['kind']} {obj['metadata'].get('name')}: {each}" for each in problems(obj)]
    assert found == []
    assert {"Job", "PodGroup", "Queue", "JobFlow", "JobTemplate"} <= seen


def test_what_was_applied_is_taken_or_refused_with_the_same_words(shared: Path) -> None:
    refusals = 0
    for name, step in steps(shared):
        applied = step.get("do", {}).get("apply", [])
        for obj, result in zip(applied, step.get("result") or [], strict=False):
            if (obj.get("apiVersion"), obj.get("kind")) not in SCHEMAS:
                continue
            words = REFUSED.search((result or {}).get("err", ""))
            expected = re.split(r"\n\* ", words[2].strip().removeprefix("* ")) if words else []
            found = problems(copy.deepcopy(obj))
            # The webhooks there had filled in more, which was then wrong too.
            assert bool(found) == bool(expected), name
            assert set(found) <= set(expected), name
            refusals += bool(words)
    assert refusals >= 6
