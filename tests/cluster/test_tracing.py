"""`kilauea scheduler --tracing` with the real OpenTelemetry, a collector, and an API server that is asked for pods."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cluster.api_process import running_server
from cluster.faulty_proxy import running_proxy
from cluster.test_high_availability import bound, make_nodes
from cluster.test_scheduler_command import make_gang
from cluster.up_process import until

FOLDER = Path(os.environ.get("KILAUEA_TRACING") or Path(sys.prefix) / "tracing")
"""The packages of requirements/tracing.txt; `make test-cluster` installs them."""


@contextmanager
def collector(spans: Path, environment: dict[str, str]) -> Iterator[int]:
    """A collector that writes spans into a file; yields its port."""
    command = [sys.executable, str(Path(__file__).parent / "otlp_collector.py")]
    with spans.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, env=environment)
    try:
        until(lambda: spans.read_text().endswith("\n"), "the collector")
        yield int(spans.read_text())
    finally:
        process.kill()
        process.wait(30)


def test_spans_of_binds_arrive_at_a_collector_and_their_trace_at_the_server(tmp_path: Path) -> None:
    if not FOLDER.is_dir():
        pytest.skip(f"OpenTelemetry is not in {FOLDER}: make test-cluster installs it")
    environment = os.environ | {"PYTHONPATH": f"{FOLDER}:{os.environ.get('PYTHONPATH', '')}"}
    spans, log = tmp_path / "spans", tmp_path / "log"
    with (
        running_server(tmp_path / "data", "--durability", "memory") as server,
        running_proxy(server) as proxy,
        collector(spans, environment) as port,
        log.open("wb") as out,
    ):
        make_nodes(server.client())
        environment |= {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}", "OTEL_BSP_SCHEDULE_DELAY": "200"}
        command = [sys.executable, "-m", "kilauea", "scheduler", "--kubeconfig", str(proxy.kubeconfig(tmp_path / "c"))]
        command += ["--leader-elect=false", "--listen-address=127.0.0.1:0", "--tracing"]
        process = subprocess.Popen(command, stdout=out, stderr=out, env=environment)
        try:
            make_gang(server.client(), "gang", 2)
            until(lambda: bound(server.client()).total() == 2, "the gang to be bound", 90)
        finally:
            process.terminate()
            assert process.wait(60) == 0, log.read_text()
        found = [json.loads(line) for line in spans.read_text().splitlines()[1:]]
    by_id = {each["id"]: each for each in found}
    binds = [each for each in found if each["name"] == "bind"]
    assert len(binds) == 2, log.read_text()
    assert {each["service"] for each in found} == {"kilauea-scheduler"}
    assert {by_id[each["parent"]]["name"] for each in binds} == {"cycle"}
    requests = {each["id"]: each for each in found if each["name"] == "POST" and by_id.get(each["parent"]) in binds}
    assert len(requests) == 2
    sent = {tuple(each.split("-")[1:3]) for path, each in proxy.traces if path.endswith("/binding")}
    assert sent == {(each["trace"], each["id"]) for each in requests.values()}
    assert "action allocate" in {each["name"] for each in found if each["parent"] == binds[0]["parent"]}
