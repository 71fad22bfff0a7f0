"""Loads of nodes from monitoring systems: small servers that speak their APIs, and a real Prometheus."""

from __future__ import annotations

import asyncio
import base64
import json
import shutil
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest
from aiohttp import web

from kilauea.api.times import SECOND, format_time
from kilauea.client.transport import Answer
from kilauea.engine.conf import MetricsConf
from kilauea.engine.conf.metrics import ELASTICSEARCH, PROMETHEUS, read_metrics
from kilauea.engine.model.loads import NodeLoad
from kilauea.runtime.scheduler.loads import source as source_module
from kilauea.runtime.scheduler.loads.elasticsearch import Elasticsearch
from kilauea.runtime.scheduler.loads.prometheus import CPU, MEMORY, NEWEST, Prometheus
from kilauea.runtime.scheduler.loads.source import LoadsUnavailable
from support.live_world import Live, live_world

T = TypeVar("T")
NODES = ("n1", "n2")
Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[str]:
    """The address of a server on this machine that answers everything with this."""
    runner = web.ServerRunner(web.Server(handler))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def read_from(handler: Handler, type_: str = PROMETHEUS, **conf: Any) -> Mapping[str, NodeLoad]:
    """The loads of the two nodes that a source reads from a server."""

    async def read() -> Mapping[str, NodeLoad]:
        async with serving(handler) as address:
            made = MetricsConf(type_, address, **conf)
            source = Elasticsearch(made) if type_ == ELASTICSEARCH else Prometheus(made)
            try:
                return await source.read(NODES)
            finally:
                await source.close()

    return asyncio.run(read())


def always(body: Any, status: int = 200) -> Handler:
    """A server that always gives this answer."""

    async def answer(_: web.BaseRequest) -> web.Response:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return web.Response(body=data, status=status)

    return answer


# --- Prometheus


def vector(**values: object) -> dict[str, Any]:
    """The answer to an instant query: a value by instance."""
    series = [{"metric": {"instance": name}, "value": [1767225600.1, value]} for name, value in values.items()]
    return {"status": "success", "data": {"resultType": "vector", "result": series}}


def prometheus(cpu: Any, memory: Any, newest: Any) -> Handler:
    """A server with Prometheus' query API that has these answers."""
    answers = {CPU: cpu, MEMORY: memory, NEWEST: newest}

    async def answer(request: web.BaseRequest) -> web.Response:
        assert (request.method, request.path) == ("GET", "/api/v1/query")
        return web.json_response(answers[request.query["query"]])

    return answer


NOON = 1767268800


def test_prometheus_gives_percent_and_the_time_of_the_newest_sample() -> None:
    found = read_from(prometheus(vector(n1="12.5", n2="80"), vector(n1="40", n2="1e1"), vector(n1="1.5", n2=f"{NOON}")))
    assert found == {"n1": NodeLoad(12.5, 40.0, 1_500_000), "n2": NodeLoad(80.0, 10.0, NOON * SECOND)}


@pytest.mark.parametrize(
    ("instances", "expected"),
    [
        pytest.param({"n1": "5"}, {"n1": 5.0}, id="the name of a node"),
        pytest.param({"n1:9100": "5"}, {"n1": 5.0}, id="with a port"),
        pytest.param({"n1": "5", "n1:9100": "7"}, {"n1": 5.0}, id="the plain name counts"),
        pytest.param({"n1:9100": "5", "n1:9200": "7"}, {"n1": 7.0}, id="else the largest"),
        pytest.param({"n9": "5", "n9:9100": "5", "": "5"}, {}, id="of no node of the cluster"),
    ],
)
def test_the_instance_names_the_node(instances: dict[str, str], expected: dict[str, float]) -> None:
    found = read_from(prometheus(vector(**instances), vector(**instances), vector(**instances)))
    assert {name: load.cpu for name, load in found.items()} == expected


@pytest.mark.parametrize("value", ["NaN", "+Inf", "much", None, [], {}, True])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_node_with_a_value_that_is_no_number_has_no_load(place: int, value: object) -> None:
    answers = [vector(n1="1", n2="1") for _ in range(3)]
    answers[place] = vector(n1=value, n2="1")
    assert list(read_from(prometheus(*answers))) == ["n2"]


def test_a_node_without_a_newest_sample_has_no_load() -> None:
    assert read_from(prometheus(vector(n1="1"), vector(n1="1"), vector())) == {}


