"""A server without controllers for the commands: what they read was put there by the test."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from cluster.api_process import Server, running_server
from kilauea.api.kinds import QUEUES
from support.vcctl_runs import Console, Objects

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("server") / "data") as running:
        objects = Objects(running.client())
        for name in ("root", "default"):
            objects.put(QUEUES, {"metadata": {"name": name}, "spec": {"weight": 1}}, {"state": "Open"})
        yield running


@pytest.fixture
def console(server: Server) -> Console:
    return Console(server.kubeconfig)


@pytest.fixture
def objects(server: Server) -> Objects:
    return Objects(server.client())


@pytest.fixture
def namespace(server: Server) -> str:
    """A namespace of the test's own."""
    name = f"test-{next(_numbers)}"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    assert server.client().send("POST", "/api/v1/namespaces", body).code == 201
    return name
