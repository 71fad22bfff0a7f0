"""Metrics of the server, with the names of Kubernetes: requests, watches, and stored objects.

A request costs a few additions; everything else is counted when the metrics are scraped. Labels come from served kinds,
never from the text of a request, so clients cannot create series.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter as Count
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from kilauea.apiserver.request import RequestInfo
from kilauea.apiserver.resources.registry import Registry
from kilauea.apiserver.storage import Store

_VERBS = {"create": "POST", "update": "PUT"}
_READS = frozenset({"GET", "HEAD", "OPTIONS"})
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_KIND = ("verb", "group", "version", "resource", "subresource")
_Kind = tuple[str, str, str, str, str]


@dataclass(slots=True)
class _Requests:
    """The requests of one kind: by response code, by duration bucket, and the sum of their seconds."""

    codes: dict[int, int] = field(default_factory=dict)
    buckets: list[int] = field(default_factory=lambda: [0] * (len(_BUCKETS) + 1))
    seconds: float = 0.0


class RequestMetrics:
    """The metrics of one server, in a separate registry. All counting happens in the loop of the server."""

    def __init__(self, registry: Registry, store: Store) -> None:
        self.registry = CollectorRegistry()
        self._kinds = registry
        self._reading = self._changing = 0
        self._known: dict[_Kind, _Requests] = {}
        self._served: dict[tuple[str, str, str, str, str], _Requests] = {}
        """Requests of served kinds, by the parts of the request path."""
        self._generation = registry.generation
        self.registry.register(_Answered(self._known, lambda: (self._reading, self._changing)))
        self.registry.register(_Stored(registry, store))

    def begin(self, method: str) -> None:
        """Count a request that has arrived."""
        if method in _READS:
            self._reading += 1
        else:
            self._changing += 1

    def end(self, method: str, info: RequestInfo | None, code: int, seconds: float) -> None:
        """Count a request that was answered, or a watch that has started."""
        if method in _READS:
            self._reading -= 1
        else:
            self._changing -= 1
        requests = self._requests(method, info)
        requests.codes[code] = requests.codes.get(code, 0) + 1
        requests.buckets[bisect_left(_BUCKETS, seconds)] += 1
        requests.seconds += seconds

    def _requests(self, method: str, info: RequestInfo | None) -> _Requests:
        """Return the requests of the same kind."""
        if info is None:
            return self._known.setdefault(self._kind(method, None), _Requests())
        if self._generation != self._kinds.generation:
            self._served.clear()
            self._generation = self._kinds.generation
        path = (info.verb, info.group, info.version, info.resource, info.subresource)
        requests = self._served.get(path)
        if requests is None:
            kind = self._kind(method, info)
            requests = self._known.setdefault(kind, _Requests())
            if kind[3] and kind[4] == info.subresource:
                self._served[path] = requests
        return requests

    def _kind(self, method: str, info: RequestInfo | None) -> _Kind:
        """Return the labels of a request; without a resource for other paths, and for kinds that are not served."""
        resource = None if info is None else self._kinds.find(info.group, info.version, info.resource)
        if info is None or resource is None:
            return (method if method in _METHODS else "other", "", "", "", "")
        part = info.subresource
        if part and resource.subresource(part) is None:
            part = ""
        return (_VERBS.get(info.verb) or info.verb.upper(), info.group, info.version, info.resource, part)


_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"})


class _Answered(Collector):
    """Counts and durations of requests."""

    def __init__(self, known: Mapping[_Kind, _Requests], inflight: Callable[[], tuple[int, int]]) -> None:
        self._known = known
        self._inflight = inflight

    def collect(self) -> Iterator[Metric]:
        """Yield the current metrics."""
        total = CounterMetricFamily(
            "apiserver_request_total", "Number of requests, by kind and status code", labels=(*_KIND, "code")
        )
        times = HistogramMetricFamily(
            "apiserver_request_duration_seconds",
            "Time in seconds until a request is answered, or a watch begins",
            labels=_KIND,
        )
        inflight = GaugeMetricFamily(
            "apiserver_current_inflight_requests",
            "Number of requests that are being answered",
            labels=("request_kind",),
        )
        for kind, requests in self._known.items():
            for code, count in requests.codes.items():
                total.add_metric((*kind, str(code)), count)
            sums = zip((*map(str, _BUCKETS), "+Inf"), accumulate(requests.buckets), strict=True)
            times.add_metric(kind, [(bound, float(count)) for bound, count in sums], requests.seconds)
        for name, count in zip(("readOnly", "mutating"), self._inflight(), strict=True):
            inflight.add_metric((name,), count)
        yield from (total, times, inflight)


class _Stored(Collector):
    """Counts of stored objects and of watches, by kind, and the bytes of all objects."""

    def __init__(self, registry: Registry, store: Store) -> None:
        self._registry, self._store = registry, store

    def collect(self) -> Iterator[Metric]:
        """Yield the current gauges."""
        objects = GaugeMetricFamily(
            "apiserver_resource_objects", "Number of stored objects of a kind", labels=("group", "resource")
        )
        watches = GaugeMetricFamily(
            "apiserver_longrunning_requests", "Number of watches of a kind", labels=("verb", "group", "resource")
        )
        sizes = self._store.sizes()
        watched: Count[str] = Count(self._store.watched())
        roots = {each.root: each for each in self._registry}
        for root, each in sorted(roots.items()):
            objects.add_metric((each.group, each.plural), sizes.get(root, 0))
            count = sum(number for prefix, number in watched.items() if prefix.startswith(root))
            if count:
                watches.add_metric(("WATCH", each.group, each.plural), count)
        size = GaugeMetricFamily(
            "apiserver_storage_size_bytes", "Bytes that the stored objects take", labels=("storage_cluster_id",)
        )
        size.add_metric(("etcd-0",), self._store.usage.total)
        yield from (objects, watches, size)
