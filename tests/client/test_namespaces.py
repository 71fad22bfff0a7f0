"""Objects in a namespace of the system: the namespace is created when it is missing, and only then."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping

import pytest

from kilauea.api.kinds import LEASES, NAMESPACES
from kilauea.api.ports import ApiError, Key
from kilauea.client.namespaces import create_in_namespace
from kilauea.client.rest import Client
from kilauea.client.transport import Answer
from kilauea.runtime.cluster.direct import DirectTransport
from support.api_core import Api

BODY = {"metadata": {"name": "volcano"}, "spec": {"holderIdentity": "one"}}


class Heard:
    """A transport that notes what is written."""

    def __init__(self, transport: DirectTransport) -> None:
        self._transport = transport
        self.written: list[str] = []

    async def request(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Answer:
        self.written.append(target.split("?", maxsplit=1)[0].rpartition("/")[2])
        return await self._transport.request(method, target, headers, body)

    def stream(self, target: str, headers: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        return self._transport.stream(target, headers)

    async def close(self) -> None:
        await self._transport.close()


@pytest.fixture
def api() -> Iterator[Api]:
    made = Api()
    yield made
    made.close()


def create(api: Api, line: Heard, namespace: str) -> None:
    api.run(create_in_namespace(Client(line), LEASES, namespace, BODY))


def test_a_missing_namespace_is_created_before_the_object(api: Api) -> None:
    line = Heard(DirectTransport(api.server, "tester"))
    create(api, line, "volcano-system")
    assert line.written == ["leases", "namespaces", "leases"]
    made = api.run(Client(line).get(LEASES, Key("volcano-system", "volcano")))
    assert made["spec"]["holderIdentity"] == "one"


def test_a_namespace_that_exists_is_not_asked_for(api: Api) -> None:
    line = Heard(DirectTransport(api.server, "tester"))
    api.run(
        Client(DirectTransport(api.server, "admin")).create(NAMESPACES, "", {"metadata": {"name": "volcano-system"}})
    )
    create(api, line, "volcano-system")
    assert line.written == ["leases"]


def test_an_object_that_exists_is_a_conflict(api: Api) -> None:
    line = Heard(DirectTransport(api.server, "tester"))
    create(api, line, "volcano-system")
    with pytest.raises(ApiError, match="already exists"):
        create(api, line, "volcano-system")
