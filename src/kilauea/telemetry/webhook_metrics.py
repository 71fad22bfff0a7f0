"""The metrics of the webhooks: their requests and durations."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Histogram

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
ANSWERED, FAILED = "answered", "failed"


class WebhookMetrics:
    """All of them, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "kilauea_webhook_requests",
            "Number of requests to a webhook, by result; if it is failed, the API server applies the failure policy",
            ("path", "result"),
            registry=self.registry,
        )
        self._seconds = Histogram(
            "kilauea_webhook_duration_seconds",
            "Time in seconds until a request to a webhook was answered",
            ("path",),
            registry=self.registry,
            buckets=BUCKETS,
        )

    def request(self, path: str, seconds: float, result: str) -> None:
        """Count a request to a webhook."""
        self._requests.labels(path, result).inc()
        self._seconds.labels(path).observe(seconds)
