"""What the server derives from the schema of a kind goes with the definition of the kind."""

from __future__ import annotations

import asyncio
import gc
from collections import Counter

from kilauea.apiserver.patch.shape import Shape
from kilauea.apiserver.schema.nodes import Schema
from kilauea.runtime.cluster.in_process import Definitions
from support.api_core import Api
from support.definitions import DEFINITIONS, TREES, trees

PROPERTIES = {"spec": {"type": "object", "properties": {"size": {"type": "integer", "default": 3}}}}
APPLY, MERGE = "application/apply-patch+yaml", "application/merge-patch+json"


def test_schemas_of_deleted_definitions_are_forgotten(api: Api) -> None:
    definitions = Definitions(api.server)
    api.run(definitions.start())
    try:
        use_a_kind(api)  # what is made once for all kinds
        before = known()
        for _ in range(3):
            use_a_kind(api)
        for _ in range(100):
            if not known() - before:
                break
            api.run(asyncio.sleep(0.01))  # controllers may still be at the last one
        assert not known() - before  # none more
    finally:
        api.run(definitions.stop())


def use_a_kind(api: Api) -> None:
    """Define a kind, make and change an object of it, and delete both."""
    api.good("POST", DEFINITIONS, trees({"type": "object", "properties": PROPERTIES}))
    wait_for(api, TREES, 200)
    body = {"apiVersion": "example.com/v1", "kind": "Tree", "metadata": {"name": "a"}, "spec": {"size": 1}}
    api.good("POST", TREES, {**body, "metadata": {"name": "b"}})
    api.good("PATCH", f"{TREES}/a?fieldManager=me", body, content_type=APPLY)
    api.good("PATCH", f"{TREES}/a", {"spec": {"size": 7}}, content_type=MERGE)
    api.good("DELETE", f"{DEFINITIONS}/trees.example.com")
    wait_for(api, TREES, 404)


def wait_for(api: Api, path: str, code: int) -> None:
    """Ask until the answer has a code."""
    for _ in range(1000):
        if api.ask("GET", path).code == code:
            return
        api.run(asyncio.sleep(0.01))
    raise AssertionError(f"{path} is never answered with {code}")


def known() -> Counter[str]:
    """Schemas and shapes in memory, by class."""
    gc.collect()
    return Counter(type(each).__name__ for each in gc.get_objects() if isinstance(each, Schema | Shape))
