"""What the server answers in place of the kubelet of a node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from support.api_core import Api

PROXY = "/api/v1/nodes/n1:10250/proxy"


class Usage:
    """Every container uses half a core and 1 MiB."""

    used: ClassVar = {"cpu": "500m", "memory": "1024Ki"}

    def pods(self, namespace: str, name: str, now: int) -> Iterator[dict[str, Any]]:
        yield {"containers": [{"name": "c", "usage": self.used}]}

    def nodes(self, name: str, now: int) -> Iterator[dict[str, Any]]:
        yield {"usage": self.used}


def running(api: Api, name: str, node: str) -> None:
    api.create_pod(name, nodeName=node)
    state = {"name": "c", "image": "i", "imageID": "", "ready": True, "restartCount": 0}
    state["state"] = {"running": {"startedAt": "1970-01-01T00:00:00Z"}}
    status = {"status": {"phase": "Running", "containerStatuses": [state]}}
    path = f"/api/v1/namespaces/default/pods/{name}/status"
    api.good("PATCH", path, status, content_type="application/merge-patch+json")


def test_a_node_tells_the_usage_of_its_containers_as_metrics(api: Api) -> None:
    api.good("POST", "/api/v1/nodes", {"metadata": {"name": "n1"}})
    api.server.backend.usage = Usage()
    running(api, "a", "n1")
    running(api, "b", "n2")
    lines = api.ask("GET", f"{PROXY}/metrics/resource").body.splitlines()
    labels = '{container="c",namespace="default",pod="a"}'
    assert f"container_memory_working_set_bytes{labels} 1.048576e+06" in lines
    assert "node_memory_working_set_bytes 1.048576e+06" in lines
    assert "resource_scrape_error 0.0" in lines
    assert not any('pod="b"' in line for line in lines)
    (seconds,) = [line.split()[-1] for line in lines if line.startswith(f"container_cpu_usage_seconds_total{labels}")]
    assert float(seconds) == api.now / 2_000_000


def test_a_node_counts_what_runs_on_it(api: Api) -> None:
    api.good("POST", "/api/v1/nodes", {"metadata": {"name": "n1"}})
    running(api, "a", "n1")
    api.create_pod("waits", nodeName="n1")
    lines = api.ask("GET", f"{PROXY}/metrics").body.splitlines()
    assert "kubelet_running_pods 1.0" in lines
    assert 'kubelet_running_containers{container_state="running"} 1.0' in lines
    assert 'kubelet_node_name{node="n1"} 1.0' in lines


def test_a_node_whose_usage_nothing_tells_says_so(api: Api) -> None:
    api.good("POST", "/api/v1/nodes", {"metadata": {"name": "n1"}})
    assert "resource_scrape_error 1.0" in api.ask("GET", f"{PROXY}/metrics/resource").body
