"""Limits on conversations, by tenant."""

from __future__ import annotations

import asyncio

import pytest

from kilauea.apiserver.request import User
from kilauea.apiserver.status import ApiFault
from kilauea.apiserver.streams.sessions import LARGEST_MESSAGE, USUAL_MESSAGE, Sessions

FIRST, SECOND = User("system:serviceaccount:team:first"), User("system:serviceaccount:team:second")
OTHER, ALICE = User("system:serviceaccount:other:first"), User("alice")


def test_accounts_of_a_namespace_are_one_tenant() -> None:
    assert FIRST.tenant == SECOND.tenant != OTHER.tenant
    assert ALICE.tenant == "alice"
    sessions = Sessions(most=10, most_of_tenant=2)
    sessions.begin(FIRST)
    sessions.begin(SECOND)
    with pytest.raises(ApiFault, match="the service accounts of namespace team have 2 connections to containers"):
        sessions.begin(FIRST)
    for user in (OTHER, ALICE):
        sessions.begin(user)
    sessions.end(SECOND)
    sessions.begin(FIRST)


def test_only_a_few_conversations_have_large_messages() -> None:
    sessions = Sessions(most=100, most_of_tenant=100)
    assert [sessions.begin(FIRST) for _ in range(5)] == [LARGEST_MESSAGE] * 4 + [USUAL_MESSAGE]
    tenants = [User(f"user-{number}") for number in range(20)]
    assert [sessions.begin(user) for user in tenants] == [LARGEST_MESSAGE] * 11 + [USUAL_MESSAGE] * 9


class Opened:
    """A connection that only counts how often it is closed."""

    closed = 0

    async def read(self) -> bytes:
        return b""

    async def write(self, data: bytes) -> None:
        pass

    async def end_input(self) -> None:
        pass

    async def close(self) -> None:
        self.closed += 1


def test_a_connection_counts_until_it_is_closed() -> None:
    async def story() -> None:
        ports = Sessions(most=1, most_of_tenant=1, what="ports of pods")

        async def fails() -> Opened:
            raise ConnectionRefusedError

        async def opens() -> Opened:
            return Opened()

        with pytest.raises(ConnectionRefusedError):
            await ports.counted(ALICE, fails)
        connection = await ports.counted(ALICE, opens)
        with pytest.raises(ApiFault, match="user alice has 1 connections to ports of pods"):
            await ports.counted(ALICE, opens)
        await connection.close()
        await connection.close()
        await ports.counted(ALICE, opens)

    asyncio.run(story())
