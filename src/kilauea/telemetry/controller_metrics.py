"""The metrics of Volcano's controllers, read from the objects when they are requested.

A series goes with its object, so there are never more of them than objects; and a new process has the same figures.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from kilauea.api.times import SECOND, parse_time

PHASES = ("inqueue", "pending", "running", "unknown", "completed")
ENDS = {"completed": "Completed", "failed": "Failed"}
FLOW_ENDS = {"succeed": "Succeed", "failed": "Failed"}
LATENCIES = tuple(50 * (60_000 / 50) ** (step / 29) for step in range(30))
"""Upper ends of the buckets of the time to a pod, in milliseconds: 30 from 50 to 60000, each in the same ratio."""

Objects = Callable[[], Iterable[Mapping[str, Any]]]


def _status(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    return obj.get("status") or {}


class ControllerMetrics(Collector):
    """All of them, in a registry of their own.

    Args:
        queues, jobs, flows, pods: the Queues, Volcano's Jobs, the JobFlows and the Pods as they are now.
    """

    def __init__(self, queues: Objects, jobs: Objects, flows: Objects, pods: Objects) -> None:
        self._queues = queues
        self._jobs = jobs
        self._flows = flows
        self._pods = pods
        self.registry = CollectorRegistry()
        self.registry.register(self)

    def collect(self) -> Iterator[Metric]:
        """The series."""
        yield from self._queue_counts()
        yield from self._job_ends()
        yield self._time_to_pods()
        yield from self._flow_ends()

    def _queue_counts(self) -> Iterator[GaugeMetricFamily]:
        """Numbers of pod groups of a queue by phase."""
        for phase in PHASES:
            name = f"volcano_queue_pod_group_{phase}_count"
            family = GaugeMetricFamily(
                name, f"Number of pod groups of a queue in phase {phase.capitalize()}", labels=["queue_name"]
            )
            for queue in self._queues():
                family.add_metric([queue["metadata"]["name"]], _status(queue).get(phase) or 0)
            yield family

    def _job_ends(self) -> Iterator[GaugeMetricFamily]:
        """Numbers of ends of a job; one that was restarted may end again."""
        for word, phase in ENDS.items():
            name = f"volcano_job_{word}_phase_count"
            family = GaugeMetricFamily(
                name, f"Number of times that a job has {word}", labels=["job_name", "queue_name"]
            )
            for job in self._jobs():
                times = sum(each.get("status") == phase for each in _status(job).get("conditions") or ())
                if times:
                    metadata = job["metadata"]
                    queue = (job.get("spec") or {}).get("queue") or ""
                    family.add_metric([f"{metadata['namespace']}/{metadata['name']}", queue], times)
            yield family

    def _flow_ends(self) -> Iterator[GaugeMetricFamily]:
        """Numbers of ended flows of a namespace."""
        for word, phase in FLOW_ENDS.items():
            name = f"volcano_jobflow_{word}_phase_count"
            family = GaugeMetricFamily(
                name, f"Number of job flows of a namespace in phase {phase}", labels=["jobflow_namespace"]
            )
            counts: dict[str, int] = {}
            for flow in self._flows():
                if (_status(flow).get("state") or {}).get("phase") == phase:
                    namespace = flow["metadata"]["namespace"]
                    counts[namespace] = counts.get(namespace, 0) + 1
            for namespace, count in sorted(counts.items()):
                family.add_metric([namespace], count)
            yield family

    def _time_to_pods(self) -> HistogramMetricFamily:
        """Time between the creation of a job and of each of its pods, in whole seconds, as objects have them."""
        creations = {job["metadata"].get("uid"): job["metadata"].get("creationTimestamp") for job in self._jobs()}
        counts, total = [0] * (len(LATENCIES) + 1), 0.0
        for pod in self._pods():
            owners = pod["metadata"].get("ownerReferences") or ()
            job = next((creations[each.get("uid")] for each in owners if each.get("uid") in creations), None)
            if job and (created := pod["metadata"].get("creationTimestamp")):
                waited = 1000 * (parse_time(created) - parse_time(job)) / SECOND
                counts[bisect_left(LATENCIES, waited)] += 1
                total += waited
        ends = [*(f"{end:.6g}" for end in LATENCIES), "+Inf"]
        name = "volcano_controller_job_to_pod_creation_latency_milliseconds"
        family = HistogramMetricFamily(name, "Time in milliseconds from the creation of a job to that of its pods")
        family.add_metric([], list(zip(ends, accumulate(counts), strict=True)), total)
        return family
