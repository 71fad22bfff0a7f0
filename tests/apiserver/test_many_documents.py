"""OpenAPI of very many kinds: it is made in steps, and once for all who ask."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from kilauea.apiserver.documents.openapi import MOST_KEPT, OpenApi
from kilauea.apiserver.request import ApiRequest
from kilauea.apiserver.resources.builtin import builtin_types
from kilauea.apiserver.resources.registry import Registry
from kilauea.apiserver.resources.types import ResourceType
from kilauea.apiserver.schema import from_openapi

PROTO = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
SCHEMA = from_openapi({"type": "object", "properties": {"spec": {"type": "object"}}})


def kind(version: str) -> ResourceType:
    return ResourceType("example.com", version, "trees", "Tree", custom_schema=SCHEMA)


def documents(versions: int) -> tuple[Registry, OpenApi]:
    registry = Registry([*builtin_types(), *(kind(f"v{number}") for number in range(1, versions + 1))])
    return registry, OpenApi(registry)


async def asked(openapi: OpenApi, name: str, accept: str = "application/json") -> Any:
    answer = await openapi.answer(f"/openapi/{name}", ApiRequest("GET", f"/openapi/{name}", headers={"accept": accept}))
    return answer.body if answer is not None else None


@pytest.mark.parametrize(("name", "accept"), [("v2", "*/*"), ("v2", PROTO), ("v3", "*/*")])
def test_a_document_of_very_many_kinds_leaves_the_loop_to_others_and_is_made_once(name: str, accept: str) -> None:
    async def turns() -> tuple[int, Sequence[bytes]]:
        _, openapi = documents(300)
        making = [asyncio.create_task(asked(openapi, name, accept)) for _ in range(5)]
        count = 0
        while not all(each.done() for each in making):
            await asyncio.sleep(0)
            count += 1
        return count, [each.result() for each in making]

    count, bodies = asyncio.run(turns())
    assert count > 4  # as many as it takes if nothing else is let in
    assert all(each is bodies[0] for each in bodies)


def test_kinds_that_come_while_a_document_is_made_are_in_the_next_one() -> None:
    async def test() -> None:
        registry, openapi = documents(300)
        first = asyncio.create_task(asked(openapi, "v2"))
        for _ in range(2):  # by then it is being made
            await asyncio.sleep(0)
        registry.add(kind("v301"))
        second = await asked(openapi, "v2")
        for body, there in ((await first, False), (second, True), (await asked(openapi, "v2"), True)):
            assert (b"/apis/example.com/v301/trees" in body) is there
            assert b"/apis/example.com/v300/trees" in body

    asyncio.run(test())


def test_a_client_that_gives_up_does_not_end_what_others_wait_for() -> None:
    async def test() -> None:
        _, openapi = documents(100)
        first, second = (asyncio.create_task(asked(openapi, "v2")) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        assert b"/apis/example.com/v100/trees" in await second

    asyncio.run(test())


def test_documents_of_single_versions_are_kept_in_bounds_and_stay_the_same() -> None:
    async def test() -> None:
        _, openapi = documents(MOST_KEPT + 10)
        index = await asked(openapi, "v3")
        names = [f"v3/apis/example.com/v{number}" for number in range(1, MOST_KEPT + 11)]
        bodies = [await asked(openapi, name) for name in names]
        assert len(openapi._kept) <= MOST_KEPT
        assert [await asked(openapi, name) for name in names] == bodies
        assert await asked(openapi, "v3") == index
        assert await asked(openapi, "v3/apis/example.com/v0") is None

    asyncio.run(test())
