"""Plugin hcclrank: the runtime of Ascend devices reads a pod's rank from an annotation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kilauea.api.job_plugins import HcclrankArguments, read
from kilauea.api.ports import Obj
from kilauea.controllers.vcjobs.names import task_name
from kilauea.controllers.vcjobs.plugins.additions import containers
from kilauea.controllers.vcjobs.plugins.base import JobPlugin, Pod, Task

RANK_INDEX = "hccl/rankIndex"


class Hcclrank(JobPlugin):
    """Ranks of pods."""

    name = "hcclrank"
    controlled = None

    def __init__(self, job: Obj, arguments: Sequence[str]) -> None:
        super().__init__(job, arguments)
        self._flags = read(self.name, HcclrankArguments, arguments)

    def on_pod(self, pod: Pod, task: Task, index: int) -> None:
        """Write the rank in the containers' environment, else the position among masters and workers."""
        annotations = pod["metadata"]["annotations"]
        flags = self._flags
        places = {flags.worker: self.replicas(flags.master) + index, flags.master: index}
        rank = next(_told(pod), None)
        if rank is None and task_name(task) in places:
            rank = str(places[task_name(task)])
        if rank is not None:
            annotations.setdefault(RANK_INDEX, rank)


def _told(pod: Pod) -> Iterator[str]:
    """The values of the variable `RANK` in the containers."""
    for container in containers(pod):
        for each in container.get("env") or ():
            if each["name"] == "RANK" and "value" in each:
                yield each["value"]
