"""`/healthz`, `/livez`, `/readyz` and their checks, which `/metrics/slis` counts.

The checks have the names of Kubernetes, because probes and scripts request single ones. A server that responds passes
them all: it completes the work of the hooks at its start, and exits if it cannot store.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from kilauea.apiserver.request import ApiRequest, ApiResponse

TEXT = "text/plain; charset=utf-8"
PATHS = ("/healthz", "/livez", "/readyz")
SLIS = "/metrics/slis"
_HOOKS = """
start-apiserver-admission-initializer generic-apiserver-start-informers priority-and-fairness-config-consumer
priority-and-fairness-filter storage-object-count-tracker-hook start-apiextensions-informers
start-apiextensions-controllers crd-informer-synced start-system-namespaces-controller
peer-endpoint-reconciler-controller start-cluster-authentication-info-controller
start-kube-apiserver-identity-lease-controller start-kube-apiserver-identity-lease-garbage-collector storage-readiness
start-legacy-token-tracking-controller start-service-ip-repair-controllers rbac/bootstrap-roles
scheduling/bootstrap-system-priority-classes priority-and-fairness-config-producer bootstrap-controller
start-kubernetes-service-cidr-controller start-kube-aggregator-informers apiservice-status-local-available-controller
apiservice-status-remote-available-controller apiservice-registration-controller apiservice-discovery-controller
kube-apiserver-autoregistration
""".split()
_FIRST, _STARTED = ("ping", "log"), tuple(f"poststarthook/{hook}" for hook in _HOOKS)
_LAST = (
    "autoregister-completion",
    *(f"poststarthook/apiservice-{each}-controller" for each in ("openapi", "openapiv3")),
)
_ALIVE = (*_FIRST, "loopback-serving-certificate", "etcd", *_STARTED, *_LAST)
CHECKS = {
    "/healthz": _ALIVE,
    "/livez": _ALIVE,
    "/readyz": (*_FIRST, "etcd", "etcd-readiness", "informer-sync", *_STARTED, *_LAST, "shutdown"),
}
"""The checks of each path, in the order of Kubernetes 1.36."""


class Health:
    """The checks of a server, and the number of times each was made."""

    def __init__(self) -> None:
        self._made: Counter[tuple[str, str]] = Counter()
        self._registry = CollectorRegistry()
        self._registry.register(_Checks(self._made))

    def answer(self, path: str, request: ApiRequest) -> ApiResponse | None:
        """Return the response at a path, also for a single check; None if it does not exist."""
        if path == SLIS:
            return ApiResponse(200, generate_latest(self._registry), "text/plain; version=0.0.4; charset=utf-8")
        base, _, part = path.lstrip("/").partition("/")
        checks = CHECKS.get(f"/{base}")
        if checks is None or (part and part not in checks):
            return None
        left_out = {value for key, value in request.query if key == "exclude"}
        made = [name for name in ([part] if part else checks) if name not in left_out]
        self._made.update((name, base) for name in made)
        if part or not any(key == "verbose" for key, _ in request.query):
            return ApiResponse(200, b"ok", TEXT)
        lines = [f"[+]{name} {'excluded: ' if name in left_out else ''}ok" for name in checks]
        unknown = sorted(left_out.difference(checks))
        if unknown:
            quoted = ",".join(f'"{name}"' for name in unknown)
            lines.append(f"warn: some health checks cannot be excluded: no matches for {quoted}")
        return ApiResponse(200, "\n".join([*lines, f"{base} check passed", ""]).encode(), TEXT)


class _Checks(Collector):
    """The metrics of `/metrics/slis`: the result of each check, and the number of times it was made."""

    def __init__(self, made: Counter[tuple[str, str]]) -> None:
        self._made = made

    def collect(self) -> Iterator[Metric]:
        results = GaugeMetricFamily(
            "kubernetes_healthcheck", "Whether a health check succeeds (1) or not (0)", labels=("name", "type")
        )
        counts = CounterMetricFamily(
            "kubernetes_healthchecks",
            "Number of health checks, by result",
            labels=("name", "type", "status"),
        )
        for name, path in sorted((name, path) for path, names in CHECKS.items() for name in names):
            results.add_metric((name, path.lstrip("/")), 1)
        for (name, base), count in sorted(self._made.items()):
            counts.add_metric((name, base, "success"), count)
        yield results
        yield counts
