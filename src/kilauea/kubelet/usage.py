"""Usage of the containers on this machine, measured at intervals, in the format of a cluster's metrics server."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from kilauea.api.kinds import NODES, PODS
from kilauea.api.ports import Clock, Key, Obj, View
from kilauea.api.usage import USAGE, total_usage, usage_texts
from kilauea.kubelet.container_runtime import ContainerError, ContainerRuntime, ContainerState, Usage
from kilauea.kubelet.container_statuses import running_id
from kilauea.nodes.usage import metrics_head

SAMPLE_SECONDS = 15
"""Seconds between two measurements: the default of metrics servers."""


class UsageOfOthers(Protocol):
    """Metrics of pods and nodes that are not on this machine."""

    def pods(self, namespace: str, name: str, now: int) -> Iterator[dict[str, Any]]:
        """Yield PodMetrics."""
        ...

    def nodes(self, name: str, now: int) -> Iterator[dict[str, Any]]:
        """Yield NodeMetrics."""
        ...


class _Sample(NamedTuple):
    """A measurement: the total usage until a time, and thousandths of a processor since the previous measurement.

    The time is monotonic: the time of day may be set between two measurements.
    """

    moment: int
    usage: Usage
    cpu: int


class ContainerUsage:
    """Usage of pods and nodes of this machine, and of others through another source.

    Args:
        runtime: the container runtime.
        view: shows pods and nodes.
        find: returns the state of a container by its id; None for an unknown one.
        runs: True for the name of a node whose pods run here.
        otherwise: the usage of all others.
        clock: the time.
    """

    def __init__(
        self,
        runtime: ContainerRuntime,
        view: View,
        find: Callable[[str], ContainerState | None],
        runs: Callable[[str], bool],
        otherwise: UsageOfOthers,
        clock: Clock,
    ) -> None:
        self._runtime = runtime
        self._view = view
        self._find = find
        self._runs = runs
        self._otherwise = otherwise
        self._clock = clock
        self._samples: dict[str, _Sample] = {}

    async def run(self) -> None:
        """Measure at intervals, until cancelled."""
        while True:
            await self.measure()
            await self._clock.sleep(SAMPLE_SECONDS)

    async def measure(self) -> None:
        """Measure all running containers."""
        pods = [pod for pod in self._view.list(PODS) if self._runs(pod["spec"].get("nodeName") or "")]
        ids = sorted(id for pod in pods for id in _ids(pod).values())
        try:
            used = await self._runtime.usage(ids) if ids else {}
        except ContainerError:  # it is being restarted: existing samples stay
            return
        self._samples = {id: self._sample(id, usage) for id, usage in used.items()}

    def pods(self, namespace: str, name: str, now: int) -> Iterator[dict[str, Any]]:
        """Yield PodMetrics of the running pods of a namespace, or of all; of one if it is named."""
        one = self._view.get(PODS, Key(namespace, name)) if name else None
        found = [one] if one is not None else [] if name else self._view.list(PODS, namespace)
        simulated = False
        for pod in found:
            if not self._runs(pod["spec"].get("nodeName") or ""):
                simulated = True
                continue
            used = self._used(pod)
            if used:
                containers = [{"name": each, "usage": usage_texts(used[each])} for each in sorted(used)]
                yield {**metrics_head("PodMetrics", pod, now), "containers": containers}
        if simulated:
            others = self._otherwise.pods(namespace, name, now)
            yield from (each for each in others if not self._is_own(each["metadata"]))

    def nodes(self, name: str, now: int) -> Iterator[dict[str, Any]]:
        """Yield NodeMetrics of all nodes, or of one."""
        for metrics in self._otherwise.nodes(name, now):
            node = metrics["metadata"]["name"]
            if self._runs(node):
                pods = (pod for pod in self._view.list(PODS) if pod["spec"].get("nodeName") == node)
                total = dict.fromkeys(USAGE, 0)
                for pod in pods:
                    for resource, value in total_usage(self._used(pod)).items():
                        total[resource] += value
                shown = self._view.get(NODES, Key("", node))
                metrics = {**metrics_head("NodeMetrics", shown or metrics, now), "usage": usage_texts(total)}
            yield metrics

    def _is_own(self, metadata: Mapping[str, Any]) -> bool:
        pod = self._view.get(PODS, Key(metadata.get("namespace", ""), metadata["name"]))
        return pod is not None and self._runs(pod["spec"].get("nodeName") or "")

    def _used(self, pod: Obj) -> dict[str, dict[str, int]]:
        """Usage of the running containers of a pod, by name."""
        samples = {name: self._samples.get(id) for name, id in _ids(pod).items()}
        return {
            name: {"cpu": sample.cpu, "memory": sample.usage.memory}
            for name, sample in samples.items()
            if sample is not None
        }

    def _sample(self, id: str, usage: Usage) -> _Sample:
        """A measurement since the previous one, or since the start of the container."""
        now, before, state = self._clock.monotonic(), self._samples.get(id), self._find(id)
        if before is not None:
            elapsed, spent = now - before.moment, usage.cpu - before.usage.cpu
        else:
            elapsed, spent = self._clock.now() - state.started if state is not None else 0, usage.cpu
        return _Sample(now, usage, max(spent * 1000 // elapsed, 0) if elapsed > 0 else 0)


def _ids(pod: Obj) -> dict[str, str]:
    """The ids of the running containers of a pod, by name."""
    found = {each["name"]: running_id(pod, each["name"]) for each in pod["spec"].get("containers") or ()}
    return {name: id for name, id in found.items() if id}
