"""The server with what ends deletions, under virtual time: what could not be written, and what is left when it dies."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from kilauea.api.kinds import CLAIMS, CONFIG_MAPS, NAMESPACES, PODS
from kilauea.api.ports import ApiError, Key, Resource
from kilauea.controllers.registry import server_controllers
from support.virtual_time import virtual_loop
from system.process import Controllers
from system.server import ServerProcess, fresh_data, scratch
from system.users import Users, pod_spec


class Alone:
    """A server and its users.

    Attributes:
        server: the process.
        users: who speak to it.
    """

    def __init__(self, server: ServerProcess) -> None:
        self.server = server
        self.users = Users(server)

    def names(self, resource: Resource) -> list[str]:
        return [each["metadata"]["name"] for each in self.users.all(resource)]

    def wait(self, seconds: float) -> None:
        self.server.run(asyncio.sleep(seconds))

    def without_room(self, resource: Resource, name: str, namespace: str = "default") -> None:
        """Delete an object, and let there be no room from then on for a while."""
        key = Key(namespace if resource.namespaced else "", name)
        self.server.run(self.server.calm.delete(resource, key))
        self.server.fail(1.0)
        self.wait(5)
        self.server.fail(0.0)


async def wait_for(works: list[asyncio.Task[None]]) -> None:
    await asyncio.gather(*works)


@pytest.fixture
def alone() -> Iterator[Alone]:
    with scratch() as folder, virtual_loop() as loop:
        fresh_data(Path(folder) / "data")
        server = ServerProcess(loop, "alone", Path(folder) / "data", lambda row: None)
        server.start()
        controllers = Controllers(server, "kube-controller-manager", "alone", lambda since: server_controllers())
        controllers.start()
        yield Alone(server)
        controllers.kill()
        if server.lives:
            server.kill()


def test_dependents_are_collected_when_there_is_room_again(alone: Alone) -> None:
    alone.users.create(CONFIG_MAPS, "owner")
    (owner,) = alone.users.all(CONFIG_MAPS)
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    for number in range(3):
        alone.users.create(CONFIG_MAPS, f"owned-{number}", metadata={"ownerReferences": [reference]})
    alone.without_room(CONFIG_MAPS, "owner")
    assert alone.names(CONFIG_MAPS) == ["owned-0", "owned-1", "owned-2"]
    alone.wait(5)
    assert alone.names(CONFIG_MAPS) == []


def test_a_namespace_is_emptied_when_there_is_room_again(alone: Alone) -> None:
    alone.users.create(NAMESPACES, "team")
    alone.server.run(alone.server.calm.create(PODS, "team", {"metadata": {"name": "p"}, "spec": pod_spec(1, "")}))
    alone.without_room(NAMESPACES, "team")
    assert "team" in alone.names(NAMESPACES)
    alone.wait(60)
    assert "team" not in alone.names(NAMESPACES)
    assert alone.names(PODS) == []


def test_a_claim_is_released_when_there_is_room_again(alone: Alone) -> None:
    wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    alone.users.create(CLAIMS, "data", spec=wanted)
    alone.without_room(CLAIMS, "data")
    assert alone.names(CLAIMS) == ["data"]
    alone.wait(5)
    assert alone.names(CLAIMS) == []


def test_what_was_answered_is_there_after_the_server_died_and_what_was_not_may_be_done_again(alone: Alone) -> None:
    answered: list[str] = []
    lost: list[int] = []
    codes: set[int] = set()
    works: list[asyncio.Task[None]] = []

    async def create(number: int) -> None:
        try:
            await alone.server.calm.create(CONFIG_MAPS, "default", {"metadata": {"name": f"map-{number}"}})
            answered.append(f"map-{number}")
        except ApiError as error:
            lost.append(number)
            codes.add(error.code)

    for number in range(200):
        works += alone.server.spawn(create(number))
        alone.wait(0.01)
    alone.server.kill()
    alone.server.run(wait_for(works))
    assert codes == {0}
    alone.wait(1)
    alone.server.start()
    assert len(answered) + len(lost) == 200
    assert set(answered) <= set(alone.names(CONFIG_MAPS))
    for number in lost:
        alone.users.create(CONFIG_MAPS, f"map-{number}")
    assert len(alone.names(CONFIG_MAPS)) == 200
