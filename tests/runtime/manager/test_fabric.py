"""HyperNodes are discovered by UFM."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import Any

import pytest

from kilauea.api.kinds import CONFIG_MAPS, HYPER_NODES, SECRETS
from kilauea.api.ports import Key, Record, Resource
from kilauea.api.times import SECOND
from kilauea.client.rest import Client
from kilauea.client.view import Cache
from kilauea.runtime.clock import SystemClock
from kilauea.runtime.cluster.direct import DirectTransport
from kilauea.runtime.cluster.in_process import Definitions
from kilauea.runtime.manager import fabric
from kilauea.runtime.manager.fabric import FabricDiscovery
from support.api_core import Api
from support.ufm_server import Ufm, port, running_ufm

PASSWORD = "open sesame"
SETTINGS = """
networkTopologyDiscovery:
- source: ufm
  enabled: true
  interval: {interval}
  credentials: {{secretRef: {{name: ufm, namespace: default}}}}
  config: {{endpoint: "{url}", insecureSkipVerify: {insecure}}}
"""
TWO_LEAVES = [port("n1", "leaf-1"), port("n2", "leaf-1"), port("n3", "leaf-2")]


@pytest.fixture(scope="module")
def running() -> Iterator[Ufm]:
    with running_ufm() as made:
        yield made


@pytest.fixture
def ufm(running: Ufm) -> Ufm:
    running.answer, running.code, running.pause, running.location = TWO_LEAVES, 200, 0.0, ""
    running.asked.clear()
    return running


class Discovered:
    """A cluster whose HyperNodes come from a UFM."""

    def __init__(self, ufm: Ufm, caplog: pytest.LogCaptureFixture) -> None:
        self.ufm = ufm
        self.caplog = caplog
        self.api = Api(volcano=True)
        self.definitions = Definitions(self.api.server)
        self.api.run(self.definitions.start())
        self.client = Client(DirectTransport(self.api.server, "tests"))
        self.events: list[str] = []
        cache, clock = Cache(), SystemClock()
        discovery = FabricDiscovery(self.client, cache, clock, self._told, Key("default", "settings"))
        works = (cache.run(self.client, clock, Random(1)), discovery.run())
        self.tasks = [self.api.loop.create_task(work) for work in works]

    def _told(self, component: str, event: Record) -> None:
        self.events.append(event.message)

    def create(self, resource: Resource, name: str, **fields: Any) -> None:
        metadata = {"name": name, **fields.pop("metadata", {})}
        body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **fields}
        self.api.run(self.client.create(resource, "default" if resource.namespaced else "", body))

    def begin(self, secret: Mapping[str, str] | None = None, *, insecure: bool = True, interval: str = "1s") -> None:
        """Give it the Secret and the ConfigMap."""
        data = {"username": "admin", "password": PASSWORD, **(secret or {})}
        encoded = {name: base64.b64encode(text.encode()).decode() for name, text in data.items()}
        self.create(SECRETS, "ufm", data=encoded)
        self.create(CONFIG_MAPS, "settings", data={"volcano-controller.conf": self.text(interval, insecure=insecure)})

    def text(self, interval: str = "1s", *, insecure: bool = True) -> str:
        return SETTINGS.format(interval=interval, url=self.ufm.url, insecure=str(insecure).lower())

    def configure(self, text: str) -> None:
        patch = {"data": {"volcano-controller.conf": text}}
        self.api.run(self.client.patch(CONFIG_MAPS, Key("default", "settings"), patch))

    def until(self, true: Callable[[], Any], seconds: float = 20.0) -> None:
        end = time.monotonic() + seconds
        while not true():
            assert time.monotonic() < end, (self.hypernodes(), self.events)
            self.api.run(asyncio.sleep(0.02))

    def hypernodes(self) -> dict[str, list[str]]:
        """Members by name."""
        listed = self.api.run(self.client.list(HYPER_NODES))
        names = [json.loads(data) for data in listed.items]
        return {
            each["metadata"]["name"]: [m["selector"]["exactMatch"]["name"] for m in each["spec"]["members"]]
            for each in names
        }

    def close(self) -> None:
        for task in self.tasks:
            task.cancel()
        self.api.run(asyncio.wait(self.tasks))
        self.api.run(asyncio.sleep(0.05))  # connections that were given up are closed
        self.api.run(self.definitions.stop())
        self.api.close()


@pytest.fixture
def cluster(ufm: Ufm, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> Iterator[Discovered]:
    monkeypatch.setattr(fabric, "RETRY", SECOND // 10)
    caplog.set_level(logging.DEBUG)
    made = Discovered(ufm, caplog)
    try:
        yield made
    finally:
        made.close()
        assert PASSWORD not in caplog.text + str(made.events)
        assert base64.b64encode(f"admin:{PASSWORD}".encode()).decode() not in caplog.text + str(made.events)


FOUND = {"leaf-hn-0": ["n1", "n2"], "leaf-hn-1": ["n3"], "spine-hn": ["leaf-hn-0", "leaf-hn-1"]}


def test_leaves_become_hypernodes_below_a_spine(cluster: Discovered) -> None:
    cluster.begin()
    cluster.until(lambda: cluster.hypernodes() == FOUND)
    path, authorization = cluster.ufm.asked[0]
    assert path == "/ufmRest/resources/ports"
    assert base64.b64decode(authorization.removeprefix("Basic ")).decode() == f"admin:{PASSWORD}"
    assert not cluster.events


def test_it_follows_the_fabric(cluster: Discovered) -> None:
    cluster.begin()
    cluster.until(lambda: cluster.hypernodes() == FOUND)
    cluster.ufm.answer = [port("n1", "leaf-1"), port("n4", "leaf-1")]
    cluster.until(lambda: cluster.hypernodes() == {"leaf-hn-0": ["n1", "n4"], "spine-hn": ["leaf-hn-0"]})


@pytest.mark.parametrize(
    ("code", "answer", "fault"),
    [
        (500, b"", "status 500 for GET /ufmRest/resources/ports"),
        (401, b"admin:open sesame is wrong", "status 401"),
        (200, b"<html>", "the response is not a list of ports"),
        (200, {"ports": []}, "the response is not a list of ports"),
        (200, b"[" * 100_000, "the response is not a list of ports"),
        (200, [], "no port that connects a computer to a leaf"),
        (200, [port("n1", "leaf-1", description="Switch"), {"system_name": 7}], "no port that connects"),
        (302, b"", "status 302"),
    ],
)
def test_the_last_known_hypernodes_stay_if_ufm_fails_and_it_says_so(
    cluster: Discovered, code: int, answer: Any, fault: str
) -> None:
    cluster.begin()
    cluster.until(lambda: cluster.hypernodes() == FOUND)
    cluster.ufm.answer, cluster.ufm.code = answer, code
    cluster.ufm.location = f"{cluster.ufm.url}/elsewhere" if code == 302 else ""
    cluster.until(lambda: cluster.events)
    assert fault in cluster.events[0]
    assert f"UFM {cluster.ufm.url}" in cluster.caplog.text
    asked = len(cluster.ufm.asked)
    cluster.until(lambda: len(cluster.ufm.asked) > asked)
    assert cluster.hypernodes() == FOUND
    assert len(cluster.events) == 1  # it is said once
    assert all(path == "/ufmRest/resources/ports" for path, _ in cluster.ufm.asked)
    cluster.ufm.answer, cluster.ufm.code = TWO_LEAVES, 200
    cluster.until(lambda: "UFM works again without problems" in cluster.events)


@pytest.mark.slow
def test_an_answer_that_is_too_long_or_too_late_is_given_up(
    cluster: Discovered, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fabric, "LARGEST", 1000)
    monkeypatch.setattr(fabric, "ANSWER_SECONDS", 0.3)
    cluster.ufm.answer = b"x" * 2000
    cluster.begin()
    cluster.until(lambda: any("the response is larger than" in event for event in cluster.events))
    cluster.ufm.answer, cluster.ufm.pause = TWO_LEAVES, 1.0
    cluster.until(lambda: any("no answer within 0.3 s" in event for event in cluster.events))
    assert cluster.hypernodes() == {}
    cluster.ufm.pause = 0.0
    cluster.until(lambda: cluster.hypernodes() == FOUND)
    cluster.api.run(asyncio.sleep(1.2))  # the late answers have ended


def test_the_certificate_of_ufm_is_verified(cluster: Discovered) -> None:
    cluster.begin(insecure=False)
    cluster.until(lambda: cluster.events)
    assert "certificate verify failed" in cluster.events[0]
    assert not cluster.ufm.asked
    data = {"ca.crt": base64.b64encode(cluster.ufm.authority.encode()).decode()}
    cluster.api.run(cluster.client.patch(SECRETS, Key("default", "ufm"), {"data": data}))
    cluster.until(lambda: cluster.hypernodes() == FOUND)


@pytest.mark.parametrize(
    ("secret", "fault"),
    [
        ({"password": ""}, "Secret default/ufm has no password"),
        ({"username": ""}, "Secret default/ufm has no username"),
        ({"ca.crt": "nonsense"}, "ca.crt in the Secret is not a PEM certificate"),
    ],
)
def test_a_secret_that_cannot_be_used_is_named(cluster: Discovered, secret: dict[str, str], fault: str) -> None:
    cluster.begin(secret)
    cluster.until(lambda: cluster.events)
    assert fault in cluster.events[0]
    assert not cluster.ufm.asked


def test_a_missing_secret_is_named(cluster: Discovered) -> None:
    cluster.create(CONFIG_MAPS, "settings", data={"volcano-controller.conf": cluster.text()})
    cluster.until(lambda: cluster.events)
    assert "Secret default/ufm cannot be read" in cluster.events[0]


def test_a_deleted_hypernode_is_made_again_without_asking(cluster: Discovered) -> None:
    cluster.begin(interval="1h")
    cluster.until(lambda: cluster.hypernodes() == FOUND)
    cluster.api.run(cluster.client.delete(HYPER_NODES, Key("", "leaf-hn-1")))
    cluster.until(lambda: cluster.hypernodes() == FOUND)
    assert len(cluster.ufm.asked) == 1


def test_a_hypernode_of_the_same_name_that_someone_made_is_left_alone(cluster: Discovered) -> None:
    mine = [{"type": "Node", "selector": {"exactMatch": {"name": "mine"}}}]
    cluster.create(HYPER_NODES, "leaf-hn-1", spec={"tier": 1, "members": mine})
    cluster.begin()
    cluster.until(lambda: cluster.events)
    assert "HyperNode leaf-hn-1 exists but does not come from UFM" in cluster.events[0]
    cluster.until(lambda: cluster.hypernodes() == {**FOUND, "leaf-hn-1": ["mine"]})


@pytest.mark.slow
def test_a_source_that_is_switched_off_keeps_its_hypernodes_and_is_not_asked(cluster: Discovered) -> None:
    cluster.begin()
    cluster.until(lambda: cluster.hypernodes() == FOUND)
    cluster.configure(cluster.text().replace("enabled: true", "enabled: false"))
    cluster.api.run(asyncio.sleep(0.2))
    asked = len(cluster.ufm.asked)
    cluster.api.run(asyncio.sleep(1.5))
    assert (len(cluster.ufm.asked), cluster.hypernodes()) == (asked, FOUND)
    cluster.ufm.answer = [port("n9", "leaf-1")]
    cluster.configure(cluster.text())
    cluster.until(lambda: cluster.hypernodes() == {"leaf-hn-0": ["n9"], "spine-hn": ["leaf-hn-0"]})


def test_a_computer_whose_name_is_no_node_name_is_left_out_and_named(cluster: Discovered) -> None:
    cluster.ufm.answer = [*TWO_LEAVES, port("Node 7", "leaf-1")]
    cluster.begin()
    cluster.until(lambda: cluster.events)
    assert "computer Node 7: invalid node name" in cluster.events[0]
    assert cluster.hypernodes() == FOUND
