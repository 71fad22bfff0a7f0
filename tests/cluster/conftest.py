"""One server for all tests of a pytest process; tests keep apart by namespaces."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from cluster.api_process import Client, Server, running_server

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that answers, and at the end of all tests stops cleanly."""
    with running_server(tmp_path_factory.mktemp("server") / "data") as running:
        yield running


@pytest.fixture(scope="session")
def client(server: Server) -> Client:
    """The administrator."""
    return server.client()


@pytest.fixture
def namespace(client: Client) -> str:
    """The name of a new namespace that has its default service account."""
    name = f"test-{next(_numbers)}"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    assert client.send("POST", "/api/v1/namespaces", body).code == 201
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    assert client.send("POST", f"/api/v1/namespaces/{name}/serviceaccounts", account).code in (201, 409)
    return name
