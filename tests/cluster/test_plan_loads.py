"""`kilauea plan` of a live cluster judges nodes by the monitoring system that the configuration names."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from cluster.api_process import Server
from cluster.up_process import gang, running_up

CONF = """
actions: "enqueue, allocate"
tiers:
- plugins: [{{name: gang}}, {{name: predicates}}, {{name: usage}}]
metrics: {{type: prometheus, address: "{address}", interval: 10s}}
"""


@contextmanager
def prometheus(busy: str, idle: str) -> Iterator[str]:
    """The address of a Prometheus that knows two nodes."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            query = parse_qs(urlsplit(self.path).query)["query"][0]
            newest = "timestamp" in query
            values = {busy: time.time() if newest else 99, idle: time.time() if newest else 1}
            found = [{"metric": {"instance": name}, "value": [0, str(value)]} for name, value in values.items()]
            data = json.dumps({"status": "success", "data": {"resultType": "vector", "result": found}}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            """Keep quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def planned(server: Server, folder: Path, address: str) -> tuple[dict[str, Any], str]:
    """The binds of a plan, and its warnings."""
    conf, objects = folder / "conf.yaml", folder / "objects.json"
    conf.write_text(CONF.format(address=address))
    objects.write_text("\n---\n".join(json.dumps(each) for each in gang("g", 1)))
    command = [sys.executable, "-m", "kilauea", "plan", "--kubeconfig", str(server.kubeconfig), "-o", "json"]
    words = [*command, "-f", str(objects), "--scheduler-conf", str(conf)]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)
    return json.loads(done.stdout)["binds"], done.stderr


def test_a_plan_keeps_off_a_node_that_prometheus_says_is_busy(tmp_path: Path) -> None:
    with running_up(tmp_path / "data", "--nodes", "2", "--no-scheduler") as server:
        first, second = (each["metadata"]["name"] for each in server.client().get("/api/v1/nodes")["items"])
        for busy, idle in ((first, second), (second, first)):
            with prometheus(busy, idle) as address:
                binds, warnings = planned(server, tmp_path, address)
            assert binds == {"default/g-0": idle}
            assert "cannot be read" not in warnings
        binds, warnings = planned(server, tmp_path, "http://127.0.0.1:9")
        assert len(binds) == 1
        assert "the loads of nodes cannot be read: http://127.0.0.1:9" in warnings