@pytest.mark.parametrize(
    "series", [7, {}, {"metric": 5}, {"metric": {"instance": 5}, "value": [1, "1"]}, {"metric": {}, "value": "1"}]
)
def test_series_of_another_form_are_passed_over(series: Any) -> None:
    answer = vector(n1="1")
    answer["data"]["result"].insert(0, series)
    assert list(read_from(prometheus(answer, answer, answer))) == ["n1"]


@pytest.mark.parametrize(
    ("handler", "told"),
    [
        pytest.param(always({"status": "error", "error": "query timed out"}, 503), "status 503", id="an error"),
        pytest.param(always({"status": "error"}, 503), "http://127.0.0.1:", id="names the address"),
        pytest.param(always(b"<html>not here</html>"), "is not JSON: <html>not here</html>", id="a page"),
        pytest.param(always(b"[" * 200_000), "is not JSON", id="nested without end"),
        pytest.param(always(b"\xff\xfe"), "is not JSON", id="no text"),
        pytest.param(always([1, 2]), "does not have the expected form: [1, 2]", id="another form"),
        pytest.param(always({"data": {"result": {}}}), "does not have the expected form", id="no list"),
        pytest.param(always(None), "does not have the expected form", id="nothing"),
    ],
)
@pytest.mark.parametrize("type_", [PROMETHEUS, ELASTICSEARCH])
def test_what_is_no_answer_is_told_with_the_address(type_: str, handler: Handler, told: str) -> None:
    with pytest.raises(LoadsUnavailable) as caught:
        read_from(handler, type_)
    assert told in str(caught.value)
    assert len(str(caught.value)) < 400


def test_an_answer_without_end_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_module, "LARGEST", 1 << 20)
    with pytest.raises(LoadsUnavailable, match="larger than 1 MiB"):
        read_from(always(b" " * (3 << 20)))


def test_a_server_that_is_not_there_is_told() -> None:
    async def read() -> None:
        source = Prometheus(MetricsConf(PROMETHEUS, "http://127.0.0.1:9"))
        try:
            await source.read(NODES)
        finally:
            await source.close()

    with pytest.raises(LoadsUnavailable, match=r"http://127\.0\.0\.1:9: "):
        asyncio.run(read())


# --- a real Prometheus

EXPOSED = """\
node_cpu_seconds_total{{cpu="0",mode="idle"}} {idle}
node_cpu_seconds_total{{cpu="0",mode="user"}} {busy}
node_memory_MemAvailable_bytes 750
node_memory_MemTotal_bytes 1000
"""
SCRAPING = """
global: {scrape_interval: 1s}
scrape_configs:
- job_name: node
  static_configs: [{targets: ["TARGET"], labels: {instance: n1}}]
"""


