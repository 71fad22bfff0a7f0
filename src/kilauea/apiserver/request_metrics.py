"""Metrics of the server, named as Kubernetes names them: requests, watches, and stored objects.

A request costs one look-up and one addition in each family. What can be counted when it is asked for is counted then.
Labels come from kinds that are served, never from the text of a request, so clients cannot make series.
"""

from __future__ import annotations

from collections import Counter as Count
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from kilauea.apiserver.request import RequestInfo
from kilauea.apiserver.resources.registry import Registry
from kilauea.apiserver.storage import Store

_VERBS = {"create": "POST", "update": "PUT"}
_READS = frozenset({"GET", "HEAD", "OPTIONS"})
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_KIND = ("verb", "group", "version", "resource", "subresource")


class RequestMetrics:
    """The metrics of one server, in a registry of their own."""

    def __init__(self, registry: Registry, store: Store) -> None:
        self.registry = CollectorRegistry()
        self._kinds = registry
        self._total = Counter(
            "apiserver_request_total", "Requests by kind and code of the answer", (*_KIND, "code"),
            registry=self.registry,
        )  # fmt: skip
        self._seconds = Histogram(
            "apiserver_request_duration_seconds", "Time until an answer, or until a watch begins", _KIND,
            buckets=_BUCKETS, registry=self.registry,
        )  # fmt: skip
        inflight = Gauge(
            "apiserver_current_inflight_requests", "Requests that are being answered", ("request_kind",),
            registry=self.registry,
        )  # fmt: skip
        self._reading, self._changing = inflight.labels("readOnly"), inflight.labels("mutating")
        self._known: dict[tuple[str, ...], tuple[Histogram, dict[int, Counter]]] = {}
        self.registry.register(_Stored(registry, store))

    def begin(self, method: str) -> None:
        """A request has come."""
        (self._reading if method in _READS else self._changing).inc()

    def end(self, method: str, info: RequestInfo | None, code: int, seconds: float) -> None:
        """A request is answered, or a watch has started."""
        (self._reading if method in _READS else self._changing).dec()
        kind = self._kind(method, info)
        histogram, counters = self._known.get(kind) or self._add(kind)
        counter = counters.get(code)
        if counter is None:
            counter = counters[code] = self._total.labels(*kind, str(code))
        counter.inc()
        histogram.observe(seconds)

    def _kind(self, method: str, info: RequestInfo | None) -> tuple[str, ...]:
        """The labels of a request; without a resource for other paths, and for kinds that are not served."""
        resource = None if info is None else self._kinds.find(info.group, info.version, info.resource)
        if info is None or resource is None:
            return (method if method in _METHODS else "other", "", "", "", "")
        part = info.subresource if resource.subresource(info.subresource) is not None else ""
        return (_VERBS.get(info.verb, info.verb.upper()), info.group, info.version, info.resource, part)

    def _add(self, kind: tuple[str, ...]) -> tuple[Histogram, dict[int, Counter]]:
        found = self._known[kind] = (self._seconds.labels(*kind), {})
        return found


_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"})


class _Stored(Collector):
    """Counts of stored objects and of watches, by kind, as they are when they are asked for."""

    def __init__(self, registry: Registry, store: Store) -> None:
        self._registry, self._store = registry, store

    def collect(self) -> Iterator[Metric]:
        """The gauges as they are now."""
        objects = GaugeMetricFamily(
            "apiserver_resource_objects", "Stored objects of a kind", labels=("group", "resource")
        )
        watches = GaugeMetricFamily(
            "apiserver_longrunning_requests", "Watches of a kind", labels=("verb", "group", "resource")
        )
        sizes = self._store.sizes()
        watched: Count[str] = Count(self._store.watched())
        roots = {each.root: each for each in self._registry}
        for root, each in sorted(roots.items()):
            objects.add_metric((each.group, each.plural), sizes.get(root, 0))
            count = sum(number for prefix, number in watched.items() if prefix.startswith(root))
            if count:
                watches.add_metric(("WATCH", each.group, each.plural), count)
        yield objects
        yield watches
