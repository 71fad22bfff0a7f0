"""A cluster that lives through cycles of the engine: what is decided comes true at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kilauea.api.meta import Object
from kilauea.api.times import SECOND
from kilauea.engine.conf import SchedulerConf
from kilauea.engine.cycle import cycle
from kilauea.engine.model.attempts import NO_BACKOFF, AdmissionBackoff
from kilauea.engine.plan import Plan
from kilauea.engine.state import ClusterState
from kilauea.simulator.cluster import SimulatedCluster
from kilauea.simulator.scenario import build_state
from support.builders import NOW, conf, flat, group, parsed, pod

CONF = parsed(conf("enqueue, allocate, backfill", ["priority", "gang"], ["predicates", "capacity"]))[0]


class Life:
    """A cluster in which every decision comes true at once, a cycle a second."""

    def __init__(self, *objects: Object | Sequence[Object], conf: SchedulerConf = CONF) -> None:
        listed = flat(objects)
        self._conf = conf
        self.state: ClusterState = build_state(listed)
        self._cluster = SimulatedCluster(listed, NOW)
        self.seconds = 0
        self.backoff: AdmissionBackoff = NO_BACKOFF
        self.plan = Plan()

    def run(self, seconds: int) -> Life:
        """So many cycles."""
        for _ in range(seconds):
            self.seconds += 1
            self.backoff = self.backoff.at(self.seconds * SECOND)
            self.plan = cycle(self.state, self._conf, NOW + self.seconds * SECOND, backoff=self.backoff)
            assert self.plan.backoff is not None
            self.backoff = self.plan.backoff
            for event in self._cluster.carry_out(self.plan):
                self.state.apply(event)
        return self

    def apply(self, *objects: Object | Sequence[Object]) -> None:
        """Objects come, or change."""
        for event in self._cluster.put(*flat(objects)):
            self.state.apply(event)

    def delete(self, *keys: str) -> None:
        """Pods go."""
        for key in keys:
            for event in self._cluster.remove("Pod", f"ns/{key}"):
                self.state.apply(event)

    def phase(self, name: str) -> str:
        """Of a group."""
        return self.state.jobs[f"ns/{name}"].phase

    def placed(self) -> set[str]:
        """Pods on nodes."""
        return {task.name for task in self.state.tasks.values() if task.node}


def asking(
    name: str, cpu: int, *, to: str = "q", phase: str | None = None, created: int = 0, **of_pod: Any
) -> list[Object]:
    """A group of one pod that has its minimum reserved."""
    return [
        group(name, to, resources={"cpu": str(cpu)}, phase=phase, created=created),
        pod(f"{name}-0", name, cpu=cpu, created=created, **of_pod),
    ]
