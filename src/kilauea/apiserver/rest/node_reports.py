"""The answers of a kubelet at `nodes/NAME/proxy`: `healthz`, `pods`, `metrics`, `metrics/resource`.

The answers are computed from the pods of the node and their usage (`Backend.usage`). Counters of CPU time are the
current usage times the age of the container, because past usage is not accumulated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import msgspec
from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from kilauea.api.quantity import amount
from kilauea.api.times import SECOND, parse_time
from kilauea.apiserver import status
from kilauea.apiserver.request import ApiResponse
from kilauea.apiserver.rest.call import Call, Object
from kilauea.apiserver.rest.objects import decode

_TEXT = "text/plain; charset=utf-8"
_METRICS = "text/plain; version=0.0.4; charset=utf-8"
_KINDS = {"running": "running", "terminated": "exited", "waiting": "created"}
"""Container states as named in the metrics of a kubelet."""


def of_node(call: Call, name: str, path: str) -> ApiResponse:
    """Return the response of a kubelet.

    Raises:
        ApiFault: the path is not supported (501).
    """
    report = _REPORTS.get(path) if call.info.verb == "get" else None
    if report is None:
        raise status.no_proxy("nodes", name, f"of node {name}, only {', '.join(_REPORTS)} are answered")
    return report(call, name)


def _health(call: Call, name: str) -> ApiResponse:
    return ApiResponse(200, b"ok", _TEXT)


def _pods(call: Call, name: str) -> ApiResponse:
    body = {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": _pods_of(call, name)}
    return ApiResponse(200, msgspec.json.encode(body))


def _pods_of(call: Call, node: str) -> list[Object]:
    pods = [decode(each.value) for each in call.backend.store.list("/core/pods/").items]
    return [pod for pod in pods if pod["spec"].get("nodeName") == node]


def _metrics(call: Call, name: str) -> ApiResponse:
    running = 0
    states = dict.fromkeys(_KINDS.values(), 0)
    for pod in _pods_of(call, name):
        shown = pod.get("status") or {}
        running += shown.get("phase") == "Running"
        for each in shown.get("containerStatuses") or ():
            for state in each.get("state") or ():
                states[_KINDS[state]] += 1
    named = GaugeMetricFamily("kubelet_node_name", "The node's name. The count is always 1.", labels=("node",))
    named.add_metric((name,), 1)
    pods = GaugeMetricFamily("kubelet_running_pods", "Number of pods that have a running pod sandbox", running)
    containers = GaugeMetricFamily(
        "kubelet_running_containers", "Number of containers currently running", labels=("container_state",)
    )
    for state, count in states.items():
        containers.add_metric((state,), count)
    return _exposed([named, pods, containers])


def _resources(call: Call, name: str) -> ApiResponse:
    now = call.backend.now()
    usage = call.backend.usage
    nodes = list(usage.nodes(name, now)) if usage is not None else []
    cpu = CounterMetricFamily("node_cpu_usage_seconds", "Cumulative cpu time consumed by the node in core-seconds")
    memory = GaugeMetricFamily("node_memory_working_set_bytes", "Current working set of the node in bytes")
    for node in nodes:
        used = _amounts(node["usage"])
        memory.add_metric((), used["memory"])
    pods = _pods_of(call, name)
    containers = list(_containers(call, pods, now))
    if nodes:
        cpu.add_metric((), sum(each.cpu_seconds for each in containers))
    labels = ("container", "namespace", "pod")
    starts = GaugeMetricFamily(
        "container_start_time_seconds", "Start time of the container since unix epoch in seconds", labels=labels
    )
    times = CounterMetricFamily(
        "container_cpu_usage_seconds", "Cumulative cpu time consumed by the container in core-seconds", labels=labels
    )
    sets = GaugeMetricFamily(
        "container_memory_working_set_bytes", "Current working set of the container in bytes", labels=labels
    )
    for each in containers:
        starts.add_metric(each.labels, each.started / SECOND)
        times.add_metric(each.labels, each.cpu_seconds)
        sets.add_metric(each.labels, each.memory)
    fault = GaugeMetricFamily(
        "resource_scrape_error", "1 if there was an error while getting container metrics, 0 otherwise", int(not nodes)
    )
    return _exposed([cpu, memory, starts, times, sets, fault])


class _Container(msgspec.Struct, frozen=True):
    """The usage of a running container: `started` in microseconds since 1970, memory in bytes."""

    labels: tuple[str, str, str]
    started: int
    cpu_seconds: float
    memory: int


def _containers(call: Call, pods: list[Object], now: int) -> Iterator[_Container]:
    usage = call.backend.usage
    for pod in pods if usage is not None else ():
        meta = pod["metadata"]
        starts = _starts(pod)
        for found in usage.pods(meta["namespace"], meta["name"], now) if usage is not None and starts else ():
            for each in found["containers"]:
                if each["name"] not in starts:
                    continue
                started = parse_time(starts[each["name"]])
                used = _amounts(each["usage"])
                seconds = used["cpu"] / 1000 * max(now - started, 0) / SECOND
                labels = (each["name"], meta["namespace"], meta["name"])
                yield _Container(labels, started, seconds, used["memory"])


def _starts(pod: Object) -> dict[str, str]:
    """Return the start times of the running containers of a pod, by their names."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    starts = {each["name"]: ((each.get("state") or {}).get("running") or {}).get("startedAt") for each in statuses}
    return {name: text for name, text in starts.items() if text}


def _amounts(usage: Mapping[str, str]) -> dict[str, int]:
    """Return the amounts of a usage: cpu in thousandths, memory in bytes."""
    return {resource: amount(resource, text) for resource, text in usage.items()}


def _exposed(families: list[Metric]) -> ApiResponse:
    registry = CollectorRegistry()
    registry.register(_Families(families))
    return ApiResponse(200, generate_latest(registry), _METRICS)


class _Families(Collector):
    """A collector of given metrics."""

    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        yield from self._families


_REPORTS: Mapping[str, Callable[[Call, str], ApiResponse]] = {
    "healthz": _health,
    "pods": _pods,
    "metrics": _metrics,
    "metrics/resource": _resources,
}