@contextmanager
def prometheus_process(folder: Path, target: str, port: int) -> Iterator[str]:
    """A Prometheus that asks a node exporter every second."""
    binary = shutil.which("prometheus")
    assert binary is not None
    (folder / "prometheus.yml").write_text(SCRAPING.replace("TARGET", target))
    options = [f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data"]
    command = [binary, *options, f"--web.listen-address=127.0.0.1:{port}"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(30)


@pytest.mark.skipif(shutil.which("prometheus") is None, reason="prometheus is not on the PATH")
def test_a_real_prometheus_understands_the_queries(tmp_path: Path) -> None:
    began = time.monotonic()

    async def exporter(_: web.BaseRequest) -> web.Response:
        """A processor that is busy for 40 % of the time."""
        passed = time.monotonic() - began
        return web.Response(text=EXPOSED.format(idle=passed * 0.6, busy=passed * 0.4))

    async def read() -> Mapping[str, NodeLoad]:
        async with serving(exporter) as address:
            with prometheus_process(tmp_path, address.removeprefix("http://"), free_port()) as system:
                source = Prometheus(MetricsConf(PROMETHEUS, system))
                try:
                    return await first_loads(source)
                finally:
                    await source.close()

    (load,) = asyncio.run(read()).values()
    assert load.cpu == pytest.approx(40, abs=5)
    assert load.memory == pytest.approx(25)
    assert abs(load.at / SECOND - time.time()) < 30


async def first_loads(source: Prometheus) -> Mapping[str, NodeLoad]:
    """The first loads that a starting server has: its averages go by half minutes."""
    for _ in range(100):
        await asyncio.sleep(1)
        try:
            found = await source.read(NODES)
        except LoadsUnavailable:
            continue
        if found:
            return found
    raise AssertionError("no loads within 100 seconds")


def free_port() -> int:
    import socket  # noqa: PLC0415 - for this test alone

    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return int(bound.getsockname()[1])


# --- Elasticsearch


def buckets(*found: tuple[str, Any, Any, Any]) -> dict[str, Any]:
    entries = [
        {"key": name, "cpu": {"value": cpu}, "memory": {"value": memory}, "newest": {"value": newest}}
        for name, cpu, memory, newest in found
    ]
    return {"aggregations": {"nodes": {"buckets": entries}}}


def test_elasticsearch_is_searched_once_for_all_nodes() -> None:
    asked: list[Any] = []

    async def search(request: web.BaseRequest) -> web.Response:
        login = base64.b64decode(request.headers["authorization"].removeprefix("Basic ")).decode()
        asked.extend([request.method, request.path, login, await request.json()])
        return web.json_response(buckets(("n1", 0.25, 0.5, NOON * 1000.0), ("n9", 1, 1, 1)))

    conf = {"username": "kim", "password": "secret", "index": "beat-*", "hostname_field": "host.name"}
    assert read_from(search, ELASTICSEARCH, **conf) == {"n1": NodeLoad(25.0, 50.0, NOON * SECOND)}
    method, path, login, body = asked
    assert (method, path, login) == ("POST", "/beat-*/_search", "kim:secret")
    assert body["query"]["bool"]["filter"][1] == {"terms": {"host.name": ["n1", "n2"]}}
    assert body["aggs"]["nodes"]["aggs"]["cpu"] == {"avg": {"field": "host.cpu.usage"}}


@pytest.mark.parametrize("value", [None, "x", [], "NaN"])
@pytest.mark.parametrize("place", [1, 2, 3])
def test_a_bucket_without_a_number_is_no_load(place: int, value: Any) -> None:
    odd: list[Any] = ["n1", 0.5, 0.5, 1.0]
    odd[place] = value
    body = buckets(("n2", 0.5, 0.5, 1.0), (odd[0], odd[1], odd[2], odd[3]))
    assert list(read_from(always(body), ELASTICSEARCH)) == ["n2"]


# --- the custom metrics API, and the whole way to a decision

ADAPTED = """
actions: "allocate, backfill"
tiers:
- plugins: [{name: gang}, {name: predicates}, {name: usage}]
metrics: {type: prometheus_adaptor, interval: 10s}
"""


class Adapter:
    """Custom metrics of nodes, before a transport to the rest of the API."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.values: dict[str, str] = {}
        self.at: Callable[[], int] = lambda: 0
        self.asked = 0

    async def request(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Answer:
        if "/custom.metrics.k8s.io/" not in target:
            answer: Answer = await self.inner.request(method, target, headers, body)
            return answer
        self.asked += 1
        if "/v1beta2/" in target:
            return Answer(404, {}, b"{}")
        assert target.split("/nodes/")[1] in ("%2A/node_cpu_usage_avg", "%2A/node_memory_usage_avg")
        items = [
            {"describedObject": {"kind": "Node", "name": name}, "value": value, "timestamp": format_time(self.at())}
            for name, value in self.values.items()
        ]
        return Answer(200, {}, json.dumps({"kind": "MetricValueList", "items": items}).encode())

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


@contextmanager
def adapted(tmp_path: Path, text: str = ADAPTED) -> Iterator[tuple[Live, Adapter]]:
    """A live scheduler in a cluster with two nodes and custom metrics."""
    from kilauea.runtime.cluster.direct import DirectTransport  # noqa: PLC0415 - for these tests alone

    path = tmp_path / "conf.yaml"
    path.write_text(text)
    adapters: list[Adapter] = []

    def transport(world: Any) -> Any:
        adapters.append(Adapter(DirectTransport(world.server, "scheduler")))
        return adapters[0]

    with live_world(str(path), transport=transport) as live:
        adapters[0].at = live.world.clock.now
        live.node("n1")
        live.node("n2")
        yield live, adapters[0]


def test_the_live_scheduler_reads_loads_and_places_by_them(tmp_path: Path) -> None:
    with adapted(tmp_path) as (live, adapter):
        adapter.values = {"n1": "900m", "n2": "500m"}
        live.start()
        live.group("a", 1)
        live.wait(2)
        assert live.node_of("a-0") == "n2"
        adapter.values = {"n1": "100m", "n2": "950m"}
        live.wait(10)
        live.group("b", 1)
        live.wait(2)
        assert live.node_of("b-0") == "n1"


def test_loads_that_can_no_longer_be_read_hold_until_they_are_old_and_the_reason_is_told_once(tmp_path: Path) -> None:
    with adapted(tmp_path) as (live, adapter):
        adapter.values = {"n1": "900m", "n2": "900m"}
        live.start()
        live.wait(1)
        adapter.values = {"n1": "no quantity"}
        live.group("early", 1)
        live.wait(200)
        assert live.node_of("early-0") == ""
        live.wait(150)
        assert live.node_of("early-0") == "n1"
        adapter.at = None  # type: ignore[assignment]  # every answer fails from here on
        live.wait(60)
        assert live.reasons("Queue", "root") == ["LoadsUnavailable"]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(ADAPTED.replace(", {name: usage}", ""), id="no plugin looks at loads"),
        pytest.param(ADAPTED.replace("prometheus_adaptor", '""'), id="no system is named"),
    ],
)
def test_nothing_is_asked_that_no_plugin_wants(tmp_path: Path, text: str) -> None:
    with adapted(tmp_path, text) as (live, adapter):
        live.start()
        live.group("a", 1)
        live.wait(60)
        assert (live.node_of("a-0"), adapter.asked) == ("n1", 0)


def test_a_configuration_that_no_longer_wants_loads_ends_them(tmp_path: Path) -> None:
    with adapted(tmp_path) as (live, adapter):
        adapter.values = {"n1": "900m", "n2": "900m"}
        live.start()
        live.group("a", 1)
        live.wait(5)
        assert live.node_of("a-0") == ""
        (tmp_path / "conf.yaml").write_text(ADAPTED.replace("prometheus_adaptor", '""'))
        live.wait(30)
        assert live.node_of("a-0") == "n1"


def test_the_cluster_is_scheduled_while_the_monitoring_system_does_not_answer(tmp_path: Path) -> None:
    text = ADAPTED.replace("type: prometheus_adaptor", "type: prometheus, address: 'http://127.0.0.1:9'")
    with adapted(tmp_path, text) as (live, _):
        live.start()
        live.group("a", 1)
        live.wait(7)
        assert live.node_of("a-0") == "n1"
        assert live.reasons("Queue", "root") == ["LoadsUnavailable"]


# --- the section of the configuration


@pytest.mark.parametrize(
    ("section", "told"),
    [
        ({"type": "graphite", "address": "http://x"}, "type takes prometheus or prometheus_adaptor or elasticsearch"),
        ({"type": "prometheus"}, "metrics address is empty"),
        ({"type": "prometheus", "address": "x:9090"}, "address takes a URL such as http://"),
        ({"type": 5}, "type takes"),
        ({"interval": "0s"}, "interval takes a duration of at least 1s such as 30s, not '0s'"),
        ({"interval": 30}, "interval takes a duration"),
        ({"tls.insecureSkipVerify": "maybe"}, "tls.insecureSkipVerify takes true or false"),
        ({"elasticsearch.password": ["secret"]}, "elasticsearch.password takes text, not this value"),
    ],
)
def test_a_wrong_entry_is_named(section: dict[str, Any], told: str) -> None:
    _, faults = read_metrics(section)
    assert [told in fault.message for fault in faults][:1] == [True]


def test_volcanos_section_is_read_as_it_is() -> None:
    given = {
        "type": "elasticsearch",
        "address": "https://es:9200/",
        "interval": "1m",
        "tls.insecureSkipVerify": "true",
        "elasticsearch.index": "beats",
        "elasticsearch.username": "kim",
        "elasticsearch.password": "secret",
        "elasticsearch.hostnameFieldName": "host.name",
    }
    conf, faults = read_metrics(given)
    assert faults == []
    assert conf == MetricsConf(
        "elasticsearch", "https://es:9200", 60 * SECOND, True, "beats", "kim", "secret", "host.name"
    )
    assert "secret" not in repr(conf)


def test_the_name_of_the_adapter_in_volcanos_documents_is_understood() -> None:
    assert read_metrics({"type": "prometheus_adapt"})[0].type == "prometheus_adaptor"
